//! Tests of open loops from the profile to the cell: the capacity is measured, recorded and kept,
//! and the offered rate is the case's share of it.

use crate::checkout::{Checkout, PROFILE, logs};
use schema::record::Status;
use schema::run::Run;

const OPEN: &str = r#"
[scenarios.open_loop]
targets = ["fake.cpu.f32"]
prompt_tokens = [10]
new_tokens = 6
concurrency = [4]
load_percent = [25, 50]
requests = 10
"#;

/// Return the rate (requests per second) that was due in each invocation of a case.
fn offered_per_s(run: &Run, case: &str) -> Vec<f64> {
    let launches = logs(run, |launch| launch.scenario == "open_loop").into_iter();
    launches
        .map(|log| {
            let timed = log.requests.iter().filter(|r| r.case == case && !r.warmup);
            let due: Vec<u64> = timed.map(|r| r.scheduled_ns).collect();
            let (first, last) = (due.iter().min().unwrap(), due.iter().max().unwrap());
            (due.len() - 1) as f64 / ((last - first) as f64 / 1e9)
        })
        .collect()
}

#[test]
fn an_open_loop_offers_its_share_of_the_recorded_capacity_to_which_a_resumed_run_keeps() {
    let checkout = Checkout::with(&["slow"]);
    checkout.profile(&format!("{PROFILE}{OPEN}"));
    let run = checkout.measured(&[]);
    let [capacity] = run.capacities.as_slice() else {
        panic!("one target, one kind of work: {:?}", run.capacities)
    };
    assert_eq!(capacity.target, "fake.cpu.f32");
    assert_eq!(capacity.status, Status::Ok);
    // The mean of all timed gaps is exact. Its first gap precedes the first request and isn't seen
    // here, so the mean of the others deviates.
    for (case, share) in [("r25", 0.25), ("r50", 0.5)] {
        for offered in offered_per_s(&run, case) {
            let ratio = offered / (share * capacity.requests_per_s);
            assert!((0.5..2.0).contains(&ratio), "{case}: {ratio}");
        }
    }
    let cells = checkout.analysis(&run).cells;
    let open = cells.iter().filter(|cell| cell.scenario == "open_loop");
    let open: Vec<_> = open.map(|c| (&*c.target, c.status, c.requests)).collect();
    // The profile has it for one target only.
    assert_eq!(open, [("fake.cpu.f32", Status::Ok, 20); 2]);

    let dir = checkout.path("runs").join(&run.header.id);
    let lost = dir.join("fake.cpu.f32/open_loop.i1.jsonl");
    std::fs::remove_file(&lost).expect("it was recorded");
    let before = std::fs::read(dir.join("capacity.jsonl")).expect("it was recorded");
    checkout.ended(&["bench", "--resume", "latest"], &[], 0);
    assert_eq!(std::fs::read(dir.join("capacity.jsonl")).unwrap(), before);
    assert!(lost.is_file());
}

#[test]
fn an_engine_that_dies_in_the_capacity_stage_loses_its_open_loops_alone() {
    let checkout = Checkout::with(&["crash"]);
    checkout.profile(&format!("{PROFILE}{OPEN}").replace(
        "targets = [\"fake.cpu.f32\"]",
        "targets = [\"fake+crash.cpu.f32\"]",
    ));
    // The gate has about ninety batches and a serial launch 7; the capacity stage has hundreds.
    let (_, run) = checkout.bench(&[("FAKE_FAULT_AT", "100")]);
    let cells = checkout.cells_are(&run, |_, cell| match cell.starts_with("open_loop") {
        true => (Status::Crashed, "capacity stage", 0),
        false => (Status::Ok, "", 0),
    });
    let crashed = cells.iter().filter(|cell| cell.status == Status::Crashed);
    assert_eq!(crashed.count(), 2);
}
