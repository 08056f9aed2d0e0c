//! Mean, standard deviation, median, MAD and extremes of a sample.
//!
//! Nothing is trimmed, and no sample is called an outlier. No intervals here (see [`crate::ci`]):
//! samples of one process are not independent, and an interval from `stddev / √n` over them would
//! be too narrow.
//!
//! The coefficient of variation says how far invocations of one cell lie apart; it is over
//! invocations only. The spread of latencies within one invocation is part of their distribution,
//! which [`describe`] gives, and not a lack of reproducibility.

use crate::percentile::{all_finite, percentile_of_sorted, sorted};
use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor};

/// The description of a sample, in the unit of the sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n−1; 0 for a single value.
    pub stddev: f64,
    /// Median absolute deviation from the median, unscaled (no factor 1.4826).
    pub mad: f64,
    /// Minimum.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Maximum.
    pub max: f64,
}

/// Describe a sample; `None` where it is empty or not all finite, or where a
/// sum overflows.
///
/// All sums run over the sorted sample, so any order of the same values gives
/// the same bits.
pub fn describe(samples: &[f64]) -> Option<Description> {
    describe_sorted(&sorted(samples)?)
}

/// Describe a sample that is sorted already.
pub(crate) fn describe_sorted(ascending: &[f64]) -> Option<Description> {
    let mean = mean(ascending)?;
    let median = percentile_of_sorted(ascending, 50.0)?;
    let mut deviations: Vec<f64> = ascending.iter().map(|x| (x - median).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    Some(Description {
        n: ascending.len(),
        mean,
        stddev: match ascending {
            [_] => 0.0,
            _ => stddev(ascending)?,
        },
        mad: percentile_of_sorted(&deviations, 50.0)?,
        min: *ascending.first()?,
        median,
        max: *ascending.last()?,
    })
}

/// Return the arithmetic mean, summed in the order given; `None` where the sample is empty or the
/// mean isn't finite.
pub fn mean(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let first = samples[0];
    // Sum differences from the first value: equal values then have exactly themselves as mean (and
    // a standard deviation of exactly 0), which a plain sum of 0.1s does not give.
    let rest: f64 = samples.iter().map(|x| x - first).sum();
    Some(first + rest / samples.len() as f64).filter(|mean| mean.is_finite())
}

/// Return the standard deviation with n−1 (Bessel), two-pass; `None` with fewer than two values or
/// where it isn't finite.
pub fn stddev(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt()).filter(|s| s.is_finite())
}

/// Return the logarithms; `None` where a value isn't finite and positive.
pub(crate) fn logs(values: &[f64]) -> Option<Vec<f64>> {
    let log = |x: &f64| (x.is_finite() && *x > 0.0).then(|| x.ln());
    values.iter().map(log).collect()
}

/// Return the median; `None` where the sample is empty or not all finite.
pub fn median(samples: &[f64]) -> Option<f64> {
    percentile_of_sorted(&sorted(samples)?, 50.0)
}

/// Coefficient of variation under which a cell counts as reproducible.
pub const REPRODUCIBLE_MAX: f64 = 0.05;

/// Return the coefficient of variation `s / |mean|` with n−1, a fraction. `None` with fewer than
/// two values, where one isn't finite, or where the mean is 0.
pub fn cv(values: &[f64]) -> Option<f64> {
    if !all_finite(values) {
        return None;
    }
    let spread = stddev(values)?;
    let mean = mean(values)?;
    Some(spread / mean.abs()).filter(|cv| cv.is_finite())
}

