//! `--stop-after`: many short goes make one whole run.

use crate::checkout::{Checkout, PROFILE, text};
use crate::matrix::{Samples, row};
use crate::resume::{files, timed_requests};
use schema::record::Status;

/// Exit status that says "resume me".
const TIME_IS_UP: Option<i32> = Some(4);

#[test]
fn goes_of_no_time_at_all_finish_a_run() {
    let checkout = Checkout::with(&[]);
    // With a pilot, which also has to be gone on with, and a capacity.
    checkout.profile(&format!(
        "aa_pairs = true\n{PROFILE}\n[scenarios.open_loop]\nprompt_tokens = [10]\n\
         new_tokens = 6\nconcurrency = [4]\nload_percent = [50]\nrequests = 8\n"
    ));
    let results = checkout.path("runs");
    let begin = ["bench", "--profile", "test", "--stop-after", "0"];
    let go_on = ["bench", "--resume", "latest", "--stop-after", "0"];
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
    // The gate, a pilot, a capacity, six launches, three cells checked.
    assert!(goes > 9, "{goes} goes, so something was not stopped");
    let run = checkout.latest().expect("it was begun");
    for (target, cell, status, reason, requests) in checkout.cells(&run) {
        assert_eq!(status, Status::Ok, "{target} {cell}: {reason}");
        assert!(requests >= 12, "{target} {cell}: {requests} requests");
    }
    let samples = Samples {
        before: timed_requests(&first),
        after: timed_requests(&before),
    };
    row("time is up, many times", "stopped, resumes", &samples);
}
