//! Measures the int8 peak: dot products of bytes into i32, in registers. Only vector units are
//! measured; matrix units (AMX) reach several times this rate where they exist.

use crate::parallel::{Measured, STEPS, peak};
use std::hint::black_box;
#[cfg(target_arch = "x86_64")]
use x86::kernel;

/// Measure the peak (operations per second). `None` where there is no kernel for this CPU.
pub(crate) fn measure(threads: usize) -> Option<Measured> {
    kernel().map(|kernel| peak(kernel, threads, STEPS))
}

/// Arm's dot product intrinsics are not stable in the pinned toolchain.
#[cfg(not(target_arch = "x86_64"))]
fn kernel() -> Option<crate::parallel::Kernel<i64>> {
    None
}

/// Run `steps` steps of the measured chains on the calling thread. Where the machine has no int8
/// kernel, it runs plain integer multiplications and additions instead.
pub(crate) fn work(steps: usize) {
    if let Some((_, _, run)) = kernel() {
        black_box(run(black_box(steps)));
        return;
    }
    let mut sums = [0_u32; 16];
    for step in 0..black_box(steps as u32) {
        for (lane, sum) in (1..).zip(&mut sums) {
            *sum = sum.wrapping_add(step.wrapping_mul(lane));
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::parallel::{CHAINS, Kernel};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// The kernel for this CPU, of dot products of ones; its lanes are the bytes of its vectors.
    pub(crate) fn kernel() -> Option<Kernel<i64>> {
        if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512f") {
            // SAFETY: both features were just detected.
            let run = |steps| unsafe { avx512_vnni(steps) };
            return Some(("avx512_vnni vpdpbusd", 64, run));
        }
        if is_x86_feature_detected!("avxvnni") {
            // SAFETY: the feature was just detected; it implies AVX2.
            let run = |steps| unsafe { avx_vnni(steps) };
            return Some(("avx_vnni vpdpbusd", 32, run));
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just detected.
            let run = |steps| unsafe { avx2(steps) };
            return Some(("avx2 vpmaddubsw, vpmaddwd, vpaddd", 32, run));
        }
        None
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn avx512_vnni(steps: usize) -> i64 {
        let ones = black_box(_mm512_set1_epi8(1));
        let mut x = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..steps {
            for x in &mut x {
                *x = _mm512_dpbusd_epi32(*x, ones, ones);
            }
        }
        x.iter()
            .map(|x| i64::from(_mm512_reduce_add_epi32(*x)))
            .sum()
    }

    #[target_feature(enable = "avx2,avxvnni")]
    fn avx_vnni(steps: usize) -> i64 {
        let ones = black_box(_mm256_set1_epi8(1));
        let mut x = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..steps {
            for x in &mut x {
                *x = _mm256_dpbusd_avx_epi32(*x, ones, ones);
            }
        }
        x.iter().map(|x| sum_lanes(*x)).sum()
    }

    #[target_feature(enable = "avx2")]
    fn avx2(steps: usize) -> i64 {
        let ones = black_box(_mm256_set1_epi8(1));
        let ones_16 = _mm256_set1_epi16(1);
        let mut x = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..steps {
            for x in &mut x {
                // Hidden from the optimiser, which would compute the product once for all chains.
                let products = _mm256_maddubs_epi16(black_box(ones), ones);
                *x = _mm256_add_epi32(*x, _mm256_madd_epi16(products, ones_16));
            }
        }
        x.iter().map(|x| sum_lanes(*x)).sum()
    }

    #[target_feature(enable = "avx2")]
    fn sum_lanes(x: __m256i) -> i64 {
        let mut lanes = [0_i32; 8];
        // SAFETY: `lanes` holds the 32 bytes an unaligned store writes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), x) };
        lanes.iter().map(|lane| i64::from(*lane)).sum()
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::parallel::peak;

        #[test]
        fn every_byte_of_every_chain_works() {
            if let Some((_, bytes, run)) = kernel() {
                assert_eq!(run(3), (3 * CHAINS * bytes) as i64);
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the feature was just detected.
                assert_eq!(unsafe { avx2(3) }, (3 * CHAINS * 32) as i64);
            }
        }

        #[test]
        fn a_rate_comes_out_where_there_is_a_kernel() {
            let measured = kernel().map(|kernel| peak(kernel, 2, 1000));
            assert!(measured.is_none_or(|measured| measured.best > 0.0));
        }
    }
}
