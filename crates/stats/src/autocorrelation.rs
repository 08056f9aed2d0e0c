//! How much the samples of one invocation say about each other: lag-1
//! autocorrelation, integrated autocorrelation time, effective sample size.
//!
//! They describe. No interval rests on them: intervals rest on invocations, which
//! no correlation within one can make too narrow.

use crate::describe::mean;
use crate::percentile::all_finite;

/// Autocovariance at a lag with divisor n (Box & Jenkins 1976, § 2.1.5): the biased
/// estimate, whose sequence is positive semi-definite. `None` where the series is
/// not longer than the lag or not all finite.
pub fn autocovariance(series: &[f64], lag: usize) -> Option<f64> {
    if series.len() <= lag || !all_finite(series) {
        return None;
    }
    let mean = mean(series)?;
    Some(about(series, mean, lag)).filter(|c| c.is_finite())
}

/// Autocorrelation at lag 1, −1…1. `None` with fewer than three samples, and where
/// all are equal.
pub fn lag1(series: &[f64]) -> Option<f64> {
    if series.len() < 3 {
        return None;
    }
    let variance = autocovariance(series, 0)?;
    Some(autocovariance(series, 1)? / variance).filter(|r| r.is_finite())
}

/// Integrated autocorrelation time `τ = 1 + 2·Σ ρ(lag)`, by Geyer's initial monotone
/// sequence: sums of two neighbouring autocorrelations are added as long as they are
/// positive, none counted for more than the one before it. So the noise of long lags,
/// which never dies, stays out.
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

/// As how many independent samples the series counts for its mean: `n / τ`, at most
/// n. (Anticorrelated samples would count for more; that is not claimed.)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
