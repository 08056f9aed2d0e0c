//! Small models beside `tiny-llama`: one with outliers, one of each other architecture, and one in
//! shards.
//!
//! Each has `tiny-llama`'s size, so that the scales of `weights` hold, and differs from it where an
//! engine could confuse two architectures.

use super::ModelSpec;
use crate::architecture::Architecture;

impl ModelSpec {
    /// `tiny-llama` with outliers: shortcuts that a model without them hides change its answers.
    pub fn tiny_outliers() -> Self {
        Self {
            id: "tiny-outliers".into(),
            seed: 20_260_109,
            outliers: true,
            ..Self::tiny_llama()
        }
    }

    /// `tiny-llama` as a Mistral (like 7B v0.2, without a sliding window), with an output matrix of
    /// its own.
    pub fn tiny_mistral() -> Self {
        Self {
            id: "tiny-mistral".into(),
            seed: 20_260_105,
            architecture: Architecture::Mistral,
            tied: false,
            vocab_size: 2048,
            tokenizer_vocab: 2048,
            rope_theta: 1_000_000.0,
            ..Self::tiny_llama()
        }
    }

    /// `tiny-mistral` as a Phi-3: with fused projections.
    pub fn tiny_phi3() -> Self {
        Self {
            id: "tiny-phi3".into(),
            seed: 20_260_106,
            architecture: Architecture::Phi3,
            rope_theta: 10_000.0,
            ..Self::tiny_mistral()
        }
    }

    /// A Qwen3: norms for the heads of queries and keys. A head is twice as wide as `hidden_size /
    /// num_heads`, so an engine that derives its width instead of reading it is wrong.
    pub fn tiny_qwen3() -> Self {
        Self {
            id: "tiny-qwen3".into(),
            seed: 20_260_107,
            architecture: Architecture::Qwen3,
            vocab_size: 2048,
            tokenizer_vocab: 2048,
            intermediate_size: 512,
            num_kv_heads: 2,
            head_dim: 128,
            rope_theta: 1_000_000.0,
            rms_norm_eps: 1e-6,
            ..Self::tiny_llama()
        }
    }

    /// A Llama in two shards with an index, as larger models come.
    pub fn tiny_sharded() -> Self {
        Self {
            id: "tiny-sharded".into(),
            seed: 20_260_108,
            shards: 2,
            ..Self::tiny_llama()
        }
    }
}
