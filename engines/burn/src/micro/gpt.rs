//! The forward pass of a small GPT: embedding, blocks, head, and the logits of every token.

use crate::backend::Backend;
use crate::linear::upload;
use crate::model::HIDDEN;
use burn::tensor::{Bool, Int, Tensor, TensorData, activation};
use micro_inputs::gpt::{BlockWeights, EPS, GptConfig, LinearWeights, NormWeights};

/// The model and its input.
pub(super) struct Gpt {
    config: GptConfig,
    ids: Tensor<1, Int>,     // tokens of all rows
    embedding: Tensor<2>,    // vocabulary × hidden
    positions: Tensor<2>,    // tokens of all rows × hidden
    hidden: Tensor<4, Bool>, // 1 × 1 × seq × seq
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
}

struct Block {
    attention_norm: Norm,
    qkv: Linear,
    output: Linear,
    mlp_norm: Norm,
    up: Linear,
    down: Linear,
}

struct Linear {
    weight: Tensor<2>, // in × out
    bias: Tensor<2>,   // 1 × out
}

struct Norm {
    weight: Tensor<2>, // 1 × hidden
    bias: Tensor<2>,
}

impl Linear {
    fn new(weights: LinearWeights, backend: &Backend) -> Self {
        let LinearWeights { out, input, .. } = weights;
        // Stored transposed, as it is multiplied; Burn's own layer does the same.
        let transposed = (0..input * out).map(|i| weights.weight[i % out * input + i / out]);
        Self {
            weight: upload(transposed.collect(), [input, out], backend),
            bias: upload(weights.bias, [1, out], backend),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.clone()) + self.bias.clone()
    }
}

impl Norm {
    fn new(weights: NormWeights, backend: &Backend) -> Self {
        let width = weights.weight.len();
        Self {
            weight: upload(weights.weight, [1, width], backend),
            bias: upload(weights.bias, [1, width], backend),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let centred = x.clone() - x.mean_dim(1);
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        centred / (variance + EPS).sqrt() * self.weight.clone() + self.bias.clone()
    }
}

impl Block {
    fn new(weights: BlockWeights, backend: &Backend) -> Self {
        Self {
            attention_norm: Norm::new(weights.attention_norm, backend),
            qkv: Linear::new(weights.qkv, backend),
            output: Linear::new(weights.output, backend),
            mlp_norm: Norm::new(weights.mlp_norm, backend),
            up: Linear::new(weights.up, backend),
            down: Linear::new(weights.down, backend),
        }
    }

    fn forward(&self, x: Tensor<2>, gpt: &Gpt) -> Tensor<2> {
        let attended = self.attend(self.attention_norm.forward(x.clone()), gpt);
        let x = x + self.output.forward(attended);
        let up = self.up.forward(self.mlp_norm.forward(x.clone()));
        x + self.down.forward(activation::gelu(up))
    }

    fn attend(&self, x: Tensor<2>, gpt: &Gpt) -> Tensor<2> {
        let GptConfig {
            batch,
            seq,
            heads,
            hidden,
            ..
        } = gpt.config;
        let dim = gpt.config.head_dim();
        let qkv = self.qkv.forward(x).reshape([batch, seq, 3, heads, dim]);
        let part = |index: usize| {
            let part = qkv.clone().narrow(2, index, 1);
            part.reshape([batch, seq, heads, dim]).swap_dims(1, 2)
        };
        let q = part(0) * (1.0 / (dim as f64).sqrt());
        let scores = q.matmul(part(1).swap_dims(2, 3));
        let masked = gpt.hidden.clone().expand(scores.dims());
        let scores = scores.mask_fill(masked, HIDDEN);
        let attended = activation::softmax(scores, 3).matmul(part(2));
        attended.swap_dims(1, 2).reshape([batch * seq, hidden])
    }
}

impl Gpt {
    pub(super) fn new(seed: u64, config: GptConfig, backend: &Backend) -> Self {
        let weights = config.weights(seed);
        let ids: Vec<i32> = config.ids(seed).into_iter().map(|id| id as i32).collect();
        let places = weights.positions[..config.seq * config.hidden].repeat(config.batch);
        let mask = Tensor::<2, Bool>::tril_mask([config.seq, config.seq], 0, &backend.device);
        Self {
            config,
            ids: Tensor::from_data(TensorData::new(ids, [config.tokens()]), &backend.device),
            embedding: upload(weights.embedding, [config.vocab, config.hidden], backend),
            positions: upload(places, [config.tokens(), config.hidden], backend),
            hidden: mask.reshape([1, 1, config.seq, config.seq]),
            blocks: weights
                .blocks
                .into_iter()
                .map(|block| Block::new(block, backend))
                .collect(),
            norm: Norm::new(weights.norm, backend),
            head: Linear::new(weights.head, backend),
        }
    }

    pub(super) fn forward(&self) -> Tensor<1> {
        let embedded = self.embedding.clone().select(0, self.ids.clone());
        let mut x = embedded + self.positions.clone();
        for block in &self.blocks {
            x = block.forward(x, self);
        }
        self.head.forward(self.norm.forward(x)).reshape([-1])
    }
}
