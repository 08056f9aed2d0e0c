//! What goes wrong around the engines: the disk, the results, the model, a second run.
//! One clear error each time, what was measured kept, and the run can be gone on with.

use crate::checkout::{Checkout, PROFILE, text};
use crate::matrix::{Samples, row};
use crate::resume::{files, goes_on, started, timed_requests};
use schema::record::Status;
use std::os::unix::process::CommandExt;

fn samples(checkout: &Checkout) -> usize {
    timed_requests(&files(&checkout.path("runs")))
}

#[test]
fn a_second_run_waits_its_turn() {
    let checkout = Checkout::with(&[]);
    let (output, _) = checkout.bench(&[]);
    assert!(output.status.success(), "{}", text(&output));
    let before = samples(&checkout);
    let lock = std::fs::File::create(checkout.path("target/bench.lock")).expect("it is ours");
    lock.lock().expect("nobody else holds it");
    let output = checkout.xtask(&["bench", "--profile", "test"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.contains("another run is measuring"), "{said}");
    let after = samples(&checkout);
    row("two runs at once", "refused", &Samples { before, after });
    assert_eq!(after, before);
}

#[test]
fn results_that_cannot_be_written_are_said_before_anything_is_measured() {
    let checkout = Checkout::with(&[]);
    // Nobody may make a directory there, whoever runs this.
    let out = "/sys/bench-results";
    let output = checkout.xtask(&["bench", "--profile", "test", "--out", out], &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(
        said.contains(out) && said.contains("can't be made"),
        "{said}"
    );
    assert!(!said.contains("Measuring"), "{said}");
    let none = Samples {
        before: 0,
        after: 0,
    };
    row("read-only results", "refused", &none);
}

/// Files of the run may not grow beyond this: room for its header, and for a part of
/// what is measured.
const FILE_BYTES_MAX: libc::rlim_t = 24 << 10;

#[test]
fn a_disk_that_fills_up_costs_what_was_not_written() {
    let checkout = Checkout::with(&[]);
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 200"));
    let mut command = checkout.command(&["bench", "--profile", "test"], &[]);
    // SAFETY: two plain system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: FILE_BYTES_MAX,
                rlim_max: FILE_BYTES_MAX,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            // The write fails, as on a full disk, instead of ending the process.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = command.output().expect("the binary can be started");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(".jsonl can't be written") && said.contains("--resume"),
        "{said}"
    );
    let before = files(&checkout.path("runs"));
    assert!(timed_requests(&before) > 0, "{said}");
    let after = goes_on(&checkout, &before);
    row("disk full", "error, resumes", &after);
}

#[test]
fn a_model_that_goes_away_is_no_failure_of_the_engine() {
    let checkout = Checkout::with(&[]);
    let (original, models) = checkout.own_models();
    let environment = [
        ("BENCH_MODELS_DIR", models.to_str().expect("it is UTF-8")),
        ("FAKE_DECODE_US", "20000"),
    ];
    let child = started(&checkout, &environment);
    let weights = models.join("tiny-llama/model.safetensors");
    std::fs::remove_file(&weights).expect("it is ours");
    let output = child.wait_with_output().expect("it can be waited for");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("model.safetensors can't be read any more") && said.contains("--resume"),
        "{said}"
    );
    let run = checkout.latest().expect("it was begun");
    let ends = run.launches.iter().filter_map(|log| log.end.as_ref());
    assert!(
        ends.clone()
            .all(|end| matches!(end.status, Status::Ok | Status::NotRun)),
        "{:?}",
        ends.collect::<Vec<_>>()
    );
    let before = files(&checkout.path("runs"));
    std::os::unix::fs::symlink(original.join("model.safetensors"), &weights)
        .expect("it can be put back");
    let after = goes_on(&checkout, &before);
    row("model deleted in mid-run", "error, resumes", &after);
}
