//! The messages: one JSON object a line, requests in on stdin, events out on
//! what was stdout when the process started.
//!
//! All times are integer nanoseconds on `CLOCK_MONOTONIC` ([`crate::clock`]).
//! Token ids are `u32`. Unknown fields are ignored, so that a field can be added
//! without a new protocol number; a changed meaning needs a new number.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number in [`Hello::protocol`].
pub const PROTOCOL: u32 = 1;

/// Harness → engine.
///
/// ```
/// use protocol::wire::{Generate, Request};
///
/// let line = r#"{"op":"generate","id":7,"prompt_ids":[1,15043],"new_tokens":16}"#;
/// let request = Request::Generate(Generate {
///     id: 7,
///     prompt_ids: vec![1, 15043],
///     new_tokens: 16,
/// });
/// assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
/// assert_eq!(serde_json::to_string(&request).unwrap(), line);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Always first, exactly once. Answered by [`Event::Hello`], then
    /// [`Event::Loaded`] or [`Event::Error`] (and the process exits).
    Load(Load),
    /// Any number in flight. Answered by one [`Event::Done`] or [`Event::Error`].
    Generate(Generate),
    /// Teacher-forced, for the parity gate and the check of timed outputs. Any number in
    /// flight, answered in any order by one [`Event::Scored`] or [`Event::Error`] each.
    Score(Score),
    /// Finish what is in flight, then exit with status 0. End of input means the same.
    Exit,
}

/// What to load, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Directory with `config.json`, `tokenizer.json` and the weight files.
    pub model_dir: String,
    /// Weight file inside `model_dir`, e.g. `model.safetensors`, `model-q8_0.gguf`.
    pub weights: String,
    /// `f32`, `f16`, `bf16`, `q8_0`, `q4_k_m`.
    pub precision: String,
    /// `cpu`, `cuda`, …: the target's backend.
    pub backend: String,
    /// The target's variant, empty for the plain engine.
    #[serde(default)]
    pub variant: String,
    /// Device index on the backend.
    #[serde(default)]
    pub device: u32,
    /// Compute threads; the engine uses exactly this many where it can.
    pub threads: u32,
    /// Longest sequence (prompt + new tokens) that will be asked for, in tokens.
    pub max_context: u32,
    /// Most requests to generate that will ever be in flight. Scores don't count: an
    /// engine runs as many of them together as it has room for.
    pub max_batch: u32,
    /// `true`: keep what was computed of a prompt for a later prompt that begins alike, as far
    /// as they are equal. Asked only of an engine whose capabilities say `prefix_cache`; where it
    /// isn't asked, nothing of a request may be kept for another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_cache: bool,
}

/// Greedy decoding, EOS ignored, exactly `new_tokens` tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generate {
    /// Chosen by the harness, unique within the process.
    pub id: u64,
    /// The prompt, never empty.
    pub prompt_ids: Vec<u32>,
    /// At least 1.
    pub new_tokens: u32,
}

/// Feed `ids` one position after the other through the same cached path that
/// `generate` uses, and report what the model thinks comes next at the last
/// `ask.len()` positions.
///
/// With `n = ids.len()` and `k = ask.len()` (`1 ≤ k ≤ n`): the first `n − k + 1`
/// ids are one prefill, each later id is one decode step; answer `j` is the
/// distribution after `ids[..n − k + 1 + j]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// As in [`Generate::id`].
    pub id: u64,
    /// Prompt and forced tokens.
    pub ids: Vec<u32>,
    /// For each of the last `k` positions, the ids whose log-probability is wanted.
    pub ask: Vec<Vec<u32>>,
    /// Where not 0: also report the `top` most likely ids of each position (the
    /// reference does this when goldens are made).
    #[serde(default)]
    pub top: u32,
    /// `true`: one forward pass over all of `ids` will do, for an engine whose
    /// capabilities say `parallel_score`; requests of equal `n`, `k` and `top` that are
    /// queued together may share it. Used to re-check timed outputs cheaply.
    #[serde(default)]
    pub parallel: bool,
}

/// Engine → harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum Event {
    /// First answer to [`Request::Load`], before anything is loaded.
    Hello(Hello),
    /// The model is ready.
    Loaded(Loaded),
    /// A generation is complete.
    Done(Done),
    /// A score is complete.
    Scored(Scored),
    /// Something failed. With `id: None` the process is of no more use.
    Error(Failure),
}

