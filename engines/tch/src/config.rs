//! The shape of a model, in the integer types that libtorch takes. This module knows nothing of
//! libtorch.

use protocol::engine::EngineError;
use shape::{Computes, Rope, Shape};
use std::path::Path;

/// Biases of projections are refused, because this engine doesn't add them.
const COMPUTES: Computes = Computes {
    engine: "tch-bench",
    biases: false,
};

/// How the weights of a layer are named and split into tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Llama, Mistral and Qwen3: `q_proj`, `k_proj`, `v_proj`; `gate_proj`, `up_proj`.
    Split,
    /// Phi-3: `qkv_proj`; `gate_up_proj`, in the order in which this engine joins the others.
    Fused,
}

/// The shape of a model, with sizes as libtorch takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Names and splitting of the weights.
    pub layout: Layout,
    /// Width of the residual stream.
    pub dim: i64,
    /// Width of the feed-forward layers.
    pub inner: i64,
    /// Number of layers.
    pub layers: i64,
    /// Number of query heads.
    pub heads: i64,
    /// Number of key/value heads.
    pub kv_heads: i64,
    /// Dimension of a head.
    pub head_dim: i64,
    /// Number of token ids.
    pub vocabulary: i64,
    /// ε of the RMS norms.
    pub eps: f64,
    /// Whether the output head shares the embedding's weights.
    pub tied: bool,
    /// Whether each query and key head is normalised, as in Qwen3.
    pub has_qk_norm: bool,
    /// The settings of the position embeddings.
    pub rope: Rope,
}

impl Config {
    /// Read a `config.json`, for sequences of up to `max_context` tokens.
    ///
    /// # Errors
    /// Returns the errors of [`Shape::read`], and one for a sliding window shorter than
    /// `max_context`.
    pub fn read(path: &Path, max_context: u32) -> Result<Self, EngineError> {
        let shape = Shape::read(path, &COMPUTES)?;
        shape.within_window(max_context as usize)?;
        Ok(Self::new(shape))
    }

    fn new(shape: Shape) -> Self {
        Self {
            layout: match shape.is_fused() {
                true => Layout::Fused,
                false => Layout::Split,
            },
            // All are bounded far below 2⁶³.
            dim: shape.dim as i64,
            inner: shape.hidden as i64,
            layers: shape.layers as i64,
            heads: shape.heads as i64,
            kv_heads: shape.kv_heads as i64,
            head_dim: shape.head_dim as i64,
            vocabulary: shape.vocabulary as i64,
            eps: shape.eps,
            tied: shape.tied,
            has_qk_norm: shape.has_qk_norm(),
            rope: shape.rope,
        }
    }

    /// Number of query heads that share a key/value head.
    pub fn group(&self) -> i64 {
        self.heads / self.kv_heads
    }

    /// Number of query, key and value heads of a layer.
    pub fn all_heads(&self) -> i64 {
        self.heads + 2 * self.kv_heads
    }

    /// Elements in the keys and values of all layers for one position.
    pub fn kv_elements(&self) -> i64 {
        2 * self.layers * self.kv_heads * self.head_dim
    }
}
