//! Reads the shape of a Llama or a related model (Mistral, Phi-3, Qwen3) from a Hugging Face
//! `config.json`, and computes its position embeddings, for this project's own engines.
//!
//! It computes no part of a forward pass; each engine does that itself.

mod config;
mod rope;

pub use config::{Architecture, Computes, Shape};
pub use rope::{Rope, Scaling};
