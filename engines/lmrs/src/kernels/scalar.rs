//! The kernels in plain Rust: the definition against which the others are tested, and the code
//! that runs on a CPU without AVX2. They are deliberately written to be obviously right and not to
//! be fast.

use super::quant::{BLOCK, TILE_BYTES, TILE_ROWS, tile_scale, tile_value};
use super::{F32Job, Q8Job};

super::portable::elementwise!(false);
crate::kernels::attention::attend_kernel!(false, blocks: 1, columns: 1);

fn zero() -> [f32; 16] {
    [0.0; 16]
}

fn load(from: &[f32; 16]) -> [f32; 16] {
    *from
}

fn store(vector: [f32; 16], to: &mut [f32; 16]) {
    *to = vector;
}

#[inline(always)]
fn madd(a: f32, vector: [f32; 16], mut sum: [f32; 16]) -> [f32; 16] {
    for lane in 0..16 {
        sum[lane] += a * vector[lane];
    }
    sum
}

/// See [`super::Kernels::f32`].
///
/// # Safety
/// The same as for [`super::Kernels::f32`]; the caller has checked the sizes.
pub unsafe fn f32(job: &F32Job<'_>) {
    for row in job.rows.clone() {
        let weights = &job.weights[row * job.cols..][..job.cols];
        for token in 0..job.tokens {
            let x = &job.x[token * job.cols..][..job.cols];
            let (chunks, rest) = weights.as_chunks::<16>();
            let mut lanes = [0.0; 16];
            for (weights, x) in chunks.iter().zip(x.as_chunks::<16>().0) {
                for lane in 0..16 {
                    lanes[lane] += weights[lane] * x[lane];
                }
            }
            let rest = rest
                .iter()
                .zip(&x[job.cols - rest.len()..])
                .map(|(w, x)| w * x);
            let sum = super::portable::sum_lanes(lanes) + rest.sum::<f32>();
            // SAFETY: the caller's promise about `out`.
            unsafe { job.out.add(token * job.out_stride + row).write(sum) };
        }
    }
}

/// See [`super::Kernels::q8`].
///
/// # Safety
/// The same as for [`super::Kernels::q8`]; the caller has checked the sizes.
pub unsafe fn q8(job: &Q8Job<'_>) {
    let (values, scales, _) = job.x.parts();
    let depth = job.x.depth();
    let row_bytes = job.tiles_per_row * TILE_BYTES;
    for tile_row in job.tile_rows.clone() {
        let tiles = &job.tiles[tile_row * row_bytes..][..row_bytes];
        for r in 0..TILE_ROWS.min(job.rows - tile_row * TILE_ROWS) {
            for token in 0..job.x.tokens() {
                let blocks = values[token * depth..][..depth].chunks_exact(BLOCK);
                let scales = &scales[token * depth / BLOCK..];
                let mut sum = 0.0f32;
                for (index, (x, scale)) in blocks.zip(scales).enumerate() {
                    let tile = &tiles[index / 2 * TILE_BYTES..][..TILE_BYTES];
                    let half = index % 2;
                    let mut dot = 0;
                    for (column, x) in x.iter().enumerate() {
                        dot += i32::from(tile_value(tile, half, r, column)) * i32::from(*x);
                    }
                    // Fused even where that is slow, so that every instruction set gives the same
                    // bits.
                    sum = (dot as f32).mul_add(tile_scale(tile, half, r) * scale, sum);
                }
                let row = tile_row * TILE_ROWS + r;
                // SAFETY: the caller's promise about `out`.
                unsafe { job.out.add(token * job.out_stride + row).write(sum) };
            }
        }
    }
}
