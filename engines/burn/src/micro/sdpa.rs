//! Attention in three ways: composed of plain operations, as Burn's own function, and by this
//! project's kernel.

use crate::backend::Backend;
use crate::linear::upload;
use crate::model::HIDDEN;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Tensor, activation};
use micro_inputs::sdpa::{Inputs, Shape};

/// The inputs of a case, on the device.
pub(super) struct Attention {
    shape: Shape,
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    /// The causal mask, 1 × 1 × positions × positions. It is made once, as a model makes it once
    /// for all its layers.
    hidden: Option<Tensor<4, Bool>>,
}

impl Attention {
    pub(super) fn new(seed: u64, shape: Shape, backend: &Backend) -> Self {
        let inputs = Inputs::draw(seed, &shape);
        let hidden = shape.causal.then(|| {
            let dims = [shape.seq, shape.seq];
            Tensor::<2, Bool>::tril_mask(dims, 0, &backend.device)
                .reshape([1, 1, shape.seq, shape.seq])
        });
        Self {
            shape,
            q: upload(inputs.q, shape.dims(), backend),
            k: upload(inputs.k, shape.dims(), backend),
            v: upload(inputs.v, shape.dims(), backend),
            hidden,
        }
    }

    pub(super) fn composed(&self) -> Tensor<1> {
        let q = self.q.clone() * self.shape.scale();
        let mut scores = q.matmul(self.k.clone().swap_dims(2, 3));
        if let Some(hidden) = &self.hidden {
            let hidden = hidden.clone().expand(scores.dims());
            scores = scores.mask_fill(hidden, HIDDEN);
        }
        let shares = activation::softmax(scores, 3);
        shares.matmul(self.v.clone()).reshape([-1])
    }

    pub(super) fn fused(&self) -> Tensor<1> {
        let options = AttentionModuleOptions {
            is_causal: self.shape.causal,
            ..AttentionModuleOptions::default()
        };
        let (q, k, v) = (self.q.clone(), self.k.clone(), self.v.clone());
        attention(q, k, v, None, None, options).reshape([-1])
    }

    #[cfg(feature = "cube")]
    pub(super) fn flash(&self) -> Tensor<1> {
        let (q, k, v) = (self.q.clone(), self.k.clone(), self.v.clone());
        super::flash::flash_attention(q, k, v, self.shape.causal).reshape([-1])
    }
}
