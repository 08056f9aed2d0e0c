//! The common interface of Candle's models, whatever file they came from, and the conversion of
//! Candle's errors to one line.

use candle_core::Tensor;
use protocol::engine::EngineError;
use protocol::panicked;
use protocol::wire::FailureKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

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

/// A loaded model, with the sizes to report for it.
pub struct Loading {
    /// The loaded model.
    pub model: Box<dyn Model>,
    /// Bytes of weights that a decode step reads, as in [`protocol::wire::Loaded::weight_bytes`].
    pub weight_bytes: u64,
    /// Bytes of key/value cache per token, as in [`protocol::wire::Loaded::kv_bytes_per_token`].
    pub kv_bytes_per_token: u64,
}

/// Call into Candle; a panic becomes an error too, because Candle unwraps in some places.
pub fn catching<T>(call: impl FnOnce() -> candle_core::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|err| one_line(&err)),
        Err(payload) => Err(panicked::message(payload.as_ref()).to_owned()),
    }
}

/// Create an error that names the file it is about.
pub fn in_file(kind: FailureKind, path: &Path, err: impl std::fmt::Display) -> EngineError {
    EngineError::new(kind, format!("{}: {err}", path.display()))
}

/// Convert a failed step's error, without the backtrace that Candle appends if one is enabled.
pub fn failed(err: &candle_core::Error) -> EngineError {
    EngineError::of_library(&err.to_string())
}

/// Return the error's first line, without the backtrace that Candle appends if one is enabled.
fn one_line(err: &candle_core::Error) -> String {
    err.to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_string()
}
