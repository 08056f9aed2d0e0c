//! GGML's tensor formats: their sizes, and how to write and read them.
//!
//! The layouts are GGML's to the bit. The quantisers follow llama.cpp's reference ones
//! (`quantize_row_*_ref` in ggml-quants.c), restricted to correctly rounded operations so that the
//! bytes do not depend on the machine. There is no importance matrix, and no format that isn't
//! written here.

mod blocks;
mod k_quants;

use blocks::{
    Q5_0_BLOCK_BYTES, Q8_0_BLOCK_BYTES, decode_q5_0, decode_q8_0, encode_q5_0, encode_q8_0,
};
use k_quants::{
    Q4_K_BLOCK_BYTES, Q5_K_BLOCK_BYTES, Q6_K_BLOCK_BYTES, decode_q4_k, decode_q5_k, decode_q6_k,
    encode_q4_k, encode_q5_k, encode_q6_k,
};

use half::f16;

/// A GGML tensor type; the discriminant is its number in GGUF.
///
/// ```
/// use models::quant::GgmlType;
///
/// let weights: Vec<f32> = (0..32).map(|i| i as f32 / 32.0).collect();
/// let mut bytes = Vec::new();
/// GgmlType::Q8_0.encode(&weights, &mut bytes);
/// assert_eq!(bytes.len(), 34, "32 int8 weights and one f16 scale");
///
/// // The scale is the largest weight divided by 127: no weight is off by as much as that.
/// let decoded = GgmlType::Q8_0.decode(&bytes);
/// let step = weights[31] / 127.0;
/// assert!(weights.iter().zip(&decoded).all(|(a, b)| (a - b).abs() < step));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum GgmlType {
    /// 32-bit floats: 4 bytes a weight.
    F32 = 0,
    /// 16-bit floats: 2 bytes a weight.
    F16 = 1,
    /// 32 weights in 22 bytes: 5 bits with one f16 scale.
    Q5_0 = 6,
    /// 32 weights in 34 bytes: int8 with one f16 scale.
    Q8_0 = 8,
    /// 256 weights in 144 bytes: 4 bits, with 6-bit scales and minima per 32.
    Q4K = 12,
    /// 256 weights in 176 bytes: 5 bits, with 6-bit scales and minima per 32.
    Q5K = 13,
    /// 256 weights in 210 bytes: 6 bits, with 8-bit scales per 16.
    Q6K = 14,
}

impl GgmlType {
    /// All formats.
    const ALL: [Self; 7] = [
        Self::F32,
        Self::F16,
        Self::Q5_0,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The format that a GGUF file gives this number; `None` for one that isn't known here.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Weights per block, and bytes per block.
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 => (1, 2),
            Self::Q5_0 => (32, Q5_0_BLOCK_BYTES),
            Self::Q8_0 => (32, Q8_0_BLOCK_BYTES),
            Self::Q4K => (256, Q4_K_BLOCK_BYTES),
            Self::Q5K => (256, Q5_K_BLOCK_BYTES),
            Self::Q6K => (256, Q6_K_BLOCK_BYTES),
        }
    }

    /// Bytes of `weights` weights, which must fill whole blocks.
    pub fn bytes(self, weights: usize) -> usize {
        let (per_block, block_bytes) = self.block();
        assert_eq!(
            weights % per_block,
            0,
            "{weights} weights do not fill blocks of {per_block}"
        );
        weights / per_block * block_bytes
    }

    /// Appends `weights` to `out` in this format.
    pub fn encode(self, weights: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 => weights
                .iter()
                .for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
            Self::F16 => weights
                .iter()
                .for_each(|x| out.extend_from_slice(&f16::from_f32(*x).to_le_bytes())),
            Self::Q5_0 => encode_q5_0(weights, out),
            Self::Q8_0 => encode_q8_0(weights, out),
            Self::Q4K => encode_q4_k(weights, out),
            Self::Q5K => encode_q5_k(weights, out),
            Self::Q6K => encode_q6_k(weights, out),
        }
    }

    /// The weights that `bytes` in this format stand for.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => values(bytes, f32::from_le_bytes),
            Self::F16 => values(bytes, |b| f16::from_le_bytes(b).to_f32()),
            Self::Q5_0 => decode_q5_0(bytes),
            Self::Q8_0 => decode_q8_0(bytes),
            Self::Q4K => decode_q4_k(bytes),
            Self::Q5K => decode_q5_k(bytes),
            Self::Q6K => decode_q6_k(bytes),
        }
    }
}

/// The values that `bytes` hold, each in `N` of them.
pub(crate) fn values<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().map(|chunk| read(*chunk)).collect()
}

/// Rounds to the nearest integer, ties to even, for |x| < 2^22. Adding 1.5 · 2^23 leaves no bits
/// for the fraction; it is what llama.cpp's `nearest_int` does, and it needs no SSE 4.1 and no
/// libm.
#[inline]
fn nearest(x: f32) -> i32 {
    const SHIFT: f32 = 12_582_912.0;
    ((x + SHIFT) - SHIFT) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng;

    /// Relative root-mean-square error of a round trip over normal weights.
    fn round_trip_error(kind: GgmlType) -> f64 {
        let key = prng::stream_key(5, "round trip");
        let x: Vec<f32> = (0..64 * 256).map(|i| prng::normal(key, i, 0.02)).collect();
        let mut bytes = Vec::new();
        kind.encode(&x, &mut bytes);
        assert_eq!(bytes.len(), kind.bytes(x.len()));
        let y = kind.decode(&bytes);
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = x.iter().zip(&y).map(|(x, y)| square(x - y)).sum();
        (error / x.iter().map(|x| square(*x)).sum::<f64>()).sqrt()
    }

    #[test]
    fn zeros_stay_zero() {
        for kind in GgmlType::ALL {
            let mut bytes = Vec::new();
            kind.encode(&[0.0; 256], &mut bytes);
            assert_eq!(kind.decode(&bytes), [0.0; 256], "{kind:?}");
        }
    }

    #[test]
    fn round_trips_stay_within_the_step_of_each_format() {
        assert_eq!(round_trip_error(GgmlType::F32), 0.0);
        assert!(round_trip_error(GgmlType::F16) < 3e-4);
        assert!(round_trip_error(GgmlType::Q8_0) < 0.006);
        assert!(round_trip_error(GgmlType::Q6K) < 0.025);
        assert!(round_trip_error(GgmlType::Q5_0) < 0.05);
        assert!(round_trip_error(GgmlType::Q5K) < 0.045);
        assert!(round_trip_error(GgmlType::Q4K) < 0.085);
    }

    #[test]
    fn nearest_rounds_ties_to_even() {
        assert_eq!(
            [0.5, 1.5, -0.5, -1.5, 2.4, -2.6].map(nearest),
            [0, 2, 0, -2, 2, -3]
        );
    }
}
