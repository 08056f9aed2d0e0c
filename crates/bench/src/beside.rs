//! `cargo xtask calibrate --load`: checks whether launches are flagged while other processes
//! compute.
//!
//! A target is measured as in any run while processes that compute without end start and stop: half
//! as many as the engine has threads. They alternate between running on any core and being kept to
//! the first of the engine's cores. Afterwards the times when they ran are compared with the
//! launches that the run's analysis flags as disturbed.

mod load;

use crate::{job, trial};
use anyhow::{Context, Result, bail};
use base::exit_code;
use base::repo::Repo;
use harness::verify::setup::threads;
use load::{Load, cores};
use proofs::calibrate::Options;
use schema::record::Status;
use schema::run::Run;
use site::words::plural;
use stats::analysis::{Analysis, MetricId};
use stats::describe::median;
use std::ops::Range;
use std::process::ExitCode;

/// A case must be flagged where the load ran beside it for at least this share of its time. A
/// shorter load may go unnoticed, because the kernel counts the time of short cases coarsely.
const TOUCHED_MIN: f64 = 0.8;
/// A load within this time (ns) before or after a case may affect it too, because the canary's
/// readings are taken there.
const EDGE_NS: u64 = 1_000_000_000;
/// Smallest share of the touched cases that must be flagged, and (`FALSE_MAX`) largest share of the
/// untouched ones that may be flagged although nothing slowed them.
const FLAGGED_MIN: f64 = 0.95;
const FALSE_MAX: f64 = 0.02;
/// Requests count as slowed where they take longer than usual by at least this share.
const LONGER_MIN: f64 = 0.05;

/// Measure and print the result. Exit status 3 where too few of the touched cases are flagged, or
/// too many of the others.
pub fn command(repo: &Repo, asked: &Options) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let Some(handicap) = registry.handicaps.first() else {
        bail!(
            "engines/engines.toml has no [[handicap]], whose `of` is the target that is measured"
        );
    };
    let targets = [&handicap.of];
    let (_only_one, mut opened) = trial::begin(repo, &registry, asked, &targets, f64::INFINITY)?;
    let cores = cores(threads().div_ceil(2) as usize)?;
    let load = Load::begin(cores, splitmix::hash(&opened.run_dir.to_string_lossy()));
    let measured = job::measure_until(repo, &registry, &mut opened);
    let ran = load.end();
    let (run, ran) = (measured?, ran?);
    let analysis = stats::analyse(&run, &repo.scenarios()?, "");
    let cases = cases(&run, &analysis)?;
    let times = while_measured(&cases, &ran);
    let found = Found::new(&cases, &ran);
    match asked.json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => print!("{}", found.in_words(&handicap.of, times)),
    }
    eprintln!("Records: {}", opened.run_dir.display());
    if !found.has_both() {
        watch::error(
            "this was too short to tell: the load must run beside some cases and rest beside others",
        );
    }
    Ok(exit_code(found.has_both() && found.is_within_limits(), 3))
}

/// A case of a launch: when its timed requests were in flight (ns), and why it is flagged.
struct Case {
    case: String,
    block: u32,
    ns: Range<u64>,
    /// Mean time of its requests (ns).
    e2e_ns: f64,
    causes: Vec<String>,
}

impl Case {
    fn is_flagged(&self) -> bool {
        !self.causes.is_empty()
    }
}

fn cases(run: &Run, analysis: &Analysis) -> Result<Vec<Case>> {
    // Only complete and correct cases were judged for disturbances.
    if let Some(cell) = analysis.cells.iter().find(|cell| cell.status != Status::Ok) {
        bail!(
            "{}, {}: {}, so whether it was disturbed isn't known: {}",
            cell.target,
            cell.case,
            cell.status.id(),
            cell.reason
        );
    }
    let ends = run.launches.iter().flat_map(|log| {
        let launch = &log.launch;
        log.case_ends.iter().map(move |end| (launch, end))
    });
    let cases = ends.map(|(launch, end)| {
        let cell = analysis.cell(&launch.cell_key(&end.case));
        let e2e = cell.and_then(|cell| cell.metric(MetricId::E2eNs));
        let e2e_ns = e2e.and_then(|e2e| e2e.by_invocation.get(launch.invocation as usize));
        let disturbances = cell.map_or(&[][..], |cell| &cell.disturbances);
        let disturbances = disturbances.iter();
        let ours = disturbances.filter(|d| d.invocation == launch.invocation);
        let causes = ours.flat_map(|disturbance| &disturbance.causes);
        Ok(Case {
            case: end.case.clone(),
            block: launch.invocation + 1,
            ns: end.start_ns..end.end_ns,
            e2e_ns: *e2e_ns.context("a cell has no time of one of its launches")?,
            causes: causes.map(ToString::to_string).collect(),
        })
    });
    cases.collect()
}

