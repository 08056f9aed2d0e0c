//! One target against another, paired by block: the t-test and the interval on
//! the logarithms of their ratios.
//!
//! Pairing by block takes out what befell a whole block (heat, neighbours, clock
//! speed); the logarithm makes "twice as fast" and "half as fast" opposites.
//! Deliberately not here: a test on pooled requests. Mann–Whitney on those calls
//! a third of the pairs of a target with itself different, because requests of
//! one process are no independent draws.

use crate::ci::{CONFIDENCE, t_quantile, t_two_sided_p};
use crate::describe::{mean, stddev};

/// What paired blocks say about a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// Blocks.
    pub blocks: usize,
    /// Geometric mean of `a/b` over blocks.
    pub ratio: f64,
    /// 95 % interval of the ratio, k−1 degrees of freedom; `None` with one block.
    pub ci95: Option<(f64, f64)>,
    /// Two-sided p that the ratio is 1; `None` with one block.
    pub p: Option<f64>,
    /// Standard error of the ratio's logarithm, as large as `ci95` and `p` take it; `None`
    /// with one block.
    pub error: Option<f64>,
}

/// Compare `a` with `b`, block by block (same length, same order).
///
/// `None` where the lengths differ or are 0, or where a value isn't finite and
/// positive: then there is no logarithm. Where all log ratios are equal the t
/// statistic is infinite and p is 0, unless they are all 0: then p is 1.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<PairedRatio> {
    paired_ratio_at(a, b, CONFIDENCE, 1.0)
}

/// [`paired_ratio`] with an interval of another confidence in `ci95`, for a family that
/// shares 5 % of error, and with the standard error `inflation` times as large (1 or more, see
/// [`crate::noise`]). With an infinite one there is no interval, and p is 1.
pub fn paired_ratio_at(
    a: &[f64],
    b: &[f64],
    confidence: f64,
    inflation: f64,
) -> Option<PairedRatio> {
    let usable = |values: &[f64]| values.iter().all(|x| x.is_finite() && *x > 0.0);
    if a.len() != b.len() || a.is_empty() || !usable(a) || !usable(b) {
        return None;
    }
    // A difference of logarithms, not the logarithm of a quotient: the quotient
    // of extreme values can overflow.
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.ln() - b.ln()).collect();
    let log = mean(&logs)?;
    let k = logs.len() as f64;
    // Nothing times infinity is infinite here: that there is no spread says nothing either.
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
