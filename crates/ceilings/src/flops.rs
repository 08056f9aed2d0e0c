//! Measures the f32 peak, which no matrix product can exceed: independent chains of fused
//! multiply-adds in registers, so that neither memory nor latency limits the rate.

use crate::parallel::{CHAINS, Kernel, Measured, STEPS, peak};

/// Measure the peak (operations per second).
pub(crate) fn measure(threads: usize) -> Measured {
    peak(kernel(), threads, STEPS)
}

/// The kernel for this CPU.
fn kernel() -> Kernel<f32> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected.
            return ("avx512f fma", 16, |steps| unsafe { x86::avx512(steps) });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: both features were just detected.
            return ("avx2 fma", 8, |steps| unsafe { x86::avx2(steps) });
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        ("neon fma", 4, arm::neon)
    }
    #[cfg(not(target_arch = "aarch64"))]
    ("portable multiply and add", 4, portable)
}

/// The factor in `x ← x·A + B`, which converges to 1: no overflow, no denormals, any step count.
const A: f32 = 0.5;
const B: f32 = 0.5;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{A, B, CHAINS};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub(crate) fn avx512(steps: usize) -> f32 {
        let (a, b) = (_mm512_set1_ps(A), _mm512_set1_ps(B));
        let mut x = [_mm512_setzero_ps(); CHAINS];
        for _ in 0..steps {
            for x in &mut x {
                *x = _mm512_fmadd_ps(*x, a, b);
            }
        }
        x.iter().map(|x| _mm512_reduce_add_ps(*x)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn avx2(steps: usize) -> f32 {
        let (a, b) = (_mm256_set1_ps(A), _mm256_set1_ps(B));
        let mut x = [_mm256_setzero_ps(); CHAINS];
        for _ in 0..steps {
            for x in &mut x {
                *x = _mm256_fmadd_ps(*x, a, b);
            }
        }
        let mut lanes = [0.0; 8];
        let mut sum = 0.0;
        for x in x {
            // SAFETY: `lanes` holds the eight values an unaligned store writes.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), x) };
            sum += lanes.iter().sum::<f32>();
        }
        sum
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{A, B, CHAINS};
    use std::arch::aarch64::*;

    pub(crate) fn neon(steps: usize) -> f32 {
        // SAFETY: NEON is part of every aarch64 Rust runs on.
        unsafe {
            let (a, b) = (vdupq_n_f32(A), vdupq_n_f32(B));
            let mut x = [vdupq_n_f32(0.0); CHAINS];
            for _ in 0..steps {
                for x in &mut x {
                    *x = vfmaq_f32(b, *x, a);
                }
            }
            x.iter().map(|x| vaddvq_f32(*x)).sum()
        }
    }
}

#[cfg_attr(target_arch = "aarch64", allow(dead_code))]
fn portable(steps: usize) -> f32 {
    let mut x = [[0.0_f32; 4]; CHAINS];
    for _ in 0..steps {
        for value in x.as_flattened_mut() {
            *value = *value * A + B;
        }
    }
    x.as_flattened().iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_of_every_chain_works() {
        let (_, lanes, run) = kernel();
        // 1 − 2⁻³ after three steps, in every lane.
        assert_eq!(run(3), 0.875 * (CHAINS * lanes) as f32);
        assert_eq!(portable(3), 0.875 * (CHAINS * 4) as f32);
    }

    #[test]
    fn a_rate_comes_out() {
        assert!(peak(kernel(), 2, 1000).best > 0.0);
    }
}
