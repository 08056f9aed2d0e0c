//! Tests of every way an engine can fail: the status must be right, the reason must name what
//! happened, and the other targets must be measured as if nothing had happened.
//!
//! The fault matrix has one row per fault, written by the test that provoked it. `cargo xtask test`
//! prints the rows as a table.

use crate::checkout::{Checkout, PROFILE, text};
use schema::record::Status;
use schema::run::Run;
use std::path::PathBuf;

/// A variant of the fake, the status of its cells, and a word of the reason. The fault occurs in
/// the engine's third batch, which is in the parity gate, so nothing of that target is ever timed.
const IN_THE_GATE: [(&str, Status, &str); 21] = [
    ("crash_load", Status::Crashed, "signal 6"),
    ("hang_load", Status::Timeout, "while loading"),
    ("oom_load", Status::Oom, "as asked for"),
    ("unsupported", Status::Unsupported, ""),
    ("unavailable", Status::Unavailable, ""),
    ("crash_prefill", Status::Crashed, "signal 6"),
    ("crash", Status::Crashed, "signal 6"),
    ("exit", Status::Crashed, "status 3"),
    ("orphan", Status::Crashed, "status 3"),
    ("oom_kill", Status::Crashed, "memory runs out"),
    ("sigill_always", Status::Crashed, "illegal instruction"),
    ("hang", Status::Timeout, "while answering"),
    ("drip", Status::Timeout, "while answering"),
    ("garbage", Status::ProtocolError, "no event"),
    ("binary", Status::ProtocolError, "no event"),
    ("huge_line", Status::ProtocolError, "16 MiB"),
    ("wrong_id", Status::ProtocolError, ""),
    ("duplicate", Status::ProtocolError, ""),
    ("flood", Status::ProtocolError, ""),
    ("too_few", Status::ProtocolError, "tokens"),
    ("wrong", Status::WrongOutput, ""),
];

#[test]
fn a_fault_in_the_gate_is_recorded_and_the_others_are_measured() {
    let variants: Vec<&str> = IN_THE_GATE.iter().map(|(variant, _, _)| *variant).collect();
    let checkout = Checkout::with(&variants);
    let (_, run) = checkout.bench_ends(&[], 3);
    let cells = checkout.cells_are(&run, |target, _| {
        let is_of = |variant: &str| target == format!("fake+{variant}.cpu.f32");
        match IN_THE_GATE.iter().find(|(name, ..)| is_of(name)) {
            Some((_, status, word)) => (*status, *word, 0),
            None => (Status::Ok, "", 12),
        }
    });
    let mut failed = cells.iter().filter(|cell| cell.status != Status::Ok);
    assert!(failed.all(|cell| cell.requests == 0), "{cells:?}");
    let after = recorded(&run, |_| true);
    for (variant, status, _) in IN_THE_GATE {
        let fault = format!("engine: {variant}, in the gate");
        row(&fault, status.id(), [0, after]);
    }
}

/// Count the timed requests on disk, of launches whose start time counts.
fn recorded(run: &Run, counts: impl Fn(u64) -> bool) -> usize {
    let launches = run
        .launches
        .iter()
        .filter(|log| counts(log.launch.start_ns));
    launches
        .map(|log| log.requests.iter().filter(|r| !r.warmup).count())
        .sum()
}

/// Faults that occur after the gate, while requests are timed.
const WHILE_TIMED: [(&str, Status); 9] = [
    ("crash_prefill", Status::Crashed),
    ("crash", Status::Crashed),
    ("crash_exit", Status::Crashed),
    ("oom_kill", Status::Crashed),
    ("orphan", Status::Crashed),
    ("exit", Status::Crashed),
    ("hang", Status::Timeout),
    ("oom", Status::Oom),
    ("flood_stderr", Status::Ok),
];

