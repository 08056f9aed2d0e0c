//! The kernel tracer: a library that the CUDA driver loads into a process
//! (`CUDA_INJECTION64_PATH`) and that writes what runs on the GPU to the file named by
//! `BENCH_KERNEL_TRACE`. The file's format is `schema::kernels`.
//!
//! It is a guest in somebody else's process. So it never panics across the boundary,
//! never stops the process, and turns everything that goes wrong into one line of the
//! trace. It links no CUDA library: CUPTI is looked for when it is needed. It traces
//! kernels only; copies, host calls and counters are deliberately absent.

mod begin;
mod buffers;
mod clock;
pub mod cupti;
mod session;
mod trace_file;

use std::panic::catch_unwind;

/// What the driver calls, once, inside `cuInit`. Always 1: with 0 the driver would
/// refuse to start CUDA, and whether we can trace is no reason for that.
// SAFETY: the name is the one that the driver looks for, and no other library of the
// process calls it by accident: it is looked up in this library's own handle.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // The driver looks for this spelling.
pub extern "C" fn InitializeInjection() -> i32 {
    // A panic says so on stderr by itself; there is nothing to add.
    let _ = catch_unwind(begin::begin);
    1
}
