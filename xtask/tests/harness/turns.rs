//! Targets that take turns: nobody works while another does, records are those of launches
//! as ever, and a harness that is killed leaves no stopped process behind.

use crate::checkout::{Checkout, text, turns_alone};
use crate::resume::started;
use schema::launch_log::LaunchLog;
use schema::record::Status;
use std::time::{Duration, Instant};

/// A token takes so long (µs) that a turn has three requests.
const PACE: (&str, &str) = ("FAKE_DECODE_US", "4000");

/// Every request of a block: when it was sent and answered, whose it is, whether timed.
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
    checkout.profile(&turns_alone(18));
    let (output, run) = checkout.bench(&[PACE]);
    assert!(output.status.success(), "{}", text(&output));
    for block in 0..2 {
        let of_block = |log: &&LaunchLog| log.launch.invocation == block;
        let logs: Vec<&LaunchLog> = run.launches.iter().filter(of_block).collect();
        assert_eq!(logs.len(), 2);
        let all = requests(&logs);
        assert!(
            all.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "two at once: {all:?}"
        );
        // Five turns each, of an untimed request and four that are timed. Whoever is least far
        // is next, so nobody has more than two in a row.
        let turns: Vec<_> = all.chunk_by(|a, b| a.2 == b.2).collect();
        assert!(turns.len() > 6, "they alternate: {all:?}");
        let timed = |turn: &&[(u64, u64, String, bool)]| turn.iter().filter(|r| r.3).count();
        assert!(turns.iter().map(timed).all(|n| n <= 8), "{all:?}");
        for turn in &turns {
            assert!(!turn[0].3, "a turn begins untimed: {all:?}");
        }
        for log in logs {
            let timed = log.requests.iter().filter(|r| !r.warmup).count();
            assert!(timed >= 18, "{timed} of {}", log.launch.target);
            let last = log.telemetry.iter().filter_map(|t| t.turn).max();
            assert!(last >= Some(4), "{last:?} of {}", log.launch.target);
        }
    }
    for (target, cell, status, reason, requests) in checkout.cells(&run) {
        assert_eq!(status, Status::Ok, "{target} {cell}: {reason}");
        assert!(requests >= 36, "{target} {cell}: {requests} requests");
    }
}

#[test]
fn where_memory_has_room_for_one_they_run_one_after_the_other() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&turns_alone(12));
    let (output, run) = checkout.bench(&[("BENCH_MEMORY_BYTES", "1")]);
    assert!(output.status.success(), "{}", text(&output));
    for (target, cell, status, reason, requests) in checkout.cells(&run) {
        assert_eq!(status, Status::Ok, "{target} {cell}: {reason}");
        assert!(requests >= 24, "{target} {cell}: {requests} requests");
    }
    let of_turns = |log: &LaunchLog| log.telemetry.iter().any(|t| t.turn.is_some());
    assert!(!run.launches.iter().any(of_turns));
}

/// Processes that a process has started and not yet waited for.
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
    // Orphans become this process's, which is of their session: so the kernel wakes none that
    // is stopped, as it would one whom nobody of its session looks after.
    // SAFETY: plain system call without pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&turns_alone(12));
    let harness = started(&checkout, &[PACE]);
    let engines = children(harness.id());
    assert!(engines.len() >= 2, "both are in memory: {engines:?}");
    // SAFETY: plain system call on our own child.
    unsafe { libc::kill(harness.id() as libc::pid_t, libc::SIGKILL) };
    harness.wait_with_output().expect("it can be waited for");
    let patience = Instant::now() + Duration::from_secs(60);
    let is_there = |pid: &&u32| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // One that ended, and that nobody has waited for yet, is gone.
        !state.is_empty() && !state.contains(") Z ")
    };
    while engines.iter().any(|pid| is_there(&pid)) {
        assert!(Instant::now() < patience, "{engines:?} are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
