//! Coefficient of variation: how far invocations of one cell lie apart.
//!
//! Over invocations only. Within one invocation the spread of latencies is shape,
//! not irreproducibility, and [`crate::describe`] gives it.

use crate::describe::{all_finite, mean, stddev};

/// Under this, a cell counts as reproducible.
pub const REPRODUCIBLE_MAX: f64 = 0.05;

/// `s / |mean|` with n−1, a fraction. `None` with fewer than two values, where one
/// isn't finite, or where the mean is 0.
pub fn cv(values: &[f64]) -> Option<f64> {
    if !all_finite(values) {
        return None;
    }
    let spread = stddev(values)?;
    let mean = mean(values)?;
    Some(spread / mean.abs()).filter(|cv| cv.is_finite())
}
