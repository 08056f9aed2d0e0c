//! `data/golden/<model>.json`: what the reference thinks comes next.

use crate::error::{DataError, read_json};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Positions scored per prompt.
pub const POSITIONS: usize = 64;
/// Most likely ids kept per position.
pub const TOP: usize = 32;

/// The goldens of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Model id.
    pub model: String,
    /// sha256 of the weight file that the reference read.
    pub weights_sha256: String,
    /// Target id and version of the reference.
    pub reference: String,
    /// Target id and version that the reference was checked against, and the
    /// largest mean KL divergence (nats) between the two over the prompts.
    pub cross_check: String,
    /// That divergence.
    pub cross_check_kl_nats: f64,
    /// The prompts.
    pub prompts: Vec<GoldenPrompt>,
}

/// One prompt, the reference's greedy continuation and its distributions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenPrompt {
    /// For messages, e.g. `long`.
    pub name: String,
    /// The prompt.
    pub prompt_ids: Vec<u32>,
    /// The reference's greedy continuation; [`POSITIONS`] ids.
    pub output_ids: Vec<u32>,
    /// For each position the [`TOP`] most likely ids, most likely first.
    pub top_ids: Vec<Vec<u32>>,
    /// Their log-probabilities (nats), rounded to 1e-7.
    pub top_logprobs: Vec<Vec<f64>>,
}

impl GoldenPrompt {
    /// By how much (nats) the reference prefers its best id at `position`.
    pub fn margin(&self, position: usize) -> f64 {
        self.top_logprobs[position][0] - self.top_logprobs[position][1]
    }

    /// The prompt and all forced tokens: what `score` is sent.
    pub fn forced_ids(&self) -> Vec<u32> {
        let mut ids = self.prompt_ids.clone();
        ids.extend_from_slice(&self.output_ids[..self.output_ids.len() - 1]);
        ids
    }
}

impl Golden {
    /// Load and validate.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let golden: Self = read_json(path)?;
        for prompt in &golden.prompts {
            let shape = prompt.output_ids.len() == POSITIONS
                && prompt.top_ids.len() == POSITIONS
                && prompt.top_logprobs.len() == POSITIONS
                && prompt.top_ids.iter().all(|ids| ids.len() == TOP)
                && prompt.top_logprobs.iter().all(|lp| lp.len() == TOP)
                && !prompt.prompt_ids.is_empty();
            if !shape {
                return Err(DataError::new(
                    path,
                    format!(
                        "prompt {:?} does not have {POSITIONS} positions × {TOP} ids; make it anew with `cargo xtask verify --bless`",
                        prompt.name
                    ),
                ));
            }
        }
        if golden.prompts.is_empty() {
            return Err(DataError::new(path, "has no prompts"));
        }
        Ok(golden)
    }
}
