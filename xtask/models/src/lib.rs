//! Makes the embedded models from a seed: architecture, weights, tokenizer and the files engines
//! read (safetensors and GGUF), byte for byte the same on every machine.
//!
//! A benchmark that must run without a download still needs a model whose output depends on every
//! part of the arithmetic: otherwise a wrong engine passes the parity gate. So the weights here are
//! random but *scaled with care* (see [`weights`]): logits spread like a trained model's, attention
//! that depends on positions, every layer heard in the output.
//!
//! It deliberately does not train anything, does not download, and knows no engine. The weights
//! carry no meaning: the text a generated model writes is noise.

pub mod bpe;
pub mod config;
pub mod generate;
pub mod gguf;
pub mod measure;
pub mod prng;
pub mod quant;
pub mod reference;
pub mod safetensors_file;
pub mod spec;
pub mod stream;
pub mod text;
pub mod tokenizer;
pub mod weights;

pub use generate::generate;
pub use spec::{Llama3RopeScaling, ModelFile, ModelSpec, Storage};
