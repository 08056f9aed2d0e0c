//! Q4_K, Q5_K and Q6_K: super-blocks of 256 weights with quantised scales.
//!
//! Layouts are GGML's `block_q4_K`, `block_q5_K` and `block_q6_K`; the searches for scales follow
//! `make_qkx2_quants` and `make_qx_quants` of ggml-quants.c (MIT), which weigh large weights more.

use half::f16;

use super::nearest;

/// Bytes of a Q4_K super-block: `d`, `dmin`: f16; 12 bytes of 6-bit scales and minima; 128 of
/// quants.
pub const Q4_K_BLOCK_BYTES: usize = 144;
/// Bytes of a Q5_K super-block: as Q4_K's, with 32 of high bits before the quants.
pub const Q5_K_BLOCK_BYTES: usize = 176;
/// Bytes of a Q6_K super-block: 128 of low nibbles, 64 of high bits, 16 × i8 scales, `d`: f16.
pub const Q6_K_BLOCK_BYTES: usize = 210;

/// Appends Q4_K blocks for `weights`, a multiple of 256: weight = d·scale·q − dmin·min.
pub fn encode_q4_k(weights: &[f32], out: &mut Vec<u8>) {
    for block in weights.chunks_exact(256) {
        let block = SuperBlock::new(block, &FOUR_BITS);
        block.append_head(out);
        for pair in block.quants.chunks_exact(64) {
            out.extend((0..32).map(|l| pair[l] | (pair[l + 32] << 4)));
        }
    }
}

/// Appends Q5_K blocks for `weights`, a multiple of 256: as Q4_K, with five bits for q.
pub fn encode_q5_k(weights: &[f32], out: &mut Vec<u8>) {
    for block in weights.chunks_exact(256) {
        let block = SuperBlock::new(block, &FIVE_BITS);
        block.append_head(out);
        // Bit j of byte l is the top bit of weight 32 j + l.
        let top = |l: usize, j: usize| (block.quants[32 * j + l] >> 4) << j;
        out.extend((0..32).map(|l| (0..8).fold(0, |bits, j| bits | top(l, j))));
        for pair in block.quants.chunks_exact(64) {
            out.extend((0..32).map(|l| (pair[l] & 15) | ((pair[l + 32] & 15) << 4)));
        }
    }
}

/// Parameters of the search for scales and minima, as in llama.cpp's calls of `make_qkx2_quants`.
struct Search {
    /// The largest quant.
    levels: f32,
    /// Difference between the first width that is tried and `levels`, in levels.
    first: f32,
    /// Number of widths that are tried after it, each a tenth of a level further.
    steps: i32,
}

const FOUR_BITS: Search = Search {
    levels: 15.0,
    first: -1.0,
    steps: 20,
};
const FIVE_BITS: Search = Search {
    levels: 31.0,
    first: -0.5,
    steps: 15,
};

/// 256 weights as scales, minima and quants, which Q4_K and Q5_K pack differently.
struct SuperBlock {
    d: f16,
    dmin: f16,
    scales: [u8; 8],
    mins: [u8; 8],
    quants: [u8; 256],
}

impl SuperBlock {
    fn new(block: &[f32], search: &Search) -> Self {
        let (mut scales, mut mins) = ([0f32; 8], [0f32; 8]);
        for (j, part) in block.chunks_exact(32).enumerate() {
            (scales[j], mins[j]) = search_scale_and_min(part, search);
        }
        let max_scale = scales.iter().fold(0.0f32, |m, x| m.max(*x));
        let max_min = mins.iter().fold(0.0f32, |m, x| m.max(*x));
        let steps = |max: f32| if max > 0.0 { 63.0 / max } else { 0.0 };
        let six_bits = |x: f32, max: f32| nearest(steps(max) * x).min(63) as u8;
        let scale_quants = scales.map(|x| six_bits(x, max_scale));
        let min_quants = mins.map(|x| six_bits(x, max_min));
        let (d, dmin) = (
            f16::from_f32(max_scale / 63.0),
            f16::from_f32(max_min / 63.0),
        );

        let mut quants = [0u8; 256];
        for (j, part) in block.chunks_exact(32).enumerate() {
            let step = d.to_f32() * f32::from(scale_quants[j]);
            if step == 0.0 {
                continue;
            }
            let min = dmin.to_f32() * f32::from(min_quants[j]);
            for (q, x) in quants[j * 32..].iter_mut().zip(part) {
                *q = nearest((x + min) / step).clamp(0, search.levels as i32) as u8;
            }
        }
        Self {
            d,
            dmin,
            scales: scale_quants,
            mins: min_quants,
            quants,
        }
    }

