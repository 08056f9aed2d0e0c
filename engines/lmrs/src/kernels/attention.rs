//! Causal attention of one token, for the query heads that share a key/value head. Keys are laid
//! out so that 16 positions make a vector.
//!
//! Keys are stored as `[position / 16][dimension][16]`: a score is then a chain of broadcast
//! multiply-adds over the dimensions, with no sum across lanes. Values are stored as
//! `[position][dimension]`. In both, the head dimension is rounded up to a multiple of 16 and the
//! rest is zero.
//!
//! This module deliberately knows nothing of layers, rows and caches: see [`crate::model`]. The
//! softmax is the plain two-pass one in f32.

use crate::kernels::portable::{LANES, exp, sum_lanes};

/// Positions in a block of keys; the head dimension is rounded up to a multiple of it too.
pub const KEY_BLOCK: usize = LANES;

/// The inputs and outputs of [`crate::kernels::Kernels::attend`].
pub struct Attend<'a> {
    /// Queries, `heads × dim`.
    pub q: &'a [f32],
    /// Keys, `[position / 16][padded dim][16]`, at least `len` positions.
    pub k: &'a [f32],
    /// Values, `[position][padded dim]`, at least `len` positions.
    pub v: &'a [f32],
    /// Number of positions to attend to, at least 1.
    pub len: usize,
    /// Dimension of a head.
    pub dim: usize,
    /// The scale of the scores, `1 / √dim`.
    pub scale: f32,
    /// Scratch memory for the scores, at least `heads × (len rounded up to 16)`.
    pub scores: &'a mut [f32],
    /// The output, `heads × dim`.
    pub out: &'a mut [f32],
}

impl Attend<'_> {
    /// Return the job for `count` heads from `head` on.
    pub(crate) fn heads(&mut self, head: usize, count: usize) -> Attend<'_> {
        let part = head * self.dim..(head + count) * self.dim;
        Attend {
            q: &self.q[part.clone()],
            scores: &mut self.scores[..count * self.len.next_multiple_of(KEY_BLOCK)],
            out: &mut self.out[part],
            ..*self
        }
    }
}

