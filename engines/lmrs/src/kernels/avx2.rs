//! AVX2 kernels, with FMA and F16C.
//!
//! They are built like those of [`super::avx512`]: register tiles of rows × tokens, with one
//! register of partial sums per element.

use super::quant::{BLOCK, TILE_BYTES, TILE_ROWS, TILE_SCALES};
use super::{F32Job, Q8Job};
use std::arch::x86_64::*;

super::portable::elementwise!(true, "avx2,fma,f16c");
crate::kernels::attention::attend_kernel!(true, blocks: 1, columns: 1, "avx2,fma,f16c");

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn zero() -> [__m256; 2] {
    [_mm256_setzero_ps(); 2]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(from: &[f32; 16]) -> [__m256; 2] {
    // SAFETY: 16 floats.
    unsafe {
        [
            _mm256_loadu_ps(from.as_ptr()),
            _mm256_loadu_ps(from.as_ptr().add(8)),
        ]
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store(vector: [__m256; 2], to: &mut [f32; 16]) {
    // SAFETY: 16 floats.
    unsafe {
        _mm256_storeu_ps(to.as_mut_ptr(), vector[0]);
        _mm256_storeu_ps(to.as_mut_ptr().add(8), vector[1]);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn madd(a: f32, vector: [__m256; 2], sum: [__m256; 2]) -> [__m256; 2] {
    let a = _mm256_set1_ps(a);
    [
        _mm256_fmadd_ps(a, vector[0], sum[0]),
        _mm256_fmadd_ps(a, vector[1], sum[1]),
    ]
}

/// See [`super::Kernels::f32`].
///
/// # Safety
/// The same as for [`super::Kernels::f32`]; the caller has checked the sizes.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn f32(job: &F32Job<'_>) {
    let mut row = job.rows.start;
    // SAFETY: rows and tokens stay inside the job's.
    unsafe {
        while row + 4 <= job.rows.end {
            f32_strip::<4>(job, row);
            row += 4;
        }
        while row < job.rows.end {
            f32_strip::<1>(job, row);
            row += 1;
        }
    }
}

/// Compute `R` rows for all tokens.
///
/// # Safety
/// The rows must be the job's.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn f32_strip<const R: usize>(job: &F32Job<'_>, row: usize) {
    let mut token = 0;
    // SAFETY: the rows are the job's, the tokens too.
    unsafe {
        while token + 2 <= job.tokens {
            f32_tile::<R, 2>(job, row, token);
            token += 2;
        }
        if token < job.tokens {
            f32_tile::<R, 1>(job, row, token);
        }
    }
}

/// Compute `R` rows × `T` tokens.
///
/// # Safety
/// The rows and tokens must be the job's.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn f32_tile<const R: usize, const T: usize>(job: &F32Job<'_>, row: usize, token: usize) {
    let cols = job.cols;
    let whole = cols / 8 * 8;
    // SAFETY: `row + R ≤ rows`, `token + T ≤ tokens`, and every load lies in the
    // first `whole` columns of a row or a token; prefetching beyond the end is
    // harmless. `out` is the caller's promise.
    unsafe {
        let weights = job.weights.as_ptr().add(row * cols);
        let x = job.x.as_ptr().add(token * cols);
        let mut sums = [[_mm256_setzero_ps(); T]; R];
        for column in (0..whole).step_by(8) {
            let mut inputs = [_mm256_setzero_ps(); T];
            for t in 0..T {
                inputs[t] = _mm256_loadu_ps(x.add(t * cols + column));
            }
            for r in 0..R {
                let at = weights.add(r * cols + column);
                if T == 1 && column % 16 == 0 {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(256).cast());
                }
                let row = _mm256_loadu_ps(at);
                for t in 0..T {
                    sums[r][t] = _mm256_fmadd_ps(row, inputs[t], sums[r][t]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (t, sums) in sums.iter().enumerate() {
                let mut lanes = [0.0f32; 8];
                _mm256_storeu_ps(lanes.as_mut_ptr(), *sums);
                let mut width = 4;
                while width > 0 {
                    for lane in 0..width {
                        lanes[lane] += lanes[lane + width];
                    }
                    width /= 2;
                }
                let mut sum = lanes[0];
                for column in whole..cols {
                    sum += *weights.add(r * cols + column) * *x.add(t * cols + column);
                }
                job.out
                    .add((token + t) * job.out_stride + row + r)
                    .write(sum);
            }
        }
    }
}

/// See [`super::Kernels::q8`].
///
/// # Safety
/// The same as for [`super::Kernels::q8`]; the caller has checked the sizes.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn q8(job: &Q8Job<'_>) {
    let tokens = job.x.tokens();
    for row in job.tile_rows.clone() {
        let mut token = 0;
        // SAFETY: tile rows and tokens stay inside the job's.
        unsafe {
            while token + 2 <= tokens {
                q8_tile::<2>(job, row, token);
                token += 2;
            }
            if token < tokens {
                q8_tile::<1>(job, row, token);
            }
        }
    }
}

/// Compute one tile row (two registers of eight rows) × `T` tokens.
///
/// # Safety
/// The tile row and tokens must be the job's.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q8_tile<const T: usize>(job: &Q8Job<'_>, row: usize, token: usize) {
    let depth = job.x.depth();
    let blocks = depth / BLOCK;
    let (values, scales, _) = job.x.parts();
    // SAFETY: a tile row lies in `tiles`, `token + T` inputs of `depth` values in
    // `x`, and the loops read no more than these; prefetching beyond the end is
    // harmless. `out` is the caller's promise, and absent rows are left out.
    unsafe {
        let weights = job.tiles.as_ptr().add(row * job.tiles_per_row * TILE_BYTES);
        let values = values.as_ptr().add(token * depth);
        let scales = scales.as_ptr().add(token * blocks);
        let mut sums = [[_mm256_setzero_ps(); T]; 2];
        for block in 0..blocks {
            let tile = weights.add(block / 2 * TILE_BYTES);
            let half = block % 2;
            let mut dots = [[_mm256_setzero_si256(); T]; 2];
            for group in 0..BLOCK / 4 {
                let mut inputs = [_mm256_setzero_si256(); T];
                for t in 0..T {
                    let at = values.add(t * depth + block * BLOCK + group * 4);
                    inputs[t] = _mm256_set1_epi32(at.cast::<i32>().read_unaligned());
                }
                let at = tile.add((half * BLOCK / 4 + group) * 64);
                if T == 1 {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2 * TILE_BYTES).cast());
                }
                for r in 0..2 {
                    let row = _mm256_loadu_si256(at.add(r * 32).cast());
                    for t in 0..T {
                        dots[r][t] = dot(dots[r][t], row, inputs[t]);
                    }
                }
            }
            for r in 0..2 {
                let at = tile.add(TILE_SCALES + (half * TILE_ROWS + r * 8) * 2);
                let row = _mm256_cvtph_ps(_mm_loadu_si128(at.cast()));
                for t in 0..T {
                    let scale = _mm256_set1_ps(*scales.add(t * blocks + block));
                    let dot = _mm256_cvtepi32_ps(dots[r][t]);
                    sums[r][t] = _mm256_fmadd_ps(dot, _mm256_mul_ps(row, scale), sums[r][t]);
                }
            }
        }
        let first = row * TILE_ROWS;
        let count = TILE_ROWS.min(job.rows - first);
        for t in 0..T {
            let mut lanes = [0.0f32; TILE_ROWS];
            _mm256_storeu_ps(lanes.as_mut_ptr(), sums[0][t]);
            _mm256_storeu_ps(lanes.as_mut_ptr().add(8), sums[1][t]);
            let out = job.out.add((token + t) * job.out_stride + first);
            out.copy_from_nonoverlapping(lanes.as_ptr(), count);
        }
    }
}

/// Compute `sum + Σ w · x` over groups of four bytes as `|w| · (±x)`, whose pairs fit i16 because
/// `x ≥ −127`. (The other way round, `±w` could not hold 128.)
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot(sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
    let weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}
