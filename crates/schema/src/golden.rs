//! `data/golden/<model>.json`, and `golden.json` beside a model's files: the tokens that the
//! reference predicts. The first is committed; the second is made on this machine, for a model or
//! for contexts that the first doesn't have.
//!
//! For some precisions the reference reads the weights of the target's own file, which are rounded
//! to few bits. Their golden is `data/golden/<model>.<weights>.json`; `<weights>` is the file's
//! name without its extension.
//!
//! `data/parity.toml`: how far each precision may deviate from the reference.

use crate::error::{DataError, read_checked, read_json};
use crate::registry::Target;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Number of positions scored per prompt.
pub const POSITIONS: usize = 64;
/// Number of most likely ids kept per position.
pub const TOP: usize = 32;
/// Number of positions that the prompts of every golden cover, as far as the model has them. Longer
/// prompts are asked only where a plan has contexts of their length.
pub const USUAL_POSITIONS: u32 = 1024;

/// The goldens of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Model id.
    pub model: String,
    /// sha256 of the weight file that the reference read.
    pub weights_sha256: String,
    /// Target id and version of the reference.
    pub reference: String,
    /// Target id and version that the reference was checked against.
    pub cross_check: String,
    /// Largest mean KL divergence (nats) between the two over the prompts.
    pub cross_check_kl_nats: f64,
    /// The prompts.
    pub prompts: Vec<GoldenPrompt>,
}

/// One prompt, the reference's greedy continuation and its distributions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenPrompt {
    /// Name for messages, such as `long`.
    pub name: String,
    /// Token ids of the prompt.
    pub prompt_ids: Vec<u32>,
    /// The reference's greedy continuation; [`POSITIONS`] ids.
    pub output_ids: Vec<u32>,
    /// For each position, the [`TOP`] most likely ids, most likely first.
    pub top_ids: Vec<Vec<u32>>,
    /// Log-probabilities of `top_ids` (nats), rounded to 1e-7.
    pub top_logprobs: Vec<Vec<f64>>,
}

impl GoldenPrompt {
    /// Length of the context that the prompt and its positions span (tokens).
    pub fn context_tokens(&self) -> u32 {
        (self.prompt_ids.len() + self.output_ids.len()) as u32
    }

    /// Whether the prompt is a long one, which is asked only where a plan has contexts of its
    /// length.
    pub fn is_long(&self) -> bool {
        self.context_tokens() > USUAL_POSITIONS
    }

    /// Margin by which the reference prefers its best id at `position` (nats).
    pub fn margin(&self, position: usize) -> f64 {
        self.top_logprobs[position][0] - self.top_logprobs[position][1]
    }

    /// The ids that `score` is sent: the prompt and all forced tokens.
    pub fn forced_ids(&self) -> Vec<u32> {
        let mut ids = self.prompt_ids.clone();
        ids.extend_from_slice(&self.output_ids[..self.output_ids.len() - 1]);
        ids
    }
}

impl Golden {
    /// Keep the prompts for contexts of these lengths (tokens): the usual ones, and those long ones
    /// that end where one of these contexts ends.
    pub fn for_contexts(mut self, contexts: &[u32]) -> Self {
        let is_asked = |prompt: &GoldenPrompt| {
            !prompt.is_long() || contexts.contains(&prompt.context_tokens())
        };
        self.prompts.retain(is_asked);
        self
    }

    /// Add those long prompts of another golden of the same weights whose lengths this one lacks.
    pub fn with_long_prompts_of(mut self, other: Golden) -> Self {
        for prompt in other.prompts.into_iter().filter(GoldenPrompt::is_long) {
            if !self.reaches(prompt.context_tokens()) {
                self.prompts.push(prompt);
            }
        }
        self
    }

    /// Whether a prompt ends where a context of this length (tokens) ends.
    pub fn reaches(&self, context_tokens: u32) -> bool {
        let mut contexts = self.prompts.iter().map(GoldenPrompt::context_tokens);
        contexts.any(|tokens| tokens == context_tokens)
    }

    /// The longest context that it verifies (tokens).
    pub fn positions(&self) -> u32 {
        let contexts = self.prompts.iter().map(GoldenPrompt::context_tokens);
        contexts.max().unwrap_or(0)
    }

    /// The content of its file.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).expect("it has no keys but strings");
        text + "\n"
    }

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
                let message = format!(
                    "prompt {:?} does not have {POSITIONS} positions × {TOP} ids; make it anew with `cargo xtask verify --bless`",
                    prompt.name
                );
                return Err(DataError::new(path, message));
            }
        }
        if golden.prompts.is_empty() {
            return Err(DataError::new(path, "has no prompts"));
        }
        Ok(golden)
    }
}

