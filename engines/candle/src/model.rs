//! The common interface of Candle's models, whatever file they came from.

use candle_core::Tensor;

/// The operations that every one of Candle's models supports.
pub trait Model {
    /// Discard the last batch's keys and values.
    fn forget(&mut self);

    /// Feed `ids` (rows × tokens, u32) from `position` on; return the logits after the last token
    /// (rows × vocabulary, f32).
    fn forward(&mut self, ids: &Tensor, position: usize) -> candle_core::Result<Tensor>;

    /// Number of positions in the model's RoPE table.
    fn positions(&self) -> usize;
}

/// A model that holds its own key/value cache. Candle's models of this kind have the same methods,
/// but no trait in common.
pub struct Owned<M> {
    /// The model.
    pub model: M,
    /// Number of positions in its RoPE table.
    pub positions: usize,
    /// Discards its keys and values.
    pub forget: fn(&mut M),
    /// Feeds ids, as [`Model::forward`] does.
    pub forward: fn(&mut M, &Tensor, usize) -> candle_core::Result<Tensor>,
}

impl<M> Model for Owned<M> {
    fn forget(&mut self) {
        (self.forget)(&mut self.model);
    }

    fn forward(&mut self, ids: &Tensor, position: usize) -> candle_core::Result<Tensor> {
        (self.forward)(&mut self.model, ids, position)
    }

    fn positions(&self) -> usize {
        self.positions
    }
}
