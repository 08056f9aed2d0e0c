//! Writes `results.json`: everything derived from a run, in one file for programs.
//!
//! The types here and those of `stats` that it is made of are the format, and their comments are its
//! description on the data page. Cells and metrics have types of their own here, because the file
//! has other fields for them: metrics by name, numbers of disturbed launches, the larger of two
//! errors, and percentiles by name.
//!
//! The file holds neither the samples, which are in the record files, nor anything else that isn't
//! recomputed from them by the program that wrote it.

use anyhow::Result;
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;
use stats::analysis::{self, Analysis, Comparison, Noise};
use stats::canary::{self, Unfelt};
use std::collections::BTreeMap;

/// The version of the format, for [`Results::format`]; raised whenever a field changes its meaning.
const FORMAT: u32 = 3;

/// The sources from which the data page's description of the format is read.
pub const SOURCES: [&str; 3] = [include_str!("results.rs"), analysis::SOURCE, canary::SOURCE];

/// The whole file.
#[derive(Clone, Debug, Serialize)]
pub struct Results<'a> {
    /// Version of this format. 2 has `noise` where 1 had `noise_floors`. 3 has the verdicts `equal`
    /// and `undecided` where 2 had `no_detectable_difference`, and no percentile of the tail
    /// without an interval.
    pub format: u32,
    /// Id of the run.
    pub run: &'a str,
    /// When it started, RFC 3339.
    pub started: &'a str,
    /// Profile that sized it.
    pub profile: &'a str,
    /// Whether its numbers may be published.
    pub publishable: bool,
    /// Id of the model.
    pub model: &'a str,
    /// Target that ratios are against.
    pub baseline: &'a str,
    /// Revision of the repository that measured, where known.
    pub git_revision: Option<&'a str>,
    /// The smallest difference that matters to the verdicts (percent).
    pub matters_percent: f64,
    /// Hash of the plan: equal plans do equal work.
    pub plan_sha256: &'a str,
    /// Machine and tools, as recorded.
    pub facts: &'a BTreeMap<String, String>,
    /// Every planned cell, measured or not.
    pub cells: Vec<Cell<'a>>,
    /// Measured cells against the baseline and against the leader.
    pub comparisons: &'a [Comparison],
    /// What targets that ran twice say of each metric's errors.
    pub noise: &'a [Noise],
    /// Kinds of known work that were slow beside some launches and are no disturbance, because on
    /// average over the run these launches took no longer than others.
    pub unfelt: &'a [Unfelt],
}

/// A target in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Cell<'a> {
    /// Target id.
    pub target: &'a str,
    /// Scenario id.
    pub scenario: &'a str,
    /// Case id.
    pub case: &'a str,
    /// Value on the scenario's axis.
    pub axis_value: u32,
    /// `ok`, or why there are no numbers.
    pub status: Status,
    /// One line; absent where ok.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'a str,
    /// Completed, timed requests; their prompts are distinct but where the user brought them.
    pub requests: u64,
    /// Launches that completed it.
    pub invocations: u32,
    /// Rank on the scenario's leading metric, ties equal; absent where targets aren't
    /// ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Launches in which something else was at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<u32>,
    /// Upper 95 % limit of the mean error of first tokens' stamps (ns), early or late; absent, as
    /// the next three are, where no stamps were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_stamp_error_ns: Option<f64>,
    /// Mean error of first tokens' stamps that was seen (ns).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_stamp_error_mean_ns: Option<f64>,
    /// Upper 95 % limit of the mean error of all other tokens' stamps (ns), early or late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_stamp_error_ns: Option<f64>,
    /// Mean error of all other tokens' stamps that was seen (ns).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_stamp_error_mean_ns: Option<f64>,
    /// Metrics by name; their definitions stand on the methodology page.
    pub metrics: BTreeMap<&'static str, Metric<'a>>,
}

/// A metric of a cell, in the unit that its name ends in.
#[derive(Clone, Debug, Serialize)]
pub struct Metric<'a> {
    /// Samples: requests, gaps or launches.
    pub n: u64,
    /// Mean over launches of the per-launch statistic.
    pub value: f64,
    /// Its 95 % interval; absent with one launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// The statistic of every launch, in block order.
    pub by_invocation: &'a [f64],
    /// Percentiles of the pooled samples: the median, and of the tail those that have at least
    /// 10 requests beyond them and a 95 % interval; absent where n counts launches.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub percentiles: BTreeMap<&'static str, f64>,
    /// Their 95 % intervals; only the median may lack one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub percentiles_ci95: BTreeMap<&'static str, (f64, f64)>,
}

/// Write `results.json` for a run. A number that is not finite becomes `null`.
pub fn results_json(run: &Run, analysis: &Analysis, baseline: &str) -> Result<String> {
    let header = &run.header;
    let results = Results {
        format: FORMAT,
        run: &header.id,
        started: &header.started,
        profile: &header.plan.profile,
        publishable: header.plan.publishable,
        model: &header.plan.model,
        baseline,
        git_revision: header.provenance.git_revision.as_deref(),
        matters_percent: header.plan.matters_percent,
        plan_sha256: &header.plan_sha256,
        facts: &header.provenance.facts,
        cells: analysis.cells.iter().map(cell).collect(),
        comparisons: &analysis.comparisons,
        noise: &analysis.noise,
        unfelt: &analysis.unfelt,
    };
    Ok(serde_json::to_string(&results)? + "\n")
}

