//! A sample thinned for drawing its ECDF.
//!
//! For the eye only: every statistic is computed from the whole sample.

use crate::percentile::percentile_of_sorted;

/// Most points of a curve. An SVG a few hundred pixels wide shows no more.
pub const POINTS_MAX: usize = 160;

/// The sample itself where it has at most [`POINTS_MAX`] values, else that many
/// type 7 quantiles at evenly spaced probabilities from 0 (the least) to 1 (the
/// greatest). Wants a finite sample in ascending order, gives one.
pub fn quantiles_of_sorted(ascending: &[f64]) -> Vec<f64> {
    if ascending.len() <= POINTS_MAX {
        return ascending.to_vec();
    }
    let last = (POINTS_MAX - 1) as f64;
    (0..POINTS_MAX)
        .filter_map(|i| percentile_of_sorted(ascending, 100.0 * (i as f64 / last)))
        .collect()
}
