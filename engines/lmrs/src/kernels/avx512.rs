//! AVX-512 kernels.
//!
//! The f32 product keeps a tile of rows × tokens in registers, with one register of 16 partial
//! sums per element, so that an element is summed in the same order whatever the tile's shape: a
//! batch gives the same bits as a single row. The int8 product is a macro, because [`super::vnni`]
//! differs from plain AVX-512 only in the four-byte dot product.

use super::{F32Job, Q8Job};
use std::arch::x86_64::*;

super::portable::elementwise!(true, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c");
crate::kernels::attention::attend_kernel!(true, blocks: 2, columns: 4, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c");

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn zero() -> __m512 {
    _mm512_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn load(from: &[f32; 16]) -> __m512 {
    // SAFETY: 16 floats.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn store(vector: __m512, to: &mut [f32; 16]) {
    // SAFETY: 16 floats.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn madd(a: f32, vector: __m512, sum: __m512) -> __m512 {
    _mm512_fmadd_ps(_mm512_set1_ps(a), vector, sum)
}

/// Largest number of tokens in a register tile.
const MAX_TOKENS: usize = 6;

/// Split `tokens` into groups of at most [`MAX_TOKENS`], as even as possible; return
/// `(first, count)` for each.
pub(super) fn groups(tokens: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = tokens.div_ceil(MAX_TOKENS).max(1);
    (0..count).map(move |group| {
        let first = group * tokens / count;
        (first, (group + 1) * tokens / count - first)
    })
}

/// See [`super::Kernels::f32`].
///
/// # Safety
/// The same as for [`super::Kernels::f32`]; the caller has checked the sizes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
unsafe fn f32_strip<const R: usize>(job: &F32Job<'_>, row: usize) {
    for (first, count) in groups(job.tokens) {
        // SAFETY: the rows are the job's, the tokens too.
        unsafe {
            match count {
                1 => f32_tile::<R, 1>(job, row, first),
                2 => f32_tile::<R, 2>(job, row, first),
                3 => f32_tile::<R, 3>(job, row, first),
                4 => f32_tile::<R, 4>(job, row, first),
                5 => f32_tile::<R, 5>(job, row, first),
                6 => f32_tile::<R, 6>(job, row, first),
                _ => {}
            }
        }
    }
}

/// Compute `R` rows × `T` tokens.
///
/// # Safety
/// The rows and tokens must be the job's.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
unsafe fn f32_tile<const R: usize, const T: usize>(job: &F32Job<'_>, row: usize, token: usize) {
    let cols = job.cols;
    // SAFETY: `row + R ≤ rows`, `token + T ≤ tokens`, and every load is of at
    // most `cols` elements of a row or a token (the last one masked); prefetching
    // beyond the end is harmless. `out` is the caller's promise.
    unsafe {
        let weights = job.weights.as_ptr().add(row * cols);
        let x = job.x.as_ptr().add(token * cols);
        let mut sums = [[_mm512_setzero_ps(); T]; R];
        let whole = cols / 16 * 16;
        let mut column = 0;
        while column < whole {
            let mut inputs = [_mm512_setzero_ps(); T];
            for t in 0..T {
                inputs[t] = _mm512_loadu_ps(x.add(t * cols + column));
            }
            for r in 0..R {
                let at = weights.add(r * cols + column);
                if T <= 2 {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(256).cast());
                }
                let row = _mm512_loadu_ps(at);
                for t in 0..T {
                    sums[r][t] = _mm512_fmadd_ps(row, inputs[t], sums[r][t]);
                }
            }
            column += 16;
        }
        if whole < cols {
            let mask: __mmask16 = (1 << (cols - whole)) - 1;
            for r in 0..R {
                let row = _mm512_maskz_loadu_ps(mask, weights.add(r * cols + whole));
                for t in 0..T {
                    let input = _mm512_maskz_loadu_ps(mask, x.add(t * cols + whole));
                    sums[r][t] = _mm512_fmadd_ps(row, input, sums[r][t]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (t, sum) in sums.iter().enumerate() {
                let out = job.out.add((token + t) * job.out_stride + row + r);
                out.write(_mm512_reduce_add_ps(*sum));
            }
        }
    }
}

/// Defines the int8 product for one way to multiply: `start(correction)` begins a block's sum,
/// `dot(sum, weights, x)` adds four columns.
macro_rules! q8_kernel {
    ($features:literal, $start:path, $dot:path) => {
        /// See [`super::Kernels::q8`].
        ///
        /// # Safety
        /// The same as for [`super::Kernels::q8`]; the caller has checked the sizes.
        #[target_feature(enable = $features)]
        pub unsafe fn q8(job: &Q8Job<'_>) {
            let tokens = job.x.tokens();
            let end = job.tile_rows.end;
            let mut row = job.tile_rows.start;
            // SAFETY: tile rows and tokens stay inside the job's.
            unsafe {
                // With few tokens, read as many streams from memory as registers allow.
                while tokens <= 3 && row + 4 <= end {
                    match tokens {
                        1 => q8_tile::<4, 1, true>(job, row, 0),
                        2 => q8_tile::<4, 2, true>(job, row, 0),
                        3 => q8_tile::<4, 3, true>(job, row, 0),
                        _ => {}
                    }
                    row += 4;
                }
                while row + 2 <= end {
                    q8_strip::<2>(job, row);
                    row += 2;
                }
                if row < end {
                    q8_strip::<1>(job, row);
                }
            }
        }

        /// Compute `R` tile rows for all tokens.
        ///
        /// # Safety
        /// The tile rows must be the job's.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn q8_strip<const R: usize>(job: &Q8Job<'_>, row: usize) {
            for (first, count) in $crate::kernels::avx512::groups(job.x.tokens()) {
                // SAFETY: the tile rows are the job's, the tokens too.
                unsafe {
                    match (count, first) {
                        // The first group loads the weights from memory.
                        (1, 0) => q8_tile::<R, 1, true>(job, row, first),
                        (2, 0) => q8_tile::<R, 2, true>(job, row, first),
                        (3, 0) => q8_tile::<R, 3, true>(job, row, first),
                        (4, 0) => q8_tile::<R, 4, true>(job, row, first),
                        (5, 0) => q8_tile::<R, 5, true>(job, row, first),
                        (6, 0) => q8_tile::<R, 6, true>(job, row, first),
                        (3, _) => q8_tile::<R, 3, false>(job, row, first),
                        (4, _) => q8_tile::<R, 4, false>(job, row, first),
                        (5, _) => q8_tile::<R, 5, false>(job, row, first),
                        (6, _) => q8_tile::<R, 6, false>(job, row, first),
                        // Even groups of more than six tokens have at least three.
                        _ => {}
                    }
                }
            }
        }

        /// Compute `R` tile rows × `T` tokens. `FAR`: the weights are not in a cache yet.
        ///
        /// # Safety
        /// The tile rows and tokens must be the job's.
        #[target_feature(enable = $features)]
        unsafe fn q8_tile<const R: usize, const T: usize, const FAR: bool>(
            job: &Q8Job<'_>,
            row: usize,
            token: usize,
        ) {
            use $crate::kernels::quant::{BLOCK, TILE_BYTES, TILE_ROWS, TILE_SCALES};
            let depth = job.x.depth();
            let blocks = depth / BLOCK;
            let (values, scales, corrections) = job.x.parts();
            let stride = job.tiles_per_row * TILE_BYTES;
            // SAFETY: `row + R` tile rows of `stride` bytes lie in `tiles`,
            // `token + T` inputs of `depth` values in `x`, and the loops read no
            // more than these; prefetching beyond the end is harmless. `out` is
            // the caller's promise, and the mask leaves out absent rows.
            unsafe {
                let weights = job.tiles.as_ptr().add(row * stride);
                let values = values.as_ptr().add(token * depth);
                let scales = scales.as_ptr().add(token * blocks);
                let corrections = corrections.as_ptr().add(token * blocks);
                let mut sums = [[_mm512_setzero_ps(); T]; R];
                for block in 0..blocks {
                    let tile = weights.add(block / 2 * TILE_BYTES);
                    let half = block % 2;
                    let mut dots = [[_mm512_setzero_si512(); T]; R];
                    for t in 0..T {
                        let start = $start(*corrections.add(t * blocks + block));
                        for r in 0..R {
                            dots[r][t] = start;
                        }
                    }
                    for group in 0..BLOCK / 4 {
                        let mut inputs = [_mm512_setzero_si512(); T];
                        for t in 0..T {
                            let at = values.add(t * depth + block * BLOCK + group * 4);
                            inputs[t] = _mm512_set1_epi32(at.cast::<i32>().read_unaligned());
                        }
                        for r in 0..R {
                            let at = tile.add(r * stride + (half * BLOCK / 4 + group) * 64);
                            if FAR {
                                let ahead = at.wrapping_add($crate::kernels::avx512::AHEAD);
                                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                            }
                            let row = _mm512_loadu_si512(at.cast());
                            for t in 0..T {
                                dots[r][t] = $dot(dots[r][t], row, inputs[t]);
                            }
                        }
                    }
                    for r in 0..R {
                        let at = tile.add(r * stride + TILE_SCALES + half * TILE_ROWS * 2);
                        let row = _mm512_cvtph_ps(_mm256_loadu_si256(at.cast()));
                        for t in 0..T {
                            let scale = _mm512_set1_ps(*scales.add(t * blocks + block));
                            let dot = _mm512_cvtepi32_ps(dots[r][t]);
                            sums[r][t] =
                                _mm512_fmadd_ps(dot, _mm512_mul_ps(row, scale), sums[r][t]);
                        }
                    }
                }
                for (r, sums) in sums.iter().enumerate() {
                    let first = (row + r) * TILE_ROWS;
                    let left = job.rows - first;
                    let mask: __mmask16 = if left >= 16 { 0xffff } else { (1 << left) - 1 };
                    for (t, sum) in sums.iter().enumerate() {
                        let out = job.out.add((token + t) * job.out_stride + first);
                        _mm512_mask_storeu_ps(out, mask, *sum);
                    }
                }
            }
        }
    };
}
pub(crate) use q8_kernel;

/// How far ahead of its use a cache line of weights is prefetched, in bytes.
pub(super) const AHEAD: usize = 1088;

q8_kernel!(
    "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c",
    start,
    dot
);

/// Begin a block's sum at 0: without VNNI the weights' offset is removed before the product.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn start(_correction: i32) -> __m512i {
    _mm512_setzero_si512()
}

/// Compute `sum + Σ w · x` over groups of four bytes as `|w| · (±x)`, whose pairs fit i16 because
/// `x ≥ −127`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn dot(sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
    let weights = _mm512_xor_si512(weights, _mm512_set1_epi8(-128));
    let negative = _mm512_movepi8_mask(weights);
    let x = _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
    let pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(weights), x);
    _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
}
