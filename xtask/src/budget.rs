//! Sharing out a run's time. Pure: estimates in, cells that don't fit out.
//!
//! The sample floor stands, so a cell is measured whole or not at all. Time is
//! shared by max–min fairness over targets (and twins, see `twins.rs`): one that
//! needs less than its share leaves the rest to the others; one that needs more gives
//! up cells until it fits, in an order that is the same for all. What whole cells leave of
//! the shares raises all shares alike. The baseline gives up nothing: every ratio needs it.

use crate::run::{capacity, turns};
use schema::budget::{OverBudget, Pilot, Round};
use schema::plan::{Case, Plan, PlannedScenario};
use schema::scenario::LoadShape;
use schema::twin::original;

/// The shapes of all cases, each once, in order of work: what a pilot tries.
pub fn shapes(plan: &Plan) -> Vec<Round> {
    let mut shapes: Vec<Round> = Vec::new();
    for case in plan.scenarios.iter().flat_map(|s| &s.cases) {
        if !shapes.iter().any(|round| same(round, case)) {
            shapes.push(Round {
                prompt_tokens: case.prompt_tokens,
                new_tokens: case.new_tokens,
                concurrency: case.concurrency,
                round_s: 0.0,
            });
        }
    }
    shapes.sort_by_key(|r| (r.prompt_tokens + r.new_tokens) * r.concurrency);
    shapes
}

pub(crate) fn same(round: &Round, case: &Case) -> bool {
    (round.prompt_tokens, round.new_tokens, round.concurrency)
        == (case.prompt_tokens, case.new_tokens, case.concurrency)
}

/// What all cells of the plan would take a target (s); `None` where its pilot
/// lacks a shape.
pub fn planned_s(plan: &Plan, pilot: &Pilot) -> Option<f64> {
    let cells = cells(plan, pilot)?;
    Some(total_s(plan, pilot, &cells))
}

/// The most each target may take (`None`: all fit), and the cells that must go.
pub fn share_out(plan: &Plan, pilots: &[Pilot], budget_s: f64, baseline: &str) -> Shared {
    let exempt: f64 = pilots
        .iter()
        .filter(|pilot| pilot.target == baseline)
        .map(|pilot| pilot.planned_s)
        .sum();
    let others: Vec<&Pilot> = pilots
        .iter()
        .filter(|pilot| pilot.target != baseline)
        .collect();
    let costs = others.iter().map(|pilot| pilot.planned_s).collect();
    let time_s = (budget_s - exempt).max(0.0);
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

/// Halvings of what a share could be raised by: a thousandth of a second of an hour.
const RAISES: u32 = 22;

/// What a target's cells take (s), less those in `over`; 0 without a pilot's rounds.
pub fn kept_s(plan: &Plan, pilot: &Pilot, over: &[OverBudget]) -> f64 {
    let mut kept = cells(plan, pilot).unwrap_or_default();
    kept.retain(|cell| {
        !over.iter().any(|o| {
            o.target == pilot.target && o.scenario == cell.scenario.id && o.case == cell.case.id
        })
    });
    total_s(plan, pilot, &kept)
}

/// What [`share_out`] decides.
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

/// One cell of a target and what it takes over all invocations, loading aside.
#[derive(Clone, Copy)]
struct CellCost<'a> {
    scenario: &'a PlannedScenario,
    case: &'a Case,
    run_s: f64,
}

fn cells<'a>(plan: &'a Plan, pilot: &Pilot) -> Option<Vec<CellCost<'a>>> {
    let mut cells = Vec::new();
    for scenario in plan
        .scenarios
        .iter()
        .filter(|s| s.runs(original(&pilot.target)))
    {
        for case in &scenario.cases {
            let round = pilot.rounds.iter().find(|round| same(round, case))?;
            let run_s = f64::from(plan.invocations)
                * case_s(scenario, case, plan.warmup_requests, round.round_s);
            cells.push(CellCost {
                scenario,
                case,
                run_s,
            });
        }
    }
    Some(cells)
}

