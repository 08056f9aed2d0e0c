//! `cargo xtask calibrate --verdicts`: do the verdicts find a difference of known size?
//!
//! The registry names a target that takes a known share longer than another. Both are
//! measured as any two targets are, in the blocks of one run, and judged by the very
//! function that judges pairs on the site.

use crate::job;
use anyhow::{Context, Result};
use base::exclusive;
use base::repo::Repo;
use harness::plan::Choice;
use proofs::calibrate::Options;
use runs::results::Results;
use schema::registry::Handicap;
use schema::run::Run;
use site::fmt;
use stats::analysis::{Analysis, MetricId, Verdict};
use stats::pairs::{Compared, NotComparable, pairs};
use std::process::ExitCode;

/// Where each pass is slower and nothing queues, all of these are longer by that share.
const METRICS: [MetricId; 3] = [MetricId::TtftNs, MetricId::ItlNs, MetricId::E2eNs];
const SCENARIO: &str = "single_request";
/// Blocks, unless somebody says how many: on the machine of the published CPU runs 15 found
/// 10 % in every case and metric, 5 in most.
const BLOCKS: u32 = 15;
/// What t comes to with many blocks.
const Z95: f64 = 1.96;
/// The normal distribution's quantile of 80 %.
const Z80: f64 = 0.84;

