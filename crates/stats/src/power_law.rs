//! The growth of a value with a size: the exponent p of `y = a·xᵖ`, a straight line where both axes
//! are logarithmic. With p = 1 the value is in proportion to the size; for the time to first token
//! p nears 2 where attention outweighs everything else.
//!
//! The law is fitted to each invocation by itself, because invocations are independent of each
//! other. A line fits any two sizes, so a fit needs three.

use crate::analysis::{Cell, Metric, MetricId};
use crate::ci::{Interval, mean_interval};
use crate::describe::mean;

/// Minimum number of sizes for a fit.
pub const SIZES_MIN: usize = 3;

/// A power law, fitted over all invocations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// Exponent: mean and 95 % t interval over invocations.
    pub exponent: Interval,
    /// Mean of ln a over invocations.
    pub log_factor: f64,
}

impl PowerLaw {
    /// Return the fitted value at size `x`.
    pub fn at(&self, x: f64) -> f64 {
        (self.log_factor + self.exponent.mean * x.ln()).exp()
    }
}

/// Fit every invocation's (size, value) points by least squares of their
/// logarithms. `None` with fewer than two invocations or [`SIZES_MIN`] different
/// sizes in one, or where a number isn't positive and finite.
pub fn fit(invocations: &[Vec<(f64, f64)>]) -> Option<PowerLaw> {
    let fits: Vec<(f64, f64)> = invocations
        .iter()
        .map(|points| line(points))
        .collect::<Option<_>>()?;
    let slopes: Vec<f64> = fits.iter().map(|fit| fit.0).collect();
    let offsets: Vec<f64> = fits.iter().map(|fit| fit.1).collect();
    Some(PowerLaw {
        exponent: mean_interval(&slopes)?,
        log_factor: mean(&offsets)?,
    })
}

/// The fitted growth of a metric along its scenario's axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Fitted power law.
    pub law: PowerLaw,
    /// Least measured value on the axis; the law says nothing below it.
    pub from: u32,
    /// Greatest measured value on the axis; the law says nothing beyond it.
    pub to: u32,
}

/// Fit the growth of a metric over those cells of one target and scenario that have it. `None`
/// where the cells have different numbers of invocations, and as in [`fit`].
pub fn of_cells(cells: &[&Cell], id: MetricId) -> Option<Measured> {
    let sizes: Vec<(u32, &Metric)> = cells
        .iter()
        .filter_map(|cell| Some((cell.axis_value, cell.metric(id)?)))
        .collect();
    let launches = sizes.first()?.1.by_invocation.len();
    if sizes.iter().any(|(_, m)| m.by_invocation.len() != launches) {
        return None;
    }
    let invocations = points_by_invocation(&sizes);
    let on_axis = || sizes.iter().map(|(x, _)| *x);
    Some(Measured {
        law: fit(&invocations)?,
        from: on_axis().min()?,
        to: on_axis().max()?,
    })
}

/// Return each invocation's (size, value) points, as many invocations as the first size has.
pub(crate) fn points_by_invocation(sizes: &[(u32, &Metric)]) -> Vec<Vec<(f64, f64)>> {
    let launches = sizes.first().map_or(0, |(_, m)| m.by_invocation.len());
    let point = |i: usize, (x, m): &(u32, &Metric)| Some((f64::from(*x), *m.by_invocation.get(i)?));
    (0..launches)
        .map(|i| sizes.iter().filter_map(|size| point(i, size)).collect())
        .collect()
}

/// Fit a line to ln y over ln x; return its slope and offset.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let usable = |v: f64| v.is_finite() && v > 0.0;
    if !points.iter().all(|&(x, y)| usable(x) && usable(y)) {
        return None;
    }
    let mut sizes: Vec<f64> = points.iter().map(|point| point.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < SIZES_MIN {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let x_mean = logs.iter().map(|p| p.0).sum::<f64>() / n;
    let y_mean = logs.iter().map(|p| p.1).sum::<f64>() / n;
    let across: f64 = logs.iter().map(|p| (p.0 - x_mean) * (p.1 - y_mean)).sum();
    let spread: f64 = logs.iter().map(|p| (p.0 - x_mean).powi(2)).sum();
    let slope = across / spread;
    slope
        .is_finite()
        .then_some((slope, y_mean - slope * x_mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(factor: f64, exponent: f64, sizes: &[f64]) -> Vec<(f64, f64)> {
        let at = |&x: &f64| (x, factor * x.powf(exponent));
        sizes.iter().map(at).collect()
    }

    #[test]
    fn what_grows_by_a_power_gives_it_back() {
        let sizes = [128.0, 256.0, 512.0];
        let got = fit(&[power(3.0, 1.4, &sizes), power(5.0, 1.6, &sizes)]).unwrap();
        assert!((got.exponent.mean - 1.5).abs() < 1e-9);
        assert!(got.exponent.low < 1.4 && got.exponent.high > 1.6);
        let at = 15f64.sqrt() * 256f64.powf(1.5);
        assert!((got.at(256.0) / at - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_slope_is_the_least_squares_one() {
        // ln x = 0, 1, 2 and ln y = 0, 1, 1: slope 1/2, offset 1/6, by hand.
        let e = std::f64::consts::E;
        let points = [(1.0, 1.0), (e, e), (e * e, e)];
        let (slope, offset) = line(&points).unwrap();
        assert!((slope - 0.5).abs() < 1e-12 && (offset - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn two_sizes_one_launch_or_a_zero_give_no_exponent() {
        let sizes = [128.0, 256.0, 512.0];
        assert_eq!(fit(&[power(1.0, 1.0, &sizes)]), None);
        let two = power(1.0, 1.0, &sizes[..2]);
        assert_eq!(fit(&[two.clone(), two]), None);
        let mut zero = power(1.0, 1.0, &sizes);
        zero[1].1 = 0.0;
        assert_eq!(fit(&[zero.clone(), zero]), None);
    }
}
