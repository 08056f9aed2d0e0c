//! Tests of every variant as the harness uses it. The timing is set to almost nothing and never
//! asserted, except that no token may come before it is due.

use protocol::wire::{Event, FailureKind};
use protocol::witness::{self, Ring};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-bench"));
    for name in ["FAKE_PREFILL_US", "FAKE_PREFILL_TOKEN_US", "FAKE_DECODE_US"] {
        command.env(name, "10");
    }
    command
        .env("FAKE_ROW_US", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn load(variant: &str, prefix_cache: bool) -> String {
    let load = json!({
        "op": "load", "model_dir": "none", "weights": "none", "precision": "f32",
        "backend": "cpu", "variant": variant, "threads": 1, "max_context": 64, "max_batch": 1,
        "prefix_cache": prefix_cache,
    });
    format!("{load}\n")
}

fn generate(id: u64, prompt: &[u64], new_tokens: u32) -> String {
    let request =
        json!({"op": "generate", "id": id, "prompt_ids": prompt, "new_tokens": new_tokens});
    format!("{request}\n")
}

/// Return the input that loads `variant`, then sends five requests with different prompts.
fn input(variant: &str) -> String {
    let requests: String = (1..=5).map(|id| generate(id, &[id, 7], 4)).collect();
    load(variant, false) + &requests
}

fn run(variant: &str) -> Output {
    run_command(&mut command(), &input(variant))
}

fn run_command(command: &mut Command, input: &str) -> Output {
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Run with `input`; return the events, and the true times of each batch.
fn run_with_truth(input: &str) -> (Vec<Event>, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("truth.jsonl");
    let output = run_command(command().env("FAKE_TRUTH", &path), input);
    let text = std::fs::read_to_string(&path).unwrap();
    let truth = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (events(&output).0, truth.collect())
}

/// Return the lines that are events, and the number of lines that are not.
fn events(output: &Output) -> (Vec<Event>, usize) {
    let lines = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    let (mut events, mut others) = (Vec::new(), 0);
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(event) => events.push(event),
            Err(_) => others += 1,
        }
    }
    (events, others)
}

fn done(events: &[Event]) -> Vec<&protocol::wire::Done> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Done(done) => Some(done),
            _ => None,
        })
        .collect()
}

fn outputs(variant: &str) -> Vec<Vec<u32>> {
    done(&events(&run(variant)).0)
        .iter()
        .map(|done| done.output_ids.clone())
        .collect()
}

#[test]
fn ok_and_slow_give_the_same_tokens_and_wrong_others() {
    let ok = outputs("");
    assert_eq!(ok.len(), 5);
    assert_eq!(ok, outputs("ok"));
    assert_eq!(ok, outputs("slow"));
    let wrong = outputs("wrong");
    assert!(ok.iter().zip(&wrong).all(|(ok, wrong)| ok[0] != wrong[0]));
}

#[test]
fn faults_of_loading() {
    for (variant, kind) in [
        ("oom_load", FailureKind::Oom),
        ("unsupported", FailureKind::Unsupported),
        ("unavailable", FailureKind::Unavailable),
        ("no_such_variant", FailureKind::Unsupported),
    ] {
        let output = run(variant);
        let (events, _) = events(&output);
        let [Event::Hello(_), Event::Error(failure)] = events.as_slice() else {
            panic!("{variant}: {events:?}");
        };
        assert_eq!(
            (failure.id, failure.kind, output.status.code()),
            (None, kind, Some(1))
        );
    }
    let output = run("crash_load");
    assert_eq!((events(&output).0.len(), output.status.code()), (1, None));
}

#[test]
fn faults_of_the_third_batch() {
    for (variant, code) in [("crash", None), ("exit", Some(3))] {
        let output = run(variant);
        assert_eq!(
            (done(&events(&output).0).len(), output.status.code()),
            (2, code)
        );
    }
    for variant in ["sigill", "sigill_always"] {
        let output = run(variant);
        assert_eq!(output.status.signal(), Some(4), "{variant}");
    }
    let mut kept = command();
    kept.env("FAKE_MAX_ISA", "low");
    let (spared, _) = events(&run_command(&mut kept, &input("sigill")));
    assert_eq!(done(&spared).len(), 5);
    let output = run("oom");
    let (events, _) = events(&output);
    assert_eq!((done(&events).len(), output.status.code()), (4, Some(0)));
    let third = |event: &&Event| matches!(event, Event::Error(failure) if failure.id == Some(3));
    assert!(events.iter().any(|event| third(&event)));
}

