//! Products of several matrices with one input, split over the pool.
//!
//! Matrices that share an input (query, key and value; gate and up) are one
//! parallel phase, their outputs side by side. A task is a stripe of rows of
//! one matrix with all tokens, so weights are read from memory once, however
//! many tokens there are, and no element of the output depends on the split.

use crate::kernels::quant::{Activations, TILE_ROWS};
use crate::kernels::{F32Job, Kernels, Q8Job};
use crate::matrix::{Matrix, Weights};
use crate::pool::{Pool, SharedMut};

/// The input of a product.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// `tokens × cols`, for f32 weights.
    F32(&'a [f32]),
    /// For int8 weights.
    Q8(&'a Activations),
}

/// Rows of a stripe before it is made smaller for the sake of balance: four
/// tile rows are as many as a kernel streams at once.
const STRIPE_ROWS: usize = 4 * TILE_ROWS;

/// `out[token] = matrices[0] · x[token], matrices[1] · x[token], …`
///
/// # Panics
/// If the sizes do not fit together, or weights and input are of unlike kinds.
pub fn matmul(
    pool: &Pool,
    kernels: Kernels,
    matrices: &[&Matrix],
    input: Input<'_>,
    tokens: usize,
    out: &mut [f32],
) {
    let out_stride: usize = matrices.iter().map(|matrix| matrix.rows).sum();
    assert_eq!(out.len(), tokens * out_stride, "output of another size");
    // At least four stripes a thread in the whole phase, so that a thread that
    // comes late leaves little to wait for.
    let wanted = 4 * pool.threads();
    let mut stripe = STRIPE_ROWS;
    while stripe > TILE_ROWS && out_stride / stripe < wanted {
        stripe /= 2;
    }
    // A task is (matrix, stripe): the matrices' stripes one after the other.
    let stripes = |matrix: &Matrix| matrix.rows.div_ceil(stripe);
    let tasks: usize = matrices.iter().map(|matrix| stripes(matrix)).sum();
    let out = SharedMut::new(out);
    pool.run(tasks, |_, task| {
        let mut task = task;
        let mut first = 0; // of the matrix's columns in `out`
        for matrix in matrices {
            if task >= stripes(matrix) {
                task -= stripes(matrix);
                first += matrix.rows;
                continue;
            }
            let rows = task * stripe..(task * stripe + stripe).min(matrix.rows);
            // SAFETY: `first < out_stride ≤ out.len()`.
            let out = unsafe { out.as_ptr().add(first) };
            // SAFETY: row `r` of token `t` is `out[t · out_stride + first + r]`,
            // in bounds by the assertion above, and no two tasks share a row.
            unsafe { stripe_product(kernels, matrix, rows, input, tokens, out, out_stride) };
            return;
        }
    });
}

/// # Safety
/// `out` must be writable at `[t · out_stride + r]` for all tokens and `rows`,
/// and nobody else may touch those elements meanwhile.
unsafe fn stripe_product(
    kernels: Kernels,
    matrix: &Matrix,
    rows: std::ops::Range<usize>,
    input: Input<'_>,
    tokens: usize,
    out: *mut f32,
    out_stride: usize,
) {
    match (&matrix.weights, input) {
        (Weights::F32(weights), Input::F32(x)) => {
            let weights = weights.values();
            let cols = matrix.cols;
            let job = F32Job {
                weights,
                cols,
                rows,
                x,
                tokens,
                out,
                out_stride,
            };
            // SAFETY: the caller's promise.
            unsafe { kernels.f32(&job) };
        }
        (Weights::Q8(tiles), Input::Q8(x)) => {
            assert_eq!(x.tokens(), tokens, "input of another number of tokens");
            let job = Q8Job {
                tiles,
                tiles_per_row: matrix.tiles_per_row(),
                rows: matrix.rows,
                tile_rows: rows.start / TILE_ROWS..rows.end.div_ceil(TILE_ROWS),
                x,
                out,
                out_stride,
            };
            // SAFETY: the caller's promise; stripes are whole tile rows.
            unsafe { kernels.q8(&job) };
        }
        _ => unreachable!("a model's matrices and inputs are of one kind"),
    }
}
