//! Tests of what happens within a block: targets take turns, stay in memory, run twice.
//!
//! Targets in turns: none works while another does, the records are like those of other launches,
//! and a harness that is killed leaves no stopped process behind.
//!
//! One process per block for all scenarios that don't need a fresh one, and loads that two
//! scenarios share.
//!
//! The A/A pairs of a real run: chosen by the pilot, launched in every block, recorded under their
//! own names, and used to estimate noise.

use crate::checkout::{Checkout, PROFILE, logs};
use crate::resume::{end, started};
use schema::key::original;
use schema::launch_log::LaunchLog;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time of a token (µs), so long that a turn has the fewest requests allowed.
const PACE: (&str, &str) = ("FAKE_DECODE_US", "4000");

/// [`PROFILE`] with only the serial scenario, of this number of requests.
pub fn turns_alone(requests: u32) -> String {
    let (turns, _) = PROFILE
        .split_once("[scenarios.concurrent]")
        .expect("the profile has a closed loop");
    turns.replace("requests = 6", &format!("requests = {requests}"))
}

/// [`PROFILE`] with only the closed loop, in turns, of this number of requests.
fn users_in_turns(requests: u32) -> String {
    let place = |scenario: &str| PROFILE.find(scenario).expect("the profile has it");
    let head = &PROFILE[..place("[scenarios.single_request]")];
    let users = &PROFILE[place("[scenarios.concurrent]")..];
    let turns = format!("requests = {requests}\nturns = true");
    head.to_owned() + &users.replace("requests = 8", &turns)
}

/// Return every request of a block: when it was due and answered, its target, whether it is timed.
fn requests(logs: &[&LaunchLog]) -> Vec<(u64, u64, String, bool)> {
    let mut all: Vec<_> = logs
        .iter()
        .flat_map(|log| {
            let of = |r: &schema::record::RequestRecord| {
                let whose = log.launch.target.clone();
                (r.scheduled_ns, r.answered_ns, whose, !r.warmup)
            };
            log.requests.iter().map(of)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn nobody_works_while_another_has_the_turn() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&turns_alone(27));
    let run = checkout.measured(&[PACE]);
    for block in 0..2 {
        let logs = logs(&run, |launch| launch.invocation == block);
        assert_eq!(logs.len(), 2);
        let all = requests(&logs);
        assert!(
            all.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "two at once: {all:?}"
        );
        // Each target has five turns, of one untimed and six timed requests. The target that has
        // done least is next, so none has more than two turns in a row.
        let turns: Vec<_> = all.chunk_by(|a, b| a.2 == b.2).collect();
        assert!(turns.len() > 6, "they alternate: {all:?}");
        let timed = |turn: &&[(u64, u64, String, bool)]| turn.iter().filter(|r| r.3).count();
        assert!(turns.iter().map(timed).all(|n| n <= 12), "{all:?}");
        for turn in &turns {
            assert!(!turn[0].3, "a turn begins untimed: {all:?}");
        }
        for log in logs {
            let timed = log.requests.iter().filter(|r| !r.warmup).count();
            assert!(timed >= 27, "{timed} of {}", log.launch.target);
            let last = log.telemetry.iter().filter_map(|t| t.turn).max();
            assert!(last >= Some(4), "{last:?} of {}", log.launch.target);
        }
    }
    checkout.all_ok(&run, 54);
}

#[test]
fn several_users_of_one_target_work_while_those_of_another_wait() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&users_in_turns(48));
    let run = checkout.measured(&[PACE]);
    for block in 0..2 {
        let logs = logs(&run, |launch| launch.invocation == block);
        let all = requests(&logs);
        let turns: Vec<_> = all.chunk_by(|a, b| a.2 == b.2).collect();
        // Three windows of four users with four requests each; whoever has done least is next.
        assert!(turns.len() >= 4, "they alternate: {all:?}");
        for pair in turns.windows(2) {
            let answered = pair[0].iter().map(|r| r.1).max();
            assert!(answered <= Some(pair[1][0].0), "two at once: {pair:?}");
        }
        for turn in &turns {
            let mut untimed = turn.iter().take(4).map(|r| !r.3);
            assert!(untimed.all(|u| u), "every user begins untimed: {turn:?}");
        }
        for log in logs {
            let timed = log.requests.iter().filter(|r| !r.warmup).count();
            assert!(timed >= 48, "{timed} of {}", log.launch.target);
            let last = log.telemetry.iter().filter_map(|t| t.turn).max();
            assert!(last >= Some(2), "{last:?} of {}", log.launch.target);
        }
    }
    checkout.all_ok(&run, 96);
}

#[test]
fn where_memory_has_room_for_one_they_run_one_after_the_other() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&turns_alone(12));
    let run = checkout.measured(&[("BENCH_MEMORY_BYTES", "1")]);
    checkout.all_ok(&run, 24);
    let of_turns = |log: &LaunchLog| log.telemetry.iter().any(|t| t.turn.is_some());
    assert!(!run.launches.iter().any(of_turns));
}

/// Return the processes that a process has started and not yet waited for.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
            pids.collect::<Vec<u32>>()
        })
        .collect()
}

