//! The noise of comparisons, measured with A/A pairs: some targets run twice in every block under
//! two names, and a difference between the names is no difference of engines.
//!
//! A t-test asks whether the blocks agree with each other. It can't see effects that all blocks
//! share and that no engine caused (a place in memory, an order of launches, a neighbour). So the
//! test is itself tested, on the pairs of all cases together: where it underestimates their errors,
//! all errors of that metric are enlarged by the factor that makes the test right for the pairs.
//! The factor is the median of |t| over the pairs, divided by the median of |t| under Student's t,
//! and no less than 1: genomic control (B. Devlin and K. Roeder, "Genomic control for association
//! studies", Biometrics 55, 1999), which uses χ². A pair in which one launch was slow hardly moves
//! a median.
//!
//! Rejected: to call nothing a difference that is smaller than the bound of the worst pair (the
//! rule until 2026-11-23). One slow launch in five decided over a case, and with five launches
//! whose standard deviation is 10 % a true difference of 20 % was found in 18 % of runs. What the
//! present rule finds is printed by `cargo xtask simulate`.

use crate::analysis::{Cell, MetricId, Noise, TwinPair, Verdict};
use crate::ci::{CONFIDENCE, t_quantile};
use crate::compare::verdict;
use crate::describe::median;
use crate::ratio::{PairedRatio, paired_ratio, paired_ratio_at};
use schema::key::original;

/// A target's values under both names, in one case.
struct Both<'a> {
    cell: &'a Cell,
    metric: MetricId,
    first: &'a [f64],
    second: &'a [f64],
    plain: PairedRatio,
}

/// Compute the noise of each metric, from the cells of a run and those of its twins. A pair counts
/// where both were measured, in two blocks or more. `matters` is the smallest difference that
/// matters, as a ratio.
pub(crate) fn noise(cells: &[Cell], twins: &[Cell], matters: f64) -> Vec<Noise> {
    let mut pairs: Vec<Both> = Vec::new();
    for twin in twins {
        let key = twin.case_key().cell(original(&twin.target));
        // A cell that isn't ok has no metrics.
        let Some(cell) = cells.iter().find(|cell| cell.key() == key) else {
            continue;
        };
        for metric in &cell.metrics {
            let Some(other) = twin.metric(metric.id) else {
                continue;
            };
            let (first, second) = (&metric.by_invocation, &other.by_invocation);
            if let Some(plain) = paired_ratio(first, second).filter(|r| r.ci95.is_some()) {
                pairs.push(Both {
                    cell,
                    metric: metric.id,
                    first,
                    second,
                    plain,
                });
            }
        }
    }
    let of_metric = |&metric: &MetricId| {
        let pairs = || pairs.iter().filter(|pair| pair.metric == metric);
        // Pairs with the same values come from the same launches: one scenario measures for
        // another, or a value is that of a whole launch. They count once.
        let mut measured: Vec<&Both> = Vec::new();
        for pair in pairs() {
            if !measured.iter().any(|other| other.has_values_of(pair)) {
                measured.push(pair);
            }
        }
        let ratios: Vec<PairedRatio> = measured.iter().map(|pair| pair.plain).collect();
        let inflation = inflation(&ratios)?;
        Some(Noise {
            metric,
            inflation,
            measured: measured.len(),
            pairs: pairs()
                .map(|pair| pair.judged(inflation, matters))
                .collect(),
        })
    };
    MetricId::ALL.iter().filter_map(of_metric).collect()
}

impl Both<'_> {
    fn has_values_of(&self, other: &Both) -> bool {
        self.cell.target == other.cell.target
            && (self.first, self.second) == (other.first, other.second)
    }

    /// Judge the pair as a comparison with enlarged errors would.
    fn judged(&self, inflation: f64, matters: f64) -> TwinPair {
        let judged = paired_ratio_at(self.first, self.second, CONFIDENCE, inflation);
        let said = judged.map(|ratio| verdict(ratio.p, ratio.ci95, matters));
        TwinPair {
            target: self.cell.target.clone(),
            scenario: self.cell.scenario.clone(),
            case: self.cell.case.clone(),
            ratio: self.plain.ratio,
            ci95: self.plain.ci95,
            is_different: said.is_some_and(Verdict::is_difference),
        }
    }
}

