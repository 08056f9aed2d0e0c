//! Cliff's delta: how often a value of one sample lies above one of the other.
//!
//! An effect size, free of units and of outliers' sizes; it says how much two
//! distributions overlap, never whether they differ.

use crate::percentile::sorted;

/// `P(a > b) − P(a < b)` over all pairs, −1…1.
///
/// Source: N. Cliff, "Dominance statistics: Ordinal analyses to answer ordinal
/// questions", Psychological Bulletin 114 (1993). O((n + m)·log(n + m)) by
/// sorting; counts are integers, so nothing is rounded before the one division.
/// `None` where a sample is empty or not all finite.
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
