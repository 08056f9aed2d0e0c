//! The gain from a prefix cache: the time to first token where prompts share nothing ÷ that where
//! prompts begin alike, of one target in one run, paired by block.
//!
//! Targets are deliberately not compared with each other here; every case's comparisons do that.

use crate::analysis::{Cell, MetricId};
use crate::ratio::{PairedRatio, paired_ratio};

/// Speed-up of a target's first token where prompts begin alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefixSpeedup {
    /// Share of each prompt that is common to all prompts (%).
    pub shared_percent: u32,
    /// Time to first token with nothing shared ÷ with this share: geometric mean over blocks.
    pub ratio: PairedRatio,
    /// Ratio that there would be if the time were in proportion to the tokens that are left to
    /// compute.
    pub in_proportion: f64,
}

/// Compute the speed-ups for one target's cells, by ascending shared percentage. Empty where there
/// is no cell in which nothing is shared; a cell without the same blocks as that one is left out.
pub fn prefix_speedups(cells: &[&Cell]) -> Vec<PrefixSpeedup> {
    let ttft = |cell: &Cell| Some(cell.metric(MetricId::TtftNs)?.by_invocation.clone());
    let nothing = cells.iter().find(|cell| cell.axis_value == 0);
    let Some(without) = nothing.and_then(|cell| ttft(cell)) else {
        return Vec::new();
    };
    let with = cells.iter().filter(|cell| cell.axis_value > 0);
    let mut all: Vec<PrefixSpeedup> = with
        .filter_map(|cell| {
            let left = 1.0 - f64::from(cell.axis_value) / 100.0;
            Some(PrefixSpeedup {
                shared_percent: cell.axis_value,
                ratio: paired_ratio(&without, &ttft(cell)?)?,
                in_proportion: 1.0 / left,
            })
        })
        .collect();
    all.sort_by_key(|sooner| sooner.shared_percent);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Metric;
    use schema::key::CellKey;

    fn cell(shared: u32, ttft: &[f64]) -> Cell {
        Cell {
            metrics: vec![Metric::of(MetricId::TtftNs, 0.0, ttft.to_vec())],
            ..Cell::new(CellKey::new("t", "prefix", format!("s{shared}")), shared)
        }
    }

    fn in_order(cells: &[Cell]) -> Vec<PrefixSpeedup> {
        prefix_speedups(&cells.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_ratio_is_paired_by_block() {
        // Blocks differ twofold and more, the ratio within a block hardly: 8, 10 and 12.5 times.
        let cells = [
            cell(90, &[10.0, 10.0, 20.0]),
            cell(0, &[80.0, 100.0, 250.0]),
            cell(50, &[80.0, 100.0, 250.0]),
        ];
        let [half, most] = in_order(&cells)[..] else {
            panic!("two shares");
        };
        assert_eq!((half.shared_percent, most.shared_percent), (50, 90));
        assert!((half.ratio.ratio - 1.0).abs() < 1e-12);
        assert!((half.in_proportion - 2.0).abs() < 1e-12);
        assert!((most.ratio.ratio - 10.0).abs() < 1e-9);
        assert!((most.in_proportion - 10.0).abs() < 1e-9);
        // ln 1.25 · t(0.975, 2) ÷ √3 = 0.22314 · 4.30265 ÷ 1.73205 = 0.55432
        let (low, high) = most.ratio.ci95.expect("three blocks");
        assert!((low - 10.0 * (-0.55432f64).exp()).abs() < 1e-3, "{low}");
        assert!((high - 10.0 * 0.55432f64.exp()).abs() < 1e-3, "{high}");
    }

    #[test]
    fn without_a_cell_that_shares_nothing_nothing_is_said() {
        assert!(in_order(&[cell(90, &[1.0, 2.0])]).is_empty());
        assert!(in_order(&[cell(0, &[1.0, 2.0])]).is_empty());
        // Cells of different blocks can't be paired.
        assert!(in_order(&[cell(0, &[1.0, 2.0]), cell(90, &[1.0])]).is_empty());
        let one = in_order(&[cell(0, &[8.0]), cell(90, &[2.0])]);
        assert!((one[0].ratio.ratio - 4.0).abs() < 1e-12 && one[0].ratio.ci95.is_none());
    }
}
