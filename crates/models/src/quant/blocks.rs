//! Blocks of 32 weights with one scale: the formats Q8_0 and Q5_0.
//!
//! Q8_0: 32 weights as int8 with one f16 scale.
//!
//! Layout of a block (34 bytes): `d: f16`, then 32 × `i8`; weight = d · q.
//!
//! Q5_0: 32 weights as 5-bit integers with one f16 scale. llama.cpp falls back to it where rows
//! don't fill the super-blocks of Q4_K.
//!
//! Layout and rounding are GGML's `block_q5_0` and `quantize_row_q5_0_ref`.

use half::f16;

/// Bytes of a Q8_0 block of 32 weights.
pub const Q8_0_BLOCK_BYTES: usize = 34;

/// Appends Q8_0 blocks for `weights`, whose length must be a multiple of 32.
pub fn encode_q8_0(weights: &[f32], out: &mut Vec<u8>) {
    for block in weights.chunks_exact(32) {
        let max = block.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let d = max / 127.0;
        let inverse = if d > 0.0 { 1.0 / d } else { 0.0 };
        out.extend_from_slice(&f16::from_f32(d).to_le_bytes());
        // llama.cpp rounds half away from zero here (`roundf`); so do we.
        out.extend(block.iter().map(|x| {
            let scaled = x * inverse;
            (scaled + 0.5f32.copysign(scaled)) as i8 as u8
        }));
    }
}

/// The weights of Q8_0 `bytes`, a whole number of blocks.
pub fn decode_q8_0(bytes: &[u8]) -> Vec<f32> {
    let blocks = bytes.chunks_exact(Q8_0_BLOCK_BYTES);
    blocks
        .flat_map(|block| {
            let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
            block[2..].iter().map(move |&q| d * f32::from(q as i8))
        })
        .collect()
}

/// Bytes of a Q5_0 block: `d`: f16; the weights' fifth bits: u32; 16 bytes of low nibbles.
pub const Q5_0_BLOCK_BYTES: usize = 22;

/// Appends Q5_0 blocks for `weights`, a multiple of 32: weight = d·(q − 16).
pub fn encode_q5_0(weights: &[f32], out: &mut Vec<u8>) {
    for block in weights.chunks_exact(32) {
        // The weight farthest from zero, with its sign, gets the quant 0.
        let far = block
            .iter()
            .fold(0.0f32, |m, &x| if x.abs() > m.abs() { x } else { m });
        let d = far / -16.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        let quant = |x: f32| ((x * inverse + 16.5) as u8).min(31);
        let (mut high, mut low) = (0u32, [0u8; 16]);
        for i in 0..16 {
            let (first, second) = (quant(block[i]), quant(block[i + 16]));
            low[i] = (first & 15) | ((second & 15) << 4);
            high |= u32::from(first >> 4) << i;
            high |= u32::from(second >> 4) << (i + 16);
        }
        out.extend_from_slice(&f16::from_f32(d).to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
        out.extend_from_slice(&low);
    }
}

/// The weights of Q5_0 `bytes`, a whole number of blocks.
pub fn decode_q5_0(bytes: &[u8]) -> Vec<f32> {
    let mut weights = Vec::with_capacity(bytes.len() / Q5_0_BLOCK_BYTES * 32);
    for block in bytes.chunks_exact(Q5_0_BLOCK_BYTES) {
        let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
        let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        for i in 0..32 {
            let nibble = (block[6 + i % 16] >> (i / 16 * 4)) & 15;
            let q = i32::from(nibble) | (((high >> i) & 1) << 4) as i32;
            weights.push(d * (q - 16) as f32);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_q8_0_block_made_by_hand() {
        // Scale 0.5 (f16 0x3800) and the quants 1, -2, 127, -127.
        let mut block = vec![0u8; Q8_0_BLOCK_BYTES];
        block[1] = 0x38;
        block[2..6].copy_from_slice(&[1, 0xfe, 0x7f, 0x81]);
        let weights = decode_q8_0(&block);
        assert_eq!(weights[..5], [0.5, -1.0, 63.5, -63.5, 0.0]);

        let mut again = Vec::new();
        encode_q8_0(&weights, &mut again);
        assert_eq!(again, block);
    }

    #[test]
    fn a_q5_0_block_made_by_hand() {
        let mut block = vec![0u8; Q5_0_BLOCK_BYTES];
        block[1] = 0x3c; // d = 1
        block[6] = 0x25; // weight 0: low nibble 5; weight 16: 2
        block[4] = 1; // bit 16: weight 16's fifth bit
        let weights = decode_q5_0(&block);
        assert_eq!(weights[0], 5.0 - 16.0);
        assert_eq!(weights[16], 18.0 - 16.0);
        assert_eq!(weights[1], -16.0);
    }

    #[test]
    fn the_farthest_weight_is_kept_and_zeros_stay_zero() {
        let mut weights = [0.0f32; 32];
        weights[3] = -2.0;
        weights[20] = 1.0;
        let mut bytes = Vec::new();
        encode_q5_0(&weights, &mut bytes);
        let decoded = decode_q5_0(&bytes);
        assert_eq!(decoded[3], -2.0);
        assert_eq!(decoded[20], 1.0);
        assert_eq!(decoded[0], 0.0);
    }
}
