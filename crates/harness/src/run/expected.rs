//! Estimates from the pilot how long each launch should take: for the display, and for the estimate
//! that is printed before measuring starts. Pure.

use super::pending::Pending;
use super::scenario;
use crate::budget;
use schema::budget::{Budget, Pilot};
use schema::key::original;
use schema::plan::{Launch, Plan};
use watch::event::Expected;

/// The expected times of an item's remaining launches; `None` without a pilot of its target, or
/// where no launch is left.
pub(super) fn item(
    plan: &Plan,
    budget: Option<&Budget>,
    pending: &[Pending],
    scenario: &str,
    target: &str,
) -> Option<Expected> {
    let of_item = |item: &&Pending| {
        (item.launch.scenario.as_str(), item.launch.target.as_str()) == (scenario, target)
    };
    let launches = pending.iter().filter(of_item);
    let each: Vec<Expected> = launches
        .map(|item| of_launch(plan, budget?, item, pending))
        .collect::<Option<_>>()?;
    let all: Vec<f64> = each.iter().map(|launch| launch.launch_s).collect();
    let mut parts_s: Vec<(String, f64)> = Vec::new();
    for part in each.iter().flat_map(|launch| &launch.parts_s) {
        if !parts_s.contains(part) {
            parts_s.push(part.clone());
        }
    }
    Some(Expected {
        launch_s: stats::describe::mean(&all)?,
        load_s: each.first()?.load_s,
        parts_s,
    })
}

/// Time that all of `pending` should take (s); `None` where one of them has no estimate.
pub fn all_s(plan: &Plan, budget: Option<&Budget>, pending: &[Pending]) -> Option<f64> {
    let each = pending
        .iter()
        .map(|item| Some(of_launch(plan, budget?, item, pending)?.launch_s));
    each.sum()
}

/// Whether a launch starts a process of its own. It doesn't where an earlier launch of the same
/// block and target, also still to be made, leaves its process for it.
fn loads(plan: &Plan, item: &Launch, pending: &[Pending]) -> bool {
    let shares = |launch: &Launch| plan.shares_process(scenario(plan, &launch.scenario));
    let of_block = |launch: &&Launch| {
        (launch.invocation, &launch.target) == (item.invocation, &item.target) && shares(launch)
    };
    let first = pending.iter().map(|p| &p.launch).find(of_block);
    !shares(item) || first.is_none_or(|first| first.scenario == item.scenario)
}

fn of_launch(
    plan: &Plan,
    budget: &Budget,
    item: &Pending,
    pending: &[Pending],
) -> Option<Expected> {
    let launch = &item.launch;
    let id = original(&launch.target);
    let is_its = |pilot: &&Pilot| pilot.target == id && pilot.failure.is_empty();
    let pilot = budget.pilots.iter().find(is_its)?;
    let scenario = scenario(plan, &launch.scenario);
    let cases = scenario.cases.iter();
    let parts_s: Vec<(String, f64)> = cases
        .filter(|case| launch.cases.contains(&case.id))
        .map(|case| {
            let case_s = budget::launch_s(plan, pilot, scenario, case)?;
            Some((case.id.clone(), case_s))
        })
        .collect::<Option<_>>()?;
    let load_s = match loads(plan, launch, pending) {
        true => pilot.load_s,
        false => 0.0,
    };
    Some(Expected {
        launch_s: load_s + parts_s.iter().map(|(_, part_s)| part_s).sum::<f64>(),
        load_s,
        parts_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::{plan, target};
    use schema::budget::Round;

    fn pilot(target: &str) -> Pilot {
        let shapes = budget::shapes(&plan()).into_iter();
        let timed = |shape: Round| Round {
            round_s: f64::from(shape.prompt_tokens) / 100.0,
            ..shape
        };
        Pilot {
            target: target.into(),
            load_s: 2.0,
            rounds: shapes.map(timed).collect(),
            ..Pilot::default()
        }
    }

    fn pending(plan: &Plan) -> Vec<Pending> {
        let launches = plan.launches.iter().cloned();
        launches
            .map(|launch| Pending { launch, attempt: 0 })
            .collect()
    }

    #[test]
    fn a_launch_takes_its_loading_and_its_cases_and_so_does_its_twin() {
        let plan = plan();
        let (first, cases) = (&plan.launches[0], &plan.scenarios[0].cases);
        let budget = Budget {
            pilots: vec![pilot(&first.target)],
            ..Budget::default()
        };
        // 20 requests, and one before that for warm-up.
        let case_s = |i: usize| 21.0 * f64::from(cases[i].prompt_tokens) / 100.0;
        let alone = |launch: &Launch| {
            let item = Pending {
                launch: launch.clone(),
                attempt: 0,
            };
            of_launch(&plan, &budget, &item, &[])
        };
        let of = alone(first).unwrap();
        assert!((of.launch_s - (2.0 + case_s(0) + case_s(1))).abs() < 1e-9);
        assert!((of.until(&[cases[0].id.clone()]) - (2.0 + case_s(0))).abs() < 1e-9);
        let twin = Launch {
            target: schema::key::twin_name(&first.target),
            ..first.clone()
        };
        assert_eq!(alone(&twin), Some(of.clone()));

        let mut left = pending(&plan);
        let all = all_s(&plan, Some(&budget), &left).unwrap();
        assert!((all - 2.0 * of.launch_s).abs() < 1e-9);
        // A launch with only one case left is shorter: the item's time is the mean of its launches.
        left[1].launch.cases.truncate(1);
        let item = item(&plan, Some(&budget), &left, &first.scenario, &first.target).unwrap();
        let mean_s = 2.0 + case_s(0) + case_s(1) / 2.0;
        assert!((item.launch_s - mean_s).abs() < 1e-9);
        assert_eq!(item.parts_s, of.parts_s);
    }

    #[test]
    fn a_process_that_stays_is_loaded_once_a_block() {
        let mut plan = plan();
        plan.one_process = true;
        plan.targets = vec![target("t")];
        let mut second = plan.scenarios[0].clone();
        second.id = "another".into();
        plan.scenarios.push(second);
        let first = plan.launches[0].clone();
        let budget = Budget {
            pilots: vec![pilot(&first.target)],
            ..Budget::default()
        };
        let item = |scenario: &str, invocation: u32| Pending {
            launch: Launch {
                scenario: scenario.into(),
                invocation,
                ..first.clone()
            },
            attempt: 0,
        };
        let left = [
            item(&first.scenario, 0),
            item("another", 0),
            item("another", 1),
        ];
        let load_s = |item: &Pending| of_launch(&plan, &budget, item, &left).unwrap().load_s;
        assert_eq!(left.each_ref().map(load_s), [2.0, 0.0, 2.0]);
    }

    #[test]
    fn without_a_pilot_nothing_is_expected() {
        let plan = plan();
        let first = &plan.launches[0];
        let left = pending(&plan);
        let mut failed = pilot(&first.target);
        failed.failure = "crashed".into();
        for budget in [
            None,
            Some(Budget::default()),
            Some(Budget {
                pilots: vec![failed],
                ..Budget::default()
            }),
        ] {
            assert_eq!(all_s(&plan, budget.as_ref(), &left), None);
            let (scenario, target) = (&first.scenario, &first.target);
            assert_eq!(item(&plan, budget.as_ref(), &left, scenario, target), None);
        }
    }
}
