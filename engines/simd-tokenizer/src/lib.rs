//! GPT-2's pre-tokenizer with SIMD, in front of the very BPE of the `tokenizers` crate.
//!
//! `mask` classifies 64 bytes at a time, `boundaries` finds where pieces begin from the
//! masks, `class` knows the characters beyond ASCII, and [`Fast`] hands the pieces to
//! the BPE. Ids are those of `tokenizers`, for every text; what is left out is what an
//! inference engine doesn't read: offsets, token strings, attention masks.
//!
//! Deliberately not here: another BPE, a cache of words beside the one that this BPE
//! keeps (10 000 of them a thread), any other pre-tokenizer. A tokenizer.json that wants
//! something else is refused.

pub mod boundaries;
pub mod class;
mod fast;
pub mod mask;

pub use fast::{Fast, letter};
