//! `cargo xtask calibrate --verdicts`: checks whether the verdicts find a difference of known size.
//!
//! The registry names targets that take a known share longer than another target. One of them and
//! that other target are measured like any two targets, in the blocks of one run, and judged by the
//! function that judges pairs on the site. Both run twice in every block, under two names, so that
//! the trial also shows how often the verdicts call a target different from itself.

use crate::job;
use crate::trial::{self, SCENARIO};
use anyhow::{Result, bail};
use base::exit_code;
use base::repo::Repo;
use proofs::calibrate::Options;
use schema::registry::{Handicap, Registry};
use schema::run::Run;
use site::fmt;
use site::words::plural;
use stats::analysis::{Analysis, MetricId, TwinPair, Verdict};
use stats::pairs::{Compared, NotComparable, pairs};
use std::process::ExitCode;
use std::time::Instant;

/// The metrics that grow by the known share where every pass is slower and no request waits in a
/// queue.
const METRICS: [MetricId; 3] = [MetricId::TtftNs, MetricId::ItlNs, MetricId::E2eNs];
/// The 97.5 % quantile of the normal distribution, which Student's t approaches with many blocks.
const Z95: f64 = 1.96;
/// The 80 % quantile of the normal distribution.
const Z80: f64 = 0.84;

/// Measure both targets and print the verdicts. Exit status 3 where a case's difference isn't
/// found.
pub fn command(repo: &Repo, asked: &Options) -> Result<ExitCode> {
    let began = Instant::now();
    let registry = repo.registry()?;
    let handicap = slower_by(&registry, asked.percent)?;
    let targets = [&handicap.of, &handicap.target];
    let matters = matters_at_most(f64::from(handicap.percent), asked.until)?;
    let (_only_one, mut opened) = trial::begin(repo, &registry, asked, &targets, matters)?;
    let run = job::measure_until(repo, &registry, &mut opened)?;
    let analysis = stats::analyse(&run, &repo.scenarios()?, "");
    let findings = findings(&run, &analysis, handicap);
    let themselves = themselves(&analysis);
    let plan = &run.header.plan;
    match asked.json {
        true => println!(
            "{}",
            serde_json::to_string_pretty(&as_json(&findings, &themselves))?
        ),
        false => {
            print!("{}", table(&findings, handicap));
            println!("{}", of_themselves(&themselves));
            if let Some(enough) = enough(&findings, handicap, plan.invocations, plan.matters()) {
                println!("{enough}");
            }
            println!(
                "{} in {:.0} min; a difference of {} % or more counts",
                plural(plan.invocations.into(), "block", "blocks"),
                (began.elapsed().as_secs_f64() / 60.0).ceil(),
                plan.matters_percent
            );
        }
    }
    eprintln!("Records: {}", opened.run_dir.display());
    Ok(exit_code(findings.iter().all(Finding::is_found), 3))
}

/// Return the largest difference (percent) that may count as too small to matter, where a
/// difference of `percent` is to be found: half of what `percent` leaves after the half-width that
/// `until` allows.
fn matters_at_most(percent: f64, until: Option<f64>) -> Result<f64> {
    let left = percent - until.unwrap_or(0.0);
    if left <= 0.0 {
        bail!("--until must be under {percent} %, the difference that is to be found");
    }
    Ok(left / 2.0)
}

fn slower_by(registry: &Registry, percent: u32) -> Result<&Handicap> {
    let handicaps = &registry.handicaps;
    if let Some(found) = handicaps.iter().find(|h| h.percent == percent) {
        return Ok(found);
    }
    let known: Vec<String> = handicaps.iter().map(|h| h.percent.to_string()).collect();
    bail!(
        "--percent {percent}: engines/engines.toml has no [[handicap]] of that size, but {}",
        match known.is_empty() {
            true => "none at all".to_owned(),
            false => known.join(", "),
        }
    )
}

/// Return the comparisons of targets with themselves, on the metrics that the handicap affects.
fn themselves(analysis: &Analysis) -> Vec<&TwinPair> {
    let noise = METRICS.into_iter().filter_map(|id| analysis.noise(id));
    noise.flat_map(|noise| &noise.pairs).collect()
}

/// Describe how often the verdicts call a target different from itself.
fn of_themselves(pairs: &[&TwinPair]) -> String {
    let different = pairs.iter().filter(|pair| pair.is_different).count();
    match pairs.len() {
        0 => "No target ran twice: whether the verdicts also find what isn't there was not tried"
            .into(),
        all => format!("Called different from itself: {different} of {all}"),
    }
}

/// The verdict in one case on one metric.
struct Finding {
    case: String,
    metric: MetricId,
    /// The ratio of the slower target's time to the other's, with its verdict.
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

/// Say how many blocks would find all differences, given how much these `blocks` vary; `None` where
/// all are found, or where no number of blocks would suffice.
///
/// The interval must lie beyond the smallest difference that `matters` (a ratio). It does so in
/// four runs of five if its half-width is 70 % (1.96 of 1.96 + 0.84) of the distance from that
/// difference to the true one. The half-width is t·s/√k.
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

fn as_json(findings: &[Finding], themselves: &[&TwinPair]) -> serde_json::Value {
    let row = |finding: &Finding| {
        let compared = finding.outcome.as_ref().ok();
        serde_json::json!({
            "case": finding.case,
            "metric": finding.metric,
            "ratio": compared.map(|c| c.ratio),
            "ci_low": compared.and_then(|c| Some(c.ci95?.0)),
            "ci_high": compared.and_then(|c| Some(c.ci95?.1)),
            "p_holm": compared.and_then(|c| c.p_holm),
            "inflation": compared.and_then(|c| c.inflation),
            "found": finding.is_found(),
        })
    };
    let different = themselves.iter().filter(|pair| pair.is_different).count();
    serde_json::json!({
        "findings": findings.iter().map(row).collect::<Vec<_>>(),
        "themselves": { "pairs": themselves.len(), "different": different },
    })
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
        // The half-width of an interval at s = 0.3 and five blocks: t·s/√5.
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
    fn an_interval_as_wide_as_asked_has_room_beyond_what_matters() {
        assert_eq!(matters_at_most(5.0, None).unwrap(), 2.5);
        assert_eq!(matters_at_most(2.0, Some(1.0)).unwrap(), 0.5);
        assert!(matters_at_most(2.0, Some(2.0)).is_err());
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
        let json = as_json(&findings, &[&twin(true), &twin(false)]);
        assert_eq!(json["findings"][1]["found"], false);
        assert_eq!(json["themselves"]["different"], 1);
    }

    fn twin(is_different: bool) -> TwinPair {
        TwinPair {
            target: "a".into(),
            scenario: SCENARIO.into(),
            case: "p10".into(),
            ratio: 1.001,
            ci95: Some((0.99, 1.01)),
            is_different,
        }
    }

    #[test]
    fn how_often_a_target_differs_from_itself_is_said() {
        assert!(of_themselves(&[&twin(true), &twin(false)]).ends_with("1 of 2"));
        assert!(of_themselves(&[]).starts_with("No target ran twice"));
    }

    #[test]
    fn a_share_that_no_target_is_slower_by_is_refused_with_those_there_are() {
        let registry = Repo::find().unwrap().registry().unwrap();
        assert_eq!(slower_by(&registry, 5).unwrap().percent, 5);
        let said = slower_by(&registry, 7).unwrap_err().to_string();
        assert!(
            said.contains("--percent 7") && said.contains("10, 5, 2"),
            "{said}"
        );
    }
}