/// What an engine says of itself: its name, version, build and capabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Engine id, as in `engines.toml`.
    pub engine: String,
    /// Version of the engine proper (for `candle`: candle-core's).
    pub version: String,
    /// How this binary was built, e.g. `rustc`, `features`, `target_cpu`,
    /// `target_features`, `lock_sha256`, `torch`. Free-form, recorded as it is.
    #[serde(default)]
    pub build: BTreeMap<String, String>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// What an engine can do; printed beside its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// How it treats requests that are in flight together.
    pub batching: Batching,
    /// Whether `score` works. Without it only `text` scope can be verified.
    pub score: bool,
    /// Whether `score` with `parallel` is cheaper than the incremental path.
    #[serde(default)]
    pub parallel_score: bool,
    /// Whether it can keep what it computed of a prompt ([`Load::prefix_cache`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_cache: bool,
    /// A gap of this engine for this model that shows only at long contexts (e.g.
    /// RoPE scaling ignored), in one line. A target that declares one may pass the
    /// gate for short contexts alone; one that doesn't passes whole or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_gap: Option<String>,
    /// What a reader of the numbers must know, e.g. a mended gap.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How an engine treats requests that are in flight together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Batching {
    /// One at a time, in order of arrival.
    None,
    /// What is queued and has equal prompt and output lengths runs as one batch
    /// to its end.
    StaticEqualLength,
    /// Requests join and leave a running batch between steps.
    Continuous,
}

/// The model is in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// From the start of loading to ready.
    pub load_ns: u64,
    /// Bytes of weights that one decode step reads (tied embeddings once).
    pub weight_bytes: u64,
    /// Bytes of key/value cache a token of context takes.
    pub kv_bytes_per_token: u64,
}

/// A finished generation. `received ≤ started ≤ token[0] ≤ … ≤ token[last]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The request's.
    pub id: u64,
    /// The request line was read.
    pub received_ns: u64,
    /// Its first work began (it left the queue).
    pub started_ns: u64,
    /// When each output token was known on the host; `new_tokens` entries.
    pub token_ns: Vec<u64>,
    /// The output tokens; `new_tokens` entries. Empty where the engine hands out
    /// text and no ids ([`Done::output_text`]).
    pub output_ids: Vec<u32>,
    /// The output as text, from an engine that gives no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_text: Option<String>,
    /// Largest number of requests it shared a step with, itself included.
    pub batch: u32,
}

/// A finished score; all outer vectors have `ask.len()` entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The request's.
    pub id: u64,
    /// Most likely id at each position (lowest id on a tie).
    pub argmax: Vec<u32>,
    /// Natural-log probabilities of the ids asked for, normalised over the vocabulary.
    pub logprobs: Vec<Vec<f64>>,
    /// The `top` most likely ids, most likely first; empty where `top` was 0.
    #[serde(default)]
    pub top_ids: Vec<Vec<u32>>,
    /// Their log-probabilities.
    #[serde(default)]
    pub top_logprobs: Vec<Vec<f64>>,
}

/// Something failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The request's, or `None`: the whole engine failed.
    pub id: Option<u64>,
    /// What sort.
    pub kind: FailureKind,
    /// What, where, why, what to do; one line.
    pub message: String,
}

/// What sort of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Out of memory, host or device.
    Oom,
    /// The engine cannot do this (precision, model, length).
    Unsupported,
    /// Something it needs is not on this machine (a device, a library).
    Unavailable,
    /// The request makes no sense.
    BadRequest,
    /// Everything else.
    Internal,
}

#[cfg(test)]
mod tests {
    use super::{Capabilities, Load};
    use serde_json::json;

    #[test]
    fn nobody_is_asked_to_keep_prompts_unless_it_says_so() {
        let plain = json!({
            "model_dir": "m", "weights": "w", "precision": "f32", "backend": "cpu", "variant": "",
            "device": 0, "threads": 1, "max_context": 1, "max_batch": 1,
        });
        let mut load: Load = serde_json::from_value(plain.clone()).unwrap();
        assert!(!load.prefix_cache);
        // Who doesn't know the field is sent none.
        assert_eq!(serde_json::to_value(&load).unwrap(), plain);
        load.prefix_cache = true;
        assert_eq!(serde_json::to_value(&load).unwrap()["prefix_cache"], true);
        let older = json!({"batching": "none", "score": true});
        let capabilities: Capabilities = serde_json::from_value(older).unwrap();
        assert!(!capabilities.prefix_cache);
    }
}
