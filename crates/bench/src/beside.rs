//! `cargo xtask calibrate --load`: is a launch flagged that something else ran beside?
//!
//! A target is measured as in any run while processes that compute without end come and go: now
//! anywhere, now kept to the engine's first cores. Each is as many as half of the engine's
//! threads. What the records of the run then call disturbed is held against when they ran.

mod load;

use crate::job;
use anyhow::{Result, bail};
use base::exclusive;
use base::repo::Repo;
use harness::plan::Choice;
use harness::verify::question::threads;
use load::{Load, cores};
use proofs::calibrate::Options;
use runs::results::Results;
use schema::launch_log::LaunchLog;
use schema::record::Status;
use schema::run::Run;
use site::words::plural;
use stats::analysis::{Analysis, Cell};
use stats::describe::mean;
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;

const SCENARIO: &str = "single_request";
const BLOCKS: u32 = 15;
/// A load that ran beside a case for this share of its time must be seen. Less of it may hide in
/// how coarsely the kernel counts the time of short cases.
const TOUCHED_MIN: f64 = 0.8;
/// What happens so long before and after a case may show in it too (ns): the readings of the
/// canary lie there.
const EDGE_NS: u64 = 1_000_000_000;
/// Shares of the touched and of the others that are flagged: at least, and at most.
const FLAGGED_MIN: f64 = 0.95;
const FALSE_MAX: f64 = 0.02;

/// Measure and print. Exit status 3 where too few of those that were touched are flagged, or too
/// many of the others.
pub fn command(repo: &Repo, asked: &Options) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let Some(handicap) = registry.handicaps.first() else {
        bail!(
            "engines/engines.toml has no [[handicap]], whose `of` is the target that is measured"
        );
    };
    // Such a run must not be taken for a result, so it isn't kept among them.
    let records = repo.build_dir.join("calibrate");
    let profile = repo.profile(&asked.profile)?;
    let usual = profile.publishable.then(|| profile.invocations.max(BLOCKS));
    let options = job::Options {
        profile: Some(asked.profile.clone()),
        choice: Choice {
            engines: vec![handicap.of.clone()],
            scenarios: vec![SCENARIO.to_owned()],
            ..Choice::default()
        },
        invocations: asked.invocations.or(usual),
        ..job::Options::default()
    };
    let planned = job::planned(repo, &registry, &Results::at(&records), &options)?;
    let _only_one = exclusive::machine()?;
    let mut opened = job::create(repo, &registry, &records, &options, planned)?;
    let cores = cores(threads().div_ceil(2) as usize)?;
    let load = Load::begin(cores, splitmix::hash(&opened.run_dir.to_string_lossy()));
    let measured = job::measure_until(repo, &registry, &mut opened);
    let ran = load.end();
    let (run, ran) = (measured?, ran?);
    let analysis = stats::analyse(&run, &repo.scenarios()?, "");
    let cases = cases(&run, &analysis)?;
    let times = while_measured(&cases, &ran);
    let found = Found::of(&cases, &ran);
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
    Ok(match found.has_both() && found.is_kept() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// A case of a launch: when its timed requests were in flight (ns), and why it is flagged, if it is.
struct Case {
    case: String,
    block: u32,
    ns: Range<u64>,
    /// How long its requests took (ns), on average.
    e2e_ns: f64,
    causes: Vec<String>,
}

/// All cases of a run's launches.
fn cases(run: &Run, analysis: &Analysis) -> Result<Vec<Case>> {
    // Only what is complete and right was judged.
    if let Some(cell) = analysis.cells.iter().find(|cell| cell.status != Status::Ok) {
        let Cell {
            target,
            case,
            status,
            reason,
            ..
        } = cell;
        bail!(
            "{target}, {case}: {}, so whether it was disturbed isn't known: {reason}",
            status.id()
        );
    }
    let causes = |target: &str, case: &str, invocation: u32| {
        let cells = analysis.cells.iter();
        let cells = cells.filter(|cell| cell.target == target && cell.case == case);
        let disturbances = cells.flat_map(|cell| &cell.disturbances);
        disturbances
            .filter(|disturbance| disturbance.invocation == invocation)
            .flat_map(|disturbance| disturbance.causes.iter().map(ToString::to_string))
            .collect()
    };
    let ends = run.launches.iter().flat_map(|log| {
        let launch = &log.launch;
        log.case_ends.iter().map(move |end| (log, launch, end))
    });
    let cases = ends.map(|(log, launch, end)| Case {
        case: end.case.clone(),
        block: launch.invocation + 1,
        e2e_ns: e2e_ns(log, &end.case),
        ns: end.start_ns..end.end_ns,
        causes: causes(&launch.target, &end.case, launch.invocation),
    });
    Ok(cases.collect())
}

fn e2e_ns(log: &LaunchLog, case: &str) -> f64 {
    let requests = log.requests.iter();
    let timed = requests.filter(|request| request.case == case && !request.warmup);
    let each = timed.filter_map(|request| {
        let last_ns = *request.token_ns.last()?;
        Some(last_ns.saturating_sub(request.sent_ns) as f64)
    });
    mean(&each.collect::<Vec<_>>()).unwrap_or_default()
}

/// How often the load ran between the first request and the last: it begins before there are any.
fn while_measured(cases: &[Case], ran: &[Range<u64>]) -> usize {
    let begins = cases.iter().map(|case| case.ns.start).min();
    let ends = cases.iter().map(|case| case.ns.end).max();
    let (begins, ends) = (begins.unwrap_or(0), ends.unwrap_or(0));
    let ran = ran.iter();
    ran.filter(|load| load.start < ends && load.end > begins)
        .count()
}

/// How many there are of a kind, and how many of these are flagged.
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

    /// The share that is flagged; `None` of none.
    fn share(self) -> Option<f64> {
        (self.all > 0).then(|| self.flagged as f64 / self.all as f64)
    }
}

