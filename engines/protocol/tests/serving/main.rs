//! Tests of the runtime that adapters share, with two stand-in adapters: one that the runtime
//! batches for, and one that schedules by itself.
//!
//! Each test starts a process of one of the examples, and talks to it over its pipes.

mod adapter;
mod scheduled;

use protocol::wire::Event;
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