/// Return the factor by which the errors of a metric are to be enlarged, 1 or more: see the module.
/// `None` without a pair of two blocks or more. Infinite where half of the pairs differ although
/// their blocks don't vary: then no test can tell targets apart.
pub fn inflation(pairs: &[PairedRatio]) -> Option<f64> {
    let times_usual = |pair: &PairedRatio| {
        let degrees = pair.blocks as f64 - 1.0;
        let error = pair.error?;
        let t = match pair.ratio.ln().abs() {
            0.0 => 0.0,
            log => log / error,
        };
        Some(t / t_quantile(0.75, degrees)?)
    };
    let mut times: Vec<f64> = pairs.iter().filter_map(times_usual).collect();
    times.sort_by(f64::total_cmp);
    match times.last()?.is_finite() {
        true => Some(median(&times)?.max(1.0)),
        // `median` takes finite numbers only.
        false => Some(times[times.len() / 2].max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Metric;
    use schema::key::{CellKey, twin_name};

    fn cell(target: &str, case: &str, values: [f64; 3]) -> Cell {
        Cell {
            metrics: vec![Metric::of(MetricId::TtftNs, 0.0, values.to_vec())],
            ..Cell::new(CellKey::new(target, "s", case), 50)
        }
    }

    #[test]
    fn launches_that_stand_for_two_cases_count_once() {
        let at = |name: &str| {
            [
                cell(name, "a", [10.0, 10.2, 10.1]),
                cell(name, "b", [10.0, 10.2, 10.1]),
                cell(name, "c", [10.0, 10.1, 10.1]),
            ]
        };
        let (first, mut second) = (at("t"), at(&twin_name("t")));
        for (cell, values) in
            second
                .iter_mut()
                .zip([[12.0, 12.1, 12.2], [12.0, 12.1, 12.2], [10.1, 10.0, 10.2]])
        {
            cell.metrics[0].by_invocation = values.to_vec();
        }
        let both = noise(&first, &second, 1.03).remove(0);
        assert_eq!((both.measured, both.pairs.len()), (2, 3));
        let [a, _, c] = &first;
        let [once, _, other] = second;
        let same = noise(&[a.clone(), c.clone()], &[once, other], 1.03).remove(0);
        assert_eq!((same.measured, same.inflation), (2, both.inflation));
    }

    fn pair(blocks: usize, log: f64, error: f64) -> PairedRatio {
        PairedRatio {
            blocks,
            ratio: log.exp(),
            ci95: Some((1.0, 1.0)),
            p: None,
            error: Some(error),
        }
    }

    /// The third quartile of Student's t with four degrees of freedom.
    const QUARTILE: f64 = 0.740697;

    #[test]
    fn the_median_pair_says_how_much_larger_errors_are() {
        let t = |times: f64| pair(5, 0.01 * times * QUARTILE, 0.01);
        let of = |times: &[f64]| {
            let pairs: Vec<_> = times.iter().map(|times| t(*times)).collect();
            inflation(&pairs).unwrap()
        };
        assert!((of(&[0.1, -1.5, 9.0]) - 1.5).abs() < 1e-6);
        assert!((of(&[1.0, 2.0]) - 1.5).abs() < 1e-6);
        assert_eq!(of(&[0.1, 0.2, 30.0]), 1.0, "never less than what was seen");
        assert_eq!(inflation(&[]), None);
    }

    #[test]
    fn pairs_whose_blocks_do_not_vary_say_nothing_or_everything() {
        assert_eq!(inflation(&[pair(5, 0.0, 0.0)]), Some(1.0));
        assert_eq!(inflation(&[pair(5, 0.1, 0.0)]), Some(f64::INFINITY));
        let most = [pair(5, 0.0, 0.0), pair(5, 0.0, 0.0), pair(5, 0.1, 0.0)];
        assert_eq!(inflation(&most), Some(1.0));
        let one_block = PairedRatio {
            error: None,
            ..pair(1, 0.0, 0.0)
        };
        assert_eq!(inflation(&[one_block]), None);
    }
}
