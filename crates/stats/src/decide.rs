//! The choice of a target for one kind of work. The candidates are the leader on the metric that
//! decides and all targets that can't be told from it; among these, the one that costs least to
//! adopt is chosen. A rule that always took the best mean would choose by noise.
//!
//! Pure, and knows neither engines nor kinds of work. Callers check beforehand whether the cells
//! may carry a recommendation at all (profile, size of the model).

use crate::analysis::{Cell, Comparison, MetricId, Role};
use crate::compare::{Contender, Contest};
use std::collections::BTreeSet;

/// Reason why the choice was preferred to the targets that are tied with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenBy {
    /// There was no tie: the choice leads alone.
    NoTie,
    /// The choice costs less to adopt than the others.
    Cost,
    /// The choice has the better mean, as costs are unknown or equal; this shows no difference.
    Mean,
}

/// The choice of a target in one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Id of the chosen target.
    pub choice: String,
    /// Id of the target with the best mean.
    pub leader: String,
    /// Ids of the leader and of all targets that can't be told from it: the choice first, the
    /// others by their mean.
    pub tied: Vec<String>,
    /// Reason for the choice among the tied targets.
    pub broken_by: BrokenBy,
    /// Number of targets that could be chosen.
    pub measured: u32,
    /// Comparison of the choice with the best of the targets that are detectably behind the leader,
    /// where there are any; a ratio above 1 is in favour of the choice.
    pub ahead_of: Option<Comparison>,
}

/// Decide among the cells of one case. `inflation` is the factor by which the metric's errors are
/// enlarged ([`crate::noise`]), `matters` the smallest difference that matters, as a ratio, and
/// `cost` returns what adopting a target costs, where that is known. `None` where nothing was
/// measured, where the metric has no better direction, or where several targets were measured and
/// one of them in a single launch: then nothing tells them apart.
pub fn decide(
    cells: &[&Cell],
    metric: MetricId,
    inflation: Option<f64>,
    matters: f64,
    cost: impl Fn(&str) -> Option<u64>,
) -> Option<Decision> {
    let contest = contest(cells, metric, inflation, matters)?;
    let ranks = contest.ranks();
    let order = contest.best_first().into_iter();
    let mut tied: Vec<&str> = order
        .map(|index| contest.contenders[index].target.as_str())
        .filter(|target| ranks.get(target) == Some(&1))
        .collect();
    let leader = tied.first()?.to_string();
    let costs: Vec<Option<u64>> = tied.iter().map(|target| cost(target)).collect();
    // Unknown costs come last; equal costs keep the order of means.
    let choice = (0..tied.len()).min_by_key(|&i| (costs[i].is_none(), costs[i]))?;
    let cheapest = costs.iter().filter(|c| **c == costs[choice]).count();
    let broken_by = match tied.len() {
        1 => BrokenBy::NoTie,
        _ if costs[choice].is_some() && cheapest == 1 => BrokenBy::Cost,
        _ => BrokenBy::Mean,
    };
    let chosen = tied.remove(choice);
    tied.insert(0, chosen);
    let tied: Vec<String> = tied.into_iter().map(str::to_owned).collect();
    Some(Decision {
        ahead_of: ahead_of(&contest, &tied),
        choice: tied[0].clone(),
        leader,
        broken_by,
        measured: contest.contenders.len() as u32,
        tied,
    })
}

/// Compare the choice with the best of the targets that are not tied with the leader.
fn ahead_of(contest: &Contest, tied: &[String]) -> Option<Comparison> {
    let mut order = contest.best_first().into_iter();
    let next = order.find_map(|index| {
        let target = &contest.contenders[index].target;
        (!tied.contains(target)).then_some(target)
    })?;
    let all = contest.comparisons(next);
    all.into_iter()
        .find(|c| c.role == Role::Baseline && c.target == tied[0])
}

