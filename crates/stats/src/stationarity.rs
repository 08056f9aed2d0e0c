//! Properties of a series of samples in order of time: where it settles, whether it drifts, and how
//! much its samples depend on each other.
//!
//! [`drift`] detects whether the samples of a cell drift within its invocations: because of a
//! warm-up that was too short, a clock that falls with heat, a cache that fills. It compares the
//! early part of each invocation with its late part, as in Geweke's diagnostic (J. Geweke,
//! "Evaluating the accuracy of sampling-based approaches to the calculation of posterior moments",
//! Bayesian Statistics 4, 1992). Geweke takes the error of the two means from the spectrum of a
//! single series; here there are several independent invocations, so it is taken from them (the
//! idea of replications: P. D. Welch, "The statistical analysis of simulation results", 1983): a
//! paired t-test of the early and late medians. It therefore holds whatever the autocorrelation
//! within an invocation. It flags, and never trims: a start-up that is slower is what a user gets.
//!
//! [`lag1`], [`integrated_time`] and [`effective_size`] describe how much the samples of one
//! invocation depend on each other. No interval rests on them: intervals are over invocations, and
//! correlation within an invocation can't make them too narrow.
//!
//! [`truncation`] finds where a series settles: how much of its beginning is a ramp and not the
//! steady state. It is MSER-5: cut where the standard error of the mean of what is left is least,
//! on means of five. Sources: White, "An effective truncation heuristic for bias reduction in
//! simulation output", Simulation 69 (1997); White, Cobb & Spratt, "A comparison of five
//! steady-state truncation heuristics for simulation", Winter Simulation Conference (2000), for
//! means of five. Rejected: a fixed number of warm-up requests, since it isn't known beforehand how
//! long a queue takes to fill.

use crate::describe::{mean, median};
use crate::percentile::all_finite;
use crate::ratio::{PairedRatio, paired_ratio};

/// Share of an invocation's samples that are its early part: Geweke's tenth doubled, since a cell
/// may have 20 requests an invocation, and a median of two says little.
pub const EARLY: f64 = 0.2;
/// Share of an invocation's samples that are its late part.
pub const LATE: f64 = 0.5;
/// Minimum number of samples in each invocation for a drift.
pub const SAMPLES_MIN: usize = 10;
/// Minimum number of invocations for a drift.
pub const INVOCATIONS_MIN: usize = 3;
/// p under which a drift is flagged. It is lower than a verdict's, because every cell is tested and
/// nothing corrects for that.
pub const ALPHA: f64 = 0.01;

/// Return the ratio early ÷ late over the invocations' samples, which are in order of time. `None`
/// with too few samples or invocations, or where a median isn't positive.
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

/// Return the autocovariance at a lag with divisor n (Box & Jenkins 1976, § 2.1.5): the biased
/// estimate, whose sequence is positive semi-definite. `None` where the series is not longer than
/// the lag or not all finite.
pub fn autocovariance(series: &[f64], lag: usize) -> Option<f64> {
    if series.len() <= lag || !all_finite(series) {
        return None;
    }
    let mean = mean(series)?;
    Some(about(series, mean, lag)).filter(|c| c.is_finite())
}

/// Return the autocorrelation at lag 1, −1…1. `None` with fewer than three samples, and where all
/// are equal.
pub fn lag1(series: &[f64]) -> Option<f64> {
    if series.len() < 3 {
        return None;
    }
    let variance = autocovariance(series, 0)?;
    Some(autocovariance(series, 1)? / variance).filter(|r| r.is_finite())
}