fn cell(cell: &analysis::Cell) -> Cell<'_> {
    Cell {
        target: &cell.target,
        scenario: &cell.scenario,
        case: &cell.case,
        axis_value: cell.axis_value,
        status: cell.status,
        reason: &cell.reason,
        requests: cell.requests,
        invocations: cell.invocations,
        rank: cell.rank,
        disturbed: cell.disturbances.iter().map(|d| d.invocation).collect(),
        first_stamp_error_ns: cell.audit.map(|audit| audit.first.high_ns()),
        first_stamp_error_mean_ns: cell.audit.map(|audit| audit.first.mean_ns()),
        later_stamp_error_ns: cell.audit.map(|audit| audit.later.high_ns()),
        later_stamp_error_mean_ns: cell.audit.map(|audit| audit.later.mean_ns()),
        metrics: cell
            .metrics
            .iter()
            .map(|metric| (metric.id.describe().name, self::metric(metric)))
            .collect(),
    }
}

fn metric(metric: &analysis::Metric) -> Metric<'_> {
    let (mut percentiles, mut percentiles_ci95) = (BTreeMap::new(), BTreeMap::new());
    if let Some(shape) = &metric.shape {
        let named = ["p50", "p90", "p95", "p99"].into_iter();
        for (name, found) in named.zip(shape.percentiles()) {
            percentiles.extend(found.map(|(value, _)| (name, value)));
            percentiles_ci95.extend(found.and_then(|(_, ci95)| Some((name, ci95?))));
        }
    }
    Metric {
        n: metric.n,
        value: metric.value,
        ci95: metric.ci95,
        by_invocation: &metric.by_invocation,
        percentiles,
        percentiles_ci95,
    }
}

#[cfg(test)]
mod tests {
    use stats::analysis::{Comparison, Metric, MetricId, Noise, Role, Shape, TwinPair, Verdict};
    use stats::canary::{Unfelt, Work};

    #[test]
    fn a_percentile_of_the_tail_has_an_interval_or_is_left_out() {
        let shape = Shape {
            mean: 1.2,
            p5: 0.6,
            mad: 0.1,
            min: 0.5,
            p50: 1.0,
            p90: Some(2.0),
            p95: Some(3.0),
            p99: None,
            intervals: [None, Some((1.5, 2.5)), None, None],
            max: 4.0,
            quantiles: vec![],
        };
        let metric = Metric {
            shape: Some(shape),
            ..Metric::of(MetricId::TtftNs, 1.0, vec![1.0])
        };
        let printed = super::metric(&metric);
        let names: Vec<&str> = printed.percentiles.into_keys().collect();
        assert_eq!(names, ["p50", "p90"]);
        let bounded: Vec<&str> = printed.percentiles_ci95.into_keys().collect();
        assert_eq!(bounded, ["p90"]);
    }

    fn comparison(role: Role, verdict: Verdict, known: bool) -> Comparison {
        Comparison {
            scenario: "s".into(),
            case: "p10".into(),
            metric: MetricId::TtftNs,
            target: "b".into(),
            against: "a".into(),
            role,
            ratio: 1.5,
            blocks: 5,
            ci95: known.then_some((1.25, 1.75)),
            p_holm: known.then_some(0.01),
            cliffs_delta: Some(1.0),
            inflation: Some(1.0),
            matters: 1.02,
            verdict,
            not_comparable: vec![1],
        }
    }

    fn json(value: &impl serde::Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn what_is_written_as_analysed_keeps_its_keys_and_their_order() {
        let known = comparison(Role::Leader, Verdict::Better, true);
        let unknown = comparison(Role::Baseline, Verdict::Unknown, false);
        let about = r#"{"scenario":"s","case":"p10","metric":"ttft_ns","target":"b","against":"a""#;
        assert_eq!(
            json(&[known, unknown]),
            format!(
                r#"[{about},"role":"leader","ratio":1.5,"ci95":[1.25,1.75],"p_holm":0.01,"verdict":"better"}},{about},"role":"baseline","ratio":1.5,"verdict":"too_few_invocations"}}]"#
            )
        );
        let pair = TwinPair {
            target: "a".into(),
            scenario: "s".into(),
            case: "p10".into(),
            ratio: 1.0,
            ci95: None,
            is_different: true,
        };
        let noise = Noise {
            metric: MetricId::TtftNs,
            inflation: f64::INFINITY,
            measured: 1,
            pairs: vec![pair],
        };
        assert_eq!(
            json(&noise),
            r#"{"metric":"ttft_ns","inflation":null,"measured":1,"pairs":[{"target":"a","scenario":"s","case":"p10","ratio":1.0,"different":true}]}"#
        );
        let unfelt = Unfelt {
            work: Work::Memory,
            slow: 12,
            launches: 30,
            ratio: 1.0,
            ci95: (0.5, 1.5),
            felt_in: vec!["s".into()],
        };
        assert_eq!(
            json(&unfelt),
            r#"{"work":"a read of memory","slow":12,"launches":30,"ratio":1.0,"ci95":[0.5,1.5],"felt_in":["s"]}"#
        );
        for metric in MetricId::ALL {
            assert_eq!(json(&metric), format!("\"{}\"", metric.describe().name));
        }
    }
}