/// The limits of the parity gate, by precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParityLimits {
    /// The model with outliers, which each target is asked about too, whatever model is measured;
    /// absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<String>,
    /// Precision (`f32`, `bf16`, …) → its limit.
    pub precision: BTreeMap<String, Limit>,
}

/// The limit of one precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Largest mean KL divergence per prompt (nats), over the reference's 32 likeliest ids and the
    /// rest as one bin.
    pub kl_nats_max: f64,
    /// Width of a tie: where the reference's best two log-probabilities are closer than this
    /// (nats), either is right.
    pub tie_width_nats: f64,
    /// Where a target's own log-probabilities of two ids are closer than this (nats), a batch may
    /// choose another one of them than a single request does.
    pub batch_tie_nats: f64,
    /// Whether the reference reads the weights of the target's own file, rounded as they are there,
    /// and not the model's. Then only what the engine does makes a difference, not the rounding in
    /// the file.
    #[serde(default)]
    pub own_weights: bool,
    /// The measurement that these limits come from.
    pub reason: String,
}

impl Limit {
    /// Whether `other` accepts everything that this limit accepts.
    pub fn is_within(&self, other: &Limit) -> bool {
        self.kl_nats_max <= other.kl_nats_max
            && self.tie_width_nats <= other.tie_width_nats
            && self.batch_tie_nats <= other.batch_tie_nats
    }
}

impl ParityLimits {
    /// The model with outliers that `targets` are asked about in a run of `measured`; `None` where
    /// there are no targets, or the run measures that model itself.
    pub fn outliers_beside(&self, measured: &str, targets: &[Target]) -> Option<&str> {
        let is_asked = |model: &&str| !targets.is_empty() && *model != measured;
        self.outliers.as_deref().filter(is_asked)
    }

    /// The weights file that the reference reads for a target, where it isn't the model's.
    pub fn own_weights<'a>(&self, target: &'a Target) -> Option<&'a str> {
        let limit = self.precision.get(&target.precision)?;
        limit.own_weights.then_some(target.weights.as_str())
    }

    /// What the reference reads for these targets: `None`, the model's weights, first, and then
    /// the weights files of its own precisions.
    pub fn references<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a Target>,
    ) -> BTreeSet<Option<&'a str>> {
        let own = targets.into_iter().map(|target| self.own_weights(target));
        std::iter::once(None).chain(own).collect()
    }

    /// Load and validate.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_checked(path, Self::check)
    }

    fn check(&self) -> Result<(), String> {
        for (precision, limit) in &self.precision {
            let all = [
                limit.kl_nats_max,
                limit.tie_width_nats,
                limit.batch_tie_nats,
            ];
            if !all.iter().all(|&value| value > 0.0) {
                return Err(format!("[precision.{precision}]: limits must be above 0"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(contexts: &[u32]) -> Golden {
        let prompt = |&context: &u32| GoldenPrompt {
            name: context.to_string(),
            prompt_ids: vec![1; context as usize - POSITIONS],
            output_ids: vec![1; POSITIONS],
            ..GoldenPrompt::default()
        };
        Golden {
            prompts: contexts.iter().map(prompt).collect(),
            ..Golden::default()
        }
    }

    fn contexts(golden: &Golden) -> Vec<u32> {
        let prompts = golden.prompts.iter();
        prompts.map(GoldenPrompt::context_tokens).collect()
    }

    #[test]
    fn far_prompts_are_asked_only_of_plans_that_need_them() {
        let golden = golden(&[96, 1024, 4160, 8256]);
        assert_eq!(golden.positions(), 8256);
        assert!(golden.reaches(4160) && !golden.reaches(4161));
        let of = |needed: &[u32]| contexts(&golden.clone().for_contexts(needed));
        assert_eq!(of(&[]), [96, 1024]);
        assert_eq!(of(&[74, 8256, 9000]), [96, 1024, 8256]);
    }

    #[test]
    fn what_is_committed_wins_over_what_was_made_here() {
        let mut committed = golden(&[96, 1024, 4160]);
        committed.prompts[2].name = "committed".into();
        let both = committed.with_long_prompts_of(golden(&[96, 1024, 4160, 8256]));
        assert_eq!(contexts(&both), [96, 1024, 4160, 8256]);
        assert_eq!(both.prompts[2].name, "committed");
    }
}
