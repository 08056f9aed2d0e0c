//! Shares out a run's time among targets. Pure: from the pilot's estimates to the cells left out.
//!
//! The minimum number of samples of a cell is never reduced, so a cell is measured whole or not at
//! all. Time is shared by max–min fairness over targets (and twins, see `twins.rs`): a target that
//! needs less than its share leaves the rest to the others; one that needs more drops cells until
//! it fits, in an order that is the same for all targets. Time that whole cells leave unused raises
//! all shares alike. The baseline drops no cell, because every ratio needs it.

use base::pace::{self, warm_ups};
use schema::budget::{OverBudget, Pilot, Round, about};
use schema::key::{CellKey, original};
use schema::plan::{Case, Plan, PlannedScenario};
use schema::scenario::LoadShape;
use std::collections::BTreeSet;

/// The distinct request shapes of all cases, sorted by work: the rounds that a pilot times.
pub fn shapes(plan: &Plan) -> Vec<Round> {
    let mut shapes: Vec<Round> = Vec::new();
    for case in plan.scenarios.iter().flat_map(|s| &s.cases) {
        if !shapes.iter().any(|round| case.is_timed_by(round)) {
            shapes.push(Round {
                prompt_tokens: case.prompt_tokens_usual(),
                new_tokens: case.new_tokens,
                concurrency: case.concurrency,
                mixed: case.has_mixed_lengths(),
                round_s: 0.0,
            });
        }
    }
    shapes.sort_by_key(|r| u64::from(r.prompt_tokens + r.new_tokens) * u64::from(r.concurrency));
    shapes
}

/// Time that all cells of the plan would take the pilot's target (s); `None` where its pilot
/// failed.
pub fn planned_s(plan: &Plan, pilot: &Pilot) -> Option<f64> {
    let cells = cells(plan, pilot)?;
    Some(total_s(plan, pilot, &cells))
}

/// The largest share of any target in seconds (`None`: all fit), and the cells to leave out.
pub fn share_out(plan: &Plan, pilots: &[Pilot], budget_s: f64, baseline: &str) -> Shared {
    let is_exempt = |pilot: &&Pilot| pilot.target == baseline;
    let (exempt, others): (Vec<&Pilot>, Vec<&Pilot>) = pilots.iter().partition(is_exempt);
    let exempt_s: f64 = exempt.iter().map(|pilot| pilot.planned_s).sum();
    let costs = others.iter().map(|pilot| pilot.planned_s).collect();
    let time_s = (budget_s - exempt_s).max(0.0);
    let Some(fair_s) = fair_share(costs, time_s) else {
        return (None, Vec::new());
    };
    let at = |share_s: f64| -> Vec<OverBudget> {
        let too_long = others.iter().filter(|pilot| pilot.planned_s > share_s);
        too_long
            .flat_map(|pilot| give_up(plan, pilot, share_s, budget_s))
            .collect()
    };
    let fits = |over: &[OverBudget]| {
        let kept = others.iter().map(|pilot| kept_s(plan, pilot, over));
        kept.sum::<f64>() <= time_s
    };
    let mut best = (fair_s, at(fair_s));
    let (mut low, mut high) = (fair_s, time_s.max(fair_s));
    for _ in 0..RAISES {
        let share_s = f64::midpoint(low, high);
        let over = at(share_s);
        if !fits(&over) {
            high = share_s;
            continue;
        }
        low = share_s;
        if over.len() < best.1.len() {
            best = (share_s, over);
        }
    }
    (Some(best.0), best.1)
}

/// Number of halvings in the search for the raised share: an hour is narrowed to a thousandth of a
/// second.
const RAISES: u32 = 22;

/// Time that a target's cells take (s), without those in `over`; 0 where the pilot has no rounds.
pub fn kept_s(plan: &Plan, pilot: &Pilot, over: &[OverBudget]) -> f64 {
    let over: BTreeSet<CellKey> = over.iter().map(OverBudget::key).collect();
    let mut kept = cells(plan, pilot).unwrap_or_default();
    kept.retain(|cell| !over.contains(&cell.scenario.cell_key(cell.case, &pilot.target)));
    total_s(plan, pilot, &kept)
}

/// The result of [`share_out`].
pub type Shared = (Option<f64>, Vec<OverBudget>);

/// The level L with Σ min(cost, L) = budget; `None` where all costs fit.
fn fair_share(mut costs: Vec<f64>, budget_s: f64) -> Option<f64> {
    costs.sort_by(f64::total_cmp);
    let mut left = budget_s;
    for (index, cost) in costs.iter().enumerate() {
        let level = left / (costs.len() - index) as f64;
        if *cost > level {
            return Some(level);
        }
        left -= cost;
    }
    None
}

/// One cell of a target and the time it takes over all invocations (s), loading not included.
#[derive(Clone, Copy)]
struct CellCost<'a> {
    scenario: &'a PlannedScenario,
    case: &'a Case,
    run_s: f64,
}

fn cells<'a>(plan: &'a Plan, pilot: &Pilot) -> Option<Vec<CellCost<'a>>> {
    if !pilot.failure.is_empty() || pilot.rounds.is_empty() {
        return None;
    }
    let target = original(&pilot.target);
    let scenarios = plan.scenarios.iter().filter(|s| s.runs(target));
    let cases = scenarios.flat_map(|of| of.measured_cases().map(move |case| (of, case)));
    // A pilot that did not fail lacks only the shapes that its target isn't verified for.
    let cells = cases.filter_map(|(scenario, case)| {
        let run_s = f64::from(plan.invocations) * launch_s(plan, pilot, scenario, case)?;
        Some(CellCost {
            scenario,
            case,
            run_s,
        })
    });
    Some(cells.collect())
}