/// Measure both and print what the verdicts say. Exit status 3 where a case's
/// difference isn't found.
pub fn command(repo: &Repo, asked: &Options) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let handicap = registry
        .handicap
        .as_ref()
        .context("engines/engines.toml has no [handicap]: there is no difference of known size")?;
    // Such a run must not be taken for a result, so it isn't kept among them.
    let records = repo.build_dir.join("calibrate");
    let profile = repo.profile(&asked.profile)?;
    let usual = profile.publishable.then(|| profile.invocations.max(BLOCKS));
    let options = job::Options {
        profile: Some(asked.profile.clone()),
        choice: Choice {
            engines: vec![handicap.of.clone(), handicap.target.clone()],
            scenarios: vec![SCENARIO.to_owned()],
            ..Choice::default()
        },
        invocations: asked.invocations.or(usual),
        ..job::Options::default()
    };
    let planned = job::planned(repo, &registry, &Results::at(&records), &options)?;
    let _only_one = exclusive::machine()?;
    let opened = job::create(repo, &registry, &records, &options, planned)?;
    let run = job::measure(repo, &registry, &opened)?;
    let findings = findings(
        &run,
        &stats::analyse(&run, &repo.scenarios()?, ""),
        handicap,
    );
    let blocks = run.header.plan.invocations;
    match asked.json {
        true => println!("{}", serde_json::to_string_pretty(&as_json(&findings))?),
        false => {
            print!("{}", table(&findings, handicap));
            let matters = run.header.plan.matters();
            if let Some(enough) = enough(&findings, handicap, blocks, matters) {
                println!("{enough}");
            }
        }
    }
    eprintln!("Records: {}", opened.run_dir.display());
    Ok(match findings.iter().all(Finding::is_found) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// What the verdict says in a case, on a metric.
struct Finding {
    case: String,
    metric: MetricId,
    /// How many times longer the slower one takes.
    outcome: Result<Compared, NotComparable>,
}

impl Finding {
    fn is_found(&self) -> bool {
        let better = |compared: &Compared| compared.verdict == Verdict::Better;
        self.outcome.as_ref().is_ok_and(better)
    }
}

fn findings(run: &Run, analysis: &Analysis, handicap: &Handicap) -> Vec<Finding> {
    let planned = run.header.plan.scenarios.iter();
    let cases = planned
        .filter(|scenario| scenario.id == SCENARIO)
        .flat_map(|scenario| scenario.cases.iter().map(|case| scenario.case_key(case)));
    let asked = [handicap.of.as_str(), handicap.target.as_str()];
    cases
        .flat_map(|at| METRICS.map(|metric| (at.clone(), metric)))
        .flat_map(|(at, metric)| {
            pairs(analysis, &at, metric, &asked)
                .into_iter()
                .map(move |pair| Finding {
                    case: at.case.clone(),
                    metric,
                    outcome: pair.outcome,
                })
        })
        .collect()
}

fn table(findings: &[Finding], handicap: &Handicap) -> String {
    let Handicap {
        target,
        of,
        percent,
    } = handicap;
    let mut text = format!(
        "Each pass of {target} takes {percent} % longer than one of {of}\n\n{:6} {:8} {:>7} {:>16} {:>9} {:>12}\n",
        "case", "metric", "ratio", "95 % interval", "p", "errors"
    );
    for finding in findings {
        let case = &finding.case;
        let metric = finding.metric.describe().name;
        match &finding.outcome {
            Ok(compared) => {
                let (ratio, interval) = fmt::ratio(compared.ratio, compared.ci95);
                let enlarged = compared.inflation;
                text.push_str(&format!(
                    "{case:6} {metric:8} {ratio:>7} {:>16} {:>9} {:>12}  {}\n",
                    interval.unwrap_or_default(),
                    compared.p_holm.map_or(fmt::NONE.into(), fmt::p_value),
                    enlarged.map_or("as seen".into(), |by| format!("× {by:.2}")),
                    match compared.verdict {
                        Verdict::Better => "found",
                        Verdict::Equal | Verdict::Undecided => "NOT FOUND",
                        Verdict::Worse => "FOUND TO BE FASTER",
                        Verdict::Unknown => "one block can't tell",
                    }
                ));
            }
            Err(why) => text.push_str(&format!("{case:6} {metric:8} not comparable: {why:?}\n")),
        }
    }
    let found = findings.iter().filter(|finding| finding.is_found()).count();
    text.push_str(&format!("\n{found} of {} found\n", findings.len()));
    text
}

/// How many blocks would find all of them as they spread in these `blocks`; `None` where all are
/// found.
///
/// The interval must lie beyond the smallest difference that `matters` (a ratio): with a half-width of two
/// thirds of what is between them it does in four runs of five. The half-width is t·s/√k.
fn enough(findings: &[Finding], handicap: &Handicap, blocks: u32, matters: f64) -> Option<String> {
    let t = stats::ci::t_quantile(0.975, f64::from(blocks) - 1.0)?;
    let missed = findings.iter().filter(|finding| !finding.is_found());
    let spreads = missed.filter_map(|finding| {
        let (low, high) = finding.outcome.as_ref().ok()?.ci95?;
        Some((high / low).ln() / 2.0 / t * f64::from(blocks).sqrt())
    });
    let widest = spreads.fold(0.0, f64::max);
    let room = (1.0 + f64::from(handicap.percent) / 100.0).ln() - matters.ln();
    let needed = ((Z95 + Z80) * widest / room).powi(2);
    if room <= 0.0 {
        return None;
    }
    (widest > 0.0).then(|| {
        format!(
            "Blocks differ by {:.0} % (standard deviation): `--invocations {:.0}` would be likely \
             to find {} %",
            widest.exp_m1() * 100.0,
            needed.max(f64::from(blocks) + 1.0).ceil(),
            handicap.percent
        )
    })
}

fn as_json(findings: &[Finding]) -> Vec<serde_json::Value> {
    let row = |finding: &Finding| {
        let compared = finding.outcome.as_ref().ok();
        serde_json::json!({
            "case": finding.case,
            "metric": finding.metric.describe().name,
            "ratio": compared.map(|c| c.ratio),
            "ci_low": compared.and_then(|c| Some(c.ci95?.0)),
            "ci_high": compared.and_then(|c| Some(c.ci95?.1)),
            "p_holm": compared.and_then(|c| c.p_holm),
            "inflation": compared.and_then(|c| c.inflation),
            "found": finding.is_found(),
        })
    };
    findings.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(verdict: Verdict) -> Finding {
        Finding {
            case: "p10".into(),
            metric: MetricId::TtftNs,
            outcome: Ok(Compared {
                ratio: 1.1,
                ci95: Some((1.05, 1.15)),
                p_holm: Some(0.002),
                blocks: 5,
                inflation: Some(1.2),
                matters: 1.02,
                verdict,
                disturbed: vec![],
            }),
        }
    }

    fn handicap() -> Handicap {
        Handicap {
            target: "b".into(),
            of: "a".into(),
            percent: 10,
        }
    }

    #[test]
    fn the_widest_interval_that_missed_says_how_many_blocks_would_not() {
        let enough = |findings: &[Finding]| enough(findings, &handicap(), 5, 1.02);
        assert_eq!(enough(&[finding(Verdict::Better)]), None);
        // Half as wide as s·t/√5 of s = 0.3.
        let half = 2.776_445 * 0.3 / 5f64.sqrt();
        let mut missed = finding(Verdict::Undecided);
        if let Ok(compared) = &mut missed.outcome {
            compared.ci95 = Some(((0.1 - half).exp(), (0.1 + half).exp()));
        }
        let said = enough(&[finding(Verdict::Undecided), missed]).unwrap();
        // ((1.96 + 0.84) · 0.3 / ln (1.1 ÷ 1.02))² = 123.7
        assert!(
            said.contains("`--invocations 124`") && said.contains("35 %"),
            "{said}"
        );
    }

    #[test]
    fn only_a_verdict_in_the_right_direction_is_found() {
        assert!(finding(Verdict::Better).is_found());
        let others = [
            Verdict::Worse,
            Verdict::Equal,
            Verdict::Undecided,
            Verdict::Unknown,
        ];
        for other in others {
            assert!(!finding(other).is_found());
        }
        let failed = Finding {
            outcome: Err(NotComparable::NoRatio),
            ..finding(Verdict::Better)
        };
        assert!(!failed.is_found());
        let findings = [
            finding(Verdict::Better),
            finding(Verdict::Undecided),
            failed,
        ];
        let text = table(&findings, &handicap());
        assert!(
            text.contains("10 % longer") && text.contains("1.1"),
            "{text}"
        );
        assert!(
            text.contains("NOT FOUND") && text.contains("1 of 3 found"),
            "{text}"
        );
        assert_eq!(as_json(&findings)[1]["found"], false);
    }
}