/// One case of one invocation (s): the requests the load generator will issue.
pub(crate) fn case_s(scenario: &PlannedScenario, case: &Case, warmup: u32, round_s: f64) -> f64 {
    let users = f64::from(case.concurrency);
    let share = f64::from(case.load_percent.unwrap_or(100)) / 100.0;
    // A load of 110 % is served at 100 %.
    let timed_s = f64::from(case.requests) / users * round_s / share.min(1.0);
    let timed_s = timed_s.max(case.duration_s);
    let untimed = match scenario.load {
        LoadShape::Serial if scenario.turns => f64::from(warmup) + turns::untimed(timed_s, round_s),
        LoadShape::Serial => f64::from(warmup),
        // Warm-up before, and fillers that hold up the load until the end.
        LoadShape::ClosedLoop => f64::from(warmup).max(users) + users,
        LoadShape::Batch => users,
        // A full house before, arrivals that warm up, and fillers that hold up the load.
        LoadShape::Poisson | LoadShape::ConstantRate => 2.0 * users + f64::from(warmup),
    };
    timed_s + untimed / users * round_s
}

/// Cells and the launches they need: one per scenario and invocation, or one per
/// case where each case gets a process.
fn total_s(plan: &Plan, pilot: &Pilot, cells: &[CellCost]) -> f64 {
    let mut launches = 0;
    for scenario in &plan.scenarios {
        let kept = cells
            .iter()
            .filter(|c| c.scenario.id == scenario.id)
            .count();
        launches += match scenario.load {
            LoadShape::Batch => kept,
            _ => kept.min(1),
        };
    }
    let run_s: f64 = cells.iter().map(|cell| cell.run_s).sum();
    capacity_s(pilot, cells) + run_s + launches as f64 * f64::from(plan.invocations) * pilot.load_s
}

/// The capacity stage that open loops need (s): a process for each shape.
fn capacity_s(pilot: &Pilot, cells: &[CellCost]) -> f64 {
    let open = || cells.iter().filter(|cell| cell.scenario.load.is_open());
    let needed = |round: &&Round| open().any(|cell| same(round, cell.case));
    let shapes = pilot.rounds.iter().filter(needed);
    shapes
        .map(|round| pilot.load_s + capacity::estimate_s(round.round_s))
        .sum()
}

/// What a target has no time for. Every target keeps cells in the same order, as many
/// as fit, so that those that are left stand beside each other.
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
                "about {:.0} s by the pilot; the target's share of the profile's {:.0} min is {:.0} s, and all its cells would take {:.0} s",
                cell.run_s,
                budget_s / 60.0,
                share_s,
                pilot.planned_s
            ),
        });
    }
    over
}

