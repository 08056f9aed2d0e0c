//! Tests of runs that end before they are complete, and are resumed.
//!
//! A run that is killed and resumed becomes complete, and no byte that was on disk changes.
//!
//! With `--stop-after`, many short parts make one whole run.
//!
//! A verb that only computes has nothing to resume, and ends at the first signal.

use crate::checkout::{Checkout, PROFILE, ended, says, text, words};
use crate::faults::row;
use runs::shard::plan_sha256;
use schema::launch_log::timed;
use schema::plan::Plan;
use schema::run::Run;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Return every file below a directory, with its bytes.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue; // no part of a run
        }
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(
                path.clone(),
                std::fs::read(&path).expect("a record can be read"),
            );
        }
    }
    all
}

/// Make a checkout with a run of the plain fake; the run is measured once for all tests.
pub fn measured() -> (Checkout, Run) {
    static RUN: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
        let checkout = Checkout::with(&[]);
        checkout.measured(&[]);
        let top = checkout.path("");
        let named = |(path, bytes): (PathBuf, Vec<u8>)| {
            let name = path.strip_prefix(&top).expect("it is in the checkout");
            (name.to_str().expect("it is UTF-8").to_owned(), bytes)
        };
        files(&checkout.path("runs"))
            .into_iter()
            .map(named)
            .collect()
    });
    let checkout = Checkout::with(&[]);
    for (name, bytes) in &*RUN {
        checkout.write(name, "");
        std::fs::write(checkout.path(name), bytes).expect("it is ours");
    }
    let run = checkout.latest().expect("it was copied");
    (checkout, run)
}

/// Count the requests recorded in these files.
pub fn timed_requests(files: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
    let needle = b"\"ev\":\"request\"";
    files
        .values()
        .map(|bytes| bytes.windows(needle.len()).filter(|w| w == needle).count())
        .sum()
}

