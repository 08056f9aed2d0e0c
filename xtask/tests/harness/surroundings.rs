//! Tests of failures around the engines: the disk, the results, the model, a second run. Each gives
//! one clear error, keeps what was measured, and leaves a run that can be resumed.
//!
//! Tests of the environment of engines: it has the variables that they need, and no token.

use crate::blocks::children;
use crate::checkout::{Checkout, PROFILE, ended, says};
use crate::faults::row;
use crate::resume::{end, files, goes_on, measured, started, timed_requests};
use schema::record::Status;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

fn samples(checkout: &Checkout) -> usize {
    timed_requests(&files(&checkout.path("runs")))
}

#[test]
fn a_second_run_waits_its_turn_whatever_it_builds_into() {
    let (checkout, _) = measured();
    let before = samples(&checkout);
    checkout.write("bench.lock", "");
    // The lock may belong to another user, so it is opened for reading only.
    let lock = std::fs::File::open(checkout.path("bench.lock")).expect("it was made");
    lock.lock().expect("nobody else holds it");
    let elsewhere = checkout.path("other-target");
    let elsewhere = elsewhere.to_str().expect("it is UTF-8");
    let elsewhere = [("CARGO_TARGET_DIR", elsewhere)];
    let said = checkout.ended(&["bench", "--profile", "test"], &elsewhere, 1);
    says(&said, &["another run is measuring"]);
    let after = samples(&checkout);
    row("two runs at once", "refused", [before, after]);
    assert_eq!(after, before);
}

#[test]
fn a_run_is_gone_on_with_by_one_process() {
    let checkout = Checkout::with(&[]);
    let mut first = started(&checkout, &[("FAKE_DECODE_US", "20000")]);
    // Another lock, as on another machine with the same records.
    let lock = checkout.path("other.lock");
    let lock = lock.to_str().expect("it is UTF-8");
    let said = checkout.ended(&["bench", "--resume", "latest"], &[("BENCH_LOCK", lock)], 1);
    says(&said, &["another process is writing this run"]);
    let by_itself = first.try_wait().expect("it can be waited for");
    assert!(by_itself.is_none(), "it was over before it was asked");
    end(first, libc::SIGKILL);
    let after = goes_on(&checkout, &files(&checkout.path("runs")));
    row("one run twice at once", "refused", after);
    assert!(checkout.path("bench.lock").is_file(), "a run makes it");
}

#[test]
fn results_that_cannot_be_written_are_said_before_anything_is_measured() {
    let checkout = Checkout::with(&[]);
    // No user can make a directory there.
    let out = "/sys/bench-results";
    let said = checkout.ended(&["bench", "--profile", "test", "--out", out], &[], 1);
    says(&said, &[out, "can't be made"]);
    assert!(!said.contains("Measuring"), "{said}");
    row("read-only results", "refused", [0, 0]);
}

/// Largest size of a file (bytes): room for a run's header, and for part of the measurements.
const FILE_BYTES_MAX: libc::rlim_t = 24 << 10;

/// Limit the command's files to this size, as if the disk were full then.
fn with_file_limit(mut command: Command, bytes: libc::rlim_t) -> Command {
    // SAFETY: two plain system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            // The write fails, as on a full disk, instead of ending the process.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    command
}

#[test]
fn a_header_that_has_no_room_leaves_no_run() {
    let checkout = Checkout::with(&[]);
    let command = checkout.command(&["bench", "--profile", "test"], &[]);
    let output = with_file_limit(command, 2 << 10).output();
    let output = output.expect("the binary can be started");
    let said = ended(&output, 1);
    says(&said, &["run.json can't be written"]);
    let left = files(&checkout.path("runs"));
    assert!(left.is_empty(), "{:?}", left.keys());
    assert!(checkout.latest().is_none());
    row("disk full at the header", "refused", [0, 0]);
}

