//! The cells of one case against the baseline and the leader, and their ranks.
//!
//! The leader is the cell with the best value, so it is chosen by the very data it
//! is then compared on. That flatters it a little; what may be said is only what
//! survives Holm's correction over all the others.

use crate::analysis::{Comparison, MetricId, Role, Verdict};
use crate::family::{holm, tie_ranks};
use crate::metrics::{Better, Sample};
use crate::noise::{far_end, is_under};
use crate::ratio::{PairedRatio, cliffs_delta, paired_ratio};
use std::collections::{BTreeMap, BTreeSet};

/// Adjusted p under which two cells differ.
pub const ALPHA: f64 = 0.05;

/// An `ok` cell's leading metric.
pub(crate) struct Contender {
    /// Target id.
    pub(crate) target: String,
    /// Mean over invocations.
    pub(crate) value: f64,
    /// Per-invocation statistic by block.
    pub(crate) by_block: BTreeMap<u32, f64>,
    /// Blocks in which it was disturbed.
    pub(crate) disturbed: BTreeSet<u32>,
    /// Pooled samples.
    pub(crate) pooled: Vec<f64>,
}

/// What is asked about one case.
pub(crate) struct Contest<'a> {
    /// Scenario id.
    pub(crate) scenario: &'a str,
    /// Case id.
    pub(crate) case: &'a str,
    /// The leading metric.
    pub(crate) metric: MetricId,
    /// The noise floor (a ratio of 1 or more), where it was measured.
    pub(crate) noise_floor: Option<f64>,
    /// The `ok` cells, in plan order.
    pub(crate) contenders: Vec<Contender>,
}

impl Contest<'_> {
    /// All others against the baseline, then all others against the leader.
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

    /// Rank by target. Empty where the metric has no better direction, and where
    /// a comparison is owed but no invocations are there to make it: a tie means
    /// that a difference was looked for.
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

    /// Indices of the contenders, best value first, plan order where equal.
    fn best_first(&self) -> Vec<usize> {
        let value = |&index: &usize| self.contenders[index].value;
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        match self.metric.describe().better {
            Better::Lower => order.sort_by(|a, b| value(a).total_cmp(&value(b))),
            Better::Higher => order.sort_by(|a, b| value(b).total_cmp(&value(a))),
            Better::Neither => order.clear(),
        }
        order
    }

    /// One Holm family: `others` against one. A pair without a ratio (no block in
    /// common, or a value of 0) is not in it.
    fn family(&self, role: Role, against: usize, others: &[usize]) -> Vec<Comparison> {
        let against = &self.contenders[against];
        let pairs: Vec<(&Contender, PairedRatio)> = others
            .iter()
            .map(|&index| &self.contenders[index])
            .filter_map(|other| Some((other, self.speed_up(other, against)?)))
            .collect();
        let tested: Vec<f64> = pairs.iter().filter_map(|(_, ratio)| ratio.p).collect();
        let mut adjusted = holm(&tested).unwrap_or_default().into_iter();
        pairs
            .into_iter()
            .map(|(other, ratio)| {
                let p_holm = ratio.p.and_then(|_| adjusted.next());
                Comparison {
                    scenario: self.scenario.to_owned(),
                    case: self.case.to_owned(),
                    metric: self.metric,
                    target: other.target.clone(),
                    against: against.target.clone(),
                    role,
                    ratio: ratio.ratio,
                    ci95: ratio.ci95,
                    p_holm,
                    cliffs_delta: self.delta(other, against),
                    noise_floor: self.noise_floor,
                    verdict: verdict(ratio.ratio, p_holm, self.noise_floor),
                    not_comparable: other.disturbed.union(&against.disturbed).copied().collect(),
                }
            })
            .collect()
    }

    /// How many times better `a` is than `b`, over the blocks both have.
    fn speed_up(&self, a: &Contender, b: &Contender) -> Option<PairedRatio> {
        let (a, b): (Vec<f64>, Vec<f64>) = a
            .by_block
            .iter()
            .filter_map(|(block, a)| Some((*a, *b.by_block.get(block)?)))
            .unzip();
        match self.metric.describe().better {
            Better::Lower => paired_ratio(&b, &a),
            Better::Higher => paired_ratio(&a, &b),
            Better::Neither => None,
        }
    }

    fn delta(&self, a: &Contender, b: &Contender) -> Option<f64> {
        let about = self.metric.describe();
        if about.sample == Sample::Invocation {
            return None;
        }
        match about.better {
            Better::Lower => cliffs_delta(&b.pooled, &a.pooled),
            Better::Higher => cliffs_delta(&a.pooled, &b.pooled),
            Better::Neither => None,
        }
    }
}

/// The ratio within which two targets that can't be told apart count as equal.
pub const EQUAL_WITHIN: f64 = 1.05;

/// How far apart two targets are at most, as a ratio of 1 or more: the end of the ratio's 95 %
/// interval that lies further from 1, and no less than the noise floor. That they are nearer than
/// this is what two one-sided tests at 2.5 % would find (Schuirmann 1987). `None` without an
/// interval.
pub fn apart_at_most(ci95: Option<(f64, f64)>, noise_floor: Option<f64>) -> Option<f64> {
    Some(far_end(ci95?)?.max(noise_floor.unwrap_or(1.0)))
}

/// What may be said of a ratio: a difference is one that is significant and not
/// under the noise floor.
pub(crate) fn verdict(ratio: f64, p_holm: Option<f64>, noise_floor: Option<f64>) -> Verdict {
    match p_holm {
        None => Verdict::Unknown,
        Some(p) if p >= ALPHA || ratio == 1.0 => Verdict::Tie,
        Some(_) if noise_floor.is_some_and(|floor| is_under(ratio, floor)) => Verdict::Tie,
        Some(_) if ratio > 1.0 => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_apart_two_can_be_is_what_the_interval_and_the_floor_leave() {
        let apart = |ci95, floor| apart_at_most(ci95, floor).unwrap();
        assert_eq!(apart(Some((0.98, 1.03)), None), 1.03);
        assert_eq!(apart(Some((0.8, 1.03)), None), 1.25);
        assert_eq!(apart(Some((0.98, 1.03)), Some(1.1)), 1.1);
        assert_eq!(apart(Some((1.0, 1.0)), None), 1.0);
        assert_eq!(apart_at_most(None, Some(1.1)), None, "one block");
        assert_eq!(apart_at_most(Some((0.0, 1.0)), None), None);
    }
}
