//! Ratios of two samples, paired or not, with their intervals and tests; the overlap of two
//! samples.
//!
//! [`paired_ratio`] compares two targets of a run: the t-test and the interval on the logarithms of
//! their ratios, paired by block. Pairing by block takes out what befell a whole block (heat,
//! neighbours, clock speed); the logarithm makes "twice as fast" and "half as fast" opposites.
//! Deliberately not here: a test on pooled requests. Mann–Whitney on those calls a third of the
//! pairs of a target with itself different, because requests of one process are no independent
//! draws.
//!
//! [`unpaired_ratio`] compares two runs: Welch's t-test and interval on the logarithms of
//! per-invocation statistics. Blocks of two runs have nothing in common but their number, so
//! pairing them would only lose degrees of freedom. Welch rather than Student: a change can change
//! the spread too, and the runs may have different numbers of invocations. Logarithms, because
//! changes are ratios, and for the reason above. Deliberately not here: rank tests, which with five
//! invocations on each side can't reach the p that a table of cells asks for (the least two-sided
//! Mann–Whitney p of 5 against 5 is 0.008).
//!
//! No test on two runs can tell a change from a machine that behaved differently on that day,
//! because the machine's shift moves all invocations of a run alike.
//!
//! [`cliffs_delta`] is an effect size: how often a value of one sample lies above one of the other.
//! It depends neither on the unit nor on the size of outliers; it says how much two distributions
//! overlap, never whether they differ.

use crate::ci::{CONFIDENCE, Interval, t_quantile, t_two_sided_p};
use crate::describe::{logs, mean, stddev};
use crate::percentile::sorted;

/// Estimate of a ratio from paired blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// Number of blocks.
    pub blocks: usize,
    /// Geometric mean of `a/b` over blocks.
    pub ratio: f64,
    /// 95 % interval of the ratio, k−1 degrees of freedom; `None` with one block.
    pub ci95: Option<(f64, f64)>,
    /// Two-sided p that the ratio is 1; `None` with one block.
    pub p: Option<f64>,
    /// Standard error of the ratio's logarithm, enlarged as for `ci95` and `p`; `None` with one
    /// block.
    pub error: Option<f64>,
}

impl PairedRatio {
    /// Return the ratio with its 95 % interval; `None` with one block.
    pub(crate) fn interval(&self) -> Option<Interval> {
        Interval::of(self.ratio, self.ci95)
    }
}

/// Compare `a` with `b`, block by block (same length, same order).
///
/// `None` where the lengths differ or are 0, or where a value isn't finite and
/// positive: then there is no logarithm. Where all log ratios are equal the t
/// statistic is infinite and p is 0, unless they are all 0: then p is 1.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<PairedRatio> {
    paired_ratio_at(a, b, CONFIDENCE, 1.0)
}

/// Compare like [`paired_ratio`], but with an interval of another confidence in `ci95`, for a
/// family that shares 5 % of error, and with a standard error `inflation` times as large (1 or
/// more, see [`crate::noise`]). With an infinite `inflation` there is no interval, and p is 1.
pub fn paired_ratio_at(
    a: &[f64],
    b: &[f64],
    confidence: f64,
    inflation: f64,
) -> Option<PairedRatio> {
    if a.len() != b.len() {
        return None;
    }
    // A difference of logarithms, not the logarithm of a quotient: the quotient
    // of extreme values can overflow.
    let differences = logs(a)?.into_iter().zip(logs(b)?).map(|(a, b)| a - b);
    let logs: Vec<f64> = differences.collect();
    let log = mean(&logs)?;
    let k = logs.len() as f64;
    // With an infinite factor a spread of 0 shows nothing either: the error is infinite, not NaN.
    let error = stddev(&logs).map(|spread| match inflation.is_finite() {
        true => inflation * spread / k.sqrt(),
        false => f64::INFINITY,
    });
    Some(PairedRatio {
        blocks: logs.len(),
        ratio: finite_positive(log.exp())?,
        ci95: error.and_then(|error| {
            let half = t_quantile(0.5 + confidence / 2.0, k - 1.0)? * error;
            Some((
                finite_positive((log - half).exp())?,
                finite_positive((log + half).exp())?,
            ))
        }),
        p: error.and_then(|error| match log {
            0.0 => Some(1.0),
            log => t_two_sided_p(log / error, k - 1.0),
        }),
        error,
    })
}