/// Count how often the load ran between the first and the last request; it starts before the first.
fn while_measured(cases: &[Case], ran: &[Range<u64>]) -> usize {
    let begins = cases.iter().map(|case| case.ns.start).min();
    let ends = cases.iter().map(|case| case.ns.end).max();
    let (begins, ends) = (begins.unwrap_or(0), ends.unwrap_or(0));
    let ran = ran.iter();
    ran.filter(|load| load.start < ends && load.end > begins)
        .count()
}

/// The number of cases of one kind, and how many of these are flagged.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
struct Count {
    all: u64,
    flagged: u64,
}

impl Count {
    fn add(&mut self, is_flagged: bool) {
        self.all += 1;
        self.flagged += u64::from(is_flagged);
    }

    /// Return the share that is flagged; `None` where there are no cases.
    fn share(self) -> Option<f64> {
        (self.all > 0).then(|| self.flagged as f64 / self.all as f64)
    }
}

/// How many cases are flagged, by how long the load ran beside them.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
struct Found {
    /// Cases beside which the load ran for at least [`TOUCHED_MIN`] of their time.
    touched: Count,
    /// Cases beside which it ran for less, or only within [`EDGE_NS`] of them.
    barely_touched: Count,
    /// Cases beside which it didn't run.
    untouched: Count,
    /// Number of flagged untouched cases that something else slowed: their requests took longer
    /// than in every unflagged repetition of the same case, and longer than the median of these by
    /// at least [`LONGER_MIN`].
    slowed: u64,
    /// Why each flagged untouched case is flagged.
    causes: Vec<String>,
}

impl Found {
    fn new(cases: &[Case], ran: &[Range<u64>]) -> Self {
        let mut found = Self::default();
        let mut untouched: Vec<&Case> = Vec::new();
        for case in cases {
            let beside_ns = |of: Range<u64>| -> u64 {
                let each = ran.iter().map(|load| {
                    let end_ns = load.end.min(of.end);
                    end_ns.saturating_sub(load.start.max(of.start))
                });
                each.sum()
            };
            let edges = case.ns.start.saturating_sub(EDGE_NS)..case.ns.end + EDGE_NS;
            let lasted_ns = (case.ns.end - case.ns.start) as f64;
            let count = match beside_ns(case.ns.clone()) as f64 {
                ns if ns >= TOUCHED_MIN * lasted_ns => &mut found.touched,
                _ if beside_ns(edges) > 0 => &mut found.barely_touched,
                _ => {
                    untouched.push(case);
                    &mut found.untouched
                }
            };
            count.add(case.is_flagged());
        }
        for case in untouched.iter().filter(|case| case.is_flagged()) {
            let alike = untouched.iter().filter(|other| other.case == case.case);
            let usual = alike.filter(|other| !other.is_flagged());
            let usual: Vec<f64> = usual.map(|other| other.e2e_ns).collect();
            let longer = median(&usual).map(|usual| case.e2e_ns / usual - 1.0);
            let is_slowed = longer.is_some_and(|longer| longer >= LONGER_MIN)
                && usual.iter().all(|usual| case.e2e_ns > *usual);
            found.slowed += u64::from(is_slowed);
            let took = longer.map_or(String::new(), |longer| {
                format!("; its requests took {:+.0} %", 100.0 * longer)
            });
            found.causes.push(format!(
                "{}, block {}: {}{took}",
                case.case,
                case.block,
                case.causes.join("; ")
            ));
        }
        found
    }

    fn has_both(&self) -> bool {
        self.touched.all > 0 && self.untouched.all > 0
    }