#[test]
fn hangs_where_asked_and_dies_with_its_reader() {
    for (variant, lines) in [("hang_load", 1), ("hang", 4)] {
        let mut child: Child = command().spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input(variant).as_bytes()).unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..lines {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0);
        }
        assert!(child.try_wait().unwrap().is_none());
        drop(stdout);
        child.wait().unwrap();
    }
}

#[test]
fn faults_of_the_stream() {
    for (variant, answers, others) in [
        ("garbage", 5, 5),
        ("binary", 5, 5),
        ("huge_line", 5, 1),
        ("duplicate", 10, 0),
    ] {
        let (events, not_events) = events(&run(variant));
        assert_eq!(
            (done(&events).len(), not_events),
            (answers, others),
            "{variant}"
        );
    }
    let each = |variant: &str, holds: fn(&protocol::wire::Done) -> bool| {
        let (events, _) = events(&run(variant));
        let answers = done(&events);
        assert!(
            answers.len() == 5 && answers.iter().all(|done| holds(done)),
            "{variant}"
        );
    };
    each("wrong_id", |done| done.id > 5);
    each("too_few", |done| done.token_ns.len() == 3);
    each("backwards", |done| !done.token_ns.is_sorted());
}

#[test]
fn what_is_held_back_is_committed_all_the_same() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let ring = Ring::create(file.as_file()).unwrap();
    let mut watched = command();
    watched.env(witness::VARIABLE, file.path());
    let (events, _) = events(&run_command(&mut watched, &input("held_back")));
    let mut committed = 0;
    for answer in done(&events) {
        for (index, &id) in (0..).zip(&answer.output_ids) {
            let entry = ring.entry(committed);
            assert_eq!(
                (entry.request, entry.index, entry.id),
                (answer.id, index, id)
            );
            committed += 1;
        }
    }
    assert_eq!((committed, ring.committed()), (20, 20));
}

#[test]
fn a_flood_of_answers_ends_with_its_reader() {
    let mut child = command().spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input("flood").as_bytes()).unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    // Five answers were asked for, after two lines of loading.
    assert_eq!(
        stdout.lines().take(1000).filter(Result::is_ok).count(),
        1000
    );
    child.wait().unwrap();
}

#[test]
fn a_flood_on_standard_error_is_a_flood() {
    assert!(run("flood_stderr").stderr.len() > 4 << 20);
}

#[test]
fn the_truth_bears_out_the_stamps() {
    let (events, truth) = run_with_truth(&input(""));
    assert_eq!(truth.len(), 5);
    let list = |value: &Value| -> Vec<u64> { serde_json::from_value(value.clone()).unwrap() };
    for (done, truth) in done(&events).iter().zip(&truth) {
        assert_eq!(list(&truth["prompt_ids"][0])[0], done.id);
        let (due, ended) = (list(&truth["due_ns"]), list(&truth["token_ns"]));
        assert_eq!(ended.len(), done.token_ns.len());
        for ((due, ended), stamped) in due.iter().zip(&ended).zip(&done.token_ns) {
            assert!(due <= ended && ended <= stamped);
        }
    }
}

#[test]
fn a_liar_claims_what_the_truth_denies() {
    let (events, truth) = run_with_truth(&input("liar"));
    assert_eq!(truth.len(), 5);
    for (done, truth) in done(&events).iter().zip(&truth) {
        let really_ns = truth["token_ns"][3].as_u64().unwrap();
        assert!(done.token_ns[3] < really_ns);
    }
}

#[test]
fn what_is_kept_of_the_prompt_before_takes_no_time() {
    // When the first token of each of three prompts was due, relative to its start.
    let due_ns = |variant: &str, keeps: bool| -> Vec<u64> {
        let prompts = [[9, 8, 7, 6], [9, 8, 5, 5], [9, 8, 5, 5]];
        let requests = (0..).zip(&prompts).map(|(id, ids)| generate(id, ids, 1));
        let input = load(variant, keeps) + &requests.collect::<String>();
        let (_, truth) = run_with_truth(&input);
        let at = |value: &Value| value.as_u64().unwrap();
        let due_ns = |truth: &Value| at(&truth["due_ns"][0]) - at(&truth["started_ns"]);
        truth.iter().map(due_ns).collect()
    };
    // It takes 10 µs, and 10 µs for each token that isn't kept; the last is never kept.
    assert_eq!(due_ns("", false), [50_000, 50_000, 50_000]);
    assert_eq!(due_ns("", true), [50_000, 30_000, 20_000]);
    assert_eq!(due_ns("forgets", true), [50_000, 50_000, 50_000]);
    // This variant reuses the whole of an earlier prompt, although it was not told to.
    assert_eq!(due_ns("caches", false), [50_000, 50_000, 10_000]);
}