/// Which cell is kept first, whatever the target: a case of every scenario before a
/// second of any (a comparison with a hole in it says less than one with fewer
/// sizes), one user before many, little work before much.
fn precedence(cell: &CellCost) -> (usize, u8, u32) {
    let cases = &cell.scenario.cases;
    let position = cases.iter().position(|case| case.id == cell.case.id);
    let load = match cell.scenario.load {
        LoadShape::Serial => 0,
        LoadShape::ClosedLoop => 1,
        LoadShape::Batch => 2,
        LoadShape::Poisson | LoadShape::ConstantRate => 3,
    };
    let tokens = (cell.case.prompt_tokens + cell.case.new_tokens) * cell.case.concurrency;
    (position.unwrap_or(cases.len()), load, tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::scenario::Axis;

    fn case(id: &str, concurrency: u32, requests: u32, duration_s: f64) -> Case {
        Case {
            id: id.into(),
            prompt_tokens: 50,
            new_tokens: 16,
            concurrency,
            load_percent: None,
            requests,
            duration_s,
        }
    }

    fn plan() -> Plan {
        let scenario = |id: &str, load, cases| PlannedScenario {
            id: id.into(),
            version: 1,
            load,
            axis: Axis::Users,
            targets: vec![],
            turns: false,
            cases,
        };
        Plan {
            profile: "x".into(),
            publishable: true,
            model: "m".into(),
            seed: 1,
            threads: 1,
            invocations: 5,
            warmup_requests: 2,
            request_timeout_s: 1,
            load_timeout_s: 1,
            budget_s: 100.0,
            slo: None,
            noise_floor: false,
            micro: Default::default(),
            targets: vec![],
            scenarios: vec![
                scenario(
                    "closed",
                    LoadShape::ClosedLoop,
                    vec![case("u1", 1, 20, 0.0), case("u4", 4, 20, 0.0)],
                ),
                scenario(
                    "batch",
                    LoadShape::Batch,
                    vec![case("b1", 1, 20, 0.0), case("b4", 4, 20, 0.0)],
                ),
            ],
            launches: vec![],
        }
    }

    /// A target that loads in a second and takes `round_s` for any round.
    fn pilot(target: &str, round_s: f64) -> Pilot {
        let plan = plan();
        let rounds = shapes(&plan)
            .into_iter()
            .map(|round| Round { round_s, ..round })
            .collect();
        let mut pilot = Pilot {
            target: target.into(),
            load_s: 1.0,
            rounds,
            planned_s: 0.0,
            failure: String::new(),
        };
        pilot.planned_s = planned_s(&plan, &pilot).unwrap();
        pilot
    }

    #[test]
    fn every_shape_is_tried_once() {
        let shapes = shapes(&plan());
        let users: Vec<u32> = shapes.iter().map(|round| round.concurrency).collect();
        assert_eq!(users, [1, 4]);
    }

    #[test]
    fn an_estimate_counts_what_the_load_generator_issues_and_every_launch() {
        // u1: 20 + 2 warm-up + 1 filler; u4: 5 + 1 + 1; b1: 20 + 1; b4: 5 + 1 rounds,
        // of 0.1 s, five times; and 1 + 2 launches of 1 s, five times.
        let expected = 5.0 * (0.1 * (23.0 + 7.0 + 21.0 + 6.0) + 3.0);
        assert!((pilot("t", 0.1).planned_s - expected).abs() < 1e-9);
        let closed = plan().scenarios.remove(0);
        assert_eq!(case_s(&closed, &case("u4", 4, 20, 9.0), 2, 0.1), 9.2);
        // In turns: 20 + 2 warm-up, and one untimed for every two.
        let turns = PlannedScenario {
            load: LoadShape::Serial,
            turns: true,
            ..closed
        };
        let took_s = case_s(&turns, &case("u1", 1, 20, 0.0), 2, 0.1);
        assert!((took_s - 3.2).abs() < 1e-9, "{took_s}");
    }

    #[test]
    fn an_open_loop_costs_its_capacity_stage_and_its_rate() {
        let mut plan = plan();
        let mut half = case("r50", 4, 20, 0.0);
        half.load_percent = Some(50);
        plan.scenarios = vec![PlannedScenario {
            load: LoadShape::Poisson,
            cases: vec![half.clone()],
            ..plan.scenarios[0].clone()
        }];
        let took_s = case_s(&plan.scenarios[0], &half, 2, 0.1);
        assert_eq!(took_s, 10.0 * 0.1 + 2.5 * 0.1);
        let mut pilot = pilot("t", 0.1);
        let expected = 5.0 * (1.25 + 1.0) + 1.0 + capacity::estimate_s(0.1);
        assert!((planned_s(&plan, &pilot).unwrap() - expected).abs() < 1e-9);
        // Who doesn't run it pays nothing.
        plan.scenarios[0].targets = vec!["other".into()];
        pilot.target = "t".into();
        assert_eq!(planned_s(&plan, &pilot), Some(0.0));
    }

    #[test]
    fn what_the_quick_leave_goes_to_the_slow() {
        assert_eq!(fair_share(vec![1.0, 2.0, 3.0], 6.0), None);
        assert_eq!(fair_share(vec![10.0, 1.0, 10.0], 11.0), Some(5.0));
        assert_eq!(fair_share(vec![4.0, 4.0], 4.0), Some(2.0));
    }

    #[test]
    fn every_target_keeps_cells_in_the_same_order_and_the_baseline_all() {
        let plan = plan();
        let pilots = [pilot("base", 1.0), pilot("slow", 1.0), pilot("quick", 0.01)];
        let gone = |slow_s: f64| -> Vec<String> {
            let budget = pilots[0].planned_s + pilots[2].planned_s + slow_s;
            let (share_s, over) = share_out(&plan, &pilots, budget, "base");
            assert!((share_s.unwrap() - slow_s).abs() < 1e-6);
            assert!(over.iter().all(|cell| cell.target == "slow"));
            over.into_iter().map(|cell| cell.case).collect()
        };
        // u1 takes 115 s, b1 105 s, u4 35 s, b4 30 s, in this order; and a launch 5 s.
        assert_eq!(gone(290.0), ["b4"]);
        assert_eq!(gone(240.0), ["u4", "b4"], "a case of each comes first");
        assert_eq!(gone(160.0), ["b1", "b4"], "what is too long is passed over");
    }

    #[test]
    fn what_whole_cells_leave_of_the_shares_raises_all_of_them() {
        let plan = plan();
        let pilots = ["base", "slow", "slower"].map(|name| match name {
            "slower" => pilot(name, 1.2),
            name => pilot(name, 1.0),
        });
        // Fair shares of 250 s hold u1 and b1 of `slow` (230 s) and u1, u4 and b4 of `slower`
        // (226 s). What they leave is enough for u4 of `slow` (265 s), not for u1 and b1 of
        // `slower` (274 s).
        let time_s = 2.0 * 250.0;
        let (share_s, over) = share_out(&plan, &pilots, pilots[0].planned_s + time_s, "base");
        let share_s = share_s.unwrap();
        assert!((265.0..274.0).contains(&share_s), "{share_s}");
        let kept = pilots[1..].iter().map(|pilot| kept_s(&plan, pilot, &over));
        assert!(kept.sum::<f64>() <= time_s);
        let gone = over
            .iter()
            .map(|cell| (cell.target.as_str(), cell.case.as_str()));
        let gone: Vec<_> = gone.collect();
        assert_eq!(gone, [("slow", "b4"), ("slower", "b1")]);
    }

    #[test]
    fn nothing_is_over_where_all_fits_and_all_where_nothing_does() {
        let plan = plan();
        let pilots = [pilot("base", 1.0), pilot("slow", 1.0)];
        assert_eq!(share_out(&plan, &pilots, 1e6, "base"), (None, vec![]));
        let (_, over) = share_out(&plan, &pilots, 1.0, "base");
        assert_eq!(over.len(), 4);
    }

    #[test]
    fn a_twin_gives_up_what_its_original_does_and_that_of_the_baseline_is_not_exempt() {
        let plan = plan();
        let mut pilots = vec![pilot("base", 1.0), pilot("slow", 1.0)];
        pilots.extend(["slow@twin", "base@twin"].map(|name| pilot(name, 1.0)));
        let budget = pilots[0].planned_s + 3.0 * 240.0;
        let (_, over) = share_out(&plan, &pilots, budget, "base");
        let gone = |target: &str| -> Vec<&str> {
            let of = over.iter().filter(|cell| cell.target == target);
            of.map(|cell| cell.case.as_str()).collect()
        };
        assert_eq!(gone("slow"), ["u4", "b4"]);
        assert_eq!(gone("slow@twin"), gone("slow"));
        assert_eq!(gone("base@twin"), gone("slow"));
        assert!(gone("base").is_empty());
        // u1 and b1, and a launch of 1 s for each, five times.
        assert_eq!(kept_s(&plan, &pilots[2], &over), 115.0 + 105.0 + 10.0);
    }

    #[test]
    fn a_pilot_that_failed_gives_up_nothing() {
        let mut failed = pilot("slow", 1.0);
        failed.rounds.clear();
        failed.planned_s = 0.0;
        assert_eq!(share_out(&plan(), &[failed], 1.0, "base"), (None, vec![]));
    }
}
