//! The messages of the protocol. Each is one JSON object on a line: requests on the engine's
//! stdin, events on what was its stdout when the process started.
//!
//! All times are integer nanoseconds on `CLOCK_MONOTONIC` ([`crate::clock`]).
//! Token ids are `u32`. Unknown fields are ignored, so that a field can be added
//! without a new protocol number; a changed meaning needs a new number.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the protocol, sent in [`Hello::protocol`].
pub const PROTOCOL: u32 = 1;

/// A message from the harness to an engine.
///
/// ```
/// use protocol::wire::{Generate, Request};
///
/// let line = r#"{"op":"generate","id":7,"prompt_ids":[1,15043],"new_tokens":16}"#;
/// let request = Request::Generate(Generate {
///     id: 7,
///     prompt_ids: vec![1, 15043],
///     new_tokens: 16,
///     together: 1,
/// });
/// assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
/// assert_eq!(serde_json::to_string(&request).unwrap(), line);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Load a model. Always the first request, sent exactly once. Answered by [`Event::Hello`],
    /// then [`Event::Loaded`] or [`Event::Error`] (and the process exits).
    Load(Load),
    /// Generate tokens. Any number may be in flight; each is answered by one [`Event::Done`] or
    /// [`Event::Error`].
    Generate(Generate),
    /// Score given tokens (teacher forcing), for the parity gate and the check of timed outputs.
    /// Any number may be in flight; each is answered, in any order, by one [`Event::Scored`] or
    /// [`Event::Error`].
    Score(Score),
    /// Finish the requests in flight, then exit with status 0. End of input means the same.
    Exit,
}

/// The model to load, and how to load it. The default names nothing, and stands for the fields
/// that do not matter to a caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Directory with `config.json`, `tokenizer.json` and the weight files.
    pub model_dir: String,
    /// Weight file inside `model_dir`, e.g. `model.safetensors`, `model-q8_0.gguf`.
    pub weights: String,
    /// Precision of the weights: `f32`, `f16`, `bf16`, `q8_0` or `q4_k_m`.
    pub precision: String,
    /// The target's backend: `cpu`, `cuda`, ….
    pub backend: String,
    /// The target's variant, empty for the plain engine.
    #[serde(default)]
    pub variant: String,
    /// Index of the device on the backend.
    #[serde(default)]
    pub device: u32,
    /// Number of compute threads; the engine uses exactly this many where it can.
    pub threads: u32,
    /// Longest sequence (prompt + new tokens) of any request, in tokens.
    pub max_context: u32,
    /// Largest number of generate requests that will ever be in flight. Scores don't count: an
    /// engine runs as many of them together as it has room for.
    pub max_batch: u32,
    /// `true`: keep what was computed for a prompt, and reuse it for the common beginning of a
    /// later prompt. Set only for an engine whose capabilities say `prefix_cache`. If `false`,
    /// nothing that was computed for one request may be kept for another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_cache: bool,
}

impl Load {
    /// Return the path of the weight file.
    pub fn weights_path(&self) -> PathBuf {
        Path::new(&self.model_dir).join(&self.weights)
    }

    /// Whether the weights are a GGUF file, by its name.
    pub fn is_gguf(&self) -> bool {
        let file = Path::new(&self.weights);
        file.extension().is_some_and(|end| end == "gguf")
    }
}

/// A request to generate exactly `new_tokens` tokens by greedy decoding, ignoring EOS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generate {
    /// The request's id, chosen by the harness and unique within the process.
    pub id: u64,
    /// Token ids of the prompt; never empty.
    pub prompt_ids: Vec<u32>,
    /// Number of tokens to generate, at least 1.
    pub new_tokens: u32,
    /// Number of requests that the harness sends at once, this one included: the next
    /// `together − 1` requests to generate follow without a wait. An engine that runs static
    /// batches begins when they have arrived, or as many as fit. 1, the default: sent alone.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub together: u32,
}

fn alone() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_alone(together: &u32) -> bool {
    *together == 1
}

/// Feed `ids` one position after the other through the same cached path that
/// `generate` uses, and report the model's predictions at the last `ask.len()`
/// positions.
///
/// With `n = ids.len()` and `k = ask.len()` (`1 ≤ k ≤ n`): the first `n − k + 1`
/// ids are one prefill, each later id is one decode step; answer `j` is the
/// distribution after `ids[..n − k + 1 + j]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The request's id, as in [`Generate::id`].
    pub id: u64,
    /// Token ids of the prompt and of the forced tokens after it.
    pub ids: Vec<u32>,
    /// For each of the last `k` positions, the ids whose log-probability is wanted.
    pub ask: Vec<Vec<u32>>,
    /// If not 0, also report the `top` most likely ids of each position (the reference does this
    /// when goldens are made).
    #[serde(default)]
    pub top: u32,
    /// `true`: one forward pass over all of `ids` is enough, for an engine whose capabilities say
    /// `parallel_score`; queued requests of equal `n`, `k` and `top` may share that pass. Used to
    /// check timed outputs cheaply.
    #[serde(default)]
    pub parallel: bool,
}

/// A message from an engine to the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum Event {
    /// The engine's description of itself: the first answer to [`Request::Load`], before anything
    /// is loaded.
    Hello(Hello),
    /// The model is loaded and ready for requests.
    Loaded(Loaded),
    /// A generation is complete.
    Done(Done),
    /// A score is complete.
    Scored(Scored),
    /// Something failed. With `id: None` the whole engine has failed, and the process can't be
    /// used any more.
    Error(Failure),
}

