//! The sizes, weights and inputs of a small GPT-style decoder: pre-norm blocks with learned
//! position embeddings, biased projections, a feed-forward part of four times the width with GELU,
//! and an output head of its own.

use crate::draw::{below, uniform};
use protocol::engine::EngineError;
use protocol::micro::parameter;
use protocol::micro::wire::Prepare;

/// The epsilon of every layer norm.
pub const EPS: f64 = 1e-5;

/// The sizes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptConfig {
    /// Number of token ids.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Number of attention heads per block.
    pub heads: usize,
    /// Number of positions in the position embedding.
    pub positions: usize,
    /// Number of sequences in a call.
    pub batch: usize,
    /// Number of tokens in each sequence.
    pub seq: usize,
}

/// The weights of a linear layer, `y = W·x + b`.
pub struct LinearWeights {
    /// `W`, `out × input`, row-major.
    pub weight: Vec<f32>,
    /// `b`, `out` elements.
    pub bias: Vec<f32>,
    /// Number of outputs.
    pub out: usize,
    /// Number of inputs.
    pub input: usize,
}

/// The weights of a layer norm.
pub struct NormWeights {
    /// Scale, `hidden` elements.
    pub weight: Vec<f32>,
    /// Bias, `hidden` elements.
    pub bias: Vec<f32>,
}

/// The weights of one block.
pub struct BlockWeights {
    /// Norm before the attention.
    pub attention_norm: NormWeights,
    /// Projection hidden → 3·hidden to queries, keys and values.
    pub qkv: LinearWeights,
    /// Output projection of the attention, hidden → hidden.
    pub output: LinearWeights,
    /// Norm before the feed-forward part.
    pub mlp_norm: NormWeights,
    /// First feed-forward projection, hidden → 4·hidden.
    pub up: LinearWeights,
    /// Second feed-forward projection, 4·hidden → hidden.
    pub down: LinearWeights,
}

/// All weights of the decoder.
pub struct GptWeights {
    /// Token embedding, vocab × hidden.
    pub embedding: Vec<f32>,
    /// Position embedding, positions × hidden.
    pub positions: Vec<f32>,
    /// The blocks, in the order of their layers.
    pub blocks: Vec<BlockWeights>,
    /// Norm before the output head.
    pub norm: NormWeights,
    /// Output head, hidden → vocab.
    pub head: LinearWeights,
}

impl GptConfig {
    /// Read the sizes of a case.
    ///
    /// # Errors
    /// `bad_request` if a parameter is missing or the sizes don't fit together.
    pub fn read(case: &Prepare) -> Result<Self, EngineError> {
        let config = Self {
            vocab: parameter(case, "vocab")?,
            hidden: parameter(case, "hidden")?,
            layers: parameter(case, "layers")?,
            heads: parameter(case, "heads")?,
            positions: parameter(case, "positions")?,
            batch: parameter(case, "batch")?,
            seq: parameter(case, "seq")?,
        };
        if config.heads == 0
            || !config.hidden.is_multiple_of(config.heads)
            || config.seq > config.positions
        {
            return Err(EngineError::bad_request(format!(
                "sizes that don't fit each other: {config:?}"
            )));
        }
        Ok(config)
    }

    /// Number of tokens in a call.
    pub fn tokens(&self) -> usize {
        self.batch * self.seq
    }

    /// Dimension of an attention head.
    pub fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }

    /// Draw the input ids, batch × seq.
    pub fn ids(&self, seed: u64) -> Vec<u32> {
        below(seed, "ids", self.tokens(), self.vocab)
    }

    /// Draw all weights.
    pub fn weights(&self, seed: u64) -> GptWeights {
        let hidden = self.hidden;
        let linear = |name: String, input: usize, out: usize| LinearWeights {
            // Weights with a variance of 1 / inputs keep the magnitude of the activations.
            weight: uniform(
                seed,
                &format!("{name}.weight"),
                out * input,
                (3.0 / input as f32).sqrt(),
            ),
            bias: uniform(seed, &format!("{name}.bias"), out, 0.1),
            out,
            input,
        };
        let norm = |name: String| NormWeights {
            weight: uniform(seed, &format!("{name}.weight"), hidden, 0.5)
                .into_iter()
                .map(|w| 1.0 + w)
                .collect(),
            bias: uniform(seed, &format!("{name}.bias"), hidden, 0.1),
        };
        GptWeights {
            embedding: uniform(seed, "embedding", self.vocab * hidden, 1.0),
            positions: uniform(seed, "positions", self.positions * hidden, 1.0),
            blocks: (0..self.layers)
                .map(|layer| BlockWeights {
                    attention_norm: norm(format!("{layer}.attention_norm")),
                    qkv: linear(format!("{layer}.qkv"), hidden, 3 * hidden),
                    output: linear(format!("{layer}.output"), hidden, hidden),
                    mlp_norm: norm(format!("{layer}.mlp_norm")),
                    up: linear(format!("{layer}.up"), hidden, 4 * hidden),
                    down: linear(format!("{layer}.down"), 4 * hidden, hidden),
                })
                .collect(),
            norm: norm("norm".into()),
            head: linear("head".into(), hidden, self.vocab),
        }
    }
}
