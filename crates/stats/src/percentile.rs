//! Percentiles (Hyndman–Fan type 7, the default of NumPy and R), and the rule for when one may be
//! printed.
//!
//! No tail is estimated from a model: a percentile with too few requests beyond it is left out. For
//! drawing alone, a sample is thinned to some of its quantiles; every statistic is computed from
//! the whole sample.

/// Minimum number of requests beyond a percentile that may be printed.
pub const BEYOND_MIN: u64 = 10;

/// Return the `p`-th percentile (0…100) of a sample: with `h = (n − 1)·p/100`, the linear
/// interpolation between the order statistics `⌊h⌋` and `⌊h⌋ + 1` (from 0).
///
/// Source: Hyndman & Fan, "Sample Quantiles in Statistical Packages", The
/// American Statistician 50 (1996), definition 7. `None` where the sample is
/// empty or not all finite, or `p` lies outside 0…100.
///
/// ```
/// use stats::percentile::{percentile, printable};
///
/// assert_eq!(percentile(&[4.0, 1.0, 3.0, 2.0], 50.0), Some(2.5));
/// assert_eq!(percentile(&[], 50.0), None);
/// assert!(printable(99, 1000) && !printable(99, 999), "ten requests must lie beyond it");
/// ```
pub fn percentile(samples: &[f64], p: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(samples)?, p)
}

/// Return the [`percentile`] of a sample that is finite and in ascending order already.
pub fn percentile_of_sorted(ascending: &[f64], p: f64) -> Option<f64> {
    // A NaN lies in no range.
    if ascending.is_empty() || !(0.0..=100.0).contains(&p) {
        return None;
    }
    let h = (ascending.len() - 1) as f64 * (p / 100.0);
    let below = h.floor() as usize;
    let low = ascending[below];
    let high = ascending[(below + 1).min(ascending.len() - 1)];
    Some(low + (high - low) * (h - h.floor())).filter(|value| value.is_finite())
}

/// Whether the `p`-th percentile of `requests` requests may be printed: at least
/// [`BEYOND_MIN`] of them lie beyond it. p90 from 100, p95 from 200, p99 from 1000.
///
/// Requests are counted even where the samples are gaps: the gaps of one request depend on each
/// other, so a thousand gaps of ten requests are not a thousand independent samples.
pub fn printable(p: u8, requests: u64) -> bool {
    p <= 100 && requests.saturating_mul(u64::from(100 - p)) >= BEYOND_MIN * 100
}

/// Sort a sample in ascending order; `None` where it is empty or not all finite.
pub fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || !all_finite(samples) {
        return None;
    }
    let mut ascending = samples.to_vec();
    // `total_cmp` puts −0 before +0; nothing below can tell them apart.
    ascending.sort_unstable_by(f64::total_cmp);
    Some(ascending)
}

/// Whether every value is finite.
pub(crate) fn all_finite(samples: &[f64]) -> bool {
    samples.iter().all(|x| x.is_finite())
}

/// Maximum number of points of a curve. An SVG a few hundred pixels wide shows no more.
pub const POINTS_MAX: usize = 160;

/// Thin a finite sample in ascending order for drawing. Return the sample itself where it has at
/// most [`POINTS_MAX`] values, else that many type 7 quantiles at evenly spaced probabilities from
/// 0 (the least value) to 1 (the greatest).
pub fn quantiles_of_sorted(ascending: &[f64]) -> Vec<f64> {
    if ascending.len() <= POINTS_MAX {
        return ascending.to_vec();
    }
    let last = (POINTS_MAX - 1) as f64;
    (0..POINTS_MAX)
        .filter_map(|i| percentile_of_sorted(ascending, 100.0 * (i as f64 / last)))
        .collect()
}
