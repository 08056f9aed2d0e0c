//! A model as Hugging Face keeps it (config.json, tokenizer.json, safetensors in one file or in
//! shards), read to be checked and to be written as GGUF where its source has none.
//!
//! Names of tensors, keys and types are those of the models that are made here, for which
//! [`tensors`](crate::tensors) and [`gguf`](crate::gguf) have them.
//! It computes nothing with a model, downloads nothing, and knows no engine.

pub mod convert;
pub mod shape;
pub mod vocabulary;
pub mod weights;

pub use convert::Conversion;
pub use shape::Shape;
pub use vocabulary::Vocabulary;
pub use weights::Weights;
