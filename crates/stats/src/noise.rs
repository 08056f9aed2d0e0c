//! The noise floor: how far a target lies from itself. Two targets run twice in
//! every block under two names; what lies between the names is no difference of
//! engines, and neither is anything as small between two engines.
//!
//! The t-test of a comparison asks whether the blocks agree with each other. It
//! can't see a difference that every block shares without any engine having made
//! it (a place in memory, an order of launches, a neighbour); the A/A pairs can.
//!
//! Rejected: pooling the pairs about a mean of 0, which gives a lower floor, but
//! takes the fastest and the slowest for equally noisy; and a quantile of single
//! blocks' ratios, which with five blocks is their maximum and doesn't shrink with
//! more of them as the error of a comparison does.

use crate::analysis::{Cell, NoiseFloor, TwinPair};
use crate::ratio::{PairedRatio, paired_ratio};
use schema::key::original;

/// The floors of one case from its cells and those of its twins: on every metric that
/// both of a pair have. A pair counts where both were measured, in two blocks or more.
pub(crate) fn floors(cells: &[Cell], twins: &[Cell]) -> Vec<NoiseFloor> {
    let mut floors: Vec<NoiseFloor> = Vec::new();
    let pairs = twins.iter().filter_map(|twin| {
        let of = |cell: &&Cell| cell.target == original(&twin.target);
        Some((cells.iter().find(of)?, twin))
    });
    // A cell that isn't ok has no metrics.
    for (cell, twin) in pairs {
        for metric in &cell.metrics {
            let ratio = twin
                .metrics
                .iter()
                .find(|other| other.id == metric.id)
                .and_then(|other| paired_ratio(&metric.by_invocation, &other.by_invocation));
            let Some((ratio, bound)) = ratio.and_then(|r| Some((r, bound(&r)?))) else {
                continue;
            };
            let pair = TwinPair {
                target: cell.target.clone(),
                ratio: ratio.ratio,
                ci95: ratio.ci95,
            };
            match floors.iter_mut().find(|floor| floor.metric == metric.id) {
                Some(floor) => {
                    floor.ratio = floor.ratio.max(bound);
                    floor.pairs.push(pair);
                }
                None => floors.push(NoiseFloor {
                    scenario: cell.scenario.clone(),
                    case: cell.case.clone(),
                    metric: metric.id,
                    ratio: bound,
                    pairs: vec![pair],
                }),
            }
        }
    }
    floors.sort_by_key(|floor| floor.metric);
    floors
}

/// The upper 95 % bound of a pair's difference, whichever way, as a ratio of 1 or
/// more: the end of its t interval that lies further from 1 on a logarithmic scale.
pub fn bound(pair: &PairedRatio) -> Option<f64> {
    far_end(pair.ci95?)
}

/// The end of a ratio's interval that lies further from 1, as a ratio of 1 or more.
pub fn far_end((low, high): (f64, f64)) -> Option<f64> {
    Some(high.max(1.0 / low)).filter(|end| end.is_finite())
}

/// Whether a ratio lies under a floor (a ratio of 1 or more), whichever way.
pub fn is_under(ratio: f64, floor: f64) -> bool {
    ratio.max(1.0 / ratio) < floor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_end_of_the_interval_further_from_one() {
        let pair = |low, high| PairedRatio {
            blocks: 5,
            ratio: 1.0,
            ci95: Some((low, high)),
            p: None,
        };
        assert_eq!(bound(&pair(0.98, 1.05)), Some(1.05));
        assert_eq!(bound(&pair(0.8, 1.05)), Some(1.25));
        assert_eq!(bound(&pair(1.0, 1.0)), Some(1.0));
        let one_block = PairedRatio {
            ci95: None,
            ..pair(1.0, 1.0)
        };
        assert_eq!(bound(&one_block), None);
    }

    #[test]
    fn a_floor_counts_in_both_directions() {
        assert!(is_under(1.04, 1.05) && is_under(1.0 / 1.04, 1.05));
        assert!(!is_under(1.05, 1.05) && !is_under(0.9, 1.05));
        assert!(!is_under(1.0, 1.0), "a floor of nothing hides nothing");
    }
}