#[test]
fn a_fault_while_timed_costs_its_own_cells_only() {
    let variants: Vec<&str> = WHILE_TIMED.iter().map(|(variant, _)| *variant).collect();
    let checkout = Checkout::with(&variants);
    // Every process counts its batches from 1. The gate has about ninety, and a serial launch has
    // 111: a fault at 100 occurs only while timed.
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 110"));
    let fast = [("FAKE_PREFILL_US", "300"), ("FAKE_DECODE_US", "100")];
    let (output, run) = checkout.bench(&[fast[0], fast[1], ("FAKE_FAULT_AT", "100")]);
    for (target, record) in &run.verify {
        assert_eq!(record.status, Status::Ok, "{target}: {}", record.reason);
    }
    let cells = checkout.analysis(&run).cells;
    for (variant, wanted) in WHILE_TIMED {
        let target = format!("fake+{variant}.cpu.f32");
        let launches = run.launches.iter();
        let struck_ns = launches
            .filter(|log| log.launch.target == target)
            .filter(|log| log.end.as_ref().is_some_and(|end| end.status == wanted))
            .map(|log| log.launch.start_ns)
            .min()
            .unwrap_or_else(|| panic!("no launch of {variant} is {wanted:?}: {cells:?}"));
        let before = recorded(&run, |start_ns| start_ns < struck_ns);
        let fault = format!("engine: {variant}, while timed");
        row(&fault, wanted.id(), [before, recorded(&run, |_| true)]);
        let of_variant: Vec<_> = cells.iter().filter(|c| c.target == target).collect();
        assert!(!of_variant.is_empty());
        let mut statuses = of_variant.iter().map(|c| c.status);
        let is_right = match wanted {
            Status::Ok => statuses.all(|status| status == Status::Ok),
            _ => statuses.any(|status| status == wanted),
        };
        assert!(is_right, "{variant}: {of_variant:?}\n{}", text(&output));
    }
    let plain: Vec<_> = cells
        .iter()
        .filter(|c| c.target == "fake.cpu.f32")
        .collect();
    assert!(plain.iter().all(|c| c.status == Status::Ok), "{plain:?}");
}

#[test]
fn a_target_whose_cache_is_not_of_the_format_that_it_declares_is_not_timed() {
    let checkout = Checkout::with(&["forgets"]);
    let variant = "variant = \"forgets\"\n";
    checkout.registry(|all| all.replace(variant, &format!("{variant}kv = \"f16\"\n")));
    let (_, run) = checkout.bench_ends(&[], 3);
    let record = &run.verify["fake+forgets.cpu.f32"];
    assert_eq!(record.status, Status::WrongOutput, "{}", record.reason);
    let said = "1024 bytes of them per token, which is 4.0 bits each";
    assert!(record.reason.ends_with(said), "{}", record.reason);
    let mut timed = run.launches.iter().map(|log| log.launch.target.as_str());
    assert!(timed.all(|target| target == "fake.cpu.f32"));
}

#[test]
fn a_judge_that_dies_among_many_questions_keeps_what_it_judged_and_another_go_ends_it() {
    let checkout = Checkout::with(&["crash"]);
    let (fake, crash) = ("fake.cpu.f32", "fake+crash.cpu.f32");
    let reference = |target: &str| format!("reference = \"{target}\"");
    checkout.registry(|text| text.replace(&reference(fake), &reference(crash)));
    // No launch has 205 batches. The judge is asked about 16 outputs of the closed loop, and then
    // about 200 of the serial scenario, so it fails in the middle.
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 100"));
    let fast = [("FAKE_PREFILL_US", "300"), ("FAKE_DECODE_US", "100")];
    let dies = [fast[0], fast[1], ("FAKE_FAULT_AT", "205")];
    let (output, run) = checkout.bench(&dies);
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    let stopped = "fake+crash.cpu.f32 stopped judging at fake.cpu.f32 single_request/";
    assert!(said.contains(stopped), "{said}");
    assert!(said.contains("signal 6"), "{said}");
    let judged = |run: &Run| -> Vec<(String, u64)> {
        let checks = run.checks.values();
        checks.map(|c| (c.scenario.clone(), c.equal)).collect()
    };
    let kept = ("concurrent".to_owned(), 16);
    let serial = ("single_request".to_owned(), 200);
    assert_eq!(judged(&run), [kept.clone(), kept.clone()]);
    let before = recorded(&run, |_| true);

    let lives = [fast[0], fast[1], ("FAKE_FAULT_AT", "1000000")];
    let (_, run) = checkout.records(&["bench", "--resume", "latest"], &lives, 0);
    let mut all = judged(&run);
    all.sort();
    assert_eq!(all, [kept.clone(), kept, serial.clone(), serial]);
    assert!(run.checks.values().all(|c| c.wrong + c.unchecked == 0));
    let samples = [before, recorded(&run, |_| true)];
    row("engine: the judge dies", "stopped, resumes", samples);
}

/// Write a row of the fault matrix: how many requests were on disk when the fault occurred, and at
/// the end. None of them may be lost.
pub fn row(fault: &str, status: &str, [before, after]: [usize; 2]) {
    assert!(after >= before, "{fault}: {before} samples became {after}");
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fault-matrix");
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    let name: String = fault
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    let line = format!("{fault}\t{status}\t{before}\t{after}\n");
    std::fs::write(dir.join(name), line).expect("the target directory can be written");
}
