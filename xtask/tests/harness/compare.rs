//! `cargo xtask compare` on runs made up to the nanosecond: the verdicts, the exit
//! status, and what it says of runs that can't be compared or read.

use crate::checkout::text;
use crate::synthetic::Synthetic;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const TARGETS: [&str; 3] = ["x.cpu.f32", "y.cpu.f32", "z.cpu.f32"];

/// `cargo xtask` on a directory of runs, from anywhere.
pub fn xtask(results: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .arg("--out")
        .arg(results)
        .current_dir(results)
        .output()
        .expect("the binary can be started")
}

/// Compare, expecting a status; what was said.
fn compare(results: &Path, arguments: &[&str], status: i32) -> String {
    let output = xtask(results, &[&["compare"], arguments].concat());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn runs() -> tempfile::TempDir {
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
    let line = |target: &str| {
        let found = said
            .lines()
            .find(|line| line.trim_start().starts_with(target));
        found
            .unwrap_or_else(|| panic!("no {target} in {said}"))
            .to_owned()
    };
    assert!(line("y.cpu.f32").ends_with("slower"), "{said}");
    assert!(line("y.cpu.f32").contains(" ms  → "), "{said}");
    for target in ["x.cpu.f32", "z.cpu.f32"] {
        assert!(line(target).ends_with("no detectable difference"), "{said}");
    }
    assert!(
        said.contains("1 of 3 cells differ: 0 faster, 1 slower; 2 without"),
        "{said}"
    );
    assert!(
        said.contains("Nothing recorded of the environment differs"),
        "{said}"
    );
    // The other way round it is a gain, which is no regression.
    let back = compare(results, &["20260102-b", "20260101-a"], 0);
    assert!(
        back.contains("1 of 3 cells differ: 1 faster, 0 slower"),
        "{back}"
    );
}

#[test]
fn two_runs_of_the_same_do_not_differ_and_the_json_says_so() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &TARGETS).write(results);
    let b = Synthetic::new("20260102-b", &TARGETS)
        .with(|header| {
            let facts = &mut header.provenance.facts;
            facts.insert("kernel".into(), "6.2".into());
        })
        .write(results);
    let path = b.display().to_string();
    let output = xtask(results, &["compare", "20260101-a", &path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(value["summary"]["no_detectable_difference"], 3);
    assert_eq!(value["summary"]["regressions"], 0);
    let cell = &value["cells"][1];
    assert_eq!(cell["target"], "y.cpu.f32");
    assert_eq!(cell["metric"], "ttft_ns");
    assert_eq!(cell["verdict"], "no_detectable_difference");
    assert!(cell["ci_low"].as_f64() < cell["ratio"].as_f64());
    let environment = value["environment"].as_array().expect("a list");
    assert_eq!(environment.len(), 1);
    assert_eq!(environment[0]["item"], "kernel");
    assert_eq!(environment[0]["before"], "6.1");
    let said = compare(results, &["20260101-a", "latest"], 0);
    assert!(said.contains("  kernel: 6.1 → 6.2"), "{said}");
    let by_gap = compare(results, &["20260101-a", "latest", "--metric", "itl_ns"], 0);
    assert!(by_gap.contains("single_request/p10 · itl_ns"), "{by_gap}");
}

#[test]
fn what_cannot_be_compared_is_listed_with_its_reason() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &TARGETS).write(results);
    let b = Synthetic::new("20260102-b", &TARGETS[..2]).write(results);
    // A launch cut short in the middle of a line: a kill, and no error.
    let file = b.join("y.cpu.f32/single_request.i4.jsonl");
    let whole = std::fs::read(&file).expect("it was written");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("it is ours");
    let said = compare(results, &["20260101-a", "20260102-b"], 0);
    assert!(
        said.contains("not comparable: not_run in 20260102-b: complete in 4 of 5 invocations"),
        "{said}"
    );
    assert!(
        said.contains("not comparable: not in the plan of 20260102-b"),
        "{said}"
    );
    assert!(
        said.contains("0 of 3 cells differ: 0 faster, 0 slower; 1 without a detectable difference, 2 not comparable"),
        "{said}"
    );
    // An engine that fails at what worked is a regression.
    let lines = String::from_utf8(whole).expect("it is text");
    let kept = lines.lines().take(5).collect::<Vec<_>>().join("\n");
    let end = r#"{"ev":"end","status":"crashed","reason":"signal 6","end_ns":9}"#;
    std::fs::write(&file, format!("{kept}\n{end}\n")).expect("it is ours");
    let said = compare(results, &["20260101-a", "20260102-b"], 1);
    assert!(said.contains("crashed in 20260102-b: signal 6"), "{said}");
    assert!(
        said.contains("1 of which worked in A and fail in B"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_read_is_no_verdict() {
    let dir = runs();
    let results = dir.path();
    let none = compare(results, &["latest", "latest"], 2);
    assert!(none.contains("there is no latest run"), "{none}");
    let a = Synthetic::new("20260101-a", &TARGETS).write(results);
    let said = compare(results, &["20260101-a", "yesterday"], 2);
    assert!(
        said.contains("no run \"yesterday\"") && said.contains("20260101-a"),
        "{said}"
    );
    compare(results, &["20260101-a"], 2);
    let said = compare(results, &["latest", "latest", "--metric", "speed"], 2);
    assert!(
        said.contains("no metric \"speed\"") && said.contains("ttft_ns"),
        "{said}"
    );

    let file = a.join("x.cpu.f32/single_request.i0.jsonl");
    let whole = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(
        &file,
        whole.replacen("\"ev\":\"request\"", "\"ev\":\"rqst\"", 1),
    )
    .expect("ours");
    let said = compare(results, &["latest", "latest"], 2);
    assert!(said.contains("single_request.i0.jsonl:3:"), "{said}");
    let header = a.join("run.json");
    let whole = std::fs::read(&header).expect("it was written");
    std::fs::write(&header, &whole[..whole.len() / 2]).expect("it is ours");
    let said = compare(results, &["latest", "latest"], 2);
    assert!(said.contains("run.json"), "{said}");
}
