//! The small loops, in plain Rust that the compiler vectorises.
//!
//! Every function is `inline(always)`, so that it is compiled for the instruction set of the
//! function that calls it: [`elementwise!`] makes one set of functions per instruction set. Sums
//! run in [`LANES`] lanes, which fixes their order whatever the width of the registers. `FMA` says
//! whether the caller's instruction set has fused multiply-add; without it, `mul_add` would be a
//! call into the C library.

use super::quant::{BLOCK, TokenMut};

/// Number of lanes of a sum.
pub const LANES: usize = 16;

/// Compute `a · b + c`.
#[inline(always)]
pub fn madd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Return the sum of the lanes, added as a tree.
#[inline(always)]
pub fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// See [`super::Kernels::rms_norm`].
#[inline(always)]
pub fn rms_norm<const FMA: bool>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = inverse_rms::<FMA>(x, eps);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = *x * scale * *weight;
    }
}

/// See [`super::Kernels::rms_norm_in_place`].
#[inline(always)]
pub fn rms_norm_in_place<const FMA: bool>(x: &mut [f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms::<FMA>(x, eps);
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = *x * scale * *weight;
    }
}

/// Compute `1 / √(mean square + ε)`.
#[inline(always)]
fn inverse_rms<const FMA: bool>(x: &[f32], eps: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = madd::<FMA>(chunk[lane], chunk[lane], lanes[lane]);
        }
    }
    let rest: f32 = rest.iter().map(|value| value * value).sum();
    let mean = (sum_lanes(lanes) + rest) / x.len() as f32;
    1.0 / (mean + eps).sqrt()
}

/// Compute `e^x` to about one unit in the last place, without a branch.
///
/// The algorithm is that of Cephes' `expf`: `x = n · ln 2 + r`, a polynomial for `e^r`, and `2^n`
/// through the exponent bits. Below −87 the result stays at e^−87, about 10^−38.
#[inline(always)]
#[allow(clippy::excessive_precision)] // Cephes' own constants, digit for digit.
pub fn exp<const FMA: bool>(x: f32) -> f32 {
    // Adding 1.5 · 2^23 leaves the nearest integer in the low bits of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = madd::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = madd::<FMA>(n, -0.693_359_375, x);
    let r = madd::<FMA>(n, 2.121_944_40e-4, r);
    let mut p = 1.987_569_15e-4;
    p = madd::<FMA>(p, r, 1.398_199_95e-3);
    p = madd::<FMA>(p, r, 8.333_451_9e-3);
    p = madd::<FMA>(p, r, 4.166_579_6e-2);
    p = madd::<FMA>(p, r, 1.666_666_55e-1);
    p = madd::<FMA>(p, r, 5.000_000_1e-1);
    p = madd::<FMA>(p, r * r, r + 1.0);
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    p * power
}

/// See [`super::Kernels::silu_mul`].
#[inline(always)]
pub fn silu_mul<const FMA: bool>(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp::<FMA>(-*gate)) * *up;
    }
}

/// See [`super::Kernels::add`].
#[inline(always)]
pub fn add<const FMA: bool>(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += *y;
    }
}

/// See [`super::Kernels::rotate`].
#[inline(always)]
pub fn rotate<const FMA: bool>(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (low, high) = head.split_at_mut(cos.len());
    for (((low, high), cos), sin) in low.iter_mut().zip(high).zip(cos).zip(sin) {
        let (a, b) = (*low, *high);
        *low = a * *cos - b * *sin;
        *high = b * *cos + a * *sin;
    }
}

/// See [`super::Kernels::quantise`]. Columns beyond `x` become 0.
#[inline(always)]
pub fn quantise<const FMA: bool>(x: &[f32], out: TokenMut<'_>) {
    let (blocks, rest) = out.values.as_chunks_mut::<BLOCK>();
    debug_assert!(rest.is_empty());
    let heads = out.scales.iter_mut().zip(out.corrections);
    for (index, (values, (scale, correction))) in blocks.iter_mut().zip(heads).enumerate() {
        let mut block = [0.0f32; BLOCK];
        let from = (index * BLOCK).min(x.len());
        let to = (from + BLOCK).min(x.len());
        block[..to - from].copy_from_slice(&x[from..to]);
        let mut lanes = [0.0f32; BLOCK];
        for lane in 0..BLOCK {
            lanes[lane] = block[lane].abs();
        }
        let mut width = BLOCK / 2;
        while width > 0 {
            for lane in 0..width {
                if lanes[lane + width] > lanes[lane] {
                    lanes[lane] = lanes[lane + width];
                }
            }
            width /= 2;
        }
        let largest = lanes[0];
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        *scale = largest / 127.0;
        let mut sum = 0;
        for (value, x) in values.iter_mut().zip(block) {
            // The clamp also maps NaN, and the result of an infinite `inverse` (a subnormal
            // block), to a harmless value.
            let rounded = (x * inverse).round_ties_even().clamp(-127.0, 127.0) as i32;
            *value = rounded as i8;
            sum += rounded;
        }
        *correction = -128 * sum;
    }
}

/// See [`super::Kernels::argmax`].
#[inline(always)]
pub fn argmax<const FMA: bool>(x: &[f32]) -> Option<usize> {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] {
                chunk[lane]
            } else {
                lanes[lane]
            };
        }
    }
    let largest = lanes
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    if !largest.is_finite() {
        return None;
    }
    x.iter().position(|value| *value == largest)
}

/// Defines one set of the small loops, for the named instruction set.
macro_rules! elementwise {
    ($fma:literal $(, $features:literal)?) => {
        /// See [`super::Kernels::rms_norm`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
            $crate::kernels::portable::rms_norm::<$fma>(x, weight, eps, out);
        }
        /// See [`super::Kernels::rms_norm_in_place`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
            $crate::kernels::portable::rms_norm_in_place::<$fma>(x, weight, eps);
        }
        /// See [`super::Kernels::silu_mul`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn silu_mul(gate: &mut [f32], up: &[f32]) {
            $crate::kernels::portable::silu_mul::<$fma>(gate, up);
        }
        /// See [`super::Kernels::add`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn add(x: &mut [f32], y: &[f32]) {
            $crate::kernels::portable::add::<$fma>(x, y);
        }
        /// See [`super::Kernels::rotate`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
            $crate::kernels::portable::rotate::<$fma>(head, cos, sin);
        }
        /// See [`super::Kernels::quantise`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn quantise(x: &[f32], out: $crate::kernels::quant::TokenMut<'_>) {
            $crate::kernels::portable::quantise::<$fma>(x, out);
        }
        /// See [`super::Kernels::argmax`].
        ///
        /// # Safety
        /// The CPU must have the instruction set of this module.
        $(#[target_feature(enable = $features)])?
        pub fn argmax(x: &[f32]) -> Option<usize> {
            $crate::kernels::portable::argmax::<$fma>(x)
        }
    };
}
pub(crate) use elementwise;
