//! The contract between the harness and a *micro program*: one that times a piece of
//! an engine (a kernel, a tokenizer, a forward pass) instead of requests.
//!
//! As with engines, a process per variant and launch, JSON Lines on stdio, the
//! program's own stamps on `CLOCK_MONOTONIC`. What differs: a call has an *output*,
//! which the harness reads whole and judges before and after the calls that are timed.
//! The program never judges itself, and knows no statistic.
//!
//! [`wire`] is all that the harness needs; a program in Rust implements [`Suite`] and
//! writes `protocol::micro::main::<MySuite>()` (feature `serve`).

pub mod wire;

#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
pub use serve::main;

use crate::engine::EngineError;
use wire::{Hello, Load, Prepare};

/// What a program does. One value serves one process and one variant of a suite.
pub trait Suite: Sized {
    /// Who this is, and ready to prepare cases. `RAYON_NUM_THREADS` and
    /// `OMP_NUM_THREADS` are already set to `load.threads`.
    fn open(load: &Load) -> Result<(Self, Hello), EngineError>;

    /// Make the inputs of a case and forget the last one's. Returns how much work one
    /// call is, in the suite's unit (bytes of text, floating-point operations, tokens).
    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError>;

    /// One call. It returns when its result is known on the host (on a GPU: after
    /// synchronising), because the clock is read right after it.
    fn call(&mut self) -> Result<(), EngineError>;

    /// Every value of the last call's result, in row-major order.
    fn output(&mut self) -> Result<Vec<f64>, EngineError>;
}

/// A parameter of a case.
///
/// # Errors
/// `bad_request` where the case has it not.
pub fn parameter(case: &Prepare, name: &str) -> Result<usize, EngineError> {
    let value = case.params.get(name).copied();
    value.map(|value| value as usize).ok_or_else(|| {
        EngineError::new(
            crate::wire::FailureKind::BadRequest,
            format!("case {:?} has no parameter {name:?}", case.case),
        )
    })
}

/// The refusal of a variant that the program has not.
pub fn unknown_variant(load: &Load) -> EngineError {
    EngineError::unsupported(format!(
        "this program has no variant {:?} of suite {:?} on {} in {}",
        load.variant, load.suite, load.backend, load.precision
    ))
}
