//! Tests the adapter with a real server, because a scripted one can't show whether our
//! understanding of the API is right. Its output is compared with the reference's.
//!
//! `BENCH_REAL_SERVER` names a program that is called with a model's directory, a weight file, a
//! precision and the port 0, and prints its address. `cargo xtask test --all-engines` builds one
//! and sets the variable; without it the test is skipped.

use crate::adapter::{Adapter, done, failure, generate, hello};
use protocol::wire::{Batching, FailureKind};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokenizers::Tokenizer;

/// The server's process, which is killed when the test ends in any way.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; the test has then reported that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Start the server, and wait until it prints its address.
fn start(program: &str, model_dir: &Path) -> (Server, String) {
    let mut child = Command::new(program)
        .arg(model_dir)
        .args(["model.safetensors", "f32", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} can't be started: {error}"));
    let stdout = child.stdout.take().unwrap();
    let server = Server(child);
    let mut lines = BufReader::new(stdout).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.starts_with("http://"))
        .unwrap_or_else(|| panic!("{program} ended without an address"));
    // Its other output must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    (server, address)
}

#[test]
fn a_real_server_says_what_the_reference_says() {
    let Ok(program) = std::env::var("BENCH_REAL_SERVER") else {
        println!("skipped: BENCH_REAL_SERVER names no server");
        return;
    };
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model_dir = root.join("models/tiny-llama");
    let golden = std::fs::read(root.join("data/golden/tiny-llama.json")).unwrap();
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    let tokenizer = Tokenizer::from_file(model_dir.join("tokenizer.json")).unwrap();
    let ids = |value: &Value| -> Vec<u32> { serde_json::from_value(value.clone()).unwrap() };
    let (server, address) = start(&program, &model_dir);

    let new_tokens = 16;
    let prompts: Vec<(Vec<u32>, Vec<u32>)> = golden["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| (ids(&prompt["prompt_ids"]), ids(&prompt["output_ids"])))
        .collect();
    let requests: Vec<String> = (1..)
        .zip(&prompts)
        .map(|(id, (prompt, _))| generate(id, prompt, new_tokens))
        .collect();
    let adapter = Adapter::at(format!("{address}/v1"), model_dir.clone(), 8)
        // On the CPU mistral.rs mixes up the rows of a batch.
        .with("BENCH_OPENAI_CONNECTIONS", "1");
    let events = adapter.talk(&requests);
    drop(server);

    assert_eq!(hello(&events).capabilities.batching, Batching::None);
    let mut answered = 0;
    for (id, (prompt, output)) in (1..).zip(&prompts) {
        let text = tokenizer.decode(prompt, false).unwrap();
        let again = tokenizer.encode(text, false).unwrap();
        if again.get_ids() != prompt {
            // Sent as text, it would be another prompt.
            let refused = failure(&events, Some(id));
            assert_eq!(refused.kind, FailureKind::Unsupported, "{refused:?}");
            continue;
        }
        let done = done(&events, id);
        assert_eq!(done.token_ns.len(), new_tokens as usize);
        assert!(done.token_ns.is_sorted() && done.received_ns <= done.started_ns);
        let expected = tokenizer.decode(&output[..new_tokens as usize], false);
        let said = done.output_text.as_deref().map(str::trim_start);
        assert_eq!(said, Some(expected.unwrap().trim_start()), "request {id}");
        answered += 1;
    }
    assert!(answered >= 6, "{answered} of {} prompts", prompts.len());
}
