//! Tests of `cargo xtask compare` on runs with made-up times: the verdicts, the exit status, and
//! the messages on runs that can't be compared or read.

use crate::checkout::{Checkout, ended, says, text};
use crate::synthetic::{Synthetic, fact};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TARGETS: [&str; 3] = ["x.cpu.f32", "y.cpu.f32", "z.cpu.f32"];

/// Run `cargo xtask` on a directory of runs, with the data of the real checkout.
pub fn xtask(results: &Path, arguments: &[&str]) -> Output {
    xtask_to(results, arguments, Stdio::piped())
}

/// Do the same; what it prints goes to `stdout`.
pub fn xtask_to(results: &Path, arguments: &[&str], stdout: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .arg("--out")
        .arg(results)
        .current_dir(results)
        .env("BENCH_ROOT", Checkout::real_repo().root)
        .stdout(stdout)
        .output()
        .expect("the binary can be started")
}

/// Compare, expecting an exit status; return what was printed.
fn compare(results: &Path, arguments: &[&str], status: i32) -> String {
    let output = xtask(results, &[&["compare"], arguments].concat());
    let said = ended(&output, status);
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// A directory for runs.
pub fn runs() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

#[test]
fn an_engine_slowed_by_a_tenth_is_found_and_no_other() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &TARGETS).write(results);
    Synthetic::new("20260102-b", &TARGETS)
        .slowed("y.cpu.f32", 1.1)
        .write(results);
    let said = compare(results, &["20260101-a", "latest"], 1);
    let line = |said: &str, target: &str| {
        let found = said.lines().find(|line| line.contains(target));
        found
            .unwrap_or_else(|| panic!("no {target} in {said}"))
            .to_owned()
    };
    assert!(said.starts_with("B is slower in 1 of 3 cells.\n"), "{said}");
    let slower = line(&said, "y.cpu.f32");
    let cell = "single_request/p10  y.cpu.f32  ttft_ns";
    assert!(slower.starts_with(cell), "{said}");
    assert!(slower.ends_with("slower"), "{said}");
    says(&slower, &[" ms"]);
    says(&said, &["Nothing recorded of the environment differs"]);
    let all = compare(results, &["20260101-a", "latest", "--all"], 1);
    for target in ["x.cpu.f32", "z.cpu.f32"] {
        assert!(!said.contains(target), "{said}");
        let line = line(&all, target);
        let verdicts = ["equal within ", "undecided, up to "];
        assert!(verdicts.iter().any(|said| line.contains(said)), "{all}");
    }
    // In the other order it is a gain, which is no regression.
    let back = compare(results, &["20260102-b", "20260101-a"], 0);
    assert!(back.starts_with("B is faster in 1 of 3 cells.\n"), "{back}");
}

