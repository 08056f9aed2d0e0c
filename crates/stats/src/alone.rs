//! Compares the same work in turns and alone, to check that taking turns doesn't change times.
//!
//! Where targets take turns, each starts with caches that other processes have filled, and the
//! clock frequency may have changed. A batch of one request in a process that has the machine to
//! itself is the same work without these effects. The ratio is only shown: it corrects no other
//! number.

use crate::analysis::{Cell, MetricId};
use crate::ratio::{PairedRatio, paired_ratio};
use schema::key::CaseKey;
use schema::plan::{Case, PlannedScenario};
use schema::scenario::LoadShape;

/// Comparison of one target's times alone and in turns, for the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone {
    /// Target id.
    pub target: String,
    /// Key of the case that is measured in turns.
    pub in_turns: CaseKey,
    /// Key of the case that has the machine to itself.
    pub alone: CaseKey,
    /// End-to-end time of a request alone ÷ in turns, paired by block.
    pub ratio: PairedRatio,
}

/// Compare each target that was measured both ways, in the order of the plan; empty where no
/// scenario takes turns or none has the same work alone.
pub fn alone(scenarios: &[PlannedScenario], cells: &[Cell]) -> Vec<Alone> {
    let mut all = Vec::new();
    for turns in scenarios.iter().filter(|scenario| scenario.turns) {
        for batch in scenarios.iter().filter(|s| s.load == LoadShape::Batch) {
            for (case, other) in same_work(turns, batch) {
                let (in_turns, alone) = (turns.case_key(case), batch.case_key(other));
                let of_target = |cell: &Cell| {
                    let key = alone.cell(&cell.target);
                    let other = cells.iter().find(|other| other.key() == key)?;
                    Some(Alone {
                        target: cell.target.clone(),
                        in_turns: in_turns.clone(),
                        alone: alone.clone(),
                        ratio: paired_ratio(values(other)?, values(cell)?)?,
                    })
                };
                let of_case = cells.iter().filter(|cell| cell.case_key() == in_turns);
                all.extend(of_case.filter_map(of_target));
            }
        }
    }
    all
}

fn values(cell: &Cell) -> Option<&[f64]> {
    Some(&cell.metric(MetricId::E2eNs)?.by_invocation)
}

/// Find the pairs of cases that have equal prompt and output lengths and one request at a time. A
/// case that another scenario's case measures is left out.
fn same_work<'a>(
    turns: &'a PlannedScenario,
    batch: &'a PlannedScenario,
) -> impl Iterator<Item = (&'a Case, &'a Case)> {
    let own = |scenario: &'a PlannedScenario| {
        scenario
            .cases
            .iter()
            .filter(|case| case.measured_by.is_none() && case.concurrency == 1)
    };
    let size = |case: &Case| (case.prompt_tokens, case.new_tokens);
    own(turns).flat_map(move |case| {
        own(batch)
            .filter(move |other| size(other) == size(case))
            .map(move |other| (case, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Metric;

    fn case(id: &str, prompt_tokens: u32, concurrency: u32) -> Case {
        Case {
            id: id.into(),
            prompt_tokens,
            new_tokens: 16,
            concurrency,
            ..Case::default()
        }
    }

    fn scenario(id: &str, load: LoadShape, turns: bool, cases: Vec<Case>) -> PlannedScenario {
        PlannedScenario {
            id: id.into(),
            load,
            turns,
            cases,
            ..PlannedScenario::default()
        }
    }

    fn cell(key: &CaseKey, target: &str, by_invocation: &[f64]) -> Cell {
        Cell {
            metrics: vec![Metric::of(MetricId::E2eNs, 0.0, by_invocation.to_vec())],
            ..Cell::new(key.cell(target), 1)
        }
    }

    #[test]
    fn the_same_work_is_found_and_compared_block_by_block() {
        let serial = vec![case("p10", 10, 1), case("p50", 50, 1)];
        let batches = vec![case("b1", 50, 1), case("b4", 50, 4)];
        let all = [
            scenario("single", LoadShape::Serial, true, serial),
            scenario("memory", LoadShape::Batch, false, batches),
        ];
        let (turns, batch) = (
            all[0].case_key(&all[0].cases[1]),
            all[1].case_key(&all[1].cases[0]),
        );
        let cells = [
            cell(&turns, "a", &[10.0, 20.0]),
            cell(&batch, "a", &[11.0, 22.0]),
            cell(&turns, "b", &[10.0, 20.0]),
            cell(&batch, "b", &[11.0]),
            cell(&turns, "c", &[10.0]),
        ];
        let found = alone(&all, &cells);
        // Target b lacks a block in one of the cases, and c was not measured alone.
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].in_turns, &found[0].alone), (&turns, &batch));
        assert!((found[0].ratio.ratio - 1.1).abs() < 1e-12);

        let mut none = all.clone();
        none[0].turns = false;
        assert!(alone(&none, &cells).is_empty());
        let mut elsewhere = all.clone();
        elsewhere[0].cases[1].measured_by = Some(batch);
        assert!(alone(&elsewhere, &cells).is_empty());
    }
}