    fn is_within_limits(&self) -> bool {
        let wrongly = Count {
            flagged: self.untouched.flagged - self.slowed,
            ..self.untouched
        };
        let (touched, wrongly) = (self.touched.share(), wrongly.share());
        touched.is_some_and(|share| share >= FLAGGED_MIN)
            && wrongly.is_some_and(|share| share <= FALSE_MAX)
    }

    fn in_words(&self, target: &str, times: usize) -> String {
        let row = |count: Count, what: &str| {
            let (flagged, all) = (count.flagged, count.all);
            let percent = count
                .share()
                .map_or(String::new(), |share| format!(" ({:.0} %)", 100.0 * share));
            format!("  {flagged:>4} of {all:>4}{percent:>8}  {what}\n")
        };
        let causes = self.causes.iter().map(|cause| format!("        {cause}\n"));
        let slowed = match (self.untouched.flagged, self.slowed) {
            (0, _) => String::new(),
            (flagged, slowed) => format!(
                "  Of these {flagged} flags, {slowed} are justified: something else slowed those launches, because their requests \
                 took longer than those of any launch that isn’t flagged\n"
            ),
        };
        format!(
            "A load came {} while {target} was measured. Cases of launches that are flagged as \
             disturbed:\n{}{}{}{slowed}{}",
            plural(times as u64, "time", "times"),
            row(
                self.touched,
                "that it ran beside for four fifths of their time or more (at least 95 % should be)"
            ),
            row(
                self.barely_touched,
                "that it ran beside for less, or within a second of them"
            ),
            row(
                self.untouched,
                "that it didn't run beside (at most 2 % should be but for those below)"
            ),
            causes.collect::<String>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(ns: Range<u64>, is_flagged: bool) -> Case {
        let causes = is_flagged.then(|| "somebody else".to_owned());
        Case {
            case: "p10".into(),
            block: 1,
            ns,
            e2e_ns: if is_flagged { 1.2e9 } else { 1e9 },
            causes: causes.into_iter().collect(),
        }
    }

    #[test]
    fn cases_are_told_apart_by_how_long_the_load_ran_beside_them() {
        let s = |s: Range<u64>| s.start * 1_000_000_000..s.end * 1_000_000_000;
        let case = |of, is_flagged| case(s(of), is_flagged);
        let ran = [s(100..140), s(150..300)];
        let cases = [
            case(0..99, false),    // not at all
            case(301..400, true),  // not at all
            case(100..150, true),  // 40 of 50
            case(110..160, false), // 30 and 10 of 50
            case(200..210, true),
            case(90..139, false), // 39 of 49
            case(0..100, true),   // the load begins as the case ends
            case(200..210, false),
        ];
        assert_eq!(while_measured(&cases[2..], &ran), 2);
        assert_eq!(while_measured(&cases[5..6], &ran), 1);
        let found = Found::new(&cases, &ran);
        let count = |all, flagged| Count { all, flagged };
        assert_eq!(found.touched, count(4, 2));
        assert_eq!(found.barely_touched, count(2, 1));
        assert_eq!(found.untouched, count(2, 1));
        assert!(
            !found.is_within_limits(),
            "half of those that it ran beside are seen"
        );
        assert_eq!(
            found.causes,
            ["p10, block 1: somebody else; its requests took +20 %"]
        );
        assert_eq!(found.slowed, 1);
        let text = found.in_words("a.cpu.f32", 1);
        assert!(
            text.contains("came 1 time while a.cpu.f32") && text.contains("2 of    4  (50 %)"),
            "{text}"
        );
    }

    #[test]
    fn what_should_be_flagged_must_be_and_little_else() {
        let count = |all, flagged| Count { all, flagged };
        let mut found = Found {
            touched: count(20, 19),
            barely_touched: count(9, 0),
            untouched: count(50, 1),
            slowed: 0,
            causes: vec![],
        };
        assert!(found.is_within_limits());
        found.touched.flagged = 18;
        assert!(!found.is_within_limits());
        found.touched.flagged = 19;
        found.untouched.flagged = 2;
        assert!(!found.is_within_limits());
        found.slowed = 1;
        assert!(found.is_within_limits(), "one of the two is no false alarm");
        assert!(found.has_both() && !Found::default().has_both());
    }
}
