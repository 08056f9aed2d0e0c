//! Intervals of a mean, of a percentile and of a median.
//!
//! [`mean_interval`] is over per-invocation statistics, by Student's t, whose quantile and tail are
//! here for other intervals and tests too. Deliberately not here: intervals over pooled requests,
//! and the bootstrap. With five invocations the hierarchical bootstrap covers 75–86 %, not 95 %.
//!
//! [`median_interval_of_sorted`] is by order statistics, for one stream of samples as it comes in,
//! whatever its distribution. It is only displayed while a launch runs: it assumes independent
//! samples, which requests of one process are not, so no verdict rests on it.

use crate::describe::{mean, stddev};
use crate::percentile::{all_finite, percentile_of_sorted};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};
use statrs::function::beta::beta_reg;

/// Confidence of intervals, unless a function is given another.
pub const CONFIDENCE: f64 = 0.95;

/// A mean and its two-sided interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// Put a mean and its bounds together; `None` without bounds.
    pub(crate) fn of(mean: f64, bounds: Option<(f64, f64)>) -> Option<Self> {
        let (low, high) = bounds?;
        Some(Self { mean, low, high })
    }

    /// Return half the width of the interval, in percent of the mean.
    pub fn half_width_percent(&self) -> f64 {
        50.0 * (self.high - self.low) / self.mean
    }
}

/// Return the 95 % interval of the mean of `k` independent values: `mean ± t(0.975, k−1) · s/√k`
/// (Student 1908). `None` with fewer than two values or where one isn't finite. Equal values give
/// an interval of width 0: then the resolution of the counter is the only uncertainty left.
///
/// ```
/// use stats::ci::mean_interval;
///
/// // Five launches of mean 10 and standard deviation √2.5, and t(0.975, 4) = 2.776445.
/// let interval = mean_interval(&[8.0, 9.0, 10.0, 11.0, 12.0]).unwrap();
/// assert!((interval.low - 8.036757).abs() < 1e-5);
/// assert!((interval.high - 11.963243).abs() < 1e-5);
/// assert_eq!(mean_interval(&[10.0]), None, "one value has no interval");
/// ```
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    mean_interval_at(values, CONFIDENCE)
}

/// Return the [`mean_interval`] at another confidence, for a family that shares 5 % of error.
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

/// Return the `p`-quantile of Student's t with `df` degrees of freedom. `None` unless `0 < p < 1`
/// and `df ≥ 1` is finite.
pub fn t_quantile(p: f64, df: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0 && df >= 1.0 && df.is_finite()) {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, df).ok()?;
    Some(t.inverse_cdf(p)).filter(|x| x.is_finite())
}

/// Return the two-sided p of a t statistic: `P(|T| ≥ |t|) = I_{df/(df+t²)}(df/2, 1/2)` (Abramowitz
/// & Stegun 26.7.1 with 26.5.2). For |t| under 1 it is computed by its complement,
/// `1 − I_{t²/(df+t²)}(1/2, df/2)`, since rounding loses a small t in `df + t²`. For an infinite
/// `t` it is 0. `None` where `t` is NaN or `df` under 1 or not finite.
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
    /// Lower and upper bound, each one of the samples; `None` with fewer than six samples, where
    /// not even the least and the greatest enclose the median at 95 %.
    pub bounds: Option<(f64, f64)>,
}

/// Return the median of a finite sample in ascending order, bounded by the order statistics `l` and
/// `n + 1 − l` (from 1) with the largest `l` for which `P(Bin(n, 1/2) < l) ≤ 2.5 %`. `None` for an
/// empty sample.
///
/// Source: David & Nagaraja, "Order Statistics" (2003), section 7.1.
pub fn median_interval_of_sorted(ascending: &[f64]) -> Option<MedianInterval> {
    let median = percentile_of_sorted(ascending, 50.0)?;
    let n = ascending.len();
    let bounds = rank(n as u64).map(|l| (ascending[l - 1], ascending[n - l]));
    Some(MedianInterval { median, bounds })
}

