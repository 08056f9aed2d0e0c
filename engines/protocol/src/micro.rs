//! This module defines the contract between the harness and a *micro program*: a program that
//! times a piece of an engine (a kernel, a tokenizer, a forward pass) instead of requests.
//!
//! As with engines, there is a process per variant and launch, JSON Lines on stdio, and the
//! program's own time stamps on `CLOCK_MONOTONIC`. Unlike an engine's request, a call has an
//! *output*, which the harness reads whole and judges before and after the calls that are timed.
//! The program never judges itself, and computes no statistic.
//!
//! The harness needs only [`wire`]; a program in Rust implements [`Suite`] and writes
//! `protocol::micro::main::<MySuite>()` (feature `serve`).

pub mod wire;

#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
pub use serve::main;

use crate::engine::EngineError;
use wire::{Hello, Load, Prepare};

/// The trait that a micro program implements. One value serves one process and one variant of a
/// suite.
pub trait Suite: Sized {
    /// Open the suite, ready to prepare cases, and describe the program. `RAYON_NUM_THREADS` and
    /// `OMP_NUM_THREADS` are already set to `load.threads`.
    fn open(load: &Load) -> Result<(Self, Hello), EngineError>;

    /// Make the inputs of a case and discard the last case's. Returns the work of one call, in the
    /// suite's unit (bytes of text, floating-point operations, tokens).
    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError>;

    /// Make one call. Returns when its result is known on the host (on a GPU: after
    /// synchronising), because the clock is read right after it.
    fn call(&mut self) -> Result<(), EngineError>;

    /// Return every value of the last call's result, in row-major order.
    fn output(&mut self) -> Result<Vec<f64>, EngineError>;
}

/// Return a parameter of a case.
///
/// # Errors
/// `bad_request` if the case has no parameter of that name.
pub fn parameter(case: &Prepare, name: &str) -> Result<usize, EngineError> {
    let value = case.params.get(name).copied();
    value.map(|value| value as usize).ok_or_else(|| {
        EngineError::bad_request(format!("case {:?} has no parameter {name:?}", case.case))
    })
}

/// Create the error for a variant that the program doesn't have.
pub fn unknown_variant(load: &Load) -> EngineError {
    EngineError::unsupported(format!(
        "this program has no variant {:?} of suite {:?} on {} in {}",
        load.variant, load.suite, load.backend, load.precision
    ))
}
