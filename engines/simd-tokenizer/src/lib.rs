//! GPT-2's pre-tokenizer with SIMD, in front of the very BPE of the `tokenizers` crate.
//!
//! `class` classifies 64 bytes at a time and knows the characters beyond ASCII, `boundaries`
//! finds from its masks where pieces begin, and [`Fast`] hands the pieces to the BPE. Ids are those of `tokenizers`, for every text; what is left out is what an
//! inference engine doesn't read: offsets, token strings, attention masks.
//!
//! Deliberately not here: another BPE, a cache of words beside the one that this BPE
//! keeps (10 000 of them a thread), any other pre-tokenizer. A tokenizer.json that wants
//! something else is refused.

pub mod boundaries;
pub mod class;
mod fast;

pub use fast::{Fast, letter};
