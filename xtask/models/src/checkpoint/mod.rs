//! A model as Hugging Face keeps it (config.json, tokenizer.json, safetensors in one file or in
//! shards), read to be checked and to be written as GGUF where its source has none.
//!
//! The names of tensors and metadata are those that llama.cpp's `convert_hf_to_gguf.py` writes, and
//! the types of q4_k_m those of its `llama-quantize`; [`tensors`] and [`convert`] say where we differ.
//! It computes nothing with a model, downloads nothing, and knows no engine.

pub mod convert;
pub mod shape;
pub mod tensors;
pub mod vocabulary;
pub mod weights;

pub use convert::Conversion;
pub use shape::{Architecture, Shape};
pub use vocabulary::Vocabulary;
pub use weights::Weights;
