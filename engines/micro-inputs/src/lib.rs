//! What the micro suites compute on: inputs drawn from a seed, the same in every
//! program whatever its language, and (feature `reference`) what should come out, in
//! f64 by plain loops.
//!
//! Deliberately not here: anything that is measured. The references are slow on
//! purpose, so that they can be read.

pub mod draw;
pub mod gpt;
#[cfg(feature = "reference")]
pub mod reference;
pub mod sdpa;