    /// Appends the beginning that both formats have in common.
    fn append_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.d.to_le_bytes());
        out.extend_from_slice(&self.dmin.to_le_bytes());
        out.extend_from_slice(&pack_scales(self.scales, self.mins));
    }
}

/// The weights of Q4_K `bytes`, a whole number of super-blocks.
pub fn decode_q4_k(bytes: &[u8]) -> Vec<f32> {
    decode(bytes, Q4_K_BLOCK_BYTES, |_, _, _| 0)
}

/// The weights of Q5_K `bytes`, a whole number of super-blocks.
pub fn decode_q5_k(bytes: &[u8]) -> Vec<f32> {
    let top = |block: &[u8], j: usize, l: usize| (block[16 + l] >> j) & 1;
    decode(bytes, Q5_K_BLOCK_BYTES, top)
}

/// The weights of super-blocks of `size` bytes that end in low nibbles; the fifth bit of weight
/// 32 j + l of a block is `top(block, j, l)`.
fn decode(bytes: &[u8], size: usize, top: impl Fn(&[u8], usize, usize) -> u8) -> Vec<f32> {
    let mut weights = Vec::with_capacity(bytes.len() / size * 256);
    for block in bytes.chunks_exact(size) {
        let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
        let dmin = f16::from_le_bytes([block[2], block[3]]).to_f32();
        let (scales, mins) = unpack_scales(&block[4..16]);
        for j in 0..8 {
            let (step, min) = (d * f32::from(scales[j]), dmin * f32::from(mins[j]));
            let low = &block[size - 128 + j / 2 * 32..][..32];
            let shift = (j % 2) * 4;
            weights.extend(low.iter().enumerate().map(|(l, low)| {
                let q = ((low >> shift) & 15) | (top(block, j, l) << 4);
                step * f32::from(q) - min
            }));
        }
    }
    weights
}

/// Packs eight 6-bit scales and eight 6-bit minima into 12 bytes: four of each in the low bits of
/// bytes 0–3 and 4–7, the others' nibbles in bytes 8–11 and their top bits above the first ones.
fn pack_scales(scales: [u8; 8], mins: [u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        packed[j] = scales[j] | ((scales[j + 4] >> 4) << 6);
        packed[j + 4] = mins[j] | ((mins[j + 4] >> 4) << 6);
        packed[j + 8] = (scales[j + 4] & 15) | ((mins[j + 4] & 15) << 4);
    }
    packed
}

fn unpack_scales(packed: &[u8]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        mins[j] = packed[j + 4] & 63;
        scales[j + 4] = (packed[j + 8] & 15) | ((packed[j] >> 6) << 4);
        mins[j + 4] = (packed[j + 8] >> 4) | ((packed[j + 4] >> 6) << 4);
    }
    (scales, mins)
}

