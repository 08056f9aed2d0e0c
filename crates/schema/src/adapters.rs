//! `data/adapters.json`: what our adapters cost, as `cargo xtask bench-adapters --write` found.
//! The methodology page prints it.

use crate::error::{DataError, read_json};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What adapters cost on one machine with one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterCosts {
    /// Day of the measurement, `2026-11-25`.
    pub measured: String,
    /// Revision of the repository, where known.
    pub revision: Option<String>,
    /// Name of the processor, where known.
    pub cpu_model: Option<String>,
    /// Id of the model.
    pub model: String,
    /// A row for every engine and kind of work.
    pub rows: Vec<AdapterCost>,
}

/// One engine through our adapter and driven directly, at one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterCost {
    /// Engine id.
    pub engine: String,
    /// Its version, as the adapter says it.
    pub version: String,
    /// Target whose adapter was timed.
    pub target: String,
    /// What was timed.
    pub work: Work,
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Interleaved pairs of processes.
    pub pairs: u32,
    /// Geometric mean over pairs of adapter ÷ direct, in tokens per second.
    pub ratio: f64,
    /// Its 95 % interval; absent with one pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Through our adapter, median (tokens per second: of the prompt in prefill, else of the output).
    pub adapter_tok_per_s: f64,
    /// Driven directly, median.
    pub direct_tok_per_s: f64,
    /// What drove it, with its version, where that is the engine's own benchmark; absent where
    /// it is a program of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Why the two gave different tokens; empty where all were equal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub other_tokens: String,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A prompt is read, and one token comes.
    Prefill,
    /// Tokens are written after a short prompt.
    Decode,
}

impl Work {
    /// As it stands in the file.
    pub fn name(self) -> &'static str {
        match self {
            Work::Prefill => "prefill",
            Work::Decode => "decode",
        }
    }
}

impl AdapterCosts {
    /// Load the file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_json(path)
    }
}
