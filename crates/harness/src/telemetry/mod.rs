//! Reads counters of the engine's process tree, of the host and of the GPU while a case runs, on
//! the clock of the requests.
//!
//! A counter that a machine can't read is absent, never zero. Nothing is judged here, and nothing
//! is written while something is timed: readings stay in memory until the case is over. `sampler`
//! reads at a fixed rate on a thread of its own, `process` and `tree` read the engine's processes,
//! `host` the CPUs, `rapl` their energy, `gpu` the device.

mod gpu;
mod host;
mod process;
mod rapl;
mod sampler;
mod tree;

pub use host::cpus_allowed;
pub use process::{peak_rss_bytes, reset_peak_rss};
pub use sampler::Sampler;

use std::path::Path;

/// Read a small file that holds one number.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
