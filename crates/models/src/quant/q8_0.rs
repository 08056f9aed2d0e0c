//! Q8_0: 32 weights as int8 with one f16 scale.
//!
//! Layout of a block (34 bytes): `d: f16`, then 32 × `i8`; weight = d · q. Nothing else.

use half::f16;

/// Bytes of a block of 32 weights.
pub const Q8_0_BLOCK_BYTES: usize = 34;

/// Appends blocks for `weights`, whose length must be a multiple of 32.
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

/// The weights of `bytes`, a whole number of blocks.
pub fn decode_q8_0(bytes: &[u8]) -> Vec<f32> {
    let blocks = bytes.chunks_exact(Q8_0_BLOCK_BYTES);
    blocks
        .flat_map(|block| {
            let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
            block[2..].iter().map(move |&q| d * f32::from(q as i8))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_made_by_hand() {
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
}
