//! Writes `results.json`: everything derived from a run, in one file for programs.
//!
//! The types are the format, and their comments are its description on the data page. The file
//! holds neither the samples, which are in the record files, nor anything else that isn't
//! recomputed from them by the program that wrote it.

use anyhow::Result;
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;
use stats::analysis::{self, Analysis, Role, Verdict};
use stats::canary;
use std::collections::BTreeMap;

/// The version of the format, for [`Results::format`]; raised whenever a field changes its meaning.
const FORMAT: u32 = 3;

/// The source of this module, from which the data page's description of the format is read.
pub const SOURCE: &str = include_str!("results.rs");

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
    pub comparisons: Vec<Comparison<'a>>,
    /// What targets that ran twice say of each metric's errors.
    pub noise: Vec<Noise<'a>>,
    /// Kinds of known work that were slow beside some launches and are no disturbance, because on
    /// average over the run these launches took no longer than others.
    pub unfelt: Vec<Unfelt<'a>>,
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

/// A target against another in a case, on the scenario's leading metric.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison<'a> {
    /// Scenario id.
    pub scenario: &'a str,
    /// Case id.
    pub case: &'a str,
    /// Name of the metric.
    pub metric: &'static str,
    /// The target in question.
    pub target: &'a str,
    /// What it is compared with.
    pub against: &'a str,
    /// `baseline` or `leader`.
    pub role: &'static str,
    /// How many times better `target` is.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Holm-adjusted p.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_holm: Option<f64>,
    /// `better` or `worse`: by more than matters; `equal`: the whole interval lies within what
    /// matters; `undecided`: neither; or `too_few_invocations`.
    pub verdict: &'static str,
}

/// What targets that ran twice say of a metric's errors.
#[derive(Clone, Debug, Serialize)]
pub struct Noise<'a> {
    /// Name of the metric.
    pub metric: &'static str,
    /// How many times larger the errors of comparisons are than launches show.
    pub inflation: f64,
    /// Number of pairs with launches of their own: where one scenario measures for another, both
    /// have the pair.
    pub measured: usize,
    /// The pairs.
    pub pairs: Vec<TwinPair<'a>>,
}

/// A target against itself under its second name.
#[derive(Clone, Debug, Serialize)]
pub struct TwinPair<'a> {
    /// Target id.
    pub target: &'a str,
    /// Scenario id.
    pub scenario: &'a str,
    /// Case id.
    pub case: &'a str,
    /// Geometric mean over blocks of target ÷ twin.
    pub ratio: f64,
    /// Its 95 % interval, from its own blocks alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Whether a comparison would call it different from itself.
    pub different: bool,
}

/// A kind of known work that was slow beside some launches, which took no longer on average.
#[derive(Clone, Debug, Serialize)]
pub struct Unfelt<'a> {
    /// The work, in words.
    pub work: &'static str,
    /// Number of launches beside which it was slow, counted by case.
    pub slow: usize,
    /// Number of launches in the cells that have such launches and others, counted by case.
    pub launches: usize,
    /// How many times as long the requests of the slow launches took.
    pub ratio: f64,
    /// Its 95 % interval.
    pub ci95: (f64, f64),
    /// Ids of the scenarios in which it is a disturbance all the same.
    pub felt_in: &'a [String],
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
        comparisons: analysis.comparisons.iter().map(comparison).collect(),
        noise: analysis.noise.iter().map(noise).collect(),
        unfelt: analysis.unfelt.iter().map(unfelt).collect(),
    };
    Ok(serde_json::to_string(&results)? + "\n")
}

fn noise(noise: &analysis::Noise) -> Noise<'_> {
    Noise {
        metric: noise.metric.describe().name,
        inflation: noise.inflation,
        measured: noise.measured,
        pairs: noise.pairs.iter().map(pair).collect(),
    }
}

fn unfelt(unfelt: &canary::Unfelt) -> Unfelt<'_> {
    Unfelt {
        work: unfelt.work.words(),
        slow: unfelt.slowdown.slow,
        launches: unfelt.slowdown.launches,
        ratio: unfelt.slowdown.ratio,
        ci95: unfelt.slowdown.ci95,
        felt_in: &unfelt.felt_in,
    }
}

fn pair(pair: &analysis::TwinPair) -> TwinPair<'_> {
    TwinPair {
        target: &pair.key.target,
        scenario: &pair.key.scenario,
        case: &pair.key.case,
        ratio: pair.ratio,
        ci95: pair.ci95,
        different: pair.is_different,
    }
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

fn comparison(c: &analysis::Comparison) -> Comparison<'_> {
    Comparison {
        scenario: &c.scenario,
        case: &c.case,
        metric: c.metric.describe().name,
        target: &c.target,
        against: &c.against,
        role: match c.role {
            Role::Baseline => "baseline",
            Role::Leader => "leader",
        },
        ratio: c.ratio,
        ci95: c.ci95,
        p_holm: c.p_holm,
        verdict: match c.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
            Verdict::Unknown => "too_few_invocations",
        },
    }
}

#[cfg(test)]
mod tests {
    use stats::analysis::{Metric, MetricId, Shape};

    #[test]
    fn a_percentile_of_the_tail_has_an_interval_or_is_left_out() {
        let shape = Shape {
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
}
