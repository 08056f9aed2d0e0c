//! Counters of the engine's process tree, of the host and of the GPU while a case
//! runs, on the clock of the requests.
//!
//! A counter a machine can't read is absent, never zero. Nothing is judged here,
//! and nothing is written while something is timed: readings stay in memory until
//! the case is over. `sampler` reads at a fixed rate on a thread of its own,
//! `process` and `tree` the engine's processes, `host` what else the CPUs do,
//! `rapl` their energy, `gpu` the device.

mod gpu;
mod host;
mod process;
mod rapl;
mod sampler;
mod tree;

pub use process::{peak_rss_bytes, reset_peak_rss};
pub use sampler::Sampler;

use std::path::Path;

/// A small file that holds one number.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// CPU time of the calling thread, in ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// A CPU-time clock, in ns; `None` where its process or thread is gone.
fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec; an unknown clock is an error.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    (!failed).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
