//! Makes the parts of a model from the tensors of a file. Several projections of the same input
//! become one, as Phi-3 stores them anyway.

use super::{Layer, Norm};
use crate::backend::Backend;
use crate::linear::{Linear, upload};
use crate::weights::Tensors;
use burn::tensor::Tensor;
use protocol::engine::EngineError;
use shape::Shape;

/// A reader of the parts of a model.
pub(super) struct Reader<'a> {
    pub(super) tensors: &'a Tensors<'a>,
    pub(super) backend: &'a Backend,
    pub(super) config: &'a Shape,
}

impl Reader<'_> {
    pub(super) fn norm(&self, name: &str, width: usize) -> Result<Norm, EngineError> {
        let weight = self.tensors.read(&format!("{name}.weight"), &[width])?;
        Ok(Norm {
            weight: upload(weight, [1, width], self.backend),
            eps: self.config.eps,
        })
    }

    /// Read the norms of the query heads, one after another, and then those of the key heads.
    fn qk_norm(&self, q: &str, k: &str) -> Result<Option<Tensor<4>>, EngineError> {
        let &Shape {
            heads,
            kv_heads,
            head_dim,
            ..
        } = self.config;
        if !self.config.has_qk_norm() {
            return Ok(None);
        }
        let read = |name: &str| self.tensors.read(&format!("{name}.weight"), &[head_dim]);
        let weights = [read(q)?.repeat(heads), read(k)?.repeat(kv_heads)].concat();
        let shape = [1, heads + kv_heads, 1, head_dim];
        Ok(Some(upload(weights, shape, self.backend)))
    }

    pub(super) fn linear(
        &self,
        name: &str,
        out: usize,
        input: usize,
        bias: bool,
    ) -> Result<Linear, EngineError> {
        self.stacked(&[(name.to_string(), out)], input, bias)
    }

    /// Read several projections of the same input as one; `parts` has the name and outputs of
    /// each.
    fn stacked(
        &self,
        parts: &[(String, usize)],
        input: usize,
        bias: bool,
    ) -> Result<Linear, EngineError> {
        let (mut weight, mut biases) = (Vec::new(), Vec::new());
        for (name, out) in parts {
            let values = self
                .tensors
                .read(&format!("{name}.weight"), &[*out, input])?;
            // A single part, the common case, is moved and not copied.
            if weight.is_empty() {
                weight = values;
            } else {
                weight.extend(values);
            }
            if bias {
                biases.extend(self.tensors.read(&format!("{name}.bias"), &[*out])?);
            }
        }
        let out = parts.iter().map(|(_, out)| out).sum();
        Ok(Linear::new(
            weight,
            out,
            bias.then_some(biases),
            self.backend,
        ))
    }

    pub(super) fn layer(&self, name: &str) -> Result<Layer, EngineError> {
        let config = self.config;
        let (hidden, inner) = (config.dim, config.hidden);
        let (q, kv) = (config.q_dim(), config.kv_dim());
        let within = |block: &str, part: &str| format!("{name}.{block}.{part}");
        let attention = |part: &str| within("self_attn", part);
        let mlp = |part: &str| within("mlp", part);
        // Phi-3 stores the parts already stacked in this order.
        let (qkv, gate_up) = if config.is_fused() {
            (
                vec![(attention("qkv_proj"), q + 2 * kv)],
                vec![(mlp("gate_up_proj"), 2 * inner)],
            )
        } else {
            (
                vec![
                    (attention("q_proj"), q),
                    (attention("k_proj"), kv),
                    (attention("v_proj"), kv),
                ],
                vec![(mlp("gate_proj"), inner), (mlp("up_proj"), inner)],
            )
        };
        Ok(Layer {
            attention_norm: self.norm(&format!("{name}.input_layernorm"), hidden)?,
            qkv: self.stacked(&qkv, hidden, config.attention_bias)?,
            qk_norm: self.qk_norm(&attention("q_norm"), &attention("k_norm"))?,
            output: self.linear(&attention("o_proj"), hidden, q, config.attention_bias)?,
            mlp_norm: self.norm(&format!("{name}.post_attention_layernorm"), hidden)?,
            gate_up: self.stacked(&gate_up, hidden, config.mlp_bias)?,
            down: self.linear(&mlp("down_proj"), hidden, inner, config.mlp_bias)?,
            keys: None,
            values: None,
        })
    }
}
