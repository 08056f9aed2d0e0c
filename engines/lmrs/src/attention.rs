//! Causal attention for one token and the query heads that share a key/value
//! head, over keys laid out so that 16 positions make a vector.
//!
//! Keys are stored as `[position / 16][dimension][16]`: a score is then a chain
//! of broadcast multiply-adds over the dimensions, with no sum across lanes.
//! Values are stored as `[position][dimension]`. Both have the head dimension
//! rounded up to 16 and the rest zero.
//!
//! It deliberately knows nothing of layers, rows and caches: see
//! [`crate::model`]. The softmax is the plain two-pass one in f32.

use crate::kernels::portable::{LANES, exp, madd, sum_lanes};

/// Positions in a block of keys, and the multiple the head dimension is rounded to.
pub const KEY_BLOCK: usize = LANES;

/// What [`crate::kernels::Kernels::attend`] computes.
pub struct Attend<'a> {
    /// Queries, `heads × dim`.
    pub q: &'a [f32],
    /// Keys, `[position / 16][padded dim][16]`, at least `len` positions.
    pub k: &'a [f32],
    /// Values, `[position][padded dim]`, at least `len` positions.
    pub v: &'a [f32],
    /// Positions to attend to, at least 1.
    pub len: usize,
    /// Dimension of a head.
    pub dim: usize,
    /// `1 / √dim`.
    pub scale: f32,
    /// Scratch, at least `heads × (len rounded up to 16)`.
    pub scores: &'a mut [f32],
    /// `heads × dim`.
    pub out: &'a mut [f32],
}

/// The kernel; `FMA` as in [`crate::kernels::portable`].
#[inline(always)]
pub fn attend<const FMA: bool>(job: Attend<'_>) {
    let heads = job.q.len() / job.dim;
    let room = job.len.next_multiple_of(KEY_BLOCK);
    let (q, out) = (job.q, job.out);
    let mut head = 0;
    // Heads together, so that a key or value is loaded once for all of them.
    while head < heads {
        let count = if heads - head >= 4 { 4 } else { 1 };
        let part = head * job.dim..(head + count) * job.dim;
        let part = Attend {
            q: &q[part.clone()],
            k: job.k,
            v: job.v,
            scores: &mut job.scores[..count * room],
            out: &mut out[part],
            ..job
        };
        match count {
            4 => heads_together::<4, FMA>(part),
            _ => heads_together::<1, FMA>(part),
        }
        head += count;
    }
}

#[inline(always)]
fn heads_together<const H: usize, const FMA: bool>(job: Attend<'_>) {
    let (dim, len) = (job.dim, job.len);
    let padded = dim.next_multiple_of(LANES);
    let room = len.next_multiple_of(KEY_BLOCK);

    // scores[h][p] = q[h] · k[p] · scale
    let mut largest = [[f32::NEG_INFINITY; LANES]; H];
    let keys = job.k.as_chunks::<LANES>().0;
    for (block, keys) in keys.chunks_exact(padded).take(room / KEY_BLOCK).enumerate() {
        let mut sums = [[0.0f32; LANES]; H];
        for (d, key) in keys[..dim].iter().enumerate() {
            for h in 0..H {
                let q = job.q[h * dim + d];
                for lane in 0..LANES {
                    sums[h][lane] = madd::<FMA>(q, key[lane], sums[h][lane]);
                }
            }
        }
        for h in 0..H {
            for lane in 0..LANES {
                let visible = block * KEY_BLOCK + lane < len;
                let score = if visible {
                    sums[h][lane] * job.scale
                } else {
                    f32::NEG_INFINITY
                };
                sums[h][lane] = score;
                largest[h][lane] = if score > largest[h][lane] {
                    score
                } else {
                    largest[h][lane]
                };
            }
            let at = h * room + block * KEY_BLOCK;
            job.scores[at..at + KEY_BLOCK].copy_from_slice(&sums[h]);
        }
    }

    // scores[h] = e^(scores[h] − largest), and its sum
    let mut inverse = [0.0f32; H];
    for h in 0..H {
        let largest = largest[h].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sums = [0.0f32; LANES];
        for chunk in job.scores[h * room..(h + 1) * room]
            .as_chunks_mut::<LANES>()
            .0
        {
            for lane in 0..LANES {
                // A masked score gives e^−87, which the next line cannot tell
                // from 0 beside the largest's 1; `len` keeps it out of the sum
                // over values.
                chunk[lane] = exp::<FMA>(chunk[lane] - largest);
                sums[lane] += chunk[lane];
            }
        }
        inverse[h] = 1.0 / sum_lanes(sums);
    }

    // out[h] = Σ scores[h][p] · v[p]
    for from in (0..dim).step_by(LANES) {
        let mut sums = [[0.0f32; LANES]; H];
        for (p, value) in job.v.chunks_exact(padded).take(len).enumerate() {
            let value: &[f32] = &value[from..from + LANES];
            for h in 0..H {
                let weight = job.scores[h * room + p];
                for lane in 0..LANES {
                    sums[h][lane] = madd::<FMA>(weight, value[lane], sums[h][lane]);
                }
            }
        }
        let to = (from + LANES).min(dim);
        for h in 0..H {
            for (out, sum) in job.out[h * dim + from..h * dim + to]
                .iter_mut()
                .zip(sums[h])
            {
                *out = sum * inverse[h];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Isa, Kernels};

    /// The definition, in f64, on plain `[position][dim]` keys and values.
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
            // Beyond `len` the cache may hold anything.
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