/// Turn scores into `e^(scale · (score − largest))`, and return 1 divided by their sum. Only the
/// first `len` scores count; the rest become nearly 0.
#[inline(always)]
pub(crate) fn softmax<const FMA: bool>(scores: &mut [f32], len: usize, scale: f32) -> f32 {
    scores[len..].fill(f32::NEG_INFINITY);
    let scores = scores.as_chunks_mut::<LANES>().0;
    let mut largest = [f32::NEG_INFINITY; LANES];
    for chunk in scores.iter() {
        for lane in 0..LANES {
            largest[lane] = if chunk[lane] > largest[lane] {
                chunk[lane]
            } else {
                largest[lane]
            };
        }
    }
    let largest = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
    for score in scores.as_flattened_mut() {
        // A score beyond `len` gives e^−87, which is negligible beside the 1 of the largest.
        *score = exp::<FMA>((*score - largest) * scale);
    }
    let mut sums = [0.0; LANES];
    for chunk in scores.iter() {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    1.0 / sum_lanes(sums)
}

/// Defines the attention kernel for the vectors of one instruction set.
///
/// The module that uses it must have `zero`, `load`, `store` and `madd(a, v, sum)` (`a · v + sum`)
/// for vectors of 16 floats. It passes how many blocks of keys, and how many vectors of a value,
/// fit into its registers for four heads at once. (When left to vectorise loops over `[f32; 16]`,
/// the compiler kept the sums in memory, at a tenth of the speed.)
macro_rules! attend_kernel {
    ($fma:literal, blocks: $blocks:literal, columns: $columns:literal $(, $features:literal)?) => {
        /// See [`super::Kernels::attend`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn attend(mut job: $crate::kernels::attention::Attend<'_>) {
            let heads = job.q.len() / job.dim;
            let mut head = 0;
            // Four heads are computed together, so that a key or value is loaded once for all of
            // them.
            while head + 4 <= heads {
                attend_heads::<4>(job.heads(head, 4));
                head += 4;
            }
            while head < heads {
                attend_heads::<1>(job.heads(head, 1));
                head += 1;
            }
        }

        // With few registers, `$blocks` and `$columns` are 1, which makes these comparisons `+ 1`.
        #[allow(clippy::int_plus_one)]
        $(#[target_feature(enable = $features)])?
        fn attend_heads<const H: usize>(mut job: $crate::kernels::attention::Attend<'_>) {
            use $crate::kernels::attention::KEY_BLOCK;
            let blocks = job.len.div_ceil(KEY_BLOCK);
            let mut block = 0;
            while block + $blocks <= blocks {
                score_blocks::<H, $blocks>(&mut job, block);
                block += $blocks;
            }
            while block < blocks {
                score_blocks::<H, 1>(&mut job, block);
                block += 1;
            }
            let mut inverse = [0.0; H];
            for h in 0..H {
                let scores = &mut job.scores[h * blocks * KEY_BLOCK..][..blocks * KEY_BLOCK];
                inverse[h] = $crate::kernels::attention::softmax::<$fma>(scores, job.len, job.scale);
            }
            let mut column = 0;
            while column + $columns * KEY_BLOCK <= job.dim {
                weigh_values::<H, $columns>(&mut job, column, inverse);
                column += $columns * KEY_BLOCK;
            }
            while column < job.dim {
                weigh_values::<H, 1>(&mut job, column, inverse);
                column += KEY_BLOCK;
            }
        }

        /// Compute `scores[h][p] = q[h] · k[p]` for `B` blocks of positions.
        #[inline]
        $(#[target_feature(enable = $features)])?
        fn score_blocks<const H: usize, const B: usize>(
            job: &mut $crate::kernels::attention::Attend<'_>,
            block: usize,
        ) {
            use $crate::kernels::attention::KEY_BLOCK;
            let dim = job.dim;
            let padded = dim.next_multiple_of(KEY_BLOCK);
            let mut keys: [&[[f32; KEY_BLOCK]]; B] = [&[]; B];
            for b in 0..B {
                let keys_of_block = &job.k[(block + b) * KEY_BLOCK * padded..];
                keys[b] = &keys_of_block.as_chunks().0[..dim];
            }
            let mut q: [&[f32]; H] = [&[]; H];
            for h in 0..H {
                q[h] = &job.q[h * dim..][..dim];
            }
            let mut sums = [[zero(); B]; H];
            for d in 0..dim {
                for b in 0..B {
                    let key = load(&keys[b][d]);
                    for h in 0..H {
                        sums[h][b] = madd(q[h][d], key, sums[h][b]);
                    }
                }
            }
            let scores = job.scores.as_chunks_mut::<KEY_BLOCK>().0;
            let blocks = job.len.div_ceil(KEY_BLOCK);
            for h in 0..H {
                for b in 0..B {
                    store(sums[h][b], &mut scores[h * blocks + block + b]);
                }
            }
        }

        /// Compute `out[h] = Σ scores[h][p] · v[p] · inverse[h]` for `C` vectors of columns.
        #[inline]
        $(#[target_feature(enable = $features)])?
        fn weigh_values<const H: usize, const C: usize>(
            job: &mut $crate::kernels::attention::Attend<'_>,
            column: usize,
            inverse: [f32; H],
        ) {
            use $crate::kernels::attention::KEY_BLOCK;
            let padded = job.dim.next_multiple_of(KEY_BLOCK);
            let room = job.len.next_multiple_of(KEY_BLOCK);
            let mut scores: [&[f32]; H] = [&[]; H];
            for h in 0..H {
                scores[h] = &job.scores[h * room..][..job.len];
            }
            let mut sums = [[zero(); C]; H];
            for (p, value) in job.v.chunks_exact(padded).take(job.len).enumerate() {
                let value = &value[column..][..C * KEY_BLOCK];
                let value = value.as_chunks::<KEY_BLOCK>().0;
                for c in 0..C {
                    let value = load(&value[c]);
                    for h in 0..H {
                        sums[h][c] = madd(scores[h][p], value, sums[h][c]);
                    }
                }
            }
            for h in 0..H {
                for c in 0..C {
                    let mut lanes = [0.0; KEY_BLOCK];
                    store(sums[h][c], &mut lanes);
                    let from = (column + c * KEY_BLOCK).min(job.dim);
                    let to = (from + KEY_BLOCK).min(job.dim);
                    for (out, lane) in job.out[h * job.dim..][from..to].iter_mut().zip(lanes) {
                        *out = lane * inverse[h];
                    }
                }
            }
        }
    };
}
pub(crate) use attend_kernel;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Isa, Kernels};

    /// Compute the definition in f64, on plain `[position][dim]` keys and values.
    fn reference(q: &[f32], k: &[f32], v: &[f32], len: usize, dim: usize) -> Vec<f64> {
        let scale = 1.0 / (dim as f64).sqrt();
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum()
        };
        let mut out = Vec::new();
        for q in q.chunks(dim) {
            let scores: Vec<f64> = (0..len)
                .map(|p| (dot(q, &k[p * dim..(p + 1) * dim]) * scale).exp())
                .collect();
            let sum: f64 = scores.iter().sum();
            for d in 0..dim {
                let weighted = (0..len).map(|p| scores[p] * f64::from(v[p * dim + d]));
                out.push(weighted.sum::<f64>() / sum);
            }
        }
        out
    }

    #[test]
    fn agrees_with_the_definition_on_every_instruction_set() {
        let mut random = crate::tests::Random::new(7);
        for (heads, dim, len) in [
            (1usize, 8usize, 1usize),
            (3, 16, 15),
            (4, 64, 16),
            (6, 40, 33),
            (8, 64, 100),
        ] {
            let padded = dim.next_multiple_of(LANES);
            let room = len.next_multiple_of(KEY_BLOCK);
            let q = random.normals(heads * dim, 2.0);
            let k = random.normals(len * dim, 2.0);
            let v = random.normals(len * dim, 1.0);
            // Beyond `len` the cache may hold arbitrary values.
            let mut keys = vec![1e3; room * padded];
            let mut values = vec![1e3; room * padded];
            for p in 0..len {
                for d in 0..dim {
                    let at = (p / KEY_BLOCK * padded + d) * KEY_BLOCK + p % KEY_BLOCK;
                    keys[at] = k[p * dim + d];
                    values[p * padded + d] = v[p * dim + d];
                }
            }
            let expected = reference(&q, &k, &v, len, dim);
            for kernels in Isa::ALL.into_iter().filter_map(Kernels::new) {
                let mut out = vec![0.0; heads * dim];
                kernels.attend(Attend {
                    q: &q,
                    k: &keys,
                    v: &values,
                    len,
                    dim,
                    scale: 1.0 / (dim as f32).sqrt(),
                    scores: &mut vec![0.0; heads * room],
                    out: &mut out,
                });
                for (out, expected) in out.iter().zip(&expected) {
                    assert!(
                        (f64::from(*out) - expected).abs() < 1e-5,
                        "{:?}",
                        kernels.isa()
                    );
                }
            }
        }
    }
}
