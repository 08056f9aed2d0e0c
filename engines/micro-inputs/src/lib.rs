//! The inputs of the micro suites, drawn from a seed and the same in every program whatever its
//! language, and (feature `reference`) the expected outputs, computed in f64 by plain loops.
//!
//! Nothing here is ever measured. The references are slow on purpose, so that they are easy to
//! read.

pub mod draw;
pub mod gpt;
#[cfg(feature = "reference")]
pub mod reference;
pub mod sdpa;
