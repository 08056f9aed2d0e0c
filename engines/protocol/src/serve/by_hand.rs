//! Answers a request made by hand: load the model, run the prompt, print one JSON object, exit.
//!
//! ```text
//! echo '{"prompt":"Hello","iterations":50,"model_path":"models/tiny-llama"}' | candle-bench
//! ```
//!
//! It runs through the same engine calls and the same clock as the harness's requests, one at a
//! time. It deliberately verifies nothing and keeps nothing except a log of errors if the user
//! wants one: its numbers are for a quick look, not for publishing.

use super::batch::Timeline;
use super::defaults::{Choice, Device};
use super::summary::Summary;
use super::{Adapter, defaults, guarded, introduce, set_threads, timed_load};
use crate::engine::EngineError;
use crate::error_log;
use crate::wire::{FailureKind, Hello, Load, Loaded};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// The fields of a request made by hand; all except the prompt and the model have defaults.
#[derive(Debug, Deserialize)]
struct Ask {
    prompt: Option<String>,
    prompt_ids: Option<Vec<u32>>,
    model_path: PathBuf,
    #[serde(default = "ten")]
    iterations: u32,
    #[serde(default = "two")]
    warmup: u32,
    #[serde(default = "sixty_four", alias = "max_tokens")]
    new_tokens: u32,
    weights: Option<String>,
    precision: Option<String>,
    #[serde(default)]
    variant: String,
    backend: Option<String>,
    device: Option<Device>,
    threads: Option<u32>,
    /// Any other fields. They are reported, since one may be a misspelled field.
    #[serde(flatten)]
    ignored: BTreeMap<String, Value>,
}

fn ten() -> u32 {
    10
}

fn two() -> u32 {
    2
}

fn sixty_four() -> u32 {
    64
}

/// Answer a request without `op`; return the exit status.
pub fn answer<A: Adapter>(ask: Value, out: &mut impl Write) -> io::Result<u8> {
    let (result, status) = match guarded(|| measure::<A>(ask)) {
        Ok(result) => (result, 0),
        Err(stop) => {
            let (err, status) = stop.parts();
            (error(err.kind, &err.message), status)
        }
    };
    // One line, like everything else this program prints, so that it can be piped into any tool.
    writeln!(out, "{result}")?;
    out.flush()?;
    Ok(status)
}

/// Return the error to print, and write it to the log of errors too.
fn error(kind: FailureKind, message: &str) -> Value {
    note("error", message);
    json!({ "error": { "kind": kind, "message": message } })
}

fn bad(message: impl std::fmt::Display) -> EngineError {
    EngineError::bad_request(message)
}

fn measure<A: Adapter>(ask: Value) -> Result<Value, EngineError> {
    let ask: Ask = serde_json::from_value(ask).map_err(bad)?;
    if ask.iterations == 0 || ask.new_tokens == 0 {
        return Err(bad("iterations and new_tokens must be at least 1"));
    }
    let weights = defaults::choose(
        &ask.model_path,
        ask.weights.as_deref(),
        ask.precision.as_deref(),
    )
    .map_err(bad)?;
    let tokenizer = tokenizer(&weights.model_dir);
    let prompt_ids = prompt_ids(&ask, tokenizer.as_ref())?;
    let many = |what: &str| bad(format!("{what}: more than {} together", u32::MAX));
    let prompt_tokens = u32::try_from(prompt_ids.len()).ok();
    let max_context = prompt_tokens
        .and_then(|prompt| prompt.checked_add(ask.new_tokens))
        .ok_or_else(|| many("prompt_ids and new_tokens"))?;
    let runs = ask.warmup.checked_add(ask.iterations);
    let runs = runs.ok_or_else(|| many("warmup and iterations"))?;
    let (backend, device) = (ask.backend.as_deref(), ask.device.as_ref());
    let choices = defaults::choices(backend, device, A::backends_by_hand()).map_err(bad)?;
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let load = Load {
        model_dir: weights.model_dir.to_string_lossy().into_owned(),
        weights: weights.file,
        precision: weights.precision,
        variant: ask.variant.clone(),
        threads: ask.threads.unwrap_or(processors).max(1),
        max_context,
        max_batch: 1,
        ..Load::default() // backend and device are chosen below
    };

    set_threads(load.threads);
    let (load, hello, mut adapter, loaded) = open::<A>(load, &choices)?;
    let mut samples = Samples::default();
    for iteration in 0..runs {
        let timeline = adapter.run_alone(&prompt_ids, ask.new_tokens)?;
        if iteration >= ask.warmup {
            samples.take(&timeline);
        }
    }

    let mut build = hello.build;
    build.extend(loaded.runtime);
    let decoded = || tokenizer.ok()?.decode(&samples.output_ids, false).ok();
    let text = samples.output_text.clone().or_else(decoded);
    let tokens = f64::from(ask.new_tokens) * f64::from(ask.iterations);
    let seconds = samples.e2e_ns.iter().sum::<u64>() as f64 / 1e9;
    Ok(json!({
        "engine": hello.engine,
        "version": hello.version,
        "model_path": ask.model_path,
        "weights": load.weights,
        "precision": load.precision,
        "variant": load.variant,
        "backend": load.backend,
        "device": load.device,
        "threads": load.threads,
        "prompt_tokens": prompt_ids.len(),
        "new_tokens": ask.new_tokens,
        "warmup": ask.warmup,
        "iterations": ask.iterations,
        "load_ms": loaded.load_ns as f64 / 1e6,
        "weight_bytes": loaded.weight_bytes,
        "kv_bytes_per_token": loaded.kv_bytes_per_token,
        "ttft_ms": Summary::of_ns(&samples.ttft_ns),
        "itl_ms": Summary::of_ns(&samples.itl_ns),
        "e2e_ms": Summary::of_ns(&samples.e2e_ns),
        "output_tok_per_s": tokens / seconds,
        "output_text": text,
        "output_ids": samples.output_ids,
        "notes": hello.capabilities.notes,
        "ignored_fields": ask.ignored.keys().collect::<Vec<_>>(),
        "build": build,
    }))
}

