//! Starts the adapter's process with a tiny tokenizer, and talks to it over its pipes.

use crate::server::Server;
use protocol::wire::{Done, Event, Failure, Hello};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A token for `ab` that no text encodes to.
pub const AB: u32 = 60;

/// The adapter's settings; it is started by [`Adapter::talk`].
pub struct Adapter {
    model_dir: PathBuf,
    /// The model's directory, kept until the adapter has ended.
    _made: Option<tempfile::TempDir>,
    variables: Vec<(String, String)>,
    max_batch: u32,
}

impl Adapter {
    /// Create an adapter for a server, with a tokenizer of its own.
    pub fn new(server: &Server, max_batch: u32) -> Self {
        let model = tempfile::tempdir().unwrap();
        let letters = ('a'..='z').chain('A'..='Z').chain(['Ġ']);
        let mut vocab: serde_json::Map<_, _> = (1u32..)
            .zip(letters)
            .map(|(id, letter)| (letter.to_string(), json!(id)))
            .collect();
        vocab.insert("<s>".into(), json!(0));
        vocab.insert("ab".into(), json!(AB));
        let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
        let tokenizer = json!({
            "version": "1.0",
            "added_tokens": [{ "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true }],
            "pre_tokenizer": level,
            "decoder": level,
            "model": { "type": "BPE", "vocab": vocab, "merges": [] },
        });
        let model_dir = model.path().to_owned();
        let write = |name: &str, text: String| {
            std::fs::write(model_dir.join(name), text).unwrap();
        };
        write("tokenizer.json", tokenizer.to_string());
        write("config.json", json!({ "bos_token_id": 0 }).to_string());
        Self {
            _made: Some(model),
            ..Self::at(server.url(), model_dir, max_batch)
        }
    }

    /// Create an adapter for an address, with an existing model directory.
    pub fn at(url: String, model_dir: PathBuf, max_batch: u32) -> Self {
        Self {
            model_dir,
            _made: None,
            variables: vec![("OPENAI_BASE_URL".to_owned(), url)],
            max_batch,
        }
    }

    /// Set an environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Load, send the requests, and return every event.
    pub fn talk(&self, requests: &[String]) -> Vec<Event> {
        self.talk_aloud(requests).1
    }

    /// Do the same; return also everything that was printed, errors included.
    pub fn talk_aloud(&self, requests: &[String]) -> (String, Vec<Event>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openai-bench"));
        for name in [
            "OPENAI_API_KEY",
            "OPENAI_MODEL",
            "BENCH_OPENAI_ROUTE",
            "BENCH_OPENAI_CONNECTIONS",
        ] {
            command.env_remove(name);
        }
        let mut child = command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let load = json!({
            "op": "load", "model_dir": self.model_dir, "weights": "w", "precision": "f32",
            "backend": "http", "threads": 1, "max_context": 1024, "max_batch": self.max_batch,
        });
        let input = format!("{load}\n{}", requests.concat());
        // An adapter that has already ended reads no further; that is no failure.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let events = said
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (said + &String::from_utf8_lossy(&output.stderr), events)
    }
}

/// Return the line of a request to generate.
pub fn generate(id: u64, prompt: &[u32], new_tokens: u32) -> String {
    let request =
        json!({ "op": "generate", "id": id, "prompt_ids": prompt, "new_tokens": new_tokens });
    format!("{request}\n")
}

/// Return the adapter's description, which must come first.
pub fn hello(events: &[Event]) -> &Hello {
    match events {
        [Event::Hello(hello), ..] => hello,
        _ => panic!("{events:?}"),
    }
}

/// Return the answer to a request.
pub fn done(events: &[Event], id: u64) -> &Done {
    let found = events.iter().find_map(|event| match event {
        Event::Done(done) if done.id == id => Some(done),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("request {id} is not done: {events:?}"))
}

/// Return the error of a request, or of the engine if `id` is `None`.
pub fn failure(events: &[Event], id: Option<u64>) -> &Failure {
    let found = events.iter().find_map(|event| match event {
        Event::Error(failure) if failure.id == id => Some(failure),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no error of {id:?}: {events:?}"))
}
