//! The shape of a Llama or of one of its relatives (Mistral, Phi-3, Qwen3), as the engines of our
//! own read it from a Hugging Face `config.json`, and the position embeddings it asks for.
//!
//! It computes nothing of a forward pass: that is each engine's own.

mod config;
mod rope;

pub use config::{Architecture, Computes, Shape};
pub use rope::{Rope, Scaling};