#[test]
fn a_log_that_cannot_be_written_ends_no_run() {
    let checkout = Checkout::with(&["crash"]);
    let (said, run) = checkout.bench_ends(&[("BENCH_ERROR_LOG", "/dev/full")], 3);
    says(&said, &["/dev/full can't be appended to"]);
    let mut cells = checkout.analysis(&run).cells.into_iter();
    assert!(cells.all(|c| (c.status == Status::Ok) == (c.target == "fake.cpu.f32")));
}

#[test]
fn a_disk_that_fills_up_costs_what_was_not_written() {
    let checkout = Checkout::with(&[]);
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 200"));
    let command = checkout.command(&["bench", "--profile", "test"], &[]);
    let output = with_file_limit(command, FILE_BYTES_MAX).output();
    let output = output.expect("the binary can be started");
    let said = ended(&output, 1);
    says(&said, &[".jsonl can't be written", "--resume"]);
    let before = files(&checkout.path("runs"));
    assert!(timed_requests(&before) > 0, "{said}");
    let after = goes_on(&checkout, &before);
    row("disk full", "error, resumes", after);
}

#[test]
fn a_model_that_goes_away_is_no_failure_of_the_engine() {
    let checkout = Checkout::with(&[]);
    let weights = checkout.path("models/tiny-llama/model.safetensors");
    let original = std::fs::read_link(&weights).expect("it is a link");
    let child = started(&checkout, &[("FAKE_DECODE_US", "20000")]);
    std::fs::remove_file(&weights).expect("it is ours");
    let output = child.wait_with_output().expect("it can be waited for");
    let said = ended(&output, 1);
    says(&said, &["model.safetensors can't be read any more"]);
    says(&said, &["--resume"]);
    let run = checkout.latest().expect("it was begun");
    let ends = run.launches.iter().filter_map(|log| log.end.as_ref());
    assert!(
        ends.clone()
            .all(|end| matches!(end.status, Status::Ok | Status::NotRun)),
        "{:?}",
        ends.collect::<Vec<_>>()
    );
    let before = files(&checkout.path("runs"));
    std::os::unix::fs::symlink(original, &weights).expect("it can be put back");
    let after = goes_on(&checkout, &before);
    row("model deleted in mid-run", "error, resumes", after);
}

/// Return an engine's environment; `None` where the process is no engine, or is just starting.
fn variables(pid: u32) -> Option<BTreeSet<String>> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let all = std::fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
    let is_engine = program.ends_with("fake-bench") && !all.is_empty();
    is_engine.then(|| all.split('\0').map(str::to_owned).collect())
}

#[test]
fn an_engine_sees_what_it_needs_and_no_token() {
    let checkout = Checkout::with(&[]);
    let models = checkout.repo().models_dir.display().to_string();
    let needed = [
        ("FAKE_DECODE_US", "20000"),
        ("OMP_PROC_BIND", "close"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("LC_ALL", "C"),
        ("BENCH_MODELS_DIR", models.as_str()),
    ];
    let secrets = [
        ("SECRET_TOKEN", "hush"),
        ("HF_TOKEN", "hush"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("FAKE_API_KEY", "hush"),
        ("ANYTHING_ELSE", "hush"),
    ];
    let harness = started(&checkout, &[&needed[..], &secrets].concat());
    let patience = Instant::now() + Duration::from_secs(60);
    // Between two launches there is no engine.
    let seen = loop {
        let mut engines = children(harness.id()).into_iter().filter_map(variables);
        if let Some(seen) = engines.next() {
            break seen;
        }
        assert!(Instant::now() < patience, "no engine was seen");
        std::thread::sleep(Duration::from_millis(1));
    };
    end(harness, libc::SIGTERM);
    for (name, value) in needed {
        assert!(
            seen.contains(&format!("{name}={value}")),
            "{name}: {seen:?}"
        );
    }
    assert!(seen.iter().any(|set| set.starts_with("PATH=")), "{seen:?}");
    assert!(!seen.iter().any(|set| set.ends_with("=hush")), "{seen:?}");
}
