//! Makes the embedded models: architecture, weights, tokenizer and the files engines read
//! (safetensors and GGUF), byte for byte the same on every machine.
//!
//! Weights come from a seed or, for `tiny-stories`, from training. A benchmark that must run
//! without a download still needs a model whose output depends on every part of the arithmetic:
//! otherwise a wrong engine passes the parity gate. So the random weights are *scaled with care*
//! (see [`weights`]): the logits spread like a trained model's, attention depends on positions, and
//! every layer influences the output. They carry no meaning: the text that such a model writes is
//! noise.
//!
//! The crate trains nothing ([`training`] only defines the input of a training), downloads nothing,
//! and knows no engine.

pub mod architecture;
pub mod bpe;
pub mod checkpoint;
pub mod config;
pub mod generate;
pub mod gguf;
pub mod measure;
pub mod outliers;
pub mod prng;
pub mod quant;
pub mod reference;
pub mod safetensors_file;
pub mod spec;
pub mod stories;
pub mod stream;
pub mod tensors;
pub mod text;
pub mod tokenizer;
pub mod trained;
pub mod training;
pub mod weights;

pub use architecture::Architecture;
pub use generate::{generate, generate_without_tokenizer};
pub use spec::{Corpus, Llama3RopeScaling, ModelFile, ModelSpec, Storage};
pub use trained::{Origin, Trained};
