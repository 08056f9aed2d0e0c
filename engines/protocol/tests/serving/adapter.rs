//! Tests of the runtime as the harness uses it: a process, requests in, events out. The adapter is
//! `examples/echo-bench.rs`. The order in which requests run is tested in the queue's own tests;
//! nothing here asserts how long anything takes.

use crate::{asked_by_hand, done, events, generate, kinds, load, spawn};
use protocol::wire::{Event, FailureKind};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Output;

fn talk(input: &str) -> Output {
    crate::talk("echo-bench", input)
}

#[test]
fn answers_in_order_with_times_in_order() {
    let input = load("", 4) + &generate(1, &[1, 2], 3) + &generate(2, &[1, 9], 3);
    let output = talk(&input);
    assert!(output.status.success());
    let events = events(&output);
    let [
        Event::Hello(hello),
        Event::Loaded(loaded),
        Event::Done(one),
        Event::Done(two),
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!(hello.engine, "echo");
    assert!(hello.build.contains_key("rustc") && hello.build.contains_key("features"));
    assert!(loaded.load_ns > 0);
    assert_eq!((one.id, one.output_ids.as_slice()), (1, &[3, 4, 5][..]));
    assert_eq!((two.id, two.output_ids.as_slice()), (2, &[10, 11, 12][..]));
    for done in [one, two] {
        let mut times = vec![done.received_ns, done.started_ns];
        times.extend(&done.token_ns);
        assert!(times.is_sorted());
        assert_eq!(done.token_ns.len(), 3);
    }
}

#[test]
fn one_at_a_time_where_the_engine_cannot_batch() {
    let requests: String = (1..=4).map(|id| generate(id, &[1, 2], 2)).collect();
    for event in &events(&talk(&(load("alone", 4) + &requests)))[2..] {
        assert_eq!(done(event).batch, 1);
    }
}

#[test]
fn a_print_in_the_engine_does_not_reach_the_stream() {
    let output = talk(&(load("", 1) + &generate(1, &[1, 2, 3, 4, 5], 1)));
    assert_eq!(events(&output).len(), 3);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("greets you") && stderr.contains("{\"ev\":\"done\"}"));
}

#[test]
fn scores_line_up_with_the_positions_asked_for() {
    let score =
        "{\"op\":\"score\",\"id\":5,\"ids\":[1,2,9,4],\"ask\":[[3],[10,0],[5]],\"top\":2}\n";
    let events = events(&talk(&(load("", 1) + score)));
    let Event::Scored(scored) = &events[2] else {
        panic!("{events:?}")
    };
    // After [1,2], [1,2,9] and [1,2,9,4]; 2 parts of 17 for the successor.
    assert_eq!(scored.argmax, [3, 10, 5]);
    assert!((scored.logprobs[1][0] - (2.0f64 / 17.0).ln()).abs() < 1e-6);
    assert!((scored.logprobs[1][1] - (1.0f64 / 17.0).ln()).abs() < 1e-6);
    assert_eq!(scored.top_ids, [[3, 0], [10, 0], [5, 0]]);
    assert_eq!(scored.top_logprobs[2].len(), 2);
}

#[test]
fn the_process_outlives_bad_requests_and_failed_batches() {
    let input = load("", 1)
        + "this is no JSON\n"
        + &generate(1, &[], 1)
        + &generate(2, &[0; 30], 3)
        + &generate(3, &[1, 1, 1], 1)
        + &load("", 1)
        + "{\"op\":\"score\",\"id\":6,\"ids\":[1],\"ask\":[[99]]}\n"
        + &generate(4, &[1], 1)
        + "{\"op\":\"exit\"}\n";
    let output = talk(&input);
    assert!(output.status.success());
    use FailureKind::{BadRequest, Oom};
    assert_eq!(
        kinds(&events(&output)[2..]),
        [
            (None, Some(BadRequest)),
            (Some(1), Some(BadRequest)),
            (Some(2), Some(BadRequest)),
            (Some(3), Some(Oom)),
            (None, Some(BadRequest)),
            (Some(6), Some(BadRequest)),
            (Some(4), None),
        ]
    );
}

#[test]
fn a_panic_is_reported_and_final() {
    let output = talk(&(load("", 1) + &generate(1, &[1, 1, 1, 1], 1) + &generate(2, &[1], 1)));
    assert_eq!(output.status.code(), Some(101));
    let events = events(&output);
    let Some(Event::Error(failure)) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!((failure.id, failure.kind), (None, FailureKind::Internal));
    assert!(failure.message.contains("four!"));
}

