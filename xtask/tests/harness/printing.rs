//! Tests of printing, with and without a reader: a closed pipe makes no verb print a message, and
//! ends no benchmark.

use crate::checkout::{Checkout, ended, says, text};
use crate::compare::{runs, xtask, xtask_to};
use crate::synthetic::Synthetic;
use schema::record::Status;
use serde_json::Value;
use std::fs::File;
use std::process::Stdio;

/// Return a pipe without a reader: every write to it fails.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe can be had");
    drop(reader);
    writer.into()
}

#[test]
fn a_verb_that_prints_ends_quietly_where_nobody_reads() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &["x.cpu.f32"]).write(results);
    Synthetic::new("20260102-b", &["x.cpu.f32"])
        .slowed("x.cpu.f32", 1.1)
        .write(results);
    let slower = ["compare", "20260101-a", "--all"];
    let verbs: [(&[&str], i32, i32); 3] = [
        (&["export", "latest"], 0, 1),
        // A verdict's exit status is the same whether its text is read or not.
        (&slower, 1, 2),
        (&["compare", "latest"], 0, 2),
    ];
    for (arguments, status, lost) in verbs {
        let output = xtask_to(results, arguments, closed());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(status), ""));
        // A full disk is an error, because a reader of the file must not take it for complete.
        let full = File::options().write(true).open("/dev/full");
        let full = full.expect("Linux has it");
        let output = xtask_to(results, arguments, full.into());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(lost), "{said}");
        assert_eq!(said.matches("No space left on device").count(), 1, "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_benchmark_goes_on_where_nobody_reads_and_its_engine_dies() {
    let checkout = Checkout::with(&["crash"]);
    let arguments = ["bench", "--profile", "test", "--save", "before"];
    let mut command = checkout.command(&arguments, &[]);
    let status = command.stdout(closed()).stderr(closed()).status();
    let status = status.expect("the binary can be started");
    assert_eq!(status.code(), Some(3), "one target fails, and nothing else");
    let run = checkout.latest().expect("it was recorded");
    for cell in checkout.analysis(&run).cells {
        if cell.target == "fake.cpu.f32" {
            assert_eq!(cell.status, Status::Ok, "{}", cell.reason);
            assert!(cell.requests >= 12, "{} requests", cell.requests);
        }
    }
    // The name that the user gave can be used wherever an id can.
    let said = checkout.ended(&["compare", "before"], &[], 0);
    assert!(said.starts_with("A and B are the same run"), "{said}");
    let output = checkout.xtask(&["export", "before", "--format", "jsonl"], &[]);
    assert!(text(&output).contains(&run.header.id), "{}", text(&output));
    let said = checkout.ended(&["compare", "after"], &[], 2);
    assert!(said.contains(", before."), "{said}");
    let said = checkout.ended(&["bench", "--save", &run.header.id], &[], 1);
    assert!(said.contains("this names a run already"), "{said}");
}

#[test]
fn every_format_of_an_export_has_every_row() {
    let dir = runs();
    let results = dir.path();
    Synthetic::new("20260101-a", &["x.cpu.f32", "y.cpu.f32"]).write(results);
    let export = |format: &str| {
        let arguments = ["export", "latest", "--format", format];
        let output = xtask(results, &arguments);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).expect("it is text")
    };
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
    let rows = json(&export("json"));
    let rows = rows.as_array().expect("it is a list");
    assert!(rows.len() > 4);
    let lines: Vec<Value> = export("jsonl").lines().map(json).collect();
    assert_eq!(&lines, rows);
    let csv = export("csv");
    assert!(csv.starts_with("run,target,engine,"), "{csv}");
    assert_eq!(csv.matches("\r\n").count(), rows.len() + 1);
    assert_eq!(export("md").lines().count(), rows.len() + 2);
    let bencher = json(&export("bencher"));
    let measures = |target: &str| {
        let cell = &bencher[format!("tiny-llama {target} single_request/p10")];
        cell.as_object().expect("it is a benchmark").clone()
    };
    let all = measures("x.cpu.f32").len() + measures("y.cpu.f32").len();
    assert_eq!(all, rows.len());
    let ttft = &measures("x.cpu.f32")["ttft_ns"];
    assert!(
        ttft["lower_value"].as_f64() < ttft["value"].as_f64(),
        "{ttft}"
    );
}

/// Return the log beside the newest run's records.
fn log(checkout: &Checkout) -> String {
    let run_dir = checkout.latest_dir().expect("there is a run");
    std::fs::read_to_string(watch::log::path(&run_dir)).expect("it has a log")
}

#[test]
fn a_run_has_a_log_that_says_where_each_launch_was() {
    let checkout = Checkout::with(&["crash"]);
    let output = checkout.xtask(&["bench", "--profile", "test", "-q"], &[]);
    ended(&output, 3);
    // stderr has only errors and warnings; the summary is on stdout.
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("error: fake+crash.cpu.f32"), "{stderr}");
    let is_alert = |line: &str| line.starts_with("error: ") || line.starts_with("warning: ");
    assert!(stderr.lines().all(is_alert), "{stderr}");
    let log = log(&checkout);
    let launch =
        r#"stage{name="measuring"}:launch{target=fake.cpu.f32 scenario=single_request block=1}"#;
    let lines = |words: &[&str]| {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().filter(has_all).count()
    };
    assert_eq!(lines(&[launch, "loaded pid="]), 1, "{log}");
    assert_eq!(lines(&[launch, "over status="]), 1, "{log}");
    assert!(lines(&[launch, ":case{id=", "over took_ms="]) > 0, "{log}");
    assert!(lines(&["process started", "pid=", "argv="]) > 0, "{log}");
    assert!(
        lines(&["ERROR", "alert", "fake+crash.cpu.f32"]) > 0,
        "{log}"
    );
    assert_eq!(lines(&["prompt_ids"]), 0, "the protocol's lines are many");
}

#[test]
fn what_is_logged_is_shown_as_far_as_one_asks() {
    let checkout = Checkout::with(&[]);
    let shown = |arguments: &[&str], rust_log: &str| {
        let arguments = [&["bench", "--profile", "test"], arguments].concat();
        let output = checkout.xtask(&arguments, &[("RUST_LOG", rust_log)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let asked = r#""generate""#;
    let launches = shown(&["-v"], "off");
    assert!(launches.contains("loaded pid=") && !launches.contains("process started"));
    let lines = shown(&[], "harness=trace");
    says(&lines, &["answered pid=", asked]);
    let wrong = shown(&[], "harness=loud");
    assert!(wrong.contains("warning: RUST_LOG is ignored"), "{wrong}");
}
