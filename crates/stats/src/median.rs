//! The interval of a median by order statistics: for one stream of samples as it
//! comes in, whatever its distribution.
//!
//! For the eye while a launch runs. It takes the samples for independent, which
//! requests of one process are not: no verdict rests on it (see `ci`).

use crate::ci::CONFIDENCE;
use crate::percentile::percentile_of_sorted;
use statrs::distribution::{Binomial, DiscreteCDF};

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// The median (type 7).
    pub median: f64,
    /// Lower and upper bound, each a sample; `None` with fewer than six samples,
    /// of which not even the least and the greatest cover the median at 95 %.
    pub bounds: Option<(f64, f64)>,
}

/// The median of a finite sample in ascending order, and the order statistics
/// `l` and `n + 1 − l` (from 1) with the largest `l` for which
/// `P(Bin(n, 1/2) < l) ≤ 2.5 %`. `None` for an empty sample.
///
/// Source: David & Nagaraja, "Order Statistics" (2003), section 7.1.
pub fn median_interval_of_sorted(ascending: &[f64]) -> Option<MedianInterval> {
    let median = percentile_of_sorted(ascending, 50.0)?;
    let n = ascending.len();
    let bounds = rank(n as u64).map(|l| (ascending[l - 1], ascending[n - l]));
    Some(MedianInterval { median, bounds })
}

/// The rank `l` of the lower bound, from 1.
fn rank(n: u64) -> Option<usize> {
    // The smallest x with P(X ≤ x) ≥ 2.5 %, so P(X < x) is still under it.
    let x = Binomial::new(0.5, n)
        .ok()?
        .inverse_cdf((1.0 - CONFIDENCE) / 2.0);
    (x > 0).then_some(x as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
