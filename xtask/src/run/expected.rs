//! What each launch should take, by the pilot's estimates: for who looks, and for what is
//! said before measuring starts. Pure.

use super::pending::Pending;
use super::scenario;
use crate::budget;
use crate::watch::event::Expected;
use schema::budget::{Budget, Pilot};
use schema::plan::{Launch, Plan};
use schema::twin::original;

/// What the launches of an item that are left should take; `None` without a pilot of its
/// target, or where none is left.
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
        .map(|item| of_launch(plan, budget?, &item.launch))
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

/// What all of these should take (s); `None` where one of them has no estimate.
pub fn all_s(plan: &Plan, budget: Option<&Budget>, pending: &[Pending]) -> Option<f64> {
    let each = pending
        .iter()
        .map(|item| Some(of_launch(plan, budget?, &item.launch)?.launch_s));
    each.sum()
}

fn of_launch(plan: &Plan, budget: &Budget, launch: &Launch) -> Option<Expected> {
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
    Some(Expected {
        launch_s: pilot.load_s + parts_s.iter().map(|(_, part_s)| part_s).sum::<f64>(),
        load_s: pilot.load_s,
        parts_s,
    })
}

#[cfg(test)]
mod tests {
    use super::super::pending::tests::plan;
    use super::*;
    use schema::budget::Round;

    fn pilot(target: &str) -> Pilot {
        let cases = plan().scenarios.remove(0).cases;
        let round = |case: schema::plan::Case| Round {
            prompt_tokens: case.prompt_tokens,
            new_tokens: case.new_tokens,
            concurrency: case.concurrency,
            round_s: f64::from(case.prompt_tokens) / 100.0,
        };
        Pilot {
            target: target.into(),
            load_s: 2.0,
            rounds: cases.into_iter().map(round).collect(),
            planned_s: 0.0,
            failure: String::new(),
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
        // 20 requests, and those before that warm up.
        let requests = f64::from(20 + plan.warmup_requests);
        let case_s = |i: usize| requests * f64::from(cases[i].prompt_tokens) / 100.0;
        let of = of_launch(&plan, &budget, first).unwrap();
        assert!((of.launch_s - (2.0 + case_s(0) + case_s(1))).abs() < 1e-9);
        assert!((of.until(&[cases[0].id.clone()]) - (2.0 + case_s(0))).abs() < 1e-9);
        let twin = Launch {
            target: schema::twin::twin_name(&first.target),
            ..first.clone()
        };
        assert_eq!(of_launch(&plan, &budget, &twin), Some(of.clone()));

        let mut left = pending(&plan);
        let all = all_s(&plan, Some(&budget), &left).unwrap();
        assert!((all - 2.0 * of.launch_s).abs() < 1e-9);
        // One that has a case left only is shorter: the item's launches take their mean.
        left[1].launch.cases.truncate(1);
        let item = item(&plan, Some(&budget), &left, &first.scenario, &first.target).unwrap();
        let mean_s = 2.0 + case_s(0) + case_s(1) / 2.0;
        assert!((item.launch_s - mean_s).abs() < 1e-9);
        assert_eq!(item.parts_s, of.parts_s);
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
