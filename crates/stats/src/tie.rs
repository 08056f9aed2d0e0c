//! Statements about targets between which no difference was found: how far apart they can be, which
//! difference could have been found, and how many blocks would decide.

use crate::ci::t_quantile;

/// Probability of finding the difference that [`least_found`] returns.
pub const POWER: f64 = 0.8;
/// Maximum number of blocks that are considered: more than anybody measures.
const BLOCKS_MAX: usize = 1000;

/// Return how far apart two targets are at most, as a ratio of 1 or more: the end of the ratio's
/// 95 % interval that lies further from 1 on a logarithmic scale. Two one-sided tests at 2.5 %
/// would find that they are nearer than this (Schuirmann 1987). `None` without an interval.
///
/// ```
/// use stats::tie::apart_at_most;
///
/// // 0.8 is further from 1 than 1.05 is: one target may be 1.25 times as fast as the other.
/// assert_eq!(apart_at_most(Some((0.8, 1.05))), Some(1.25));
/// assert_eq!(apart_at_most(None), None);
/// ```
pub fn apart_at_most(ci95: Option<(f64, f64)>) -> Option<f64> {
    let (low, high) = ci95?;
    Some(high.max(1.0 / low)).filter(|end| end.is_finite())
}

/// Return the least true ratio (over 1) that such a comparison would find with a probability of
/// [`POWER`]: `ln r = ln m + (t(0.975, k−1) + t(0.8, k−1)) · s/√k`, with `m` the smallest
/// difference that `matters`. `None` without an interval. It is for one pair, without Holm's
/// correction.
pub fn least_found(ci95: Option<(f64, f64)>, blocks: usize, matters: f64) -> Option<f64> {
    let error = error(ci95?, blocks)?;
    let degrees = blocks as f64 - 1.0;
    let times = t_quantile(0.975, degrees)? + t_quantile(POWER, degrees)?;
    Some((matters.ln() + times * error).exp()).filter(|ratio| ratio.is_finite())
}

/// Return the number of blocks, spread as these are and about the same mean, with which the
/// interval would lie beyond the smallest difference that `matters` (a ratio) or within it. `None`
/// without an interval, and where a thousand blocks would not be enough.
pub fn blocks_to_decide(
    ratio: f64,
    ci95: Option<(f64, f64)>,
    blocks: usize,
    matters: f64,
) -> Option<usize> {
    let spread = error(ci95?, blocks)? * (blocks as f64).sqrt();
    let (log, matters) = (ratio.ln().abs(), matters.ln());
    (blocks..=BLOCKS_MAX).find(|&blocks| {
        let k = blocks as f64;
        let half = t_quantile(0.975, k - 1.0).map(|t| t * spread / k.sqrt());
        half.is_some_and(|half| log - half > matters || log + half <= matters)
    })
}

/// Return the standard error of the logarithm that an interval was made with.
fn error((low, high): (f64, f64), blocks: usize) -> Option<f64> {
    let half = (high.ln() - low.ln()) / 2.0;
    Some(half / t_quantile(0.975, blocks as f64 - 1.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::MATTERS;

    /// The 95 % interval of five blocks about a ratio, from the logarithm's standard error.
    fn five(ratio: f64, error: f64) -> Option<(f64, f64)> {
        let half = 2.776445 * error;
        Some((ratio * (-half).exp(), ratio * half.exp()))
    }

    #[test]
    fn two_are_apart_at_most_by_the_far_end_of_the_interval() {
        let apart = |ci95| apart_at_most(Some(ci95)).unwrap();
        assert_eq!(apart((0.98, 1.05)), 1.05);
        assert_eq!(apart((0.8, 1.05)), 1.25);
        assert_eq!(apart((1.0, 1.0)), 1.0);
        assert_eq!(apart_at_most(None), None, "one block");
        assert_eq!(apart_at_most(Some((0.0, 1.0))), None);
    }

    #[test]
    fn what_could_have_been_found_grows_with_the_error() {
        // t(0.975, 4) + t(0.8, 4) = 2.776445 + 0.940965.
        let found = least_found(five(1.0, 0.02), 5, MATTERS).unwrap();
        assert!(
            (found - 1.02 * (0.02_f64 * 3.71741).exp()).abs() < 1e-6,
            "{found}"
        );
        let exact = least_found(Some((1.0, 1.0)), 5, MATTERS).unwrap();
        assert!((exact - MATTERS).abs() < 1e-12);
        assert_eq!(least_found(None, 1, MATTERS), None);
    }

    #[test]
    fn more_blocks_decide_for_a_difference_or_for_equality() {
        // 10 % apart, and blocks that differ by 15 %: with 18 the interval lies beyond 2 %.
        let spread = 0.15 / 5.0_f64.sqrt();
        let needed =
            |ratio, error, matters| blocks_to_decide(ratio, five(ratio, error), 5, matters);
        assert_eq!(needed(1.10, spread, MATTERS), Some(18));
        assert_eq!(needed(1.0, spread, 1.05), Some(39));
        // t(0.975, 222) · 0.15/√223 = 0.019795 is the first under ln 1.02 = 0.019803.
        assert_eq!(needed(1.0, spread, MATTERS), Some(223));
        // Five blocks decide it already.
        assert_eq!(needed(1.0, 0.001, MATTERS), Some(5));
        assert_eq!(needed(1.02, 0.9, MATTERS), None);
    }
}
