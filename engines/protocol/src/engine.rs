//! The trait that an adapter implements. The runtime does everything else: it reads requests,
//! forms batches, reads the clock and answers.
//!
//! The contract is small on purpose: a batch of sequences of equal length is prefilled, then
//! advanced by one token per step. `score` and `generate` are built from the same two calls, so
//! the gate checks the very path that is timed.

pub mod testing;

use crate::wire::{Failure, FailureKind, Hello, Load, Loaded};
use std::path::Path;

/// The error of a call into an engine. The runtime turns it into [`Failure`].
#[derive(Clone, Debug)]
pub struct EngineError {
    /// The kind of failure.
    pub kind: FailureKind,
    /// What failed, where, why, and what to do about it; one line.
    pub message: String,
}

impl EngineError {
    /// Create an error of the given kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Create an error of kind [`FailureKind::Internal`]: something unexpected.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Internal, message.to_string())
    }

    /// Create an error from a library's message, of which the first line is kept because some
    /// libraries append a stack trace. Libraries give no kind, so running out of memory is
    /// recognised by the words.
    pub fn of_library(said: impl std::fmt::Display) -> Self {
        let said = said.to_string();
        let lower = said.to_lowercase();
        let signs = [
            "out of memory",
            "out_of_memory",
            "can't allocate",
            "cannot allocate",
            "failed to allocate",
            "unable to allocate",
            "alloc failed",
        ];
        let kind = match signs.iter().any(|sign| lower.contains(sign)) {
            true => FailureKind::Oom,
            false => FailureKind::Internal,
        };
        Self::new(kind, said.lines().next().unwrap_or_default())
    }

    /// Create an error of kind [`FailureKind::Unsupported`]: this engine cannot do this.
    pub fn unsupported(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Unsupported, message.to_string())
    }

    /// Create an error of kind [`FailureKind::Unavailable`]: what this needs is not here.
    pub fn unavailable(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Unavailable, message.to_string())
    }

    /// Create an error of kind [`FailureKind::BadRequest`]: the request is not valid.
    pub fn bad_request(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::BadRequest, message.to_string())
    }

    /// Create an error of kind [`FailureKind::Oom`]: there is no memory for this.
    pub fn oom(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Oom, message.to_string())
    }

    /// Return the same error, with the path of the file that it is about before its message.
    pub fn in_file(self, path: &Path) -> Self {
        Self::new(self.kind, format!("{}: {}", path.display(), self.message))
    }

    /// Return the failure to send: of the request `id`, or of the whole engine.
    pub fn failure(self, id: Option<u64>) -> Failure {
        Failure {
            id,
            kind: self.kind,
            message: self.message,
        }
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.message.fmt(f)
    }
}

impl std::error::Error for EngineError {}

/// An inference engine, driven by the adapter runtime.
///
/// One value serves one process. `prefill` starts a new batch and discards the last one; `decode`
/// advances it. Both return only when the result is known on the host (on a GPU: after
/// synchronising), because the runtime reads the clock right after them.
pub trait Engine: Sized {
    /// Describe the engine. Called before anything is loaded; must not touch the model.
    fn hello(load: &Load) -> Hello;

    /// Load the model. May start threads. Must leave no initialisation to the first request,
    /// except what the engine's own users also pay for then. `RAYON_NUM_THREADS` and
    /// `OMP_NUM_THREADS` are already set to `load.threads`. The runtime measures `load_ns` itself.
    fn load(load: &Load) -> Result<(Self, Loaded), EngineError>;

    /// Discard the current batch, feed `prompts` (`rows × length`, all rows of one length ≥ 1),
    /// and return the greedy next token of each row. The engine itself refuses ids that the model
    /// doesn't have, here and in [`Engine::decode`] ([`crate::check_ids`]).
    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError>;

    /// Feed one token per row of the current batch; return the greedy next
    /// token of each row.
    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError>;

    /// Return the raw logits (`vocabulary` long, up to an additive constant) of `row` after the
    /// last `prefill` or `decode`. Called only for the gate, and never timed.
    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError>;

    /// Return the backends to try, in order, for a request made by hand that names none; the first
    /// whose device is present is used. The backend that this build was made for comes first.
    fn backends_by_hand() -> &'static [&'static str] {
        &["cpu"]
    }

    /// Called after each answer is written, outside every timed region, for bookkeeping that must
    /// not be timed. Most engines do nothing here.
    fn after_answer(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_is_told_apart() {
        let kind = |said: &str| EngineError::of_library(said).kind;
        assert_eq!(kind("CUDA_ERROR_OUT_OF_MEMORY"), FailureKind::Oom);
        assert_eq!(
            kind("DefaultCPUAllocator: can't allocate memory"),
            FailureKind::Oom
        );
        let of_a_buffer = "alloc_tensor_range: failed to allocate CPU buffer of size 1024";
        assert_eq!(kind(of_a_buffer), FailureKind::Oom);
        assert_eq!(kind("shape mismatch"), FailureKind::Internal);
        let with_a_stack = EngineError::of_library("shape mismatch\n   0: frame");
        assert_eq!(with_a_stack.message, "shape mismatch");
    }
}
