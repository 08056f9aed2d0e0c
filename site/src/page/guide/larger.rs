//! What another run of the same machine and model says of a larger size of the same load, for which
//! the choice's run has no number: the targets that lead there. No choice rests on it, because a run
//! of fewer targets must not replace one of many.

use super::decided::{decision, in_words, value_of};
use super::elsewhere::Chosen;
use super::workload::Asked;
use crate::view::{Shown, batches, case_label, paths, place};
use crate::words::join;
use schema::plan::Case;
use schema::scenario::{Axis, LoadShape};
use serde::Serialize;
use stats::metrics::Better;

/// Largest number of targets that are named after those that lead.
const NEXT_MAX: usize = 3;

/// The targets that lead at a larger size; empty where no run has one.
#[derive(Clone, Default, Serialize)]
pub(super) struct Larger {
    /// The size: `8 users`.
    size: String,
    /// The targets with their values, and by how much the first leads.
    words: String,
    /// Path of the run that has the size.
    pub(super) run_path: String,
}

/// Say which targets of `backend`, the choice's, lead at the largest size of the load that another
/// run has and the run of the choice hasn't.
pub(super) fn larger(chosen: &Chosen, backend: &str) -> Larger {
    let (shown, asked, workload) = (chosen.shown, chosen.asked, chosen.workload);
    let of_place = place::machine_and_model(shown);
    let is_candidate = |run: &Shown, id: &str| {
        let target = run.target(id);
        target.is_some_and(|target| target.backend == backend) && !run.is_ours(id)
    };
    let has_number = |case: &&Case| {
        let mut numbers = shown.measured(asked.scenario, case, asked.metric);
        numbers.next().is_some()
    };
    let size = |case: &Case| case.axis_value(asked.scenario.axis);
    let cases = asked.scenario.cases.iter();
    let Some(known) = cases.filter(has_number).map(size).max() else {
        return Larger::default();
    };
    // `max_by_key` returns the last of equals, and the first run is wanted, so reverse the order.
    let runs = chosen.runs.iter().rev().copied();
    let runs = runs.filter(|run| workload.largest && place::machine_and_model(run) == of_place);
    let found = runs.filter_map(|run| {
        let there = workload.asked(run)?;
        let is_larger =
            load(&there) == load(asked) && there.metric == asked.metric && size(there.case) > known;
        let decision = decision(run, &there, |target| is_candidate(run, target))?;
        (is_larger && decision.measured > 1).then_some((run, there, decision))
    });
    let best = found.max_by_key(|(_, there, decision)| (size(there.case), decision.measured));
    let Some((run, there, decision)) = best else {
        return Larger::default();
    };
    let higher = there.metric.describe().better == Better::Higher;
    let next = there.cells.iter().filter_map(|cell| {
        let is_next = !decision.tied.contains(&cell.target) && is_candidate(run, &cell.target);
        let value = cell.metric(there.metric)?.value;
        is_next.then_some((value, cell.target.as_str()))
    });
    let mut next: Vec<(f64, &str)> = next.collect();
    next.sort_by(|a, b| match higher {
        true => b.0.total_cmp(&a.0),
        false => a.0.total_cmp(&b.0),
    });
    next.truncate(NEXT_MAX);
    let next: Vec<&str> = next.into_iter().map(|(_, target)| target).collect();
    let named = decision.tied.iter().map(String::as_str);
    let named: Vec<&str> = named.chain(next.iter().copied()).collect();
    let small_batches = small_batches(&there, &named);
    let mut words = in_words(&there, decision).words;
    if !next.is_empty() {
        let next: Vec<String> = next.iter().map(|id| value_of(&there, id)).collect();
        words.push_str(&format!("; then {}", join(&next)));
    }
    words.push_str(&small_batches);
    Larger {
        size: case_label(there.scenario, there.case),
        words,
        run_path: paths::run_path(&run.run.header.id),
    }
}

/// Say which of these targets had fewer requests in a batch than were in flight; empty where none.
fn small_batches(asked: &Asked, targets: &[&str]) -> String {
    let found = targets.iter().filter_map(|id| {
        let requests = batches::smaller_of_several(asked.cell(id)?, asked.case)?;
        Some(format!("{id} {requests}"))
    });
    let found: Vec<String> = found.collect();
    match found.is_empty() {
        true => String::new(),
        false => format!(
            "; of the {} in flight, on average in a batch: {}, so these can be faster",
            asked.case.concurrency,
            join(&found)
        ),
    }
}

/// What cases of the same load have in common, whatever their size: the scenario's version, shape
/// and axis, whether targets take turns, the tokens of an answer, and the prompt's length or the
/// number of users, whichever isn't the axis.
fn load(asked: &Asked) -> (u32, LoadShape, Axis, bool, u32, u32) {
    let (scenario, case) = (asked.scenario, asked.case);
    let beside_axis = match scenario.axis {
        Axis::PromptTokens => case.concurrency,
        _ => case.prompt_tokens,
    };
    let (version, shape, axis) = (scenario.version, scenario.load, scenario.axis);
    (
        version,
        shape,
        axis,
        scenario.turns,
        case.new_tokens,
        beside_axis,
    )
}
