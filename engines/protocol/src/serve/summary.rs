//! The summary that a request made by hand prints about its samples. The real statistics, with
//! intervals, are in the `stats` crate; this is deliberately only a description.

use serde::Serialize;

/// A summary of durations, in milliseconds.
#[derive(Debug, Serialize)]
pub struct Summary {
    n: usize,
    mean: f64,
    median: f64,
    /// Percentiles are `null` unless ten samples or more lie beyond them: with fewer, a percentile
    /// would only report one or two outliers.
    p90: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    min: f64,
    max: f64,
    /// The sample standard deviation (n − 1); `null` for a single value.
    stddev: Option<f64>,
}

/// Number of samples that must lie beyond a percentile for it to be printed.
const BEYOND: usize = 10;

impl Summary {
    /// Summarise durations given in nanoseconds; `None` if there are none.
    pub fn of_ns(samples_ns: &[u64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples_ns.iter().map(|&ns| ns as f64 / 1e6).collect();
        sorted.sort_by(f64::total_cmp);
        let (n, min, max) = (sorted.len(), *sorted.first()?, *sorted.last()?);
        let mean = sorted.iter().sum::<f64>() / n as f64;
        let squares: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
        Some(Self {
            n,
            mean,
            median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
            p90: percentile(&sorted, 90),
            p95: percentile(&sorted, 95),
            p99: percentile(&sorted, 99),
            min,
            max,
            stddev: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
        })
    }
}

/// Nearest rank: the smallest sample that `percent` of the samples do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    (sorted.len() - rank >= BEYOND).then(|| sorted[rank - 1])
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn a_hundred_samples_carry_a_p90_and_no_more() {
        let samples: Vec<u64> = (1..=100).rev().map(|ms| ms * 1_000_000).collect();
        let summary = Summary::of_ns(&samples).unwrap();
        assert_eq!(
            (summary.min, summary.max, summary.median),
            (1.0, 100.0, 50.5)
        );
        assert_eq!(
            (summary.p90, summary.p95, summary.p99),
            (Some(90.0), None, None)
        );
        // variance of 1..=n is n(n + 1)/12
        assert!((summary.stddev.unwrap() - (100.0f64 * 101.0 / 12.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn one_sample_has_no_spread_and_none_no_summary() {
        let summary = Summary::of_ns(&[2_000_000]).unwrap();
        assert_eq!((summary.mean, summary.median), (2.0, 2.0));
        assert!(summary.p90.is_none() && summary.stddev.is_none());
        assert!(Summary::of_ns(&[]).is_none());
    }
}