/// Return a two-sided interval of a coefficient of variation: Vangel's modified McKay interval
/// ("Confidence Intervals for a Normal Coefficient of Variation", The American Statistician 50,
/// 1996), for normal values: `cv / √(((u + 2)/k − 1)·cv² + u/(k−1))` with u the upper and lower
/// quantile of χ² with k−1 degrees of freedom. The upper bound is infinite where the values vary so
/// much that they don't bound it. `None` where [`cv`] is, or where the confidence isn't between 0
/// and 1.
pub fn cv_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let seen = cv(values)?;
    if !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let k = values.len() as f64;
    let chi_squared = ChiSquared::new(k - 1.0).ok()?;
    let bound = |p: f64| {
        let u = chi_squared.inverse_cdf(p);
        let square = ((u + 2.0) / k - 1.0) * seen * seen + u / (k - 1.0);
        if square > 0.0 {
            seen / square.sqrt()
        } else {
            f64::INFINITY
        }
    };
    let low = bound(0.5 + confidence / 2.0);
    let high = bound(0.5 - confidence / 2.0);
    low.is_finite().then_some((low, high))
}

/// Return how many times more `a` varies than `b`, and the two-sided interval of that: the ratio of
/// the standard deviations of their logarithms, by F with k−1 and k'−1 degrees of freedom (Fisher
/// 1924). The logarithm makes it a ratio of relative variations. `None` with fewer than two values,
/// where one isn't finite and positive, or where `a` or `b` does not vary at all: then only the
/// resolution of the counter is seen.
pub fn times_more_varied(a: &[f64], b: &[f64], confidence: f64) -> Option<(f64, (f64, f64))> {
    let spread = |values: &[f64]| stddev(&logs(values)?).filter(|s| *s > 0.0);
    if !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let ratio = spread(a)? / spread(b)?;
    let f = FisherSnedecor::new(a.len() as f64 - 1.0, b.len() as f64 - 1.0).ok()?;
    let at = |p: f64| ratio / f.inverse_cdf(p).sqrt();
    let interval = (at(0.5 + confidence / 2.0), at(0.5 - confidence / 2.0));
    let finite = [ratio, interval.0, interval.1]
        .iter()
        .all(|x| x.is_finite());
    finite.then_some((ratio, interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 1e-3, "{got} {want}");
    }

    #[test]
    fn the_interval_of_five_values_is_the_one_by_hand() {
        // Mean 10, s = √0.025: cv = 0.0158114. χ²(4) has 11.1433 and 0.484419.
        let values = [9.8, 9.9, 10.0, 10.1, 10.2];
        let (low, high) = cv_interval(&values, 0.95).unwrap();
        near(low, 0.0158114 / (1.62866f64 * 2.5e-4 + 2.785825).sqrt());
        near(high, 0.0158114 / (-0.503116f64 * 2.5e-4 + 0.121105).sqrt());
        assert_eq!(cv_interval(&values[..1], 0.95), None);
        assert_eq!(cv_interval(&[2.0; 5], 0.95), Some((0.0, 0.0)));
        assert_eq!(cv_interval(&values, 1.0), None);
    }

    #[test]
    fn what_varies_wildly_is_not_bounded_above() {
        let (low, high) = cv_interval(&[1.0, 1.0, 1.0, 1.0, 20.0], 0.95).unwrap();
        assert!(low > 0.5 && high.is_infinite(), "{low} {high}");
    }

    #[test]
    fn the_ratio_of_variations_has_fisher_s_interval() {
        // Logarithms with the same pattern, once and three times as far apart.
        let logs = [-0.02, -0.01, 0.0, 0.01, 0.02f64];
        let little: Vec<f64> = logs.iter().map(|x| x.exp()).collect();
        let much: Vec<f64> = logs.iter().map(|x| (3.0 * x).exp()).collect();
        let (ratio, (low, high)) = times_more_varied(&much, &little, 0.95).unwrap();
        near(ratio, 3.0);
        // F(4, 4) at 0.975 is 9.60453, and its inverse at 0.025.
        near(low, 3.0 / 9.60453f64.sqrt());
        near(high, 3.0 * 9.60453f64.sqrt());
        assert_eq!(times_more_varied(&much, &[1.0; 5], 0.95), None);
        assert_eq!(times_more_varied(&[0.0; 5], &little, 0.95), None);
    }
}
