//! mistral.rs 0.8 behind the benchmark's protocol, through its own Rust API,
//! scheduler and streaming included. It deliberately mends nothing and tunes
//! nothing; where the library falls short, `hello` says so.
//!
//! Two programs come of it: `mistralrs-bench`, the adapter, and `mistralrs-serve`
//! (a feature), mistral.rs' own HTTP server over a model directory.

mod catching;
pub mod engine;
pub mod gguf;
pub mod in_flight;
pub mod load;
pub mod request;
pub mod safetensors;
#[cfg(test)]
mod tests;