#[test]
fn a_failed_load_still_says_hello() {
    let output = talk(&load("missing", 1));
    assert_eq!(output.status.code(), Some(1));
    let events = events(&output);
    let [Event::Hello(_), Event::Error(failure)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!((failure.id, failure.kind), (None, FailureKind::Unavailable));
}

#[test]
fn input_that_never_loads_is_answered_and_counts_as_failure() {
    let output = talk(&("nonsense\n".to_string() + &generate(1, &[1], 1)));
    assert_eq!((output.status.code(), events(&output).len()), (Some(1), 2));
    assert_eq!(talk("").status.code(), Some(0));
    assert_eq!(talk("{\"op\":\"exit\"}\n").status.code(), Some(0));
}

#[test]
fn ends_when_nobody_listens() {
    let mut child = spawn("echo-bench");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(load("", 1).as_bytes()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    drop(lines);
    // The input stays open, so only the closed output can end the process.
    assert!(child.wait().unwrap().success());
    drop(stdin);
}

#[test]
fn a_person_gets_one_result_with_statistics() {
    let result = asked_by_hand("echo-bench");
    assert_eq!(result["output_ids"], serde_json::json!([3, 4, 5, 6]));
    assert_eq!(
        (&result["precision"], &result["prompt_tokens"]),
        (&"q8_0".into(), &2.into())
    );
    assert_eq!(result["variant"], "", "the engines in Python say it too");
    assert_eq!(
        (&result["ttft_ms"]["n"], &result["itl_ms"]["n"]),
        (&5.into(), &15.into())
    );
    assert!(result["ttft_ms"]["p90"].is_null() && result["output_text"].is_null());
    assert!(result["output_tok_per_s"].as_f64().unwrap() > 0.0);
}

/// Create a model directory, and a request by hand for `prompt_ids` on it.
fn by_hand(prompt_ids: &[u32], backend: Option<&str>) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.safetensors"), "").unwrap();
    let ask = serde_json::json!({
        "prompt_ids": prompt_ids, "iterations": 1, "model_path": dir.path(), "backend": backend,
    });
    (dir, ask.to_string())
}

#[test]
fn the_first_backend_of_the_build_is_used_or_why_not_is_said() {
    let (_dir, ask) = by_hand(&[1, 2], None);
    let output = talk(&ask);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["backend"], "cpu");
    let said = String::from_utf8_lossy(&output.stderr);
    let why = "absent is not used, but cpu: no absent device";
    assert!(said.contains(why), "{said}");

    let (_dir, ask) = by_hand(&[1, 2], Some("absent"));
    let result: Value = serde_json::from_slice(&talk(&ask).stdout).unwrap();
    assert_eq!(result["error"]["kind"], "unavailable", "{result}");
    let (_dir, ask) = by_hand(&[1, 2], Some("cpu"));
    let said = talk(&ask).stderr;
    assert!(!String::from_utf8_lossy(&said).contains("is not used"));
}

#[test]
fn what_goes_wrong_by_hand_is_logged_where_that_is_wanted() {
    let logged = |name: &str, value: &str, file: &str| {
        let (dir, ask) = by_hand(&[1, 1, 1], None); // three tokens run out of memory
        let mut command = crate::command("echo-bench");
        for (variable, _) in protocol::error_log::VARIABLES {
            command.env_remove(variable);
        }
        command.env(name, value).current_dir(dir.path());
        let output = crate::finish(command.spawn().unwrap(), &ask);
        assert!(!output.status.success());
        std::fs::read_to_string(dir.path().join(file)).ok()
    };
    let text = logged("TEST_BURN_ERROR_LOG", "1", "test-burn-error.log").expect("it is there");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].contains(" warning [echo-bench] absent is not used"),
        "{text}"
    );
    assert!(lines[1].ends_with(" error [echo-bench] no room"), "{text}");
    assert!(logged("BENCH_ERROR_LOG", "e.log", "e.log").is_some());
    assert_eq!(
        logged("TEST_BURN_ERROR_LOG", "0", "test-burn-error.log"),
        None
    );
}

#[test]
fn a_person_gets_one_error() {
    for (ask, part) in [
        ("{\"prompt\":\"a\"}", "model_path"),
        ("{\"prompt\":\"a\",\"model_path\":\"/nowhere\"}", "/nowhere"),
        ("{\"model_path\":\"/\",\"weights\":\"w\"}", "prompt_ids"),
        (
            "{\"model_path\":\"/\",\"weights\":\"w\",\"prompt\":\"a\"}",
            "tokenizer.json",
        ),
        (
            "{\"model_path\":\"/\",\"weights\":\"w\",\"prompt_ids\":[1,1,1,1]}",
            "four!",
        ),
        (
            "{\"model_path\":\"/\",\"weights\":\"w\",\"prompt_ids\":[1],\"new_tokens\":4294967295}",
            "prompt_ids and new_tokens",
        ),
        (
            "{\"model_path\":\"/\",\"weights\":\"w\",\"prompt_ids\":[1],\"warmup\":4294967295}",
            "warmup and iterations",
        ),
    ] {
        let output = talk(ask);
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
        assert!(!output.status.success());
    }
}