/// Load on the first choice whose device is present, which becomes the load's. For each that is
/// skipped, print the reason.
fn open<A: Adapter>(
    mut load: Load,
    choices: &[Choice],
) -> Result<(Load, Hello, A, Loaded), EngineError> {
    let mut absent = EngineError::internal("this build has no backend");
    for (number, choice) in choices.iter().enumerate() {
        (load.backend, load.device) = (choice.backend.clone(), choice.device);
        let hello = introduce::<A>(&load);
        match timed_load::<A>(&load, &hello) {
            Ok((adapter, loaded)) => return Ok((load, hello, adapter, loaded)),
            Err(err) if err.kind == FailureKind::Unavailable => absent = err,
            Err(err) => return Err(err),
        }
        if let Some(next) = choices.get(number + 1) {
            let message = format!(
                "{} is not used, but {}: {absent}",
                choice.backend, next.backend
            );
            eprintln!("warning: {message}");
            note("warning", &message);
        }
    }
    Err(absent)
}

/// Append to the log of errors, if the user wants one; its default directory is the working
/// directory.
fn note(severity: &str, text: &str) {
    let Some(path) = error_log::path(|name| std::env::var_os(name), PathBuf::new) else {
        return;
    };
    let program = std::env::args().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    let result = error_log::append(&path, severity, &program.to_string_lossy(), text);
    if let Err(err) = result {
        eprintln!("{} can't be appended to: {err}", path.display());
    }
}

#[derive(Default)]
struct Samples {
    ttft_ns: Vec<u64>,
    itl_ns: Vec<u64>,
    e2e_ns: Vec<u64>,
    output_ids: Vec<u32>,
    output_text: Option<String>,
}

impl Samples {
    fn take(&mut self, timeline: &Timeline) {
        let (first, last) = (
            timeline.token_ns[0],
            timeline.token_ns[timeline.token_ns.len() - 1],
        );
        self.ttft_ns.push(first - timeline.started_ns);
        self.itl_ns
            .extend(timeline.token_ns.windows(2).map(|pair| pair[1] - pair[0]));
        self.e2e_ns.push(last - timeline.started_ns);
        self.output_ids = timeline.row(0);
        self.output_text.clone_from(&timeline.text);
    }
}

fn tokenizer(model_dir: &Path) -> Result<Tokenizer, String> {
    let path = model_dir.join("tokenizer.json");
    Tokenizer::from_file(&path).map_err(|err| format!("{}: {err}", path.display()))
}

fn prompt_ids(ask: &Ask, tokenizer: Result<&Tokenizer, &String>) -> Result<Vec<u32>, EngineError> {
    let ids = match (&ask.prompt_ids, &ask.prompt) {
        (Some(ids), None) => ids.clone(),
        (None, Some(text)) => {
            let tokenizer = tokenizer.map_err(bad)?;
            tokenizer
                .encode(text.as_str(), true)
                .map_err(bad)?
                .get_ids()
                .to_vec()
        }
        _ => return Err(bad("give either `prompt` (text) or `prompt_ids`")),
    };
    if ids.is_empty() {
        return Err(bad("the prompt is empty"));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_request_is_a_prompt_and_a_model() {
        let ask: Ask =
            serde_json::from_value(json!({"prompt": "a", "model_path": "m", "iteratons": 3}))
                .unwrap();
        assert_eq!((ask.iterations, ask.warmup, ask.new_tokens), (10, 2, 64));
        assert_eq!(ask.ignored.keys().collect::<Vec<_>>(), ["iteratons"]);
    }
}
