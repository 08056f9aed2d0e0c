//! A model of Candle's, however it was loaded.

use candle_core::Tensor;

/// What each of Candle's models can do.
pub trait Model {
    /// Forget the last batch.
    fn forget(&mut self);

    /// Feed `ids` (rows × tokens, u32) from `position` on; the logits after the
    /// last token (rows × vocabulary, f32).
    fn forward(&mut self, ids: &Tensor, position: usize) -> candle_core::Result<Tensor>;

    /// Positions it has a RoPE table for.
    fn positions(&self) -> usize;
}

/// A loaded model and what it is about to hand over.
pub struct Loading {
    /// The model.
    pub model: Box<dyn Model>,
    /// As in [`protocol::wire::Loaded::weight_bytes`].
    pub weight_bytes: u64,
    /// As in [`protocol::wire::Loaded::kv_bytes_per_token`].
    pub kv_bytes_per_token: u64,
}
