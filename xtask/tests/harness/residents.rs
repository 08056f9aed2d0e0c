//! One process a block for all scenarios that don't need a fresh one, and loads that two
//! scenarios share.

use crate::checkout::{Checkout, PROFILE, text};
use schema::launch_log::LaunchLog;
use schema::record::Status;
use schema::run::Run;

/// [`PROFILE`] with a user alone as well, whose load the serial scenario measures, and batches.
fn profile() -> String {
    let profile = PROFILE
        .replace("seed = 1", "seed = 1\none_process = true")
        .replace("concurrency = [4]", "concurrency = [1, 4]");
    format!(
        "{profile}\n[scenarios.memory]\nprompt_tokens = [10]\nnew_tokens = 6\nconcurrency = [2]\nrequests = 4\n"
    )
}

fn of<'a>(run: &'a Run, block: u32, target: &str) -> Vec<&'a LaunchLog> {
    let logs = run.launches.iter();
    logs.filter(|log| (log.launch.invocation, &*log.launch.target) == (block, target))
        .collect()
}

#[test]
fn a_process_serves_its_block_and_memory_has_its_own() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&profile());
    let (output, run) = checkout.bench(&[]);
    assert!(output.status.success(), "{}", text(&output));
    for target in ["fake.cpu.f32", "fake+slow.cpu.f32"] {
        let mut starts = Vec::new();
        for block in 0..2 {
            let logs = of(&run, block, target);
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
            starts.push(ready_ns(single));
            // The serial scenario measures what one user does.
            assert_eq!(users.launch.cases, ["u4"]);
        }
        assert_ne!(starts[0], starts[1], "a block has processes of its own");
    }
    let cells = checkout.cells(&run);
    assert_eq!(cells.len(), 2 * 4);
    for (target, cell, status, reason, requests) in cells {
        assert_eq!(status, Status::Ok, "{target} {cell}: {reason}");
        assert!(requests > 0, "{target} {cell}");
    }
}

#[test]
fn where_there_is_no_room_nobody_stays() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&profile());
    let (output, run) = checkout.bench(&[("BENCH_MEMORY_BYTES", "1")]);
    assert!(output.status.success(), "{}", text(&output));
    for (target, cell, status, reason, _) in checkout.cells(&run) {
        assert_eq!(status, Status::Ok, "{target} {cell}: {reason}");
    }
}