/// What was flagged.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
struct Found {
    /// The load ran beside them for [`TOUCHED_MIN`] of their time.
    touched: Count,
    /// For less than that, or within [`EDGE_NS`] of them.
    brushed: Count,
    /// Not at all.
    untouched: Count,
    /// Why each of these is flagged all the same.
    causes: Vec<String>,
    /// How much longer requests of these took than of those that aren't flagged, case by case; a
    /// geometric mean (percent).
    longer_percent: Option<f64>,
}

impl Found {
    fn of(cases: &[Case], ran: &[Range<u64>]) -> Self {
        let mut found = Self::default();
        let mut untouched: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
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
                _ if beside_ns(edges) > 0 => &mut found.brushed,
                _ => {
                    let why = case.causes.join("; ");
                    let line = format!("{}, block {}: {why}", case.case, case.block);
                    found.causes.extend((!why.is_empty()).then_some(line));
                    let of_case = untouched.entry(&case.case).or_default();
                    of_case[usize::from(!why.is_empty())].push(case.e2e_ns.ln());
                    &mut found.untouched
                }
            };
            count.add(!case.causes.is_empty());
        }
        let longer = untouched.values().flat_map(|[usual, flagged]| {
            let usual = mean(usual);
            flagged.iter().filter_map(move |ln| Some(ln - usual?))
        });
        let longer = mean(&longer.collect::<Vec<_>>());
        found.longer_percent = longer.map(|ln| 100.0 * ln.exp_m1());
        found
    }

    fn has_both(&self) -> bool {
        self.touched.all > 0 && self.untouched.all > 0
    }

    fn is_kept(&self) -> bool {
        let (touched, untouched) = (self.touched.share(), self.untouched.share());
        touched.is_some_and(|share| share >= FLAGGED_MIN)
            && untouched.is_some_and(|share| share <= FALSE_MAX)
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
        let longer = self.longer_percent.map_or(String::new(), |percent| {
            format!(
                "  Requests of these took {percent:.0} % longer than of those that aren’t flagged\n"
            )
        });
        format!(
            "A load came {} while {target} was measured. Cases of launches that are flagged as disturbed:\n{}{}{}{}{longer}",
            plural(times as u64, "time", "times"),
            row(
                self.touched,
                "that it ran beside for four fifths of their time or more (at least 95 % should be)"
            ),
            row(
                self.brushed,
                "that it ran beside for less, or within a second of them"
            ),
            row(
                self.untouched,
                "that it didn't run beside (at most 2 % should be)"
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
            case(0..100, true),   // it begins as this ends
            case(200..210, false),
        ];
        assert_eq!(while_measured(&cases[2..], &ran), 2);
        assert_eq!(while_measured(&cases[5..6], &ran), 1);
        let found = Found::of(&cases, &ran);
        let count = |all, flagged| Count { all, flagged };
        assert_eq!(found.touched, count(4, 2));
        assert_eq!(found.brushed, count(2, 1));
        assert_eq!(found.untouched, count(2, 1));
        assert!(!found.is_kept());
        assert_eq!(found.causes, ["p10, block 1: somebody else"]);
        let longer = found.longer_percent.unwrap();
        assert!((longer - 20.0).abs() < 1e-9, "{longer}");
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
            brushed: count(9, 0),
            untouched: count(50, 1),
            causes: vec![],
            longer_percent: None,
        };
        assert!(found.is_kept());
        found.touched.flagged = 18;
        assert!(!found.is_kept());
        found.touched.flagged = 19;
        found.untouched.flagged = 2;
        assert!(!found.is_kept());
        assert!(found.has_both() && !Found::default().has_both());
    }
}
