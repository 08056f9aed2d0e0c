//! Tests of `--tui` in a pseudo-terminal: what is on the screen at each point of a run, what keys
//! do to the run, and that no key, panic or quit loses a record or leaves the terminal in disorder.

use crate::blocks::turns_alone;
use crate::checkout::{Checkout, PROFILE, says, text, words};
use crate::resume::{files, goes_on};
use crate::terminal::Terminal;
use std::path::Path;
use std::process::Command;

const BENCH: [&str; 4] = ["bench", "--profile", "test", "--tui"];
/// A request of six tokens takes 40 ms, and a case four seconds: there is time to press keys.
const SLOWLY: (&str, &str) = ("FAKE_DECODE_US", "8000");

fn checkout(variants: &[&str]) -> Checkout {
    let checkout = Checkout::with(variants);
    // Long enough for keys to be pressed in the middle.
    let longer = PROFILE
        .replace("requests = 6", "requests = 100")
        .replace("requests = 8", "requests = 100");
    checkout.profile(&longer);
    checkout
}

/// Return the entries of an error log without their times, which are checked to be times.
fn entries(path: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(path).unwrap_or_default();
    let entries = log.lines().filter(|line| !line.starts_with(' '));
    entries
        .map(|entry| {
            let (time, rest) = entry.split_once(' ').expect("an entry begins with a time");
            let time: Result<jiff::Timestamp, _> = time.parse();
            assert!(time.is_ok(), "{entry}");
            rest.to_owned()
        })
        .collect()
}

/// Wait until a command has ended, with this status; return the text that it left on the screen.
/// The terminal must be as it was before.
#[track_caller]
fn ended(terminal: Terminal, code: u32) -> String {
    let ended = terminal.end();
    assert_eq!(ended.code, code, "{}", ended.text);
    assert!(ended.is_restored, "{}", ended.text);
    assert!(ended.is_cooked, "{}", ended.text);
    ended.text
}

