//! Whether the samples of a cell drift within its invocations: a warm-up that was
//! too short, a clock that falls with heat, a cache that fills.
//!
//! The early part of each invocation against its late part, as in Geweke's
//! diagnostic (J. Geweke, "Evaluating the accuracy of sampling-based approaches to
//! the calculation of posterior moments", Bayesian Statistics 4, 1992). Geweke takes
//! the error of the two means from the spectrum of the one series he has; here there
//! are several independent invocations, so it is taken from them (the idea of
//! replications: P. D. Welch, "The statistical analysis of simulation results",
//! 1983): a paired t-test of the early and late medians. It therefore holds whatever
//! the autocorrelation within an invocation.
//!
//! It flags, and never trims: a start-up that is slower is what a user gets.

use crate::describe::median;
use crate::paired::{PairedRatio, paired_ratio};
use crate::percentile::all_finite;

/// The early part: Geweke's tenth doubled, since a cell may have 20 requests an
/// invocation, and a median of two says little.
pub const EARLY: f64 = 0.2;
/// The late part.
pub const LATE: f64 = 0.5;
/// Fewest samples an invocation must have.
pub const SAMPLES_MIN: usize = 10;
/// Fewest invocations.
pub const INVOCATIONS_MIN: usize = 3;
/// p under which a drift is flagged. Lower than a verdict's, because every cell is
/// asked and nothing corrects for it.
pub const ALPHA: f64 = 0.01;

/// Early ÷ late, over the invocations' samples in their order. `None` with too few
/// of either, or where a median isn't positive.
pub fn drift(invocations: &[Vec<f64>]) -> Option<PairedRatio> {
    let enough = invocations.iter().all(|i| i.len() >= SAMPLES_MIN);
    let finite = invocations.iter().all(|i| all_finite(i));
    if invocations.len() < INVOCATIONS_MIN || !enough || !finite {
        return None;
    }
    let mut early = Vec::new();
    let mut late = Vec::new();
    for samples in invocations {
        let n = samples.len() as f64;
        early.push(median(&samples[..(n * EARLY).ceil() as usize])?);
        late.push(median(
            &samples[samples.len() - (n * LATE).ceil() as usize..],
        )?);
    }
    paired_ratio(&early, &late)
}

/// Whether a drift is to be flagged.
pub fn is_flagged(drift: &PairedRatio) -> bool {
    drift.p.is_some_and(|p| p < ALPHA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// 20 samples about 100, the first four `factor` times as long.
    fn invocation(factor: f64, random: &mut Random) -> Vec<f64> {
        let sample = |i: usize, random: &mut Random| {
            let slow = if i < 4 { factor } else { 1.0 };
            100.0 * slow * (0.02 * random.normal()).exp()
        };
        (0..20).map(|i| sample(i, random)).collect()
    }

    fn cell(factor: f64, seed: u64) -> PairedRatio {
        let mut random = Random::new(seed);
        let invocations: Vec<_> = (0..5).map(|_| invocation(factor, &mut random)).collect();
        drift(&invocations).unwrap()
    }

    #[test]
    fn a_slow_start_is_flagged_and_a_steady_one_seldom() {
        let slow = cell(1.2, 1);
        assert!(is_flagged(&slow), "{slow:?}");
        assert!((slow.ratio - 1.2).abs() < 0.03, "{slow:?}");
        let flagged = (0..1000)
            .filter(|&seed| is_flagged(&cell(1.0, seed)))
            .count();
        // 10 expected of a test at 1 %; 25 would be 4.7 standard deviations.
        assert!(flagged < 25, "{flagged} of 1000 steady cells");
    }

    #[test]
    fn too_little_says_nothing() {
        let ten = vec![1.0; 10];
        assert!(drift(&vec![ten.clone(); 3]).is_some());
        assert_eq!(drift(&vec![ten.clone(); 2]), None);
        assert_eq!(drift(&[ten.clone(), ten, vec![1.0; 9]]), None);
        assert_eq!(drift(&[vec![], vec![], vec![]]), None);
    }
}
