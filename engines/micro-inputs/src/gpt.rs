//! A small GPT-style decoder: its sizes, weights and inputs. Pre-norm blocks with
//! learned positions, biased projections, a feed-forward part four times as wide with
//! GELU, and an output head of its own.

use crate::draw::{below, uniform};
use protocol::engine::EngineError;
use protocol::micro::parameter;
use protocol::micro::wire::Prepare;

/// The epsilon of every layer norm.
pub const EPS: f64 = 1e-5;

/// The sizes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptConfig {
    /// Ids.
    pub vocab: usize,
    /// Width of a token's state.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Heads of each.
    pub heads: usize,
    /// Positions it has.
    pub positions: usize,
    /// Sequences of a call.
    pub batch: usize,
    /// Tokens of each.
    pub seq: usize,
}

/// A linear layer, `y = W·x + b`.
pub struct LinearWeights {
    /// out × in, in rows.
    pub weight: Vec<f32>,
    /// out.
    pub bias: Vec<f32>,
    /// Outputs.
    pub out: usize,
    /// Inputs.
    pub input: usize,
}

/// A layer norm.
pub struct NormWeights {
    /// hidden.
    pub weight: Vec<f32>,
    /// hidden.
    pub bias: Vec<f32>,
}

/// One block.
pub struct BlockWeights {
    /// Before attention.
    pub attention_norm: NormWeights,
    /// hidden → 3·hidden: queries, keys, values.
    pub qkv: LinearWeights,
    /// hidden → hidden.
    pub output: LinearWeights,
    /// Before the feed-forward part.
    pub mlp_norm: NormWeights,
    /// hidden → 4·hidden.
    pub up: LinearWeights,
    /// 4·hidden → hidden.
    pub down: LinearWeights,
}

/// All weights.
pub struct GptWeights {
    /// vocab × hidden.
    pub embedding: Vec<f32>,
    /// positions × hidden.
    pub positions: Vec<f32>,
    /// The blocks.
    pub blocks: Vec<BlockWeights>,
    /// Before the head.
    pub norm: NormWeights,
    /// hidden → vocab.
    pub head: LinearWeights,
}

impl GptConfig {
    /// Read the sizes of a case.
    ///
    /// # Errors
    /// `bad_request` where a parameter is missing or the sizes don't fit each other.
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
            return Err(EngineError::new(
                protocol::wire::FailureKind::BadRequest,
                format!("sizes that don't fit each other: {config:?}"),
            ));
        }
        Ok(config)
    }

    /// Tokens of a call.
    pub fn tokens(&self) -> usize {
        self.batch * self.seq
    }

    /// Dimension of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }

    /// batch × seq ids.
    pub fn ids(&self, seed: u64) -> Vec<u32> {
        below(seed, "ids", self.tokens(), self.vocab)
    }

    /// Draw the weights.
    pub fn weights(&self, seed: u64) -> GptWeights {
        let hidden = self.hidden;
        let linear = |name: String, input: usize, out: usize| LinearWeights {
            // A variance of 1 over the inputs keeps the size of what goes through.
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
