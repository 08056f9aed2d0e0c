//! A Llama of our own on Burn, behind the protocol. Burn 0.22 chooses its
//! backend when it runs, so `burn-bench` serves all that its features name but libtorch,
//! whose library only `burn-tch-bench` needs to start.
//!
//! The whole model stands in [`model`]. It deliberately writes no kernel and
//! reaches behind no public interface: it is what a team gets that writes a
//! Llama on Burn with some care. The one kernel there is ([`micro`]'s flash
//! attention) is measured by itself, and no model calls it.

pub mod backend;
pub mod captured;
pub mod caught;
pub mod engine;
pub mod linear;
pub mod micro;
pub mod model;
// They compute on a processor.
#[cfg(all(test, any(feature = "flex", feature = "ndarray", feature = "tch")))]
mod tests;
pub mod weights;
