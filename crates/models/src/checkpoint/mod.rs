//! Reads a model as Hugging Face stores it (config.json, tokenizer.json, safetensors in one file or
//! in shards), to check it and to write it as GGUF where its source has no GGUF file. It also reads
//! GGUF files, to write the weights that they stand for.
//!
//! Names of tensors, keys and types are those of the models that are made here, defined in
//! [`tensors`](crate::tensors) and [`gguf`](crate::gguf). This module computes nothing with a
//! model, downloads nothing, and knows no engine.

pub mod convert;
pub mod dequantise;
pub mod gguf_file;
pub mod shape;
pub mod vocabulary;
pub mod weights;

pub use convert::Conversion;
pub use gguf_file::GgufFile;
pub use shape::Shape;
pub use vocabulary::Vocabulary;
pub use weights::Weights;