/// Time of a case in one launch (s), without loading; `None` where the pilot lacks its shape.
pub(crate) fn launch_s(
    plan: &Plan,
    pilot: &Pilot,
    scenario: &PlannedScenario,
    case: &Case,
) -> Option<f64> {
    let round = pilot.rounds.iter().find(|round| case.is_timed_by(round))?;
    Some(case_s(scenario, case, plan.warmup_requests, round.round_s))
}

/// Time of one case in one invocation (s), from the requests that the load generator will issue.
fn case_s(scenario: &PlannedScenario, case: &Case, warmup: u32, round_s: f64) -> f64 {
    let users = f64::from(case.concurrency);
    let share = f64::from(case.load_percent.unwrap_or(100)) / 100.0;
    // A load of 110 % can only be served at 100 %.
    let rounds = f64::from(case.requests) / users / share.min(1.0);
    let timed_s = (rounds * round_s).max(case.duration_s);
    let wakes = || match scenario.turns {
        true => pace::untimed_in_turns(timed_s, round_s),
        false => 0.0,
    };
    let untimed = match scenario.load {
        LoadShape::Serial => warm_ups(warmup, round_s) + wakes(),
        LoadShape::ClosedLoop if case.concurrency == 1 => {
            warm_ups(warmup.max(1), round_s) + wakes()
        }
        LoadShape::ClosedLoop if scenario.turns => {
            // One more to warm up.
            let rounds = 1.0 + pace::rounds_in_windows(rounds, case.duration_s, round_s);
            return rounds * round_s;
        }
        // Untimed: the warm-up before, and the fillers that hold up the load until the end.
        LoadShape::ClosedLoop => f64::from(warmup).max(users) + users,
        LoadShape::Batch => users,
        // Untimed: all users at once before the arrivals, the arrivals that warm up, and the
        // fillers that hold up the load.
        LoadShape::Poisson | LoadShape::ConstantRate => 2.0 * users + f64::from(warmup),
    };
    timed_s + untimed / users * round_s
}

/// Time of cells and of loading their processes (s): one process per scenario and invocation, or
/// one for all scenarios that may share it; and one per case where each case needs a fresh process.
fn total_s(plan: &Plan, pilot: &Pilot, cells: &[CellCost]) -> f64 {
    let (fresh, others): (Vec<&CellCost>, Vec<&CellCost>) = cells
        .iter()
        .partition(|cell| cell.scenario.needs_fresh_process());
    let scenarios = |may_share: bool| {
        let of = others.iter().map(|cell| cell.scenario);
        let of = of.filter(|scenario| scenario.may_share_process() == may_share);
        of.map(|s| s.id.as_str()).collect::<BTreeSet<_>>().len()
    };
    let shared = match plan.one_process {
        true => scenarios(true).min(1),
        false => scenarios(true),
    };
    let launches = fresh.len() + scenarios(false) + shared;
    let run_s: f64 = cells.iter().map(|cell| cell.run_s).sum();
    capacity_s(pilot, cells) + run_s + launches as f64 * f64::from(plan.invocations) * pilot.load_s
}

/// Time of the capacity stage that open loops need (s): a process for each shape.
fn capacity_s(pilot: &Pilot, cells: &[CellCost]) -> f64 {
    let open = || cells.iter().filter(|cell| cell.scenario.load.is_open());
    let needed = |round: &&Round| open().any(|cell| cell.case.is_timed_by(round));
    let shapes = pilot.rounds.iter().filter(needed);
    shapes
        .map(|round| pilot.load_s + pace::capacity_s(round.round_s))
        .sum()
}

/// The cells that a target has no time for. Every target keeps cells in the same order, as many as
/// fit, so that the cells that remain can be compared.
fn give_up(plan: &Plan, pilot: &Pilot, share_s: f64, budget_s: f64) -> Vec<OverBudget> {
    let mut wanted = cells(plan, pilot).unwrap_or_default();
    wanted.sort_by_key(|cell| precedence(cell));
    let mut kept: Vec<CellCost> = Vec::new();
    let mut over = Vec::new();
    for cell in wanted {
        kept.push(cell);
        if total_s(plan, pilot, &kept) <= share_s {
            continue;
        }
        kept.pop();
        over.push(OverBudget {
            target: pilot.target.clone(),
            scenario: cell.scenario.id.clone(),
            case: cell.case.id.clone(),
            estimate_s: cell.run_s,
            reason: format!(
                "no time by the pilot's estimate: it takes about {}; the target's share of the profile's {} is {}, and all its cells would take {}",
                about(cell.run_s),
                about(budget_s),
                about(share_s),
                about(pilot.planned_s)
            ),
        });
    }
    over
}

/// Sort key of the order in which cells are kept, for any target: a case of every scenario before a
/// second case of any (a comparison with a hole in it says less than one with fewer sizes), one
/// user before many, little work before much.
fn precedence(cell: &CellCost) -> (usize, u8, u64) {
    let cases = &cell.scenario.cases;
    let position = cases.iter().position(|case| case.id == cell.case.id);
    let load = match cell.scenario.load {
        LoadShape::Serial => 0,
        LoadShape::ClosedLoop => 1,
        LoadShape::Batch => 2,
        LoadShape::Poisson | LoadShape::ConstantRate => 3,
    };
    let case = cell.case;
    let context = u64::from(case.prompt_tokens + case.new_tokens);
    let tokens = context * u64::from(case.concurrency);
    (position.unwrap_or(cases.len()), load, tokens)
}

#[cfg(test)]
mod tests;
