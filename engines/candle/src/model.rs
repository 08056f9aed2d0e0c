//! A model of Candle's, however it was loaded, and what Candle says when something fails, as one
//! line.

use candle_core::Tensor;
use protocol::engine::EngineError;
use protocol::panicked;
use protocol::wire::FailureKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

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

/// Candle unwraps here and there: a panic is an error like any other.
pub fn catching<T>(call: impl FnOnce() -> candle_core::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|err| one_line(&err)),
        Err(payload) => Err(panicked::message(payload.as_ref()).to_owned()),
    }
}

/// An error with the file it is about.
pub fn in_file(kind: FailureKind, path: &Path, err: impl std::fmt::Display) -> EngineError {
    EngineError::new(kind, format!("{}: {err}", path.display()))
}

/// A failed step, without the backtrace that Candle appends where one is enabled.
pub fn failed(err: &candle_core::Error) -> EngineError {
    EngineError::of_library(&err.to_string())
}

/// Without the backtrace that Candle appends where one is enabled.
fn one_line(err: &candle_core::Error) -> String {
    err.to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_string()
}
