//! `cargo xtask calibrate --load`: is a launch flagged that something else ran beside?
//!
//! A target is measured as in any run while processes that compute without end come and go: now
//! anywhere, now kept to the engine's first cores. Each is as many as half of the engine's
//! threads. What the records of the run then call disturbed is held against when they ran.

use crate::job;
use anyhow::{Context, Result, bail};
use base::exclusive;
use base::repo::Repo;
use harness::plan::Choice;
use harness::verify::question::threads;
use proofs::calibrate::Options;
use protocol::clock::now_ns;
use runs::results::Results;
use schema::run::Run;
use site::words::plural;
use splitmix::SplitMix64;
use stats::analysis::Analysis;
use std::ops::Range;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SCENARIO: &str = "single_request";
const BLOCKS: u32 = 15;
/// How long the load runs and rests, on average and at least (s).
const RUNS_S: f64 = 8.0;
const RESTS_S: f64 = 16.0;
const LEAST_S: f64 = 2.0;
/// A load that ran beside a case for this share of its time must be seen: the CPUs it takes then
/// are more than others may take before an invocation counts as disturbed.
const TOUCHED_MIN: f64 = 0.25;
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
    let load = Load::begin(threads().div_ceil(2), opened_seed(&opened.run_dir));
    let measured = job::measure_until(repo, &registry, &mut opened);
    let ran = load.end();
    let run = measured?;
    let analysis = stats::analyse(&run, &repo.scenarios()?, "");
    let cases = cases(&run, &analysis);
    let times = while_measured(&cases, &ran);
    let found = Found::of(&cases, &ran);
    match asked.json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => print!("{}", found.in_words(&handicap.of, times)),
    }
    eprintln!("Records: {}", opened.run_dir.display());
    Ok(match found.is_kept() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// A run's own, so that two runs have loads at other times.
fn opened_seed(run_dir: &std::path::Path) -> u64 {
    splitmix::hash(&run_dir.to_string_lossy())
}

/// A case of a launch: when its timed requests were in flight (ns), and whether it is flagged.
struct Case {
    ns: Range<u64>,
    is_flagged: bool,
}

/// All complete cases of a run's launches.
fn cases(run: &Run, analysis: &Analysis) -> Vec<Case> {
    let flagged = |target: &str, case: &str, invocation: u32| {
        let mut cells = analysis.cells.iter();
        let cell = cells.find(|cell| cell.target == target && cell.case == case);
        let mut disturbances = cell.into_iter().flat_map(|cell| &cell.disturbances);
        disturbances.any(|disturbance| disturbance.invocation == invocation)
    };
    let ends = run.launches.iter().flat_map(|log| {
        let launch = &log.launch;
        log.case_ends.iter().map(move |end| (launch, end))
    });
    ends.map(|(launch, end)| Case {
        ns: end.start_ns..end.end_ns,
        is_flagged: flagged(&launch.target, &end.case, launch.invocation),
    })
    .collect()
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
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
struct Found {
    /// The load ran beside them for [`TOUCHED_MIN`] of their time.
    touched: Count,
    /// For less than that.
    brushed: Count,
    /// Not at all.
    untouched: Count,
}

impl Found {
    fn of(cases: &[Case], ran: &[Range<u64>]) -> Self {
        let mut found = Self::default();
        for case in cases {
            let beside = |load: &Range<u64>| {
                let end_ns = load.end.min(case.ns.end);
                end_ns.saturating_sub(load.start.max(case.ns.start))
            };
            let beside_ns: u64 = ran.iter().map(beside).sum();
            let lasted_ns = (case.ns.end - case.ns.start) as f64;
            let count = match beside_ns as f64 / lasted_ns {
                share if share >= TOUCHED_MIN => &mut found.touched,
                share if share > 0.0 => &mut found.brushed,
                _ => &mut found.untouched,
            };
            count.add(case.is_flagged);
        }
        found
    }

    fn is_kept(&self) -> bool {
        let touched = self.touched.share();
        let untouched = self.untouched.share();
        touched.is_none_or(|share| share >= FLAGGED_MIN)
            && untouched.is_none_or(|share| share <= FALSE_MAX)
    }

    fn in_words(&self, target: &str, times: usize) -> String {
        let row = |count: Count, what: &str| {
            let (flagged, all) = (count.flagged, count.all);
            let percent = count
                .share()
                .map_or(String::new(), |share| format!(" ({:.0} %)", 100.0 * share));
            format!("  {flagged:>4} of {all:>4}{percent:>8}  {what}\n")
        };
        format!(
            "A load came {} while {target} was measured. Cases of launches that are flagged as disturbed:\n{}{}{}",
            plural(times as u64, "time", "times"),
            row(
                self.touched,
                "that it ran beside for a quarter of their time or more (at least 95 % should be)"
            ),
            row(self.brushed, "that it ran beside for less"),
            row(
                self.untouched,
                "that it didn't run beside (at most 2 % should be)"
            ),
        )
    }
}

/// Processes that come and go until they are told to end.
struct Load {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Range<u64>>>,
}

impl Load {
    fn begin(processes: u32, seed: u64) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || come_and_go(processes, seed, &stopped));
        Self { stop, thread }
    }

    /// When they ran (ns).
    fn end(self) -> Vec<Range<u64>> {
        // A thread that has ended takes no message, and needs none.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

fn come_and_go(processes: u32, seed: u64, stopped: &Receiver<()>) -> Vec<Range<u64>> {
    let mut random = SplitMix64(seed);
    let mut ran = Vec::new();
    let mut is_kept_to_cores = false;
    let mut ends = |mean_s: f64| {
        let until = Instant::now() + duration(&mut random, mean_s);
        stopped.recv_timeout(until - Instant::now()) != Err(RecvTimeoutError::Timeout)
    };
    while !ends(RESTS_S) {
        let start_ns = now_ns();
        let busy = match Busy::start(processes, is_kept_to_cores) {
            Ok(busy) => busy,
            Err(error) => {
                watch::error(format!("{error:#}"));
                break;
            }
        };
        let is_over = ends(RUNS_S);
        drop(busy);
        ran.push(start_ns..now_ns());
        is_kept_to_cores = !is_kept_to_cores;
        if is_over {
            break;
        }
    }
    ran
}

/// Exponential, so that nothing periodic meets it in step.
fn duration(random: &mut SplitMix64, mean_s: f64) -> Duration {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Duration::from_secs_f64((-(1.0 - uniform).ln() * mean_s).max(LEAST_S))
}

/// Processes that compute without end; they are killed when it is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start(processes: u32, is_kept_to_cores: bool) -> Result<Self> {
        let mut busy = Self(Vec::new());
        for core in 0..processes {
            let mut argv = vec!["sh", "-c", "while :; do :; done"];
            let core = core.to_string();
            if is_kept_to_cores {
                argv.splice(0..0, ["taskset", "-c", &core]);
            }
            let mut command = Command::new(argv[0]);
            command.args(&argv[1..]).stdin(Stdio::null());
            let child = command
                .spawn()
                .with_context(|| format!("{} can't be started", argv[0]))?;
            busy.0.push(child);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has died needs no more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(ns: Range<u64>, is_flagged: bool) -> Case {
        Case { ns, is_flagged }
    }

    #[test]
    fn cases_are_told_apart_by_how_long_the_load_ran_beside_them() {
        let ran = [100..120, 190..300];
        let cases = [
            case(0..100, false),   // not at all
            case(300..400, true),  // not at all
            case(100..200, true),  // 20 and 10 of 100
            case(110..150, false), // 10 of 40
            case(100..200, true),
            case(111..211, false), // 9 and 21 of 100
            case(280..400, true),  // 20 of 120
        ];
        assert_eq!(while_measured(&cases[1..], &ran), 2);
        assert_eq!(while_measured(&cases[3..4], &ran), 1);
        let found = Found::of(&cases, &ran);
        let count = |all, flagged| Count { all, flagged };
        assert_eq!(found.touched, count(4, 2));
        assert_eq!(found.brushed, count(1, 1));
        assert_eq!(found.untouched, count(2, 1));
        assert!(!found.is_kept());
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
        };
        assert!(found.is_kept());
        found.touched.flagged = 18;
        assert!(!found.is_kept());
        found.touched.flagged = 19;
        found.untouched.flagged = 2;
        assert!(!found.is_kept());
        assert!(Found::default().is_kept(), "nothing was measured");
    }

    #[test]
    fn a_load_runs_until_it_is_told_to_end() {
        let load = Load::begin(1, 1);
        assert_eq!(load.end(), [], "it rests first");
        let mut busy = Busy::start(1, false).unwrap();
        assert_eq!(busy.0[0].try_wait().unwrap(), None);
    }

    #[test]
    fn rests_differ_and_are_never_short() {
        let mut random = SplitMix64(3);
        let drawn: Vec<f64> = (0..2000)
            .map(|_| duration(&mut random, RESTS_S).as_secs_f64())
            .collect();
        assert!(drawn.iter().all(|&s| s >= LEAST_S));
        let mean = stats::describe::mean(&drawn).unwrap();
        // A mean of 16 s, a little more because of what is at least 2 s.
        assert!((15.0..18.0).contains(&mean), "{mean}");
    }
}
