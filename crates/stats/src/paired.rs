//! One target against another, paired by block: the t-test and the interval on
//! the logarithms of their ratios.
//!
//! Pairing by block takes out what befell a whole block (heat, neighbours, clock
//! speed); the logarithm makes "twice as fast" and "half as fast" opposites.
//! Deliberately not here: a test on pooled requests. Mann–Whitney on those calls
//! a third of the pairs of a target with itself different, because requests of
//! one process are no independent draws.

use crate::ci::{CONFIDENCE, mean_interval_at, t_two_sided_p};
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
}

/// Compare `a` with `b`, block by block (same length, same order).
///
/// `None` where the lengths differ or are 0, or where a value isn't finite and
/// positive: then there is no logarithm. Where all log ratios are equal the t
/// statistic is infinite and p is 0, unless they are all 0: then p is 1.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<PairedRatio> {
    paired_ratio_at(a, b, CONFIDENCE)
}

/// [`paired_ratio`] with an interval of another confidence in `ci95`, for a family that
/// shares 5 % of error.
pub fn paired_ratio_at(a: &[f64], b: &[f64], confidence: f64) -> Option<PairedRatio> {
    let usable = |values: &[f64]| values.iter().all(|x| x.is_finite() && *x > 0.0);
    if a.len() != b.len() || a.is_empty() || !usable(a) || !usable(b) {
        return None;
    }
    // A difference of logarithms, not the logarithm of a quotient: the quotient
    // of extreme values can overflow.
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.ln() - b.ln()).collect();
    let ratio = finite_positive(mean(&logs)?.exp())?;
    Some(PairedRatio {
        blocks: logs.len(),
        ratio,
        ci95: mean_interval_at(&logs, confidence).and_then(|i| {
            Some((
                finite_positive(i.low.exp())?,
                finite_positive(i.high.exp())?,
            ))
        }),
        p: t_test(&logs),
    })
}

/// Two-sided p of the one-sample t-test that the mean of `differences` is 0.
fn t_test(differences: &[f64]) -> Option<f64> {
    let spread = stddev(differences)?;
    let mean = mean(differences)?;
    if mean == 0.0 {
        return Some(1.0);
    }
    let k = differences.len() as f64;
    t_two_sided_p(mean / (spread / k.sqrt()), k - 1.0)
}

fn finite_positive(x: f64) -> Option<f64> {
    Some(x).filter(|x| x.is_finite() && *x > 0.0)
}
