//! The contract between the harness and an engine: the messages on the wire and
//! the runtime that every Rust adapter shares.
//!
//! The loop, the batching and the timing stand here once, so that an adapter is
//! only "load a model, feed tokens, give the next ones". What this crate
//! deliberately does not know: any engine, any model file format, any statistic.
//!
//! `wire` is all that the harness needs; `serve` is all that an adapter needs.

pub mod clock;
pub mod engine;
pub mod wire;
