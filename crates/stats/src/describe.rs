//! Mean, standard deviation, median, MAD and extremes of a sample.
//!
//! Nothing is trimmed and no outlier is named: a sample is described as it came.
//! No intervals here (see [`crate::ci`]): samples of one process are not independent,
//! and `stddev / √n` over them would promise what it can't keep.

use crate::percentile::{percentile_of_sorted, sorted};

/// A sample described. All in the unit of the sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// How many.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n−1; 0 for a single value.
    pub stddev: f64,
    /// Median absolute deviation from the median, unscaled (no factor 1.4826).
    pub mad: f64,
    /// Least.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Greatest.
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

/// [`describe`] for a sample that is sorted already.
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

/// Arithmetic mean, summed in the order given; `None` where the sample is empty
/// or the mean isn't finite.
pub fn mean(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let first = samples[0];
    // Sum differences from the first value: equal values then have exactly
    // themselves as mean (and a standard deviation of exactly 0), which a plain
    // sum of 0.1s does not grant.
    let rest: f64 = samples.iter().map(|x| x - first).sum();
    Some(first + rest / samples.len() as f64).filter(|mean| mean.is_finite())
}

/// Standard deviation with n−1 (Bessel), two-pass; `None` with fewer than two
/// values or where it isn't finite.
pub fn stddev(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt()).filter(|s| s.is_finite())
}

/// Median; `None` where the sample is empty or not all finite.
pub fn median(samples: &[f64]) -> Option<f64> {
    percentile_of_sorted(&sorted(samples)?, 50.0)
}