fn contest(
    cells: &[&Cell],
    metric: MetricId,
    inflation: Option<f64>,
    matters: f64,
) -> Option<Contest> {
    let contender = |cell: &&Cell| {
        let measured = cell.metric(metric).filter(|m| m.value.is_finite())?;
        Some(Contender {
            target: cell.target.clone(),
            value: measured.value,
            by_block: (0..).zip(measured.by_invocation.iter().copied()).collect(),
            disturbed: BTreeSet::new(),
            pooled: Vec::new(),
        })
    };
    Some(Contest {
        at: cells.first()?.case_key(),
        metric,
        inflation,
        matters,
        contenders: cells.iter().filter_map(contender).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Metric;
    use crate::compare::MATTERS;
    use schema::key::CellKey;

    fn cell(target: &str, throughput: f64, shake: f64) -> Cell {
        // Launches vary in different orders, so that equal means don't imply equal launches.
        let mut factors = [0.0, 1.0, -1.0, 0.5, -0.5].map(|times| 1.0 + times * shake);
        factors.rotate_left(target.len() % 5);
        let values = factors.map(|factor| throughput * factor).to_vec();
        Cell {
            metrics: vec![Metric::of(MetricId::OutputTokPerS, throughput, values)],
            ..Cell::new(CellKey::new(target, "sustained", "c8"), 8)
        }
    }

    fn choose(
        cells: &[Cell],
        inflation: Option<f64>,
        cost: impl Fn(&str) -> Option<u64>,
    ) -> Option<Decision> {
        let cells: Vec<&Cell> = cells.iter().collect();
        decide(&cells, MetricId::OutputTokPerS, inflation, MATTERS, cost)
    }

    fn chosen(decision: &Decision) -> (&str, BrokenBy) {
        (decision.choice.as_str(), decision.broken_by)
    }

    #[test]
    fn who_leads_alone_is_taken_whatever_it_costs() {
        let cells = [
            cell("a", 100.0, 0.01),
            cell("bb", 200.0, 0.01),
            cell("ccc", 50.0, 0.01),
        ];
        let decision = choose(&cells, None, |t| Some(if t == "bb" { 1 << 40 } else { 1 })).unwrap();
        assert_eq!(chosen(&decision), ("bb", BrokenBy::NoTie));
        assert_eq!((decision.tied, decision.measured), (vec!["bb".into()], 3));
        let ahead = decision.ahead_of.unwrap();
        assert_eq!(ahead.against, "a");
        assert!((ahead.ratio - 2.0).abs() < 0.05, "{}", ahead.ratio);
    }

    #[test]
    fn among_those_that_tie_the_cheapest_to_adopt_is_taken() {
        let cells = [
            cell("a", 100.0, 0.1),
            cell("bb", 101.0, 0.1),
            cell("ccc", 50.0, 0.01),
        ];
        let cost = |t: &str| (t != "ccc").then_some(if t == "a" { 5 } else { 7 });
        let decision = choose(&cells, None, cost).unwrap();
        assert_eq!(chosen(&decision), ("a", BrokenBy::Cost));
        assert_eq!(decision.leader, "bb");
        assert_eq!(decision.tied, ["a", "bb"]);
        // Where no cost is known the better mean is chosen, and `BrokenBy::Mean` says it is no
        // finding.
        let unknown = choose(&cells, None, |_| None).unwrap();
        assert_eq!(chosen(&unknown), ("bb", BrokenBy::Mean));
        // A known cost comes before an unknown one.
        let known = choose(&cells, None, |t| (t == "a").then_some(9)).unwrap();
        assert_eq!(chosen(&known), ("a", BrokenBy::Cost));
    }

    #[test]
    fn a_lead_that_the_pairs_make_uncertain_is_a_tie() {
        let cells = [cell("a", 100.0, 0.001), cell("bb", 104.0, 0.001)];
        let cost = |t: &str| Some(t.len() as u64);
        assert_eq!(choose(&cells, None, cost).unwrap().choice, "bb");
        let decision = choose(&cells, Some(20.0), cost).unwrap();
        assert_eq!((decision.choice.as_str(), decision.tied.len()), ("a", 2));
        assert_eq!(decision.ahead_of, None);
    }

    #[test]
    fn without_launches_to_tell_them_apart_there_is_no_decision() {
        let mut cells = [cell("a", 100.0, 0.1), cell("bb", 900.0, 0.1)];
        for cell in &mut cells {
            cell.metrics[0].by_invocation.truncate(1);
        }
        assert_eq!(choose(&cells, None, |_| None), None);
        assert_eq!(choose(&[], None, |_| None), None);
        let alone = choose(&cells[..1], None, |_| None).unwrap();
        assert_eq!((alone.choice.as_str(), alone.measured), ("a", 1));
        cells[0].metrics[0].value = f64::NAN;
        cells[1].metrics.clear();
        assert_eq!(choose(&cells, None, |_| None), None);
    }
}
