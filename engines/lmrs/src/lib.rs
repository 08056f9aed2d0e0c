//! `lmrs`: a small CPU inference engine for Llama models, designed like lm.rs (no ML framework,
//! hand-written SIMD, int8 weights), behind the benchmark's protocol.
//!
//! Read [`model`] and its submodule `forward` first: config, weights, state, then a step from top
//! to bottom. The arithmetic is in [`kernels`], the threads are in [`pool`], the file readers in
//! [`gguf`] and [`safetensors`].
//!
//! It deliberately has no tokeniser, no sampling, no GPU support and no training: it takes token
//! ids and returns greedy token ids.

// A loop over the rows, tokens or lanes of a register tile indexes several arrays in the same way;
// an iterator over one of them would only hide that.
#![allow(clippy::needless_range_loop)]

pub mod adapter;
pub mod gguf;
pub mod gguf_shape;
pub mod kernels;
pub mod matrix;
pub mod memory;
pub mod model;
pub mod mutation;
pub mod pool;
pub mod rope;
pub mod safetensors;
pub mod state;
pub mod weights;

/// Tests of whole models: tiny ones that the tests make themselves or let the generator make.
#[cfg(test)]
mod tests {
    mod architectures;
    mod damaged;
    mod fixture;
    mod prefix;
    mod whole;

    pub use fixture::Random;
}