/// Return the rank `l` of the lower bound, from 1; `None` with too few samples.
fn rank(n: u64) -> Option<usize> {
    // The smallest x with P(X ≤ x) ≥ 2.5 %, so P(X < x) is still under 2.5 %.
    let x = Binomial::new(0.5, n)
        .ok()?
        .inverse_cdf((1.0 - CONFIDENCE) / 2.0);
    (x > 0).then_some(x as usize)
}

/// Return the 95 % interval of a percentile of samples that are pooled over launches; its ends are
/// percentiles of the same samples.
///
/// The share of a launch's samples that lie at or under the percentile differs from launch to
/// launch. The t interval of that share, about `p`, is converted back into two percentiles. So
/// requests of one launch aren't taken for independent, and nothing is assumed of their
/// distribution. Source: R. S. Woodruff, "Confidence Intervals for Medians and Other Position
/// Measures", Journal of the American Statistical Association 47 (1952). The share's error is never
/// taken for smaller than that of as many independent samples.
///
/// `None` with fewer than two launches, where a launch has no sample, and where an end lies beyond
/// the least or the greatest sample: then no sample bounds it.
pub fn percentile_interval(launches: &[Vec<f64>], ascending: &[f64], p: f64) -> Option<(f64, f64)> {
    let value = percentile_of_sorted(ascending, p)?;
    let share = |launch: &Vec<f64>| {
        let under = launch.iter().filter(|x| **x <= value).count();
        (!launch.is_empty()).then(|| under as f64 / launch.len() as f64)
    };
    let shares: Vec<f64> = launches.iter().map(share).collect::<Option<_>>()?;
    let count = shares.len() as f64;
    let at = p / 100.0;
    let alone = (at * (1.0 - at) / ascending.len() as f64).sqrt();
    let error = (stddev(&shares)? / count.sqrt()).max(alone);
    let half = t_quantile(0.5 + CONFIDENCE / 2.0, count - 1.0)? * error;
    if at - half <= 0.0 || at + half >= 1.0 {
        return None;
    }
    let end = |at: f64| percentile_of_sorted(ascending, 100.0 * at);
    Some((end(at - half)?, end(at + half)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percentile::sorted;
    use crate::random::Random;

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

    /// Draw five launches that differ, of 100 requests each.
    fn launches(random: &mut Random) -> Vec<Vec<f64>> {
        let mut launch = || {
            let of_launch = 0.05 * random.normal();
            let request = |_| (of_launch + 0.2 * random.normal()).exp();
            (0..100).map(request).collect()
        };
        (0..5).map(|_| launch()).collect()
    }

    #[test]
    fn intervals_cover_the_percentile_that_all_launches_would_have() {
        let spread = 0.05f64.hypot(0.2);
        for (p, normal) in [(50.0, 0.0), (90.0, 1.281_551_565_545)] {
            let truth = (normal * spread).exp();
            let mut random = Random::new(7);
            let (mut covered, mut made) = (0, 0);
            for _ in 0..1000 {
                let launches = launches(&mut random);
                let ascending = sorted(&launches.concat()).unwrap();
                if let Some((low, high)) = percentile_interval(&launches, &ascending, p) {
                    made += 1;
                    covered += u32::from((low..=high).contains(&truth));
                }
            }
            // 95 % within 3.5 standard errors of 1000 trials, and more above because the error has
            // a floor.
            assert!(made > 950, "p{p}: {made} intervals");
            let share = f64::from(covered) / f64::from(made);
            assert!((0.925..0.985).contains(&share), "p{p}: {share}");
        }
    }

    #[test]
    fn what_nothing_bounds_has_no_interval() {
        let launches = vec![vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 30.0]];
        let ascending = sorted(&launches.concat()).unwrap();
        assert_eq!(
            percentile_interval(&launches, &ascending, 90.0),
            None,
            "beyond the greatest"
        );
        assert_eq!(
            percentile_interval(&launches[..1], &ascending, 50.0),
            None,
            "one launch"
        );
        let empty = vec![vec![1.0], vec![]];
        assert_eq!(percentile_interval(&empty, &[1.0], 50.0), None);
    }
}