#[test]
fn a_run_is_seen_from_its_start_to_its_end_by_a_key() {
    let checkout = checkout(&[]);
    let mut terminal = Terminal::start(&checkout, &BENCH, &[SLOWLY]);

    let start = terminal.sees(&["parity on tiny-llama", "fake.cpu.f32"]);
    says(&start, &["cargo xtask bench", "test · tiny-llama"]);
    says(&start, &["plan", "log", "q quit"]);

    let running = terminal.sees(&["TPOT median", "of 100", "tok/s", "MiB", "s skip"]);
    says(&running, &["measuring · ", "▶ fake.cpu.f32", "block 1"]);
    says(&running, &["✓ parity on tiny-llama"]);
    terminal.press("m");
    terminal.sees(&["TTFT median"]);

    terminal.press("p");
    terminal.sees(&["p pauses after this launch"]);
    terminal.sees(&["paused · ", "p goes on", "1/4"]);
    let records = files(&checkout.path("runs")).into_values();
    let mut launches: Vec<String> = records.map(|b| String::from_utf8(b).unwrap()).collect();
    launches.retain(|record| record.contains(r#""ev":"launch""#));
    assert_eq!(launches.len(), 1, "no other launch was begun");
    let last = launches[0].lines().last().unwrap_or_default();
    assert!(last.contains(r#""ev":"end""#), "it isn't complete: {last}");
    terminal.press("p");
    terminal.sees(&["p pause ·", "running for", "TTFT median"]);

    terminal.press("q");
    terminal.sees(&["q again stops the run"]);
    terminal.press("q");
    let said = ended(terminal, 130);
    says(&said, &["--resume", "interrupted", "of a core"]);
    let before = files(&checkout.path("runs"));
    goes_on(&checkout, &before);
}

#[test]
fn a_failing_engine_raises_exactly_its_alerts() {
    let checkout = Checkout::with(&["crash_load", "unavailable", "exit"]);
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 110"));
    let log = checkout.path("errors/log");
    let log_name = log.display().to_string();
    // As in `faults`: a fault at the 100th batch occurs only while timed.
    let environment = [("FAKE_FAULT_AT", "100"), ("BENCH_ERROR_LOG", &*log_name)];
    let mut terminal = Terminal::start(&checkout, &BENCH, &environment);

    // The gate refuses two targets, and one fails while it is timed. A launch that isn't made
    // because an earlier one failed raises no alert.
    let first = terminal.sees(&["error 1 of 3", "The command is over"]);
    says(&first, &["fake+crash_load.cpu.f32 does not pass"]);
    says(&first, &["Enter, Esc or Space"]);
    terminal.press("x");
    terminal.press("\r");
    let second = terminal.sees(&["warning 2 of 3", "fake+unavailable.cpu.f32"]);
    assert!(!second.contains("1 of 3"), "{second}");
    terminal.press(" ");
    // The line is longer than the dialog is wide.
    terminal.sees(&["error 3 of 3", "fake+exit.cpu.f32", "exited with status"]);
    terminal.press("\u{1b}");
    let said = ended(terminal, 3);
    says(&said, &["Records: "]);

    let entries = entries(&log);
    let beginnings = [
        "error [bench] fake+crash_load.cpu.f32 does not pass",
        "warning [bench] fake+unavailable.cpu.f32 does not pass",
        "error [bench] fake+exit.cpu.f32 · single_request: crashed",
    ];
    assert_eq!(entries.len(), beginnings.len(), "{entries:#?}");
    assert!(entries[2].contains("exited with status 3"), "{entries:#?}");
    for (entry, beginning) in entries.iter().zip(beginnings) {
        assert!(entry.starts_with(beginning), "{entries:#?}");
        // Each alert is also printed where it remains readable.
        let alert: String = entry.replacen("[bench] ", "", 1);
        let alert: String = alert.replacen(' ', ": ", 1).chars().take(60).collect();
        says(&said, &[&alert]);
    }
}

#[test]
fn what_is_skipped_is_done_by_a_resumed_run() {
    skips_one(&checkout(&["ok"]));
}

#[test]
fn who_is_skipped_leaves_the_others_of_its_round_to_go_on() {
    let checkout = Checkout::with(&["ok"]);
    checkout.profile(&turns_alone(100));
    skips_one(&checkout);
}

/// Skip one of two targets, wait until the other one runs, and interrupt the run.
fn skips_one(checkout: &Checkout) {
    let mut terminal = Terminal::start(checkout, &BENCH, &[SLOWLY]);
    terminal.sees(&["TPOT median", "s skip"]);
    terminal.press("s");
    terminal.until("a skipped item, and one that runs after it", |screen| {
        let skipped = screen.contains("» fake");
        skipped && screen.contains("▶ fake") && screen.contains("TPOT median")
    });
    // In the dashboard Ctrl-C is a key, not a signal, but has the same effect.
    terminal.press("\u{3}");
    ended(terminal, 130);
    let before = files(&checkout.path("runs"));
    let skipped = before
        .values()
        .filter(|bytes| String::from_utf8_lossy(bytes).contains("skipped by the user"));
    assert_eq!(skipped.count(), 1);
    goes_on(checkout, &before);
}

#[test]
fn ctrl_c_ends_what_is_being_built_too() {
    let checkout = Checkout::with(&[]);
    checkout.registry(|text| {
        let (head, rest) = text.split_once("kind = ").expect("it is built");
        let (_, targets) = rest.split_once(" }\n").expect("that ends");
        let build = "kind = \"cargo\", package = \"fake-bench\", bin = \"fake-bench\" }\n";
        format!("{head}{build}{targets}")
    });
    // In place of Cargo: a build that takes longer than a test waits.
    let endless = "#!/bin/sh\necho '   Compiling endless v1.0.0' >&2\nexec sleep 900\n";
    let cargo = checkout.script("cargo", endless);
    for keys in ["\u{3}", "qq"] {
        let mut terminal = Terminal::start(&checkout, &BENCH, &[("CARGO", &cargo)]);
        terminal.sees(&["Compiling endless"]);
        terminal.press(keys);
        let said = ended(terminal, 130);
        says(&said, &["interrupted"]);
        assert!(!said.contains("unavailable"), "{said}");
    }
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_logged() {
    let checkout = Checkout::with(&[]);
    // No command is known to panic, so this program runs again, with the test below alone.
    let this = std::env::current_exe().expect("a test has a path");
    let mut command = Command::new(this);
    command
        .args(["--ignored", "--nocapture", "--exact"])
        .arg("dashboard::it_panics_beside_a_dashboard")
        .current_dir(checkout.path(""))
        .envs(checkout.environment())
        .env("BENCH_ERROR_LOG", "yes");
    let said = ended(Terminal::run(&command), 101);
    says(&said, &["panicked at", "on purpose"]);
    let entries = entries(&checkout.path("target/bench-errors.log"));
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(entries[0].starts_with("panic [dashboard::"), "{entries:?}");
    says(&entries[0], &["panicked at"]);
}

#[test]
#[ignore = "it panics, for the test above"]
fn it_panics_beside_a_dashboard() {
    watch::error_log::install();
    let _ = watch::session(true, |_| panic!("on purpose"));
}

#[test]
fn verify_shows_its_targets() {
    let checkout = Checkout::with(&["wrong"]);
    let verify = words("verify --model tiny-llama --profile test --tui");
    let mut terminal = Terminal::start(&checkout, &verify, &[]);
    let screen = terminal.sees(&["error 1 of 1", "fake+wrong.cpu.f32 does not pass"]);
    says(&screen, &["cargo xtask verify tiny-llama"]);
    terminal.press(" ");
    // The table, which goes to stdout, is printed after the dashboard has closed.
    says(&ended(terminal, 3), &["wrong_output"]);
}

#[test]
fn without_a_terminal_there_is_plain_progress() {
    let checkout = Checkout::with(&[]);
    let said = checkout.ended(&BENCH, &[("RUST_LOG", "")], 0);
    says(&said, &["No dashboard: ", "Measuring 4 of 4"]);
    says(&said, &["Measured 4 launches"]);
    assert!(!said.contains('\u{1b}'), "{said}");
    assert!(!said.contains("stage{"), "nothing of the log: {said}");
}

#[test]
fn every_command_logs_its_errors() {
    let checkout = Checkout::with(&[]);
    let log = checkout.path("e.log");
    let log_name = log.display().to_string();
    let alias = [("TEST_BURN_ERROR_LOG", &*log_name)];
    let no_profile = checkout.ended(&["bench", "--profile", "nope"], &alias, 2);
    checkout.ended(&["compare", "a", "b"], &alias, 2);
    checkout.ended(&["bench", "--nope"], &alias, 2);
    let help = checkout.xtask(&["bench", "--help"], &alias);
    assert!(help.status.success() && text(&help).contains("--tui"));
    let entries = entries(&log);
    assert_eq!(entries.len(), 3, "{entries:#?}");
    assert!(
        entries[0].starts_with("error [bench] no profile \"nope\""),
        "{entries:#?}"
    );
    says(&no_profile, &["error: no profile \"nope\""]);
    assert!(entries[1].starts_with("error [compare] "), "{entries:#?}");
    assert!(
        entries[2].starts_with("error [bench] unexpected argument"),
        "{entries:#?}"
    );
}
