//! What Candle says when something fails, as one line.

use protocol::engine::EngineError;
use protocol::panicked;
use protocol::wire::FailureKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

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