/// Return the integrated autocorrelation time `τ = 1 + 2·Σ ρ(lag)`, by Geyer's initial monotone
/// sequence: sums of two neighbouring autocorrelations are added as long as they are positive, none
/// counted for more than the one before it. So the noise of long lags, which doesn't decay, is left
/// out.
///
/// Source: C. J. Geyer, "Practical Markov Chain Monte Carlo", Statistical Science 7
/// (1992), § 3.3. `None` as for [`lag1`].
pub fn integrated_time(series: &[f64]) -> Option<f64> {
    lag1(series)?;
    let mean = mean(series)?;
    let variance = about(series, mean, 0);
    let mut tau = -1.0;
    let mut least = f64::INFINITY;
    for lag in (0..series.len() - 1).step_by(2) {
        let pair = (about(series, mean, lag) + about(series, mean, lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        least = least.min(pair);
        tau += 2.0 * least;
    }
    Some(tau).filter(|tau| tau.is_finite())
}

/// Return how many independent samples the series is worth for its mean: `n / τ`, at most n.
/// (Anticorrelated samples would be worth more; that is not claimed.)
pub fn effective_size(series: &[f64]) -> Option<f64> {
    Some(series.len() as f64 / integrated_time(series)?.max(1.0))
}

fn about(series: &[f64], mean: f64, lag: usize) -> f64 {
    let later = &series[lag..];
    let products = series
        .iter()
        .zip(later)
        .map(|(a, b)| (a - mean) * (b - mean));
    products.sum::<f64>() / series.len() as f64
}

/// Number of values that are averaged into one.
const BATCH: usize = 5;
/// Minimum number of batches for a cut; with fewer there is nothing to compare.
const BATCHES_MIN: usize = 4;

/// Return how many values at the beginning of `series`, in order of time, are to be left out: a
/// multiple of five, and at most half of them. A cut at exactly half means that the series never
/// settled.
pub fn truncation(series: &[f64]) -> usize {
    let means: Vec<f64> = series
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    if means.len() < BATCHES_MIN {
        return 0;
    }
    let statistic = |cut: &usize| mser(&means[*cut..]);
    let cuts = 0..=means.len() / 2;
    // Of equal cuts the first is taken, so that as little as possible is left out.
    let best = cuts.min_by(|a, b| statistic(a).total_cmp(&statistic(b)));
    best.unwrap_or(0) * BATCH
}

/// Return Σ (x − mean)² / n²: the squared standard error of the mean, up to a factor.
fn mser(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n * n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Draw 20 samples about 100, the first four `factor` times as long.
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

    #[test]
    fn what_alternates_and_what_trends() {
        // By hand: mean 0, c0 = 1, c1 = −3/4.
        assert_eq!(lag1(&[1.0, -1.0, 1.0, -1.0]), Some(-0.75));
        // By hand: mean 3, c0 = 10/5, c1 = (2 + 0 + 0 + 2)/5.
        assert_eq!(lag1(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(0.4));
        // ρ = 1, 0.4, −0.1, −0.4, −0.4: the second pair is negative.
        let tau = integrated_time(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((tau - 1.8).abs() < 1e-12);
        let size = effective_size(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((size - 5.0 / 1.8).abs() < 1e-12);
        assert_eq!(effective_size(&[1.0, -1.0, 1.0, -1.0]), Some(4.0));
    }

    #[test]
    fn no_number_where_there_is_nothing_to_correlate() {
        for series in [&[][..], &[1.0, 2.0], &[3.0; 9], &[1.0, f64::NAN, 2.0]] {
            assert_eq!(lag1(series), None, "{series:?}");
            assert_eq!(effective_size(series), None, "{series:?}");
        }
    }

    /// Deterministic noise in −0.5 … 0.5.
    fn noise(i: usize) -> f64 {
        ((i * 7919 + 13) % 101) as f64 / 101.0 - 0.5
    }

    #[test]
    fn a_series_that_is_steady_from_the_start_keeps_almost_everything() {
        let flat = vec![3.0; 100];
        assert_eq!(truncation(&flat), 0);
        let noisy: Vec<f64> = (0..200).map(|i| 10.0 + noise(i)).collect();
        let cut = truncation(&noisy);
        assert!(cut <= 40, "{cut}");
    }

    #[test]
    fn a_ramp_is_cut_where_it_ends() {
        // 40 values rise from 0 to 10, then it is steady.
        let ramp = |i: usize| (i as f64 / 40.0).min(1.0) * 10.0;
        let series: Vec<f64> = (0..200).map(|i| ramp(i) + noise(i)).collect();
        let cut = truncation(&series);
        assert!((30..=60).contains(&cut), "{cut}");
    }

    #[test]
    fn a_decaying_start_is_cut_too() {
        let series: Vec<f64> = (0..200)
            .map(|i| 10.0 + 30.0 * (-(i as f64) / 10.0).exp() + noise(i))
            .collect();
        let cut = truncation(&series);
        assert!((20..=60).contains(&cut), "{cut}");
    }

    #[test]
    fn what_grows_to_the_end_is_cut_in_half() {
        let series: Vec<f64> = (0..200).map(|i| i as f64).collect();
        assert_eq!(truncation(&series), 100);
    }

    #[test]
    fn too_few_values_are_kept_whole() {
        assert_eq!(truncation(&[9.0, 1.0, 1.0, 1.0, 1.0]), 0);
        assert_eq!(truncation(&[]), 0);
    }

    #[test]
    fn by_hand() {
        // Means of five: 9, 1, 1, 1. All: mean 3, Σ = 48, ÷ 16 = 3. From the second: 0.
        let series: Vec<f64> = [9.0, 1.0, 1.0, 1.0]
            .into_iter()
            .flat_map(|x| [x; 5])
            .collect();
        assert_eq!(mser(&[9.0, 1.0, 1.0, 1.0]), 3.0);
        assert_eq!(truncation(&series), 5);
    }
}
