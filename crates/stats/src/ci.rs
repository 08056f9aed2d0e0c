//! Student's t: the quantile and the tail that intervals and tests rest on, and
//! the interval over per-invocation statistics.
//!
//! Deliberately not here: intervals over pooled requests, and the bootstrap. With
//! five invocations the hierarchical bootstrap covers 75–86 %, not 95 %.

use crate::describe::{mean, stddev};
use crate::percentile::all_finite;
use statrs::distribution::{ContinuousCDF, StudentsT};
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
