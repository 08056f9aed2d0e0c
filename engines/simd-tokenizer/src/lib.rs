//! GPT-2's pre-tokenizer with SIMD, in front of the BPE of the `tokenizers` crate.
//!
//! `class` classifies 64 bytes at a time, and characters beyond ASCII; `boundaries` finds from its
//! masks where pieces begin; [`Fast`] passes the pieces to the BPE. The ids are those of
//! `tokenizers`, for every text. It leaves out what an inference engine doesn't read: offsets,
//! token strings, attention masks.
//!
//! It deliberately has no BPE of its own, no cache of words in addition to that of the BPE (10 000
//! words per thread), and no other pre-tokenizer. A tokenizer.json that needs anything else is
//! refused.

pub mod boundaries;
pub mod class;
mod fast;

pub use fast::{Fast, letter};
