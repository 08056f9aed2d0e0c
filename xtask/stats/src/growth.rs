//! How a metric grows along a scenario's axis: the exponent of a power law, fitted on
//! logarithms. For the wait for the first token against the prompt's length: 1 where
//! the work is in proportion to the prompt, 2 where attention over all pairs is all.
//!
//! A description over the lengths measured, not a law: it says nothing beyond them.

use crate::analysis::{Cell, Metric, MetricId};
use crate::ci::mean_interval;
use crate::describe::mean;

/// The exponent over several launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The exponent: mean over launches.
    pub exponent: f64,
    /// Its 95 % t interval over launches.
    pub ci95: Option<(f64, f64)>,
    /// Least and greatest value on the axis.
    pub from: u32,
    /// See `from`.
    pub to: u32,
    /// Cells it rests on.
    pub cells: u32,
}

/// The slope of `ln y` over `ln x` by least squares. `None` with fewer than two
/// different x, or where a number isn't finite and positive.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let usable = |x: f64| x.is_finite() && x > 0.0;
    if points.is_empty() || !points.iter().all(|&(x, y)| usable(x) && usable(y)) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let x_mean = logs.iter().map(|p| p.0).sum::<f64>() / n;
    let y_mean = logs.iter().map(|p| p.1).sum::<f64>() / n;
    let xx: f64 = logs.iter().map(|p| (p.0 - x_mean).powi(2)).sum();
    let xy: f64 = logs.iter().map(|p| (p.0 - x_mean) * (p.1 - y_mean)).sum();
    Some(xy / xx).filter(|slope| xx > 0.0 && slope.is_finite())
}

/// The growth of a metric over cells of one target and scenario, launch by launch.
/// `None` with fewer than two of them that have it, or where a launch has no exponent.
pub fn growth(cells: &[&Cell], id: MetricId) -> Option<Growth> {
    let mut levels: Vec<(u32, &Metric)> = cells
        .iter()
        .filter_map(|cell| {
            let metric = cell.metrics.iter().find(|metric| metric.id == id)?;
            Some((cell.axis_value, metric))
        })
        .collect();
    levels.sort_by_key(|(x, _)| *x);
    let (from, to) = (levels.first()?.0, levels.last()?.0);
    // Every measured cell is complete, so all list the same launches in order.
    let launches = levels.iter().map(|(_, m)| m.by_invocation.len()).min()?;
    let exponents: Vec<f64> = (0..launches)
        .map(|launch| {
            let points: Vec<(f64, f64)> = levels
                .iter()
                .map(|(x, metric)| (f64::from(*x), metric.by_invocation[launch]))
                .collect();
            exponent(&points)
        })
        .collect::<Option<_>>()?;
    Some(Growth {
        exponent: mean(&exponents)?,
        ci95: mean_interval(&exponents).map(|i| (i.low, i.high)),
        from,
        to,
        cells: levels.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_gives_its_exponent_back() {
        for wanted in [0.5, 1.0, 1.7, 2.0] {
            let points = [128.0f64, 256.0, 512.0].map(|x| (x, 3.0 * x.powf(wanted)));
            let got = exponent(&points).unwrap();
            assert!((got - wanted).abs() < 1e-12, "{got} {wanted}");
        }
        // By hand: ln y = 0, 2, 1 over ln x = 0, 1, 2 has the slope 1/2.
        let e = std::f64::consts::E;
        let got = exponent(&[(1.0, 1.0), (e, e * e), (e * e, e)]).unwrap();
        assert!((got - 0.5).abs() < 1e-12, "{got}");
    }

    #[test]
    fn one_length_or_a_broken_number_has_no_exponent() {
        assert_eq!(exponent(&[]), None);
        assert_eq!(exponent(&[(2.0, 1.0), (2.0, 3.0)]), None);
        assert_eq!(exponent(&[(1.0, 1.0), (2.0, 0.0)]), None);
        assert_eq!(exponent(&[(1.0, 1.0), (2.0, f64::NAN)]), None);
    }
}
