//! Comparisons of the cells of one case with the baseline and the leader, and their ranks.
//!
//! The leader is the cell with the best value, so it is chosen by the very data that it is then
//! compared on. That flatters it a little, so a difference must survive Holm's correction over all
//! the others.

use crate::analysis::{Cell, Comparison, MetricId, Noise, Role, Verdict};
use crate::ci::CONFIDENCE;
use crate::family::{holm_of, tie_ranks};
use crate::metrics::{Better, Sample};
use crate::ratio::{PairedRatio, cliffs_delta, paired_ratio_at};
use crate::tie::apart_at_most;
use schema::key::CaseKey;
use schema::profile::MATTERS_PERCENT;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Adjusted p under which two cells differ.
pub const ALPHA: f64 = 0.05;
/// The smallest difference that matters, as a ratio, unless the profile says otherwise.
pub const MATTERS: f64 = (100.0 + MATTERS_PERCENT) / 100.0;

/// An `ok` cell's values of the leading metric.
pub(crate) struct Contender {
    /// Target id.
    pub(crate) target: String,
    /// Mean over invocations.
    pub(crate) value: f64,
    /// Per-invocation statistic by block.
    pub(crate) by_block: BTreeMap<u32, f64>,
    /// Blocks in which the cell was disturbed.
    pub(crate) disturbed: BTreeSet<u32>,
    /// Pooled samples.
    pub(crate) pooled: Vec<f64>,
}

/// The cells of one case that are compared and ranked, and how.
pub(crate) struct Contest {
    /// Key of the case.
    pub(crate) at: CaseKey,
    /// The leading metric.
    pub(crate) metric: MetricId,
    /// Factor by which errors are enlarged, where a target ran twice.
    pub(crate) inflation: Option<f64>,
    /// The smallest difference that matters, as a ratio.
    pub(crate) matters: f64,
    /// Values of the `ok` cells, in plan order.
    pub(crate) contenders: Vec<Contender>,
}

/// Rank and compare the cells of many cases, with errors as large as `noise` says. Each contest
/// comes with the place of its case's cells in `cells`, whose ranks are set.
pub(crate) fn settle(
    contests: Vec<(Range<usize>, Contest)>,
    noise: &[Noise],
    cells: &mut [Cell],
    baseline: &str,
) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (of_case, mut contest) in contests {
        let noise = noise.iter().find(|noise| noise.metric == contest.metric);
        contest.inflation = noise.map(|noise| noise.inflation);
        let ranks = contest.ranks();
        for cell in &mut cells[of_case] {
            cell.rank = ranks.get(cell.target.as_str()).copied();
        }
        comparisons.extend(contest.comparisons(baseline));
    }
    comparisons
}

impl Contest {
    /// Compare all others with the baseline, then all others with the leader.
    pub(crate) fn comparisons(&self, baseline: &str) -> Vec<Comparison> {
        let order = self.best_first();
        let baseline = self.contenders.iter().position(|c| c.target == baseline);
        [
            (Role::Baseline, baseline),
            (Role::Leader, order.first().copied()),
        ]
        .into_iter()
        .filter_map(|(role, against)| Some((role, against?)))
        .flat_map(|(role, against)| {
            let others: Vec<usize> = (0..self.contenders.len())
                .filter(|&index| index != against)
                .collect();
            self.family(role, against, &others)
        })
        .collect()
    }

    /// Return the rank of each target. Empty where the metric has no better direction, and where
    /// one of several targets has a single invocation: a tie means that a difference was looked
    /// for.
    pub(crate) fn ranks(&self) -> BTreeMap<&str, u32> {
        let order = self.best_first();
        let judged = order.len() == 1 || self.contenders.iter().all(|c| c.by_block.len() > 1);
        if !judged {
            return BTreeMap::new();
        }
        let ranks = tie_ranks(order.len(), |leader, rest| {
            let family = self.family(Role::Leader, order[leader], &order[rest.clone()]);
            rest.map(|place| {
                let target = &self.contenders[order[place]].target;
                family
                    .iter()
                    .any(|c| c.target == *target && c.verdict == Verdict::Worse)
            })
            .collect()
        });
        order
            .iter()
            .zip(ranks)
            .map(|(&index, rank)| (self.contenders[index].target.as_str(), rank))
            .collect()
    }

    /// Return the indices of the contenders, best value first, plan order where equal.
    pub(crate) fn best_first(&self) -> Vec<usize> {
        let value = |&index: &usize| self.contenders[index].value;
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        match self.metric.describe().better {
            Better::Lower => order.sort_by(|a, b| value(a).total_cmp(&value(b))),
            Better::Higher => order.sort_by(|a, b| value(b).total_cmp(&value(a))),
            Better::Neither => order.clear(),
        }
        order
    }

