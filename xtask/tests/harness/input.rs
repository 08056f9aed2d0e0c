//! Tests of bad input: one clear error that names the file, the line or the item, and what exists
//! instead.
//!
//! Every verb that is given an unknown name exits with status 2, suggests the nearest known name,
//! and locks, makes and writes nothing.

use crate::checkout::{Checkout, NO_PYTHON, PROFILE, says, text, words};
use crate::resume::measured;
use crate::synthetic::Synthetic;
use schema::record::Status;

#[test]
fn bad_input_is_one_clear_error() {
    let checkout = Checkout::with(&[]);
    let fails = |arguments: &[&str], words: &[&str]| {
        let said = checkout.ended(arguments, &[], 1);
        says(&said, words);
        assert!(!said.contains("panicked"), "{said}");
    };
    let bench = ["bench", "--profile", "test"];

    checkout.profile(&PROFILE.replace("requests = 6", "requests = six"));
    fails(&bench, &["data/profiles/test.toml:18"]);
    checkout.profile(&PROFILE.replace("seed = 1", "sede = 1"));
    fails(&bench, &["data/profiles/test.toml", "sede"]);
    checkout.profile(&PROFILE.replace("publishable = false", "publishable = true"));
    fails(&bench, &["data/profiles/test.toml", "100-sample floor"]);
    checkout.profile(&PROFILE.replace("[scenarios.concurrent]", "[scenarios.concurent]"));
    fails(&bench, &["\"concurent\"", "there are concurrent,"]);
    checkout.profile(&PROFILE.replace("\"tiny-llama\"", "\"tiny-lama\""));
    fails(&bench, &["tiny-lama", "data/models.toml"]);
    checkout.profile(PROFILE);
    let others = words("bench --profile test --scenarios memory");
    fails(&others, &["doesn't measure scenario \"memory\""]);
    fails(&["export", "latest"], &["there is no latest run"]);

    checkout.write("data/scenarios/odd.toml", "id = \"other\"\n");
    fails(&bench, &["data/scenarios/odd.toml"]);
    std::fs::remove_file(checkout.path("data/scenarios/odd.toml")).expect("it was written");
    let (lock, parity) = ("data/models.lock", "data/parity.toml");
    let hashes = checkout.read(lock);
    std::fs::remove_file(checkout.path(lock)).expect("it is ours");
    fails(&bench, &["data/models.lock: isn't there", "git checkout"]);
    checkout.write(lock, &hashes);
    let limits = checkout.read(parity);
    checkout.replace(parity, "[precision.f32]", "[precision.f33]");
    fails(&bench, &["data/parity.toml has no [precision.f32]"]);
    assert!(checkout.latest_dir().is_none(), "no run is made");
    checkout.write(parity, &limits);
    let golden = "data/golden/tiny-llama.json";
    let whole = checkout.read(golden);
    checkout.write(golden, &whole[..whole.len() / 2]);
    fails(&bench, &[golden]);
    checkout.write(golden, &whole);
    let (ours, other) = (r#""model":"tiny-llama""#, r#""model":"other""#);
    checkout.replace(golden, ours, other);
    fails(&bench, &[golden, "is of model \"other\""]);
}

#[test]
fn a_corrupt_record_is_named_by_file_and_line() {
    let (checkout, run) = measured();
    let dir = checkout.path("runs").join(&run.header.id);
    let file = dir.join(&run.launches[0].file);
    let text = std::fs::read_to_string(&file).expect("it was recorded");
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"ev\":\"request\",\"case\":7}";
    std::fs::write(&file, lines.join("\n") + "\n").expect("it is ours");
    let said = checkout.ended(&["export", "latest"], &[], 1);
    says(&said, &[".jsonl:3:"]);
}

#[test]
fn without_python_a_python_engine_is_unavailable_and_the_rest_is_measured() {
    let checkout = Checkout::with(&[]);
    let python = "[[engine]]\nid = \"snake\"\nname = \"snake\"\nabout = \"\"\nhomepage = \"\"\n\
        build = { kind = \"python\", script = \"engines/snake.py\", requirements = \"engines/snake.lock\" }\n\
        [[engine.target]]\nbackend = \"cpu\"\nprecision = \"f32\"\nweights = \"model.safetensors\"\n";
    checkout.registry(|registry| registry + python);
    checkout.write("engines/snake.py", "");
    checkout.write("engines/snake.lock", "torch==2.9.0\n");
    let run = checkout.measured(&[NO_PYTHON]);
    let why = "/nonexistent/python3 can't be started";
    checkout.cells_are(&run, |target, _| match target {
        "snake.cpu.f32" => (Status::Unavailable, why, 0),
        _ => (Status::Ok, "", 0),
    });
}

const RUN: &str = "20260101-000000-cpu-1a2b";
const WRONG_RUN: &str = "20260101-000000-cpu-1a2c";

/// A command line, in which RUN and WRONG_RUN stand for those ids; the name that was likely meant,
/// and the kind that lists it.
const CASES: [(&str, &str, &str); 28] = [
    ("bench --engines cnadle", "candle", "engines"),
    ("bench-all --engines cnadle", "candle", "engines"),
    (
        "bench --engines lmrs,candle.cpu.q80",
        "candle.cpu.q8_0",
        "targets",
    ),
    (
        "bench --scenarios micro/sdpa --engines cnadle",
        "candle",
        "engines",
    ),
    (
        "bench --scenarios single_requst",
        "single_request",
        "scenarios",
    ),
    ("bench --scenarios micro/spda", "micro/sdpa", "scenarios"),
    ("bench --model tiny-lama", "tiny-llama", "models"),
    ("bench-all --profile smok", "smoke", "profiles"),
    ("bench --resume WRONG_RUN", RUN, "runs"),
    ("bench --budget-from WRONG_RUN", RUN, "runs"),
    ("bench --dry-run --profile smok", "smoke", "profiles"),
    ("verify --engines brun", "burn", "engines"),
    ("verify --model tiny-lama", "tiny-llama", "models"),
    ("verify --profile smok", "smoke", "profiles"),
    ("build lmsr", "lmrs", "engines"),
    ("fetch tiny-llama tiny-lama", "tiny-llama", "models"),
    ("dist candel", "candle", "engines"),
    ("bench-adapters --engines cnadle", "candle", "engines"),
    ("bench-adapters --model tiny-lama", "tiny-llama", "models"),
    ("calibrate --verdicts --profile smok", "smoke", "profiles"),
    ("train --model tiny-storys", "tiny-stories", "models"),
    ("trace WRONG_RUN", RUN, "runs"),
    ("export WRONG_RUN", RUN, "runs"),
    ("compare RUN WRONG_RUN", RUN, "runs"),
    ("compare RUN RUN --metric tfft_ns", "ttft_ns", "metrics"),
    ("merge RUN WRONG_RUN", RUN, "runs"),
    ("site WRONG_RUN", RUN, "runs"),
    ("reproduce WRONG_RUN", RUN, "runs"),
];

#[test]
fn a_wrong_name_is_said_with_the_nearest_before_anything_is_made() {
    let bare = Checkout::bare();
    Synthetic::new(RUN, &["candle.cpu.f32"]).write(&bare.path("data/results"));
    // Another process holds the machine's lock, which must not hide the message about the name.
    let held = std::fs::File::create(bare.path("bench.lock")).expect("it is ours");
    held.lock().expect("nobody else has it");
    let refused = |arguments: &[&str], wanted: &[&str]| {
        let output = bare.unchanged_by(arguments, &[NO_PYTHON], 2);
        says(&text(&output), wanted);
    };
    let id_of = |word: &'static str| match word {
        "RUN" => RUN,
        "WRONG_RUN" => WRONG_RUN,
        word => word,
    };
    for (line, near, kind) in CASES {
        let arguments: Vec<&str> = words(line).into_iter().map(id_of).collect();
        let meant = format!("did you mean {near}?");
        let list = format!("`cargo xtask list {kind}");
        refused(&arguments, &["error: no ", &meant, &list]);
    }
    // Names in a run have no list of their own, so the error lists them if they are few.
    let of_run = "in that run: there are candle.";
    refused(&["trace", RUN, "--engines", "lmrs"], &[of_run]);
    refused(&["reproduce", RUN, "--engines", "lmrs"], &[of_run]);
    let of_run = "in that run: did you mean single_request?";
    refused(
        &["reproduce", RUN, "--scenarios", "single_requst"],
        &["no scenario \"single_requst\"", of_run],
    );
    refused(
        &["bench-adapters", "--new-tokens", "4294967295"],
        &["error: --new-tokens 4294967295 is too long"],
    );
    refused(
        &["bench", "--profile", "../profiles/smoke"],
        &["error: \"../profiles/smoke\" is a path"],
    );
    refused(
        &["train", "--learning-rate", "nan"],
        &["--learning-rate", "a number above 0"],
    );
    // clap's own names are suggested too.
    refused(&["list", "engins"], &["engines"]);
}

#[test]
fn outside_of_any_checkout_a_note_says_which_is_used() {
    let bare = Checkout::bare();
    let list = || {
        let output = bare.xtask(&["list", "profiles", "--json"], &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert!(rows.is_array() || rows.is_object(), "{rows}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(list(), "");
    std::fs::remove_file(bare.path("engines/engines.toml")).expect("it was copied");
    let real = Checkout::real_repo().root.display().to_string();
    let said = list();
    says(&said, &["note: no engines/engines.toml", &real]);
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_a_data_file_names_wrongly_is_no_mistake_of_the_command_line() {
    let bare = Checkout::bare();
    let profile = "data/profiles/smoke.toml";
    for (right, wrong) in [
        ("model = \"tiny-llama\"", "model = \"tiny-lama\""),
        ("[scenarios.single_request]", "[scenarios.single_requst]"),
    ] {
        bare.replace(profile, right, wrong);
        let said = bare.ended(&["bench", "--profile", "smoke"], &[NO_PYTHON], 1);
        says(&said, &[profile]);
        bare.replace(profile, wrong, right);
    }
}