/// Finds the scale and minimum (as a non-negative offset) that represent 32 weights best in the
/// levels of `search`: tries widths around the range, and for each solves the weighted least
/// squares for both.
fn search_scale_and_min(x: &[f32], search: &Search) -> (f32, f32) {
    let levels = search.levels;
    let rms = (x.iter().map(|x| x * x).sum::<f32>() / 32.0).sqrt();
    let mut weight = [0f32; 32];
    let (mut sum_w, mut sum_x) = (0.0, 0.0);
    let (mut low, mut high) = (x[0], x[0]);
    for (w, &x) in weight.iter_mut().zip(x) {
        *w = rms + x.abs();
        sum_w += *w;
        sum_x += *w * x;
        low = low.min(x);
        high = high.max(x);
    }
    low = low.min(0.0);
    if high <= low {
        return (0.0, -low);
    }
    let error = |scale: f32, min: f32, quants: &[f32; 32]| -> f32 {
        let mut sum = 0.0;
        for i in 0..32 {
            let difference = scale * quants[i] + min - x[i];
            sum += weight[i] * difference * difference;
        }
        sum
    };
    let quantise = |inverse: f32| -> [f32; 32] {
        std::array::from_fn(|i| (nearest(inverse * (x[i] - low)) as f32).clamp(0.0, levels))
    };

    let mut best = ((high - low) / levels, low);
    let mut best_error = error(best.0, best.1, &quantise(levels / (high - low)));
    for step in 0..=search.steps {
        let quants = quantise((search.first + 0.1 * step as f32 + levels) / (high - low));
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0, 0.0, 0.0);
        for i in 0..32 {
            sum_l += weight[i] * quants[i];
            sum_l2 += weight[i] * quants[i] * quants[i];
            sum_xl += weight[i] * quants[i] * x[i];
        }
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        if determinant <= 0.0 {
            continue;
        }
        let mut scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
        let mut min = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
        if min > 0.0 {
            // The format can only subtract.
            (scale, min) = (sum_xl / sum_l2, 0.0);
        }
        let this_error = error(scale, min, &quants);
        if this_error < best_error {
            (best, best_error) = ((scale, min), this_error);
        }
    }
    (best.0, -best.1)
}

/// Appends Q6_K blocks for `weights`, a multiple of 256: weight = d·scale·(q − 32).
pub fn encode_q6_k(weights: &[f32], out: &mut Vec<u8>) {
    for block in weights.chunks_exact(256) {
        let mut scales = [0f32; 16];
        for (scale, part) in scales.iter_mut().zip(block.chunks_exact(16)) {
            *scale = search_scale(part);
        }
        let max = scales
            .iter()
            .fold(0.0f32, |m, &x| if x.abs() > m.abs() { x } else { m });
        let inverse = if max == 0.0 { 0.0 } else { -128.0 / max };
        let d = f16::from_f32(if max == 0.0 { 0.0 } else { 1.0 / inverse });
        let scale_quants = scales.map(|x| nearest(inverse * x).min(127) as i8);

        let mut quants = [32u8; 256];
        for (j, part) in block.chunks_exact(16).enumerate() {
            let step = d.to_f32() * f32::from(scale_quants[j]);
            if step == 0.0 {
                continue;
            }
            for (q, x) in quants[j * 16..].iter_mut().zip(part) {
                *q = (nearest(x / step).clamp(-32, 31) + 32) as u8;
            }
        }

        for half in quants.chunks_exact(128) {
            out.extend((0..64).map(|l| (half[l] & 15) | ((half[l + 64] & 15) << 4)));
        }
        for half in quants.chunks_exact(128) {
            let top = |l: usize| half[l] >> 4;
            out.extend(
                (0..32)
                    .map(|l| top(l) | (top(l + 32) << 2) | (top(l + 64) << 4) | (top(l + 96) << 6)),
            );
        }
        out.extend(scale_quants.map(|x| x as u8));
        out.extend_from_slice(&d.to_le_bytes());
    }
}

/// The weights of Q6_K `bytes`, a whole number of super-blocks.
pub fn decode_q6_k(bytes: &[u8]) -> Vec<f32> {
    let mut weights = Vec::with_capacity(bytes.len() / Q6_K_BLOCK_BYTES * 256);
    for block in bytes.chunks_exact(Q6_K_BLOCK_BYTES) {
        let (low, high) = (&block[..128], &block[128..192]);
        let scales = &block[192..208];
        let d = f16::from_le_bytes([block[208], block[209]]).to_f32();
        for i in 0..256 {
            let (half, l) = (i / 128, i % 128);
            let nibble = (low[half * 64 + l % 64] >> (l / 64 * 4)) & 15;
            let top = (high[half * 32 + l % 32] >> (l / 32 * 2)) & 3;
            let q = i32::from(nibble | (top << 4)) - 32;
            weights.push(d * f32::from(scales[i / 16] as i8) * q as f32);
        }
    }
    weights
}

