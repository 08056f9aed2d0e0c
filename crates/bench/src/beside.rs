//! `cargo xtask calibrate --load`: is a launch flagged that something else ran beside?
//!
//! A target is measured as in any run while processes that compute without end come and go: now
//! anywhere, now kept to the engine's first cores. Each is as many as half of the engine's
//! threads. What the records of the run then call disturbed is held against when they ran.

use crate::job;
use anyhow::{Context, Result, bail};
use base::exclusive;
use base::repo::Repo;
use harness::engine::start::launch;
use harness::plan::Choice;
use harness::telemetry::cpus_allowed;
use harness::verify::question::threads;
use proofs::calibrate::Options;
use protocol::clock::now_ns;
use runs::results::Results;
use schema::record::Status;
use schema::run::Run;
use site::words::plural;
use splitmix::SplitMix64;
use stats::analysis::{Analysis, Cell};
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

/// The first so many of the cores that the engine may run on, once `taskset` has shown that it
/// can keep a process to one.
fn cores(wanted: usize) -> Result<Vec<usize>> {
    let mut cores = cpus_allowed();
    cores.truncate(wanted);
    let Some(first) = cores.first() else {
        bail!("which CPUs this process may run on isn't known, so no load can be kept to one");
    };
    let mut try_it = Command::new("taskset");
    try_it.args(["-c", &first.to_string(), "true"]);
    let status = try_it.status().context(
        "taskset, of util-linux, can't be started; it keeps the load to the engine's cores",
    )?;
    if !status.success() {
        bail!("taskset can't keep a process to CPU {first}: {status}");
    }
    Ok(cores)
}

/// A case of a launch: when its timed requests were in flight (ns), and why it is flagged, if it is.
struct Case {
    name: String,
    ns: Range<u64>,
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
        log.case_ends.iter().map(move |end| (launch, end))
    });
    let cases = ends.map(|(launch, end)| Case {
        name: format!("{}, block {}", end.case, launch.invocation + 1),
        ns: end.start_ns..end.end_ns,
        causes: causes(&launch.target, &end.case, launch.invocation),
    });
    Ok(cases.collect())
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
}

impl Found {
    fn of(cases: &[Case], ran: &[Range<u64>]) -> Self {
        let mut found = Self::default();
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
                    let line = format!("{}: {why}", case.name);
                    found.causes.extend((!why.is_empty()).then_some(line));
                    &mut found.untouched
                }
            };
            count.add(!case.causes.is_empty());
        }
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
        format!(
            "A load came {} while {target} was measured. Cases of launches that are flagged as disturbed:\n{}{}{}{}",
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

/// Processes that come and go until they are told to end.
struct Load {
    stop: Sender<()>,
    thread: JoinHandle<Result<Vec<Range<u64>>>>,
}

impl Load {
    fn begin(cores: Vec<usize>, seed: u64) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || come_and_go(&cores, seed, &stopped));
        Self { stop, thread }
    }

    /// When they ran (ns).
    fn end(self) -> Result<Vec<Range<u64>>> {
        // A thread that has ended takes no message, and needs none.
        let _ = self.stop.send(());
        self.thread.join().expect("the load's thread returns")
    }
}

fn come_and_go(cores: &[usize], seed: u64, stopped: &Receiver<()>) -> Result<Vec<Range<u64>>> {
    let mut random = SplitMix64(seed);
    let mut ran = Vec::new();
    let mut is_kept_to_cores = false;
    let mut ends = |mean_s: f64| {
        let until = Instant::now() + duration(&mut random, mean_s);
        stopped.recv_timeout(until - Instant::now()) != Err(RecvTimeoutError::Timeout)
    };
    while !ends(RESTS_S) {
        let start_ns = now_ns();
        let busy = Busy::start(cores, is_kept_to_cores)?;
        let is_over = ends(RUNS_S);
        busy.end()?;
        ran.push(start_ns..now_ns());
        is_kept_to_cores = !is_kept_to_cores;
        if is_over {
            break;
        }
    }
    Ok(ran)
}

/// Exponential, so that nothing periodic meets it in step.
fn duration(random: &mut SplitMix64, mean_s: f64) -> Duration {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Duration::from_secs_f64((-(1.0 - uniform).ln() * mean_s).max(LEAST_S))
}

/// Processes that compute without end; they are killed when it is dropped.
struct Busy(Vec<Child>);

impl Busy {
    /// As many as there are `cores`.
    fn start(cores: &[usize], is_kept_to_cores: bool) -> Result<Self> {
        let mut busy = Self(Vec::new());
        for core in cores {
            let mut argv = vec!["sh", "-c", "while :; do :; done"];
            let core = core.to_string();
            if is_kept_to_cores {
                argv.splice(0..0, ["taskset", "-c", &core]);
            }
            let mut command = Command::new(argv[0]);
            command.args(&argv[1..]).stdin(Stdio::null());
            let child = launch(command).with_context(|| format!("{} can't be started", argv[0]))?;
            busy.0.push(child);
        }
        Ok(busy)
    }

    /// Kill them. An error where one was no load any more.
    fn end(mut self) -> Result<()> {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                bail!("a process that should compute without end has ended: {status}");
            }
        }
        Ok(())
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
        let causes = is_flagged.then(|| "somebody else".to_owned());
        Case {
            name: "p10, block 1".into(),
            ns,
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
        };
        assert!(found.is_kept());
        found.touched.flagged = 18;
        assert!(!found.is_kept());
        found.touched.flagged = 19;
        found.untouched.flagged = 2;
        assert!(!found.is_kept());
        assert!(found.has_both() && !Found::default().has_both());
    }

    #[test]
    fn a_load_runs_until_it_is_told_to_end() {
        let cores = cores(1).unwrap();
        let load = Load::begin(cores.clone(), 1);
        assert_eq!(load.end().unwrap(), [], "it rests first");
        for is_kept_to_cores in [false, true] {
            Busy::start(&cores, is_kept_to_cores)
                .unwrap()
                .end()
                .unwrap();
        }
        let mut dead = Busy::start(&cores, false).unwrap();
        dead.0[0].kill().unwrap();
        dead.0[0].wait().unwrap();
        let said = dead.end().unwrap_err().to_string();
        assert!(said.contains("has ended"), "{said}");
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