/// An engine's description of itself: its name, version, build and capabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol's version, [`PROTOCOL`].
    pub protocol: u32,
    /// The engine's id, as in `engines.toml`.
    pub engine: String,
    /// Version of the engine itself, not of its adapter (for `candle`: candle-core's).
    pub version: String,
    /// How this binary was built, e.g. `rustc`, `features`, `target_cpu`, `target_features`,
    /// `lock_sha256`, `torch`. Free-form; recorded unchanged.
    #[serde(default)]
    pub build: BTreeMap<String, String>,
    /// The engine's capabilities.
    pub capabilities: Capabilities,
}

impl Hello {
    /// Create the description of an engine that has nothing to add to what the runtime knows of
    /// the build.
    pub fn new(engine: &str, version: impl Into<String>, capabilities: Capabilities) -> Self {
        Self {
            protocol: PROTOCOL,
            engine: engine.to_owned(),
            version: version.into(),
            build: BTreeMap::new(),
            capabilities,
        }
    }

    /// Return the same description, with a fact of the build added.
    pub fn with_build(mut self, key: &str, fact: impl Into<String>) -> Self {
        self.build.insert(key.to_owned(), fact.into());
        self
    }
}

/// The capabilities of an engine, which are printed beside its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// How the engine treats requests that are in flight together.
    pub batching: Batching,
    /// Whether the engine answers `score`. Without it, only the scope `text` can be verified.
    pub score: bool,
    /// Whether `score` with `parallel` is cheaper than the incremental path.
    #[serde(default)]
    pub parallel_score: bool,
    /// Whether the engine can reuse what it computed for a prompt's beginning
    /// ([`Load::prefix_cache`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_cache: bool,
    /// A known defect of this engine with this model that shows only at long contexts (e.g. RoPE
    /// scaling ignored), in one line. A target that declares one may pass the gate for short
    /// contexts alone; a target that declares none must pass for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_gap: Option<String>,
    /// Remarks that a reader of the numbers must know. One on a defect of the engine that the
    /// adapter works around begins with `mended: `, and the guide puts it first.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Capabilities {
    /// Create the capabilities of an engine that answers `score` and has nothing else to declare.
    pub fn new(batching: Batching) -> Self {
        Self {
            batching,
            score: true,
            parallel_score: false,
            prefix_cache: false,
            position_gap: None,
            notes: Vec::new(),
        }
    }
}

/// How an engine treats requests that are in flight together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Batching {
    /// Requests run one at a time, in order of arrival.
    None,
    /// Queued requests with equal prompt and output lengths run as one batch to its end.
    StaticEqualLength,
    /// Requests join and leave a running batch between steps.
    Continuous,
}

/// The answer to [`Load`]: the model is in memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Time from the start of loading until the model was ready (ns). The runtime measures it.
    pub load_ns: u64,
    /// Bytes of weights that one decode step reads (tied embeddings once).
    pub weight_bytes: u64,
    /// Bytes that the keys and values of one token of context take in the cache, scales included;
    /// without padding, and without room that is reserved.
    pub kv_bytes_per_token: u64,
    /// Facts that only the loaded library can state, e.g. the number format that it chose to
    /// compute in on this processor. Free-form; recorded beside [`Hello::build`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runtime: BTreeMap<String, String>,
}

/// A finished generation. `received ≤ started ≤ token[0] ≤ … ≤ token[last]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The id of the [`Generate`] request.
    pub id: u64,
    /// When the request's line was read (ns).
    pub received_ns: u64,
    /// When the engine began to work on the request (ns): it left the queue.
    pub started_ns: u64,
    /// When each output token was known on the host (ns); `new_tokens` entries.
    pub token_ns: Vec<u64>,
    /// Ids of the output tokens; `new_tokens` entries. Empty if the engine returns text and no
    /// ids ([`Done::output_text`]).
    pub output_ids: Vec<u32>,
    /// The output as text, from an engine that returns no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_text: Option<String>,
    /// Largest number of requests that shared a step with this one, itself included.
    pub batch: u32,
}

/// A finished score; all outer vectors have `ask.len()` entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The id of the [`Score`] request.
    pub id: u64,
    /// Most likely id at each position (lowest id on a tie).
    pub argmax: Vec<u32>,
    /// Natural logarithms of the probabilities of the ids in `ask`, normalised over the
    /// vocabulary.
    pub logprobs: Vec<Vec<f64>>,
    /// The `top` most likely ids, most likely first; empty if `top` was 0.
    #[serde(default)]
    pub top_ids: Vec<Vec<u32>>,
    /// Log-probabilities of `top_ids`.
    #[serde(default)]
    pub top_logprobs: Vec<Vec<f64>>,
}

/// The description of a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The id of the request that failed, or `None` if the whole engine failed.
    pub id: Option<u64>,
    /// The kind of failure.
    pub kind: FailureKind,
    /// What failed, where, why, and what to do about it; one line.
    pub message: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The host or the device is out of memory.
    Oom,
    /// The engine does not support the request (precision, model, length).
    Unsupported,
    /// Something that the engine needs is not on this machine (a device, a library).
    Unavailable,
    /// The request is not valid.
    BadRequest,
    /// Any other failure.
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
        // An engine that doesn't know the field must not be sent it.
        assert_eq!(serde_json::to_value(&load).unwrap(), plain);
        load.prefix_cache = true;
        assert_eq!(serde_json::to_value(&load).unwrap()["prefix_cache"], true);
        let older = json!({"batching": "none", "score": true});
        let capabilities: Capabilities = serde_json::from_value(older).unwrap();
        assert!(!capabilities.prefix_cache);
    }
}