#[test]
fn two_runs_of_the_same_do_not_differ_and_the_json_says_so() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &TARGETS).write(results);
    let b = Synthetic::new("20260102-b", &TARGETS)
        .with(fact("kernel", "6.2"))
        .write(results);
    let path = b.display().to_string();
    let output = xtask(results, &["compare", "20260101-a", &path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let summary = |name: &str| value["summary"][name].as_u64().expect("a number");
    assert_eq!(summary("equal") + summary("undecided"), 3);
    assert_eq!(value["summary"]["regressions"], 0);
    let cell = &value["cells"][1];
    assert_eq!(cell["target"], "y.cpu.f32");
    assert_eq!(cell["metric"], "ttft_ns");
    let verdict = cell["verdict"].as_str().expect("a word");
    assert!(["equal", "undecided"].contains(&verdict), "{verdict}");
    assert!(cell["ci_low"].as_f64() < cell["ratio"].as_f64());
    let environment = value["environment"].as_array().expect("a list");
    assert_eq!(environment.len(), 1);
    assert_eq!(environment[0]["item"], "kernel");
    assert_eq!(environment[0]["before"], "6.1");
    let json = ["compare", "20260101-a", &path, "--format", "json"];
    assert_eq!(output.stdout, xtask(results, &json).stdout);
    // The second run is the latest by default.
    let said = compare(results, &["20260101-a"], 0);
    let nothing = "Nothing differs: none of 3 cells ";
    assert!(said.starts_with(nothing), "{said}");
    says(&said, &["\n  kernel: 6.1 → 6.2\n"]);
    let by_gap = compare(results, &["20260101-a", "--metric", "itl_ns", "--all"], 0);
    assert_eq!(by_gap.matches("  itl_ns  ").count(), 3, "{by_gap}");
}

#[test]
fn what_cannot_be_compared_is_listed_with_its_reason() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &TARGETS).write(results);
    let b = Synthetic::new("20260102-b", &TARGETS[..2]).write(results);
    // A launch whose file ends in the middle of a line, as after a kill, is no error.
    let file = b.join("y.cpu.f32/single_request.i4.jsonl");
    let whole = std::fs::read(&file).expect("it was written");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("it is ours");
    let said = compare(results, &["20260101-a", "20260102-b"], 0);
    let nothing = "Nothing differs: none of 1 cell ";
    assert!(said.starts_with(nothing), "{said}");
    for line in [
        "2 cells can't be compared:",
        "      1  not_run in B",
        "      1  not in the plan of B",
    ] {
        assert!(said.lines().any(|known| known == line), "{line}: {said}");
    }
    let all = compare(results, &["20260101-a", "20260102-b", "--all"], 0);
    let reasons = [
        "not comparable: not_run in 20260102-b: complete in 4 of 5 invocations",
        "not comparable: not in the plan of 20260102-b",
    ];
    says(&all, &reasons);
    // An engine that fails where it worked before is a regression.
    let lines = String::from_utf8(whole).expect("it is text");
    let kept = lines.lines().take(5).collect::<Vec<_>>().join("\n");
    let end = r#"{"ev":"end","status":"crashed","reason":"signal 6 \u001b[2J<b>@me","end_ns":9}"#;
    std::fs::write(&file, format!("{kept}\n{end}\n")).expect("it is ours");
    let why = "crashed in 20260102-b: signal 6 <b>@me (invocation 4)";
    let said = compare(results, &["20260101-a", "20260102-b"], 1);
    says(&said, &[&format!("fails: {why}\n")]);
    let fails = "B fails at 1 cell that worked in A; otherwise nothing differs: ";
    assert!(said.starts_with(fails), "{said}");
    let comment = compare(results, &["20260101-a", "20260102-b", "--format", "md"], 1);
    assert!(comment.starts_with("**"), "{comment}");
    says(&comment, &[&format!("| fails `{why}` |\n")]);
}

#[test]
fn what_cannot_be_read_is_no_verdict() {
    let dir = runs();
    let results = dir.path();
    let none = compare(results, &["latest", "latest"], 2);
    says(&none, &["there is no latest run"]);
    let a = Synthetic::new("20260101-a", &TARGETS).write(results);
    let said = compare(results, &["20260101-a", "yesterday"], 2);
    says(&said, &["no run \"yesterday\"", "20260101-a"]);
    compare(results, &[], 2);
    let same = compare(results, &["20260101-a"], 0);
    assert!(same.starts_with("A and B are the same run.\n"), "{same}");
    let said = compare(results, &["latest", "latest", "--metric", "speed"], 2);
    says(&said, &["no metric \"speed\"", "ttft_ns"]);

    let file = a.join("x.cpu.f32/single_request.i0.jsonl");
    let whole = std::fs::read_to_string(&file).expect("it was written");
    let wrong = whole.replacen("\"ev\":\"request\"", "\"ev\":\"rqst\"", 1);
    std::fs::write(&file, wrong).expect("it is ours");
    let said = compare(results, &["latest", "latest"], 2);
    says(&said, &["single_request.i0.jsonl:3:"]);
    let header = a.join("run.json");
    let whole = std::fs::read(&header).expect("it was written");
    std::fs::write(&header, &whole[..whole.len() / 2]).expect("it is ours");
    let said = compare(results, &["latest", "latest"], 2);
    says(&said, &["run.json"]);
}
