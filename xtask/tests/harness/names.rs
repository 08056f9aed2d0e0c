//! Every verb that is given a name which nothing has: exit status 2, the nearest name there
//! is, and nothing locked, made or written.

use crate::bare::Bare;
use crate::checkout::text;
use crate::synthetic::Synthetic;

const RUN: &str = "20260101-000000-cpu-1a2b";
const WRONG_RUN: &str = "20260101-000000-cpu-1a2c";

/// The arguments, the name that was likely meant, and the kind that lists it.
const CASES: [(&[&str], &str, &str); 28] = [
    (&["bench", "--engines", "cnadle"], "candle", "engines"),
    (&["bench-all", "--engines", "cnadle"], "candle", "engines"),
    (
        &["bench", "--engines", "lmrs,candle.cpu.q80"],
        "candle.cpu.q8_0",
        "targets",
    ),
    (
        &["bench", "--scenarios", "micro/sdpa", "--engines", "cnadle"],
        "candle",
        "engines",
    ),
    (
        &["bench", "--scenarios", "single_requst"],
        "single_request",
        "scenarios",
    ),
    (
        &["bench", "--scenarios", "micro/spda"],
        "micro/sdpa",
        "scenarios",
    ),
    (&["bench", "--model", "tiny-lama"], "tiny-llama", "models"),
    (&["bench-all", "--profile", "smok"], "smoke", "profiles"),
    (&["bench", "--resume", WRONG_RUN], RUN, "runs"),
    (&["bench", "--budget-from", WRONG_RUN], RUN, "runs"),
    (
        &["bench", "--dry-run", "--profile", "smok"],
        "smoke",
        "profiles",
    ),
    (&["verify", "--engines", "brun"], "burn", "engines"),
    (&["verify", "--model", "tiny-lama"], "tiny-llama", "models"),
    (&["verify", "--profile", "smok"], "smoke", "profiles"),
    (&["build", "lmsr"], "lmrs", "engines"),
    (
        &["fetch", "tiny-llama", "tiny-lama"],
        "tiny-llama",
        "models",
    ),
    (&["dist", "candel"], "candle", "engines"),
    (
        &["bench-adapters", "--engines", "cnadle"],
        "candle",
        "engines",
    ),
    (
        &["bench-adapters", "--model", "tiny-lama"],
        "tiny-llama",
        "models",
    ),
    (
        &["calibrate", "--verdicts", "--profile", "smok"],
        "smoke",
        "profiles",
    ),
    (
        &["train", "--model", "tiny-storys"],
        "tiny-stories",
        "models",
    ),
    (&["trace", WRONG_RUN], RUN, "runs"),
    (&["export", WRONG_RUN], RUN, "runs"),
    (&["compare", RUN, WRONG_RUN], RUN, "runs"),
    (
        &["compare", RUN, RUN, "--metric", "tfft_ns"],
        "ttft_ns",
        "metrics",
    ),
    (&["merge", RUN, WRONG_RUN], RUN, "runs"),
    (&["site", WRONG_RUN], RUN, "runs"),
    (&["reproduce", WRONG_RUN], RUN, "runs"),
];

#[test]
fn a_wrong_name_is_said_with_the_nearest_before_anything_is_made() {
    let bare = Bare::new();
    Synthetic::new(RUN, &["candle.cpu.f32"]).write(&bare.path("data/results"));
    // Somebody else measures meanwhile, which is no answer to a wrong name.
    let lock = bare.path("bench.lock");
    let held = std::fs::File::create(&lock).expect("it is ours");
    held.lock().expect("nobody else has it");
    let before = bare.tree();
    let refused = |arguments: &[&str], words: &[&str]| {
        let mut command = bare.command(arguments);
        command.env("BENCH_PYTHON", "/nonexistent/python3");
        command.env("BENCH_LOCK", &lock);
        let output = command.output().expect("the binary can be started");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for word in words {
            assert!(
                said.contains(word),
                "{arguments:?} says no {word:?}: {said}"
            );
        }
        assert_eq!(bare.tree(), before, "{arguments:?}");
    };
    for (arguments, near, kind) in CASES {
        let meant = format!("did you mean {near}?");
        let list = format!("`cargo xtask list {kind}");
        refused(arguments, &["error: no ", &meant, &list]);
    }
    // What a run has no list for is said where it isn't too much.
    let of_run = "in that run: there are candle.";
    refused(&["trace", RUN, "--engines", "lmrs"], &[of_run]);
    refused(&["reproduce", RUN, "--engines", "lmrs"], &[of_run]);
    let of_run = "in that run: did you mean single_request?";
    refused(
        &["reproduce", RUN, "--scenarios", "single_requst"],
        &["no scenario \"single_requst\"", of_run],
    );
    // And clap's own names.
    refused(&["list", "engins"], &["engines"]);
}

#[test]
fn what_a_data_file_names_wrongly_is_no_mistake_of_the_command_line() {
    let bare = Bare::new();
    let profile = std::fs::read_to_string(bare.path("data/profiles/smoke.toml"));
    let profile = profile.expect("it was copied");
    let faults = [
        ("model = \"tiny-llama\"", "model = \"tiny-lama\""),
        ("[scenarios.single_request]", "[scenarios.single_requst]"),
    ];
    for (right, wrong) in faults {
        assert!(profile.contains(right), "{profile}");
        bare.write("data/profiles/smoke.toml", &profile.replace(right, wrong));
        let output = bare.xtask(&["bench", "--profile", "smoke"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("data/profiles/smoke.toml"), "{said}");
    }
}