/// Start a run; return it once it has recorded a few requests.
pub fn started(checkout: &Checkout, environment: &[(&str, &str)]) -> Child {
    let mut child = checkout
        .command(&["bench", "--profile", "test"], environment)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let results = checkout.path("runs");
    let patience = Instant::now() + Duration::from_secs(120);
    while timed_requests(&files(&results)) < 9 {
        assert!(Instant::now() < patience, "no requests were recorded");
        assert!(
            child.try_wait().expect("it can be waited for").is_none(),
            "the run ended before it could be stopped"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Send a signal to a process, and wait until it has ended.
pub fn end(child: Child, signal: libc::c_int) {
    // SAFETY: plain system call on our own child.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
    child.wait_with_output().expect("it can be waited for");
}

/// Resume the newest run, of which `before` is on disk. Check that no byte of that changes, and
/// that the run becomes complete. Return how many requests were recorded before and after.
pub fn goes_on(checkout: &Checkout, before: &BTreeMap<PathBuf, Vec<u8>>) -> [usize; 2] {
    checkout.ended(&["bench", "--resume", "latest"], &[], 0);
    let after = files(&checkout.path("runs"));
    for (path, bytes) in before {
        // Only the two logs of judgements are appended to; what was there stays.
        assert!(
            after[path].starts_with(bytes),
            "{} has changed",
            path.display()
        );
        let grows = ["verify.jsonl", "check.jsonl"]
            .iter()
            .any(|name| path.ends_with(name));
        assert!(
            grows || after[path] == *bytes,
            "{} was written again",
            path.display()
        );
    }
    let run = checkout.latest().expect("the run is there");
    checkout.all_ok(&run, 12);
    [before, &after].map(timed_requests)
}

fn resumes(name: &str, signal: libc::c_int) {
    let checkout = Checkout::with(&[]);
    end(started(&checkout, &[("FAKE_DECODE_US", "20000")]), signal);
    let before = files(&checkout.path("runs"));
    let samples = goes_on(&checkout, &before);
    row(name, "interrupted, resumes", samples);
    let again = checkout.ended(&["bench", "--resume", "latest"], &[], 0);
    assert!(again.contains("Measuring 0 of"), "{again}");
}

#[test]
fn after_sigkill() {
    resumes("harness: SIGKILL", libc::SIGKILL);
}

#[test]
fn after_sigterm() {
    resumes("harness: SIGTERM", libc::SIGTERM);
}

#[test]
fn after_sighup() {
    resumes("harness: SIGHUP", libc::SIGHUP);
}

#[test]
fn after_sigint() {
    resumes("harness: SIGINT", libc::SIGINT);
}

#[test]
fn a_run_whose_records_are_deleted_is_no_success_and_measures_them_again() {
    let checkout = Checkout::with(&[]);
    let child = started(&checkout, &[("FAKE_DECODE_US", "20000")]);
    let mut recorded = files(&checkout.path("runs"));
    recorded.retain(|path, bytes| {
        let alone = BTreeMap::from([(path.clone(), bytes.clone())]);
        timed_requests(&alone) > 0
    });
    let (deleted, _) = recorded.first_key_value().expect("a launch has requests");
    std::fs::remove_file(deleted).expect("it can be deleted");
    let output = child.wait_with_output().expect("it can be waited for");
    let said = ended(&output, 1);
    let name = deleted.file_name().expect("it is a file");
    let what = format!(
        "{} vanished while measuring: 1 launch is lost; `cargo xtask bench --resume ",
        name.display()
    );
    says(&said, &[&what]);
    assert!(!said.contains("Records: "), "{said}");
    let (_, run) = checkout.records(&["bench", "--resume", "latest"], &[], 0);
    checkout.all_ok(&run, 12);
}

#[test]
fn a_record_without_a_whole_first_line_keeps_its_name_and_the_launch_takes_the_next() {
    let (checkout, run) = measured();
    let results = checkout.path("runs");
    let [empty, cut] = [0, 1].map(|launch| {
        let record = &run.launches[launch].file;
        results.join(&run.header.id).join(record)
    });
    std::fs::write(&empty, "").expect("it is ours");
    std::fs::write(&cut, "{\"ev\":\"launch\",\"tar").expect("it is ours");
    let samples = goes_on(&checkout, &files(&results));
    let fault = "harness: disk full at a first line";
    row(fault, "interrupted, resumes", samples);
    for record in [empty, cut] {
        assert!(record.with_extension("a1.jsonl").is_file());
    }
}

#[test]
fn with_a_changed_program_a_run_is_judged_and_not_measured() {
    let (checkout, run) = measured();
    let dir = checkout.path("runs").join(&run.header.id);
    let judged = dir.join("check.jsonl");
    let before = std::fs::read_to_string(&judged).expect("it was judged");
    std::fs::remove_file(&judged).expect("it is ours");
    change_program(&checkout);
    checkout.ended(&["bench", "--resume", "latest"], &[], 0);
    let after = std::fs::read_to_string(&judged).expect("it was judged again");
    assert_eq!(after, before);

    std::fs::remove_file(dir.join(&run.launches[0].file)).expect("it is ours");
    let output = checkout.xtask(&["bench", "--resume", "latest"], &[]);
    assert!(!output.status.success());
    says(&text(&output), &["its program is not the one that run"]);
}

/// Have the registry name a binary that works the same and has other bytes.
fn change_program(checkout: &Checkout) {
    let other = checkout.script("other-fake", "");
    checkout.registry(|registry| {
        let (_, rest) = registry.split_once("path = \"").expect("it names a path");
        let (binary, _) = rest.split_once('"').expect("the path ends");
        let mut bytes = std::fs::read(binary).expect("it was built");
        bytes.push(0);
        std::fs::write(&other, bytes).expect("a file can be written");
        registry.replace(binary, &other)
    });
}

/// Exit status of a run that can be resumed.
const TIME_IS_UP: Option<i32> = Some(4);

#[test]
fn goes_of_no_time_at_all_finish_a_run() {
    let checkout = Checkout::with(&[]);
    // With a pilot, which must be resumable too, and a capacity stage.
    checkout.profile(&format!(
        "aa_pairs = true\n{PROFILE}\n[scenarios.open_loop]\nprompt_tokens = [10]\n\
         new_tokens = 6\nconcurrency = [4]\nload_percent = [50]\nrequests = 8\n"
    ));
    let results = checkout.path("runs");
    let begin = words("bench --profile test --stop-after 0");
    let go_on = words("bench --resume latest --stop-after 0");
    let mut output = checkout.xtask(&begin, &[]);
    let (mut goes, mut before) = (1, files(&results));
    let first = before.clone();
    while output.status.code() == TIME_IS_UP {
        let said = text(&output);
        assert!(said.contains("--resume"), "{said}");
        assert!(goes < 100, "it never ends: {said}");
        output = checkout.xtask(&go_on, &[]);
        let after = files(&results);
        assert_ne!(after, before, "go {goes} did nothing: {}", text(&output));
        for (path, bytes) in &before {
            assert!(after[path].starts_with(bytes), "{}", path.display());
        }
        (goes, before) = (goes + 1, after);
    }
    assert!(output.status.success(), "{}", text(&output));
    // The parts are the gate, a pilot, a capacity, six launches, and checks of three cells.
    assert!(goes > 9, "{goes} goes, so something was not stopped");
    let run = checkout.latest().expect("it was begun");
    checkout.all_ok(&run, 12);
    let samples = [&first, &before].map(timed_requests);
    row("time is up, many times", "stopped, resumes", samples);
}

/// Run with `--until` this percentage, from the profile's two blocks on; return the run and its
/// output.
fn until(percent: &str) -> (Run, String) {
    let checkout = Checkout::with(&[]);
    let line = format!("bench --profile test --until {percent} --at-most 4");
    let (said, run) = checkout.records(&words(&line), &[], 0);
    checkout.all_ok(&run, 0);
    (run, said)
}

#[test]
fn blocks_are_added_until_intervals_are_narrow_or_no_more_are_allowed() {
    // With two launches no interval can be wider, whatever times they take: t(0.975, 1) is 12.7.
    let (wide, said) = until("1300%");
    assert_eq!(wide.header.plan.invocations, 2, "{said}");
    says(&said, &["After 2 blocks no interval is wider than ±1300 %"]);

    let (narrow, said) = until("0.0001");
    assert!(said.contains("--at-most allows no more blocks"), "{said}");
    let plan = &narrow.header.plan;
    assert_eq!(plan.invocations, 4, "{said}");
    let launches = |plan: &Plan| plan.launches.iter().map(|l| l.invocation).max();
    assert_eq!(launches(plan), Some(3));
    // The original plan's launches come first, unchanged.
    assert!(plan.launches.starts_with(&wide.header.plan.launches));
    assert_eq!(narrow.header.plan_sha256, plan_sha256(plan).unwrap());
    // The outputs of added blocks are judged too.
    assert!(!narrow.checks.is_empty(), "{said}");
    for (cell, check) in &narrow.checks {
        let logs = narrow.launches.iter().chain(&narrow.twins);
        assert_eq!(check.outputs(), timed(logs, cell).count() as u64, "{cell}");
        assert_eq!(check.unchecked, 0, "{cell}");
    }
}

#[test]
fn a_verb_that_only_computes_ends_at_the_first_signal() {
    let checkout = Checkout::bare();
    // More experiments than could end while the test runs.
    let mut child = checkout
        .command(&["simulate", "--experiments", "1000000"], &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let status = format!("/proc/{}/status", child.id());
    let handles_sigint = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        caught.is_some_and(|set| (set >> (libc::SIGINT - 1)) & 1 == 1)
    };
    let patience = Instant::now() + Duration::from_secs(120);
    while !handles_sigint() {
        assert!(Instant::now() < patience, "it installs no handler");
        let ended = child.try_wait().expect("it can be waited for");
        assert!(ended.is_none(), "it ended before it could be stopped");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: plain system call on our own child.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().expect("it can be waited for");
    says(&ended(&output, 130), &["error: interrupted"]);
}
