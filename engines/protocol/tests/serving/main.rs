//! Tests of the runtime that adapters share, with two stand-in adapters: one that the runtime
//! batches for, and one that schedules by itself.
//!
//! Each test starts a process of one of the examples, and talks to it over its pipes.

mod adapter;
mod scheduled;

use protocol::wire::{Done, Event, FailureKind};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

fn spawn(example: &str) -> Child {
    command(example)
        .spawn()
        .expect("an example, which a plain `cargo test` builds")
}

/// Create the example's command, with all of its standard streams as pipes.
fn command(example: &str) -> Command {
    // Cargo builds examples beside `deps`, where this test's binary lies.
    let deps = std::env::current_exe().unwrap();
    let profile: PathBuf = deps.ancestors().nth(2).unwrap().to_path_buf();
    let mut command = Command::new(profile.join("examples").join(example));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Run the example with `input`, and return its output.
fn talk(example: &str, input: &str) -> Output {
    finish(spawn(example), input)
}

/// Send `input` to the child, and return its output once it ends.
fn finish(mut child: Child, input: &str) -> Output {
    // An adapter that has already ended reads no further; that is no failure.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn events(output: &Output) -> Vec<Event> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Return the answer in an event that must be one.
fn done(event: &Event) -> &Done {
    match event {
        Event::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

/// Return of each event the request's id, and the kind of its error if it is one.
fn kinds(events: &[Event]) -> Vec<(Option<u64>, Option<FailureKind>)> {
    let kind = |event: &Event| match event {
        Event::Error(failure) => (failure.id, Some(failure.kind)),
        event => (Some(done(event).id), None),
    };
    events.iter().map(kind).collect()
}

/// Ask by hand for five answers of four tokens, of a model whose file says that it is in q8_0;
/// return the result.
fn asked_by_hand(example: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model-q8_0.gguf"), "").unwrap();
    let ask = serde_json::json!({
        "prompt_ids": [1, 2], "iterations": 5, "max_tokens": 4, "model_path": dir.path(),
    });
    let output = talk(example, &format!("{ask:#}\n"));
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn load(variant: &str, max_batch: u32) -> String {
    format!(
        "{{\"op\":\"load\",\"model_dir\":\"m\",\"weights\":\"w\",\"precision\":\"f32\",\
         \"backend\":\"cpu\",\"variant\":\"{variant}\",\"threads\":1,\"max_context\":32,\
         \"max_batch\":{max_batch}}}\n"
    )
}

fn generate(id: u64, prompt: &[u32], new_tokens: u32) -> String {
    format!(
        "{{\"op\":\"generate\",\"id\":{id},\"prompt_ids\":{prompt:?},\"new_tokens\":{new_tokens}}}\n"
    )
}
