//! What an adapter implements. Everything else (reading requests, forming
//! batches, reading the clock, answering) is the runtime's.
//!
//! The contract is small on purpose: a batch of sequences of equal length is
//! prefilled, then advanced one token a step. `score` and `generate` are built
//! from the same two calls, so the gate checks the very path that is timed.

use crate::wire::{FailureKind, Hello, Load, Loaded};

/// Why a call failed. The runtime turns it into [`crate::wire::Failure`].
#[derive(Clone, Debug)]
pub struct EngineError {
    /// What sort.
    pub kind: FailureKind,
    /// What, where, why, what to do; one line.
    pub message: String,
}

impl EngineError {
    /// An error of the given kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// [`FailureKind::Internal`]: something unexpected.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Internal, message.to_string())
    }

    /// What a library says of a step that failed, its first line: some append a stack. Libraries
    /// name no kind; memory that ran out is told apart by its words.
    pub fn of_library(said: &str) -> Self {
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

    /// [`FailureKind::Unsupported`]: this engine cannot do this.
    pub fn unsupported(message: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Unsupported, message.to_string())
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.message.fmt(f)
    }
}

impl std::error::Error for EngineError {}

/// An inference engine behind the adapter runtime.
///
/// One value serves one process. `prefill` starts a new batch and forgets the
/// last one; `decode` advances it. Both return only when the result is known on
/// the host (on a GPU: after synchronising), because the runtime reads the clock
/// right after them.
pub trait Engine: Sized {
    /// Who this is; called before anything is loaded, must not touch the model.
    fn hello(load: &Load) -> Hello;

    /// Load the model. May start threads; must leave nothing lazy that the first
    /// request would pay for, except what the engine's own users also pay then.
    /// `RAYON_NUM_THREADS` and `OMP_NUM_THREADS` are already set to
    /// `load.threads`. The runtime measures `load_ns` itself.
    fn load(load: &Load) -> Result<(Self, Loaded), EngineError>;

    /// Forget everything, feed `prompts` (`rows × length`, all rows of one
    /// length ≥ 1), and return the greedy next token of each row.
    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError>;

    /// Feed one token per row of the current batch; return the greedy next
    /// token of each row.
    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError>;

    /// Raw logits (`vocabulary` long, any additive constant) of `row` after the
    /// last `prefill` or `decode`. Only the gate asks; it is never timed.
    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError>;

    /// The backends that a request made by hand takes where it names none, the first whose
    /// device is there: what this build is for comes first.
    fn backends_by_hand() -> &'static [&'static str] {
        &["cpu"]
    }

    /// Called after each answer is written, outside every timed region. For
    /// bookkeeping that must not be timed; most engines have none.
    fn after_answer(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_is_told_apart() {
        let kind = |said| EngineError::of_library(said).kind;
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
