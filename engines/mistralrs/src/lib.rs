//! mistral.rs 0.8 behind the benchmark's protocol, through its own Rust API, scheduler and
//! streaming included. The adapter deliberately fixes nothing and tunes nothing; `hello` reports
//! the library's defects.
//!
//! This crate makes two programs: `mistralrs-bench`, the adapter, and `mistralrs-serve` (a
//! feature), mistral.rs' own HTTP server over a model directory.

pub mod engine;
pub mod gguf;
pub mod load;
pub mod request;
pub mod safetensors;
#[cfg(test)]
mod tests;