/// Finds the (signed) scale that represents 16 weights best in -32..=31, by the error weighted with
/// x²: tries 19 widths around the one that puts the largest weight at -32.
fn search_scale(x: &[f32]) -> f32 {
    let max = x
        .iter()
        .fold(0.0f32, |m, &x| if x.abs() > m.abs() { x } else { m });
    if max.abs() < 1e-15 {
        return 0.0;
    }
    let sums = |inverse: f32| -> (f32, f32) {
        let (mut sum_xl, mut sum_l2) = (0.0, 0.0);
        for &x in x {
            let l = (nearest(inverse * x) as f32).clamp(-32.0, 31.0);
            sum_xl += x * x * x * l;
            sum_l2 += x * x * l * l;
        }
        (sum_xl, sum_l2)
    };
    let (sum_xl, sum_l2) = sums(-32.0 / max);
    let mut scale = if sum_l2 > 0.0 { sum_xl / sum_l2 } else { 0.0 };
    let mut best = scale * sum_xl;
    for step in -9..=9 {
        let (sum_xl, sum_l2) = sums(-(32.0 + 0.1 * step as f32) / max);
        if sum_l2 > 0.0 && sum_xl * sum_xl > best * sum_l2 {
            scale = sum_xl / sum_l2;
            best = scale * sum_xl;
        }
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_survive_packing() {
        let scales = [1, 2, 3, 63, 17, 33, 48, 62];
        let mins = [63, 0, 9, 31, 32, 15, 16, 5];
        assert_eq!(unpack_scales(&pack_scales(scales, mins)), (scales, mins));
    }

    #[test]
    fn a_q4_k_block_made_by_hand() {
        let mut block = vec![0u8; Q4_K_BLOCK_BYTES];
        block[1] = 0x3c; // d = 1
        block[3] = 0x38; // dmin = 0.5
        block[4] = 2 | (1 << 6); // scale 0 = 2, top bits of scale 4 = 1
        block[5] = 3; // scale 1
        block[8] = 4; // min 0
        block[12] = 5 | (6 << 4); // scale 4 = 16 + 5, min 4 = 6
        block[16] = 0x7f; // weight 0 = 15, weight 32 = 7
        block[16 + 64] = 0x02; // weight 128 = 2
        let weights = decode_q4_k(&block);
        assert_eq!(weights[0], 2.0 * 15.0 - 0.5 * 4.0);
        assert_eq!(weights[1], -2.0);
        assert_eq!(weights[32], 3.0 * 7.0);
        assert_eq!(weights[128], 21.0 * 2.0 - 3.0);
    }

    #[test]
    fn a_q5_k_block_made_by_hand() {
        let mut block = vec![0u8; Q5_K_BLOCK_BYTES];
        block[1] = 0x3c; // d = 1
        block[3] = 0x38; // dmin = 0.5
        block[4] = 2; // scale 0
        block[5] = 3; // scale 1
        block[8] = 4; // min 0
        block[16] = 0b11; // top bits of weights 0 and 32
        block[48] = 0x7f; // low nibbles: weight 0 = 15, weight 32 = 7
        let weights = decode_q5_k(&block);
        assert_eq!(weights[0], 2.0 * 31.0 - 0.5 * 4.0);
        assert_eq!(weights[1], -2.0);
        assert_eq!(weights[32], 3.0 * 23.0);
        assert_eq!(weights[64], 0.0);
    }

    #[test]
    fn a_q6_k_block_made_by_hand() {
        let mut block = vec![0u8; Q6_K_BLOCK_BYTES];
        block[209] = 0x3c; // d = 1
        block[192] = 2; // scale of weights 0..16
        block[192 + 13] = 0xff; // -1: scale of weights 208..224
        block[0] = 0x05; // weight 0: low nibble 5; weight 64: 0
        block[128] = 0x03; // weight 0: top bits 3
        block[64 + 16] = 0x30; // weight 208 = 128 + 64 + 16: low nibble 3
        let weights = decode_q6_k(&block);
        assert_eq!(weights[0], 2.0 * (53.0 - 32.0));
        assert_eq!(weights[1], -64.0);
        assert_eq!(weights[208], 29.0);
        assert_eq!(weights[64], 0.0);
    }
}