#[test]
fn a_killed_harness_leaves_no_stopped_engine_behind() {
    // Orphans become children of this process, which is in their session: so the kernel does not
    // wake stopped ones, as it does in an orphaned process group.
    // SAFETY: plain system call without pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&turns_alone(12));
    let harness = started(&checkout, &[PACE]);
    let engines = children(harness.id());
    assert!(engines.len() >= 2, "both are in memory: {engines:?}");
    end(harness, libc::SIGKILL);
    let patience = Instant::now() + Duration::from_secs(60);
    let is_there = |pid: &&u32| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A process that has ended counts as gone, even if it has not been waited for.
        !state.is_empty() && !state.contains(") Z ")
    };
    while engines.iter().any(|pid| is_there(&pid)) {
        assert!(Instant::now() < patience, "{engines:?} are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// [`PROFILE`] with batches, and with a single user, whose load the serial scenario measures.
fn profile() -> String {
    let profile = PROFILE
        .replace("seed = 1", "seed = 1\none_process = true")
        .replace("concurrency = [4]", "concurrency = [1, 4]");
    format!(
        "{profile}\n[scenarios.memory]\nprompt_tokens = [10]\nnew_tokens = 6\nconcurrency = [2]\nrequests = 4\n"
    )
}

#[test]
fn a_process_serves_its_block_and_memory_has_its_own() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&profile());
    let run = checkout.measured(&[]);
    for target in ["fake.cpu.f32", "fake+slow.cpu.f32"] {
        let mut starts = Vec::new();
        for block in 0..2 {
            let logs = logs(&run, |of| of.invocation == block && of.target == target);
            let named = |scenario: &str| {
                let log = logs.iter().find(|log| log.launch.scenario == scenario);
                log.unwrap_or_else(|| panic!("{target} {scenario}"))
            };
            let ready_ns = |log: &LaunchLog| log.ready.as_ref().expect("it loaded").ready_ns;
            let (single, users) = (named("single_request"), named("concurrent"));
            assert_eq!(ready_ns(single), ready_ns(users), "one process");
            let reused = [single, users].map(|log| log.launch.reused);
            assert_ne!(reused[0], reused[1], "one of them started it");
            let memory = named("memory");
            assert!(ready_ns(memory) != ready_ns(single) && !memory.launch.reused);
            // Requests that are sent at once run as one batch, and so does the untimed one of
            // each user.
            let sizes = |log: &LaunchLog| log.requests.iter().map(|r| r.batch).collect::<Vec<_>>();
            assert!(sizes(memory).iter().all(|&size| size == 2), "{memory:?}");
            assert_eq!(sizes(users)[..4], [4; 4], "{users:?}");
            starts.push(ready_ns(single));
            // The serial scenario measures the load of one user.
            assert_eq!(users.launch.cases, ["u4"]);
        }
        assert_ne!(starts[0], starts[1], "a block has processes of its own");
    }
    assert_eq!(checkout.all_ok(&run, 1).len(), 2 * 4);
}

#[test]
fn where_there_is_no_room_nobody_stays() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&profile());
    let run = checkout.measured(&[("BENCH_MEMORY_BYTES", "1")]);
    checkout.all_ok(&run, 0);
}

#[test]
fn two_targets_run_twice_and_the_noise_is_known() {
    let checkout = Checkout::with(&["slow"]);
    let profile = PROFILE.replace("threads = 1", "threads = 1\naa_pairs = true");
    checkout.profile(&profile);
    let run = checkout.measured(&[]);

    let budget = run.budget.as_ref().expect("the decision is recorded");
    // Which of the two is faster depends on the machine.
    let twins: BTreeSet<&str> = budget.twins.iter().map(|t| t.target.as_str()).collect();
    let both = ["fake.cpu.f32", "fake+slow.cpu.f32"];
    assert_eq!(twins, BTreeSet::from(both));
    assert!(budget.twins.iter().all(|twin| twin.cost_s > 0.0));

    // Two targets, two scenarios, two blocks: as many launches of twins as of targets.
    assert_eq!((run.launches.len(), run.twins.len()), (8, 8));
    let recorded: BTreeSet<_> = run
        .twins
        .iter()
        .map(|log| {
            let of = &log.launch;
            let dir = log.file.parent().expect("a record lies in a directory");
            assert_eq!(dir.to_string_lossy(), of.target);
            (original(&of.target), &of.scenario, of.invocation)
        })
        .collect();
    assert_eq!(recorded.len(), 8, "every block of every scenario once");
    assert!(
        run.checks
            .keys()
            .any(|cell| original(&cell.target) != cell.target),
        "what a twin said is judged too"
    );

    let analysis = checkout.analysis(&run);
    let targets: BTreeSet<&str> = analysis.cells.iter().map(|c| c.target.as_str()).collect();
    assert_eq!(targets.len(), 2, "a twin is no target: {targets:?}");
    for comparison in &analysis.comparisons {
        assert!(comparison.inflation.is_some_and(|by| by >= 1.0));
    }
    for noise in &analysis.noise {
        let pairs = noise.pairs.iter().map(|pair| pair.target.as_str());
        assert_eq!(pairs.collect::<BTreeSet<_>>().len(), 2, "{noise:?}");
    }

    let again = checkout.ended(&["bench", "--resume", "latest"], &[], 0);
    assert!(again.contains("Measuring 0 of 16"), "{again}");
}