fn finite_positive(x: f64) -> Option<f64> {
    Some(x).filter(|x| x.is_finite() && *x > 0.0)
}

/// Estimate of a ratio from two runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnpairedRatio {
    /// Geometric mean of `a` over geometric mean of `b`.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub ci95: (f64, f64),
    /// Two-sided p that the ratio is 1.
    pub p: f64,
}

/// Compare `a` with `b`; each has one value per invocation, in any order and number.
///
/// `d = mean(ln a) − mean(ln b)`, `se² = s²ₐ/nₐ + s²_b/n_b`, `t = d/se`, with
/// `ν = se⁴ / ((s²ₐ/nₐ)²/(nₐ−1) + (s²_b/n_b)²/(n_b−1))` degrees of freedom
/// (B. L. Welch, "The generalization of 'Student's' problem when several different
/// population variances are involved", Biometrika 34, 1947).
///
/// `None` where a side has fewer than two values or one that isn't finite and
/// positive, and where `inflation`, by which the error is multiplied (1 or more, see
/// [`crate::noise`]), is infinite. Where neither side varies, the interval has width 0, and p
/// is 1 or 0.
pub fn unpaired_ratio(a: &[f64], b: &[f64], inflation: f64) -> Option<UnpairedRatio> {
    let (a, b) = (Logs::new(a)?, Logs::new(b)?);
    let difference = a.mean - b.mean;
    let (half, p) = welch(&a, &b, inflation)?;
    Some(UnpairedRatio {
        ratio: finite_positive(difference.exp())?,
        ci95: (
            finite_positive((difference - half).exp())?,
            finite_positive((difference + half).exp())?,
        ),
        p,
    })
}

/// Return half the width of the 95 % interval of the difference of two means of logarithms, and the
/// two-sided p that the difference is 0: see [`unpaired_ratio`].
pub(crate) fn welch(a: &Logs, b: &Logs, inflation: f64) -> Option<(f64, f64)> {
    let difference = a.mean - b.mean;
    let squared_error = a.squared_error + b.squared_error;
    if !inflation.is_finite() {
        return None;
    }
    if squared_error == 0.0 {
        return Some((0.0, if difference == 0.0 { 1.0 } else { 0.0 }));
    }
    let term = |side: &Logs| side.squared_error.powi(2) / side.degrees;
    // They lie between the smaller side's degrees of freedom and the sum of both; rounding must not
    // take them under 1, where there is no quantile.
    let degrees = (squared_error.powi(2) / (term(a) + term(b))).max(1.0);
    let error = inflation * squared_error.sqrt();
    Some((
        t_quantile(0.5 + CONFIDENCE / 2.0, degrees)? * error,
        t_two_sided_p(difference / error, degrees)?,
    ))
}

/// A mean of logarithms, with its error.
pub(crate) struct Logs {
    pub(crate) mean: f64,
    /// The squared standard error of the mean: s²/n.
    pub(crate) squared_error: f64,
    pub(crate) degrees: f64,
}

impl Logs {
    fn new(values: &[f64]) -> Option<Self> {
        let logs = logs(values)?;
        Some(Self {
            mean: mean(&logs)?,
            squared_error: stddev(&logs)?.powi(2) / logs.len() as f64,
            degrees: logs.len() as f64 - 1.0,
        })
    }
}

/// Return Cliff's delta: `P(a > b) − P(a < b)` over all pairs, −1…1.
///
/// Source: N. Cliff, "Dominance statistics: Ordinal analyses to answer ordinal questions",
/// Psychological Bulletin 114 (1993). O((n + m)·log(n + m)) by sorting; counts are integers, so
/// nothing is rounded before the one division. `None` where a sample is empty or not all finite.
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    let a = sorted(a)?;
    let b = sorted(b)?;
    let (mut below, mut up_to) = (0, 0);
    let mut net: i128 = 0;
    for x in &a {
        // As `a` ascends, both positions in `b` only move forward.
        while below < b.len() && b[below] < *x {
            below += 1;
        }
        while up_to < b.len() && b[up_to] <= *x {
            up_to += 1;
        }
        net += below as i128 - (b.len() - up_to) as i128;
    }
    Some(net as f64 / (a.len() as f64 * b.len() as f64))
}
