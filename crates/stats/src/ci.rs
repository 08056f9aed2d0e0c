//! Intervals: of a mean, and of a median.
//!
//! Student's t: the quantile and the tail that intervals and tests rest on, and
//! the interval over per-invocation statistics.
//!
//! Deliberately not here: intervals over pooled requests, and the bootstrap. With
//! five invocations the hierarchical bootstrap covers 75–86 %, not 95 %.
//!
//! The interval of a median by order statistics: for one stream of samples as it
//! comes in, whatever its distribution.
//!
//! For the eye while a launch runs. It takes the samples for independent, which
//! requests of one process are not: no verdict rests on it.

use crate::describe::{mean, stddev};
use crate::percentile::{all_finite, percentile_of_sorted};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};
use statrs::function::beta::beta_reg;

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// The mean and its two-sided interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// 95 % interval of the mean of `k` independent values:
/// `mean ± t(0.975, k−1) · s/√k` (Student 1908). `None` with fewer than two
/// values or where one isn't finite. Equal values give an interval of width 0:
/// then the resolution of the counter is the only uncertainty left.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    mean_interval_at(values, CONFIDENCE)
}

/// [`mean_interval`] at another confidence, for a family that shares 5 % of error.
pub fn mean_interval_at(values: &[f64], confidence: f64) -> Option<Interval> {
    if !all_finite(values) {
        return None;
    }
    let spread = stddev(values)?;
    let mean = mean(values)?;
    let k = values.len() as f64;
    let half = t_quantile(0.5 + confidence / 2.0, k - 1.0)? * spread / k.sqrt();
    let interval = Interval {
        mean,
        low: mean - half,
        high: mean + half,
    };
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

/// The `p`-quantile of Student's t with `df` degrees of freedom. `None` unless
/// `0 < p < 1` and `df ≥ 1` is finite.
pub fn t_quantile(p: f64, df: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0 && df >= 1.0 && df.is_finite()) {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, df).ok()?;
    Some(t.inverse_cdf(p)).filter(|x| x.is_finite())
}

/// Two-sided p of a t statistic: `P(|T| ≥ |t|) = I_{df/(df+t²)}(df/2, 1/2)`
/// (Abramowitz & Stegun 26.7.1 with 26.5.2), for |t| under 1 by its complement
/// `1 − I_{t²/(df+t²)}(1/2, df/2)`, since `df + t²` forgets a small t. An infinite `t` has p = 0. `None`
/// where `t` is NaN or `df` under 1 or not finite.
pub fn t_two_sided_p(t: f64, df: f64) -> Option<f64> {
    if t.is_nan() || !(df >= 1.0 && df.is_finite()) {
        return None;
    }
    let square = t * t;
    let p = match square < 1.0 {
        true => 1.0 - beta_reg(0.5, df / 2.0, square / (df + square)),
        false => beta_reg(df / 2.0, 0.5, df / (df + square)),
    };
    Some(p).filter(|p| (0.0..=1.0).contains(p))
}

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// The median (type 7).
    pub median: f64,
    /// Lower and upper bound, each a sample; `None` with fewer than six samples,
    /// of which not even the least and the greatest cover the median at 95 %.
    pub bounds: Option<(f64, f64)>,
}

/// The median of a finite sample in ascending order, and the order statistics
/// `l` and `n + 1 − l` (from 1) with the largest `l` for which
/// `P(Bin(n, 1/2) < l) ≤ 2.5 %`. `None` for an empty sample.
///
/// Source: David & Nagaraja, "Order Statistics" (2003), section 7.1.
pub fn median_interval_of_sorted(ascending: &[f64]) -> Option<MedianInterval> {
    let median = percentile_of_sorted(ascending, 50.0)?;
    let n = ascending.len();
    let bounds = rank(n as u64).map(|l| (ascending[l - 1], ascending[n - l]));
    Some(MedianInterval { median, bounds })
}

/// The rank `l` of the lower bound, from 1.
fn rank(n: u64) -> Option<usize> {
    // The smallest x with P(X ≤ x) ≥ 2.5 %, so P(X < x) is still under it.
    let x = Binomial::new(0.5, n)
        .ok()?
        .inverse_cdf((1.0 - CONFIDENCE) / 2.0);
    (x > 0).then_some(x as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_exact_arithmetic() {
        // Sums of C(n, i) / 2^n in exact arithmetic: one more term is over 2.5 %.
        for (n, l) in [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (50, 18)] {
            assert_eq!(rank(n), Some(l), "of {n}");
        }
        assert_eq!(rank(5), None);
    }

    #[test]
    fn bounds_are_samples_around_the_median() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = median_interval_of_sorted(&ten).unwrap();
        assert_eq!(interval.median, 5.5);
        assert_eq!(interval.bounds, Some((2.0, 9.0)));
        assert_eq!(median_interval_of_sorted(&ten[..5]).unwrap().bounds, None);
        assert_eq!(median_interval_of_sorted(&[]), None);
    }
}