    /// Compare `others` with one target, as one Holm family. A pair without a ratio (no block in
    /// common, or a value of 0) is not in it.
    fn family(&self, role: Role, against: usize, others: &[usize]) -> Vec<Comparison> {
        let against = &self.contenders[against];
        let pairs: Vec<(&Contender, PairedRatio)> = others
            .iter()
            .map(|&index| &self.contenders[index])
            .filter_map(|other| Some((other, self.speed_up(other, against)?)))
            .collect();
        let p: Vec<Option<f64>> = pairs.iter().map(|(_, ratio)| ratio.p).collect();
        pairs
            .into_iter()
            .zip(holm_of(&p))
            .map(|((other, ratio), p_holm)| Comparison {
                scenario: self.at.scenario.clone(),
                case: self.at.case.clone(),
                metric: self.metric,
                target: other.target.clone(),
                against: against.target.clone(),
                role,
                ratio: ratio.ratio,
                blocks: ratio.blocks,
                ci95: ratio.ci95,
                p_holm,
                cliffs_delta: self.delta(other, against),
                inflation: self.inflation,
                matters: self.matters,
                verdict: verdict(p_holm, ratio.ci95, self.matters),
                not_comparable: other.disturbed.union(&against.disturbed).copied().collect(),
            })
            .collect()
    }

    /// Return how many times better `a` is than `b`, over the blocks that both have.
    fn speed_up(&self, a: &Contender, b: &Contender) -> Option<PairedRatio> {
        let (a, b): (Vec<f64>, Vec<f64>) = a
            .by_block
            .iter()
            .filter_map(|(block, a)| Some((*a, *b.by_block.get(block)?)))
            .unzip();
        let (over, under) = self.metric.describe().better.quotient(a, b)?;
        paired_ratio_at(&over, &under, CONFIDENCE, self.inflation.unwrap_or(1.0))
    }

    fn delta(&self, a: &Contender, b: &Contender) -> Option<f64> {
        let about = self.metric.describe();
        if about.sample == Sample::Invocation {
            return None;
        }
        let (over, under) = about.better.quotient(&a.pooled, &b.pooled)?;
        cliffs_delta(over, under)
    }
}

/// Judge a ratio: it is a difference where p is under [`ALPHA`] and the whole 95 % interval lies
/// beyond the smallest difference that `matters` (a ratio), and equality where all of it lies
/// within.
pub(crate) fn verdict(p_holm: Option<f64>, ci95: Option<(f64, f64)>, matters: f64) -> Verdict {
    let Some(p) = p_holm else {
        return Verdict::Unknown;
    };
    match ci95 {
        Some((low, _)) if p < ALPHA && low > matters => Verdict::Better,
        Some((_, high)) if p < ALPHA && high < 1.0 / matters => Verdict::Worse,
        _ => match apart_at_most(ci95) {
            Some(apart) if apart <= matters => Verdict::Equal,
            _ => Verdict::Undecided,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(p: f64, low: f64, high: f64) -> Verdict {
        verdict(Some(p), Some((low, high)), MATTERS)
    }

    #[test]
    fn a_difference_is_one_that_is_significant_and_matters() {
        assert_eq!(MATTERS, 1.02);
        assert_eq!(said(0.01, 1.03, 1.10), Verdict::Better);
        assert_eq!(said(0.01, 0.90, 0.97), Verdict::Worse);
        assert_eq!(said(0.01, 1.01, 1.10), Verdict::Undecided, "it may be 1 %");
        assert_eq!(said(0.01, 0.90, 0.99), Verdict::Undecided);
        assert_eq!(said(0.05, 1.03, 1.10), Verdict::Undecided, "Holm's p");
        assert_eq!(verdict(Some(1.0), None, MATTERS), Verdict::Undecided);
        assert_eq!(verdict(None, None, MATTERS), Verdict::Unknown);
    }

    #[test]
    fn equal_is_what_lies_wholly_within_what_matters() {
        assert_eq!(said(0.7, 0.99, 1.02), Verdict::Equal);
        assert_eq!(said(0.001, 1.005, 1.01), Verdict::Equal, "sure, and small");
        assert_eq!(said(0.7, 0.99, 1.03), Verdict::Undecided);
        assert_eq!(said(0.7, 0.97, 1.01), Verdict::Undecided);
        let within_5 = |low, high| verdict(Some(0.01), Some((low, high)), 1.05);
        assert_eq!(within_5(1.03, 1.04), Verdict::Equal);
        assert_eq!(within_5(1.03, 1.10), Verdict::Undecided);
        assert_eq!(within_5(1.06, 1.10), Verdict::Better);
    }
}
