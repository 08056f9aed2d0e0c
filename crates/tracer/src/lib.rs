//! The kernel tracer: a library that the CUDA driver loads into a process
//! (`CUDA_INJECTION64_PATH`) and that writes what runs on the GPU to the file named by
//! `BENCH_KERNEL_TRACE`. The file's format is `schema::kernels`.
//!
//! It runs as a guest in somebody else's process. So it never panics across the boundary, never
//! stops the process, and turns everything that goes wrong into one line of the trace. It links no
//! CUDA library: CUPTI is searched for when it is needed. Only kernels are traced; copies, host
//! calls and counters are deliberately absent.

mod begin;
mod buffers;
mod clock;
pub mod cupti;
mod session;
mod trace_file;

use std::panic::catch_unwind;

/// The entry point, which the driver calls once, inside `cuInit`. It always returns 1: with 0 the
/// driver would refuse to start CUDA, and a failure to trace is no reason for that.
// SAFETY: the name is the one that the driver looks for, and no other library of the
// process calls it by accident: it is looked up in this library's own handle.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // The driver looks for this spelling.
pub extern "C" fn InitializeInjection() -> i32 {
    // A panic already prints its message on stderr; there is nothing to add.
    let _ = catch_unwind(begin::begin);
    1
}
