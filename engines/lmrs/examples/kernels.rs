//! Measures how fast the kernels are on this machine, on one thread, to try out a change:
//!
//!     cargo run --release -p lmrs-bench --example kernels
//!
//! The time is the thread's own CPU time, so that a busy machine has little effect on it. Memory
//! speed is deliberately not measured: the weights stay in the second-level cache. What counts in
//! the end is a decode step of a whole model.

use lmrs_bench::kernels::attention::Attend;
use lmrs_bench::kernels::quant::{Activations, TILE_BYTES, TILE_DEPTH, TILE_ROWS};
use lmrs_bench::kernels::{F32Job, Isa, Kernels, Q8Job};
use lmrs_bench::memory::Buffer;

fn main() {
    for kernels in Isa::ALL.into_iter().filter_map(Kernels::new) {
        println!("{}", kernels.isa().name());
        for tokens in [1, 2, 4, 8, 48] {
            println!(
                "  q8    {tokens:3} tokens {:7.1} GOP/s",
                q8(kernels, tokens)
            );
        }
        for tokens in [1, 4, 48] {
            println!(
                "  f32   {tokens:3} tokens {:7.1} GFLOP/s",
                f32(kernels, tokens)
            );
        }
        for (heads, len) in [(4, 64), (4, 512)] {
            println!(
                "  {heads} heads × {len:3}     {:7.1} GFLOP/s",
                attention(kernels, heads, len)
            );
        }
    }
}

/// Return the best of several runs, in operations per nanosecond.
fn best(operations: usize, mut run: impl FnMut()) -> f64 {
    let repeats = (20_000_000 / operations).max(1);
    let once = (0..15).map(|_| {
        let start = cpu_ns();
        (0..repeats).for_each(|_| run());
        (operations * repeats) as f64 / (cpu_ns() - start) as f64
    });
    once.fold(0.0, f64::max)
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const ROWS: usize = 128;
const COLS: usize = 2048;

fn q8(kernels: Kernels, tokens: usize) -> f64 {
    let tiles_per_row = COLS / TILE_DEPTH;
    let tiles = Buffer::<u8>::zeroed(ROWS / TILE_ROWS * tiles_per_row * TILE_BYTES).unwrap();
    let mut x = Activations::with_room(tokens, COLS);
    x.reset(tokens, COLS);
    let mut out = vec![0.0; tokens * ROWS];
    let job = Q8Job {
        tiles: &tiles,
        tiles_per_row,
        rows: ROWS,
        tile_rows: 0..ROWS / TILE_ROWS,
        x: &x,
        out: out.as_mut_ptr(),
        out_stride: ROWS,
    };
    // SAFETY: `out` holds `tokens × ROWS`.
    best(2 * tokens * ROWS * COLS, || unsafe { kernels.q8(&job) })
}

fn f32(kernels: Kernels, tokens: usize) -> f64 {
    let weights = vec![0.5; ROWS / 4 * COLS];
    let x = vec![0.5; tokens * COLS];
    let mut out = vec![0.0; tokens * ROWS / 4];
    let job = F32Job {
        weights: &weights,
        cols: COLS,
        rows: 0..ROWS / 4,
        x: &x,
        tokens,
        out: out.as_mut_ptr(),
        out_stride: ROWS / 4,
    };
    // SAFETY: `out` holds `tokens × ROWS / 4`.
    best(2 * tokens * ROWS / 4 * COLS, || unsafe {
        kernels.f32(&job)
    })
}

fn attention(kernels: Kernels, heads: usize, len: usize) -> f64 {
    let dim = 64;
    let q = vec![0.5; heads * dim];
    let (k, v) = (vec![0.5; len * dim], vec![0.5; len * dim]);
    let mut scores = vec![0.0; heads * len];
    let mut out = vec![0.0; heads * dim];
    best(4 * heads * len * dim, || {
        kernels.attend(Attend {
            q: &q,
            k: &k,
            v: &v,
            len,
            dim,
            scale: 0.125,
            scores: &mut scores,
            out: &mut out,
        });
    })
}
