//! This project's own Llama on Burn, behind the protocol. Burn 0.22 chooses its backend at run
//! time, so `burn-bench` serves every backend that its features name except libtorch, whose
//! library only `burn-tch-bench` links.
//!
//! The whole model is in [`model`]. It deliberately has no kernel of its own and uses only public
//! interfaces: it is what a team gets that writes a Llama on Burn with some care. The one kernel
//! in this crate ([`micro`]'s flash attention) is measured by itself, and no model calls it.

pub mod backend;
pub mod captured;
pub mod caught;
pub mod engine;
pub mod linear;
pub mod micro;
pub mod model;
// These tests compute on a CPU.
#[cfg(all(test, any(feature = "flex", feature = "ndarray", feature = "tch")))]
mod tests;
pub mod weights;
