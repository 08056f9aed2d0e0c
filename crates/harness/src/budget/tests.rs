//! Tests of estimates and shares against values worked out by hand.

use super::*;

fn case(id: &str, concurrency: u32, requests: u32, duration_s: f64) -> Case {
    Case {
        id: id.into(),
        prompt_tokens: 50,
        new_tokens: 16,
        concurrency,
        requests,
        duration_s,
        ..Case::default()
    }
}

fn plan() -> Plan {
    let scenario = |id: &str, load, [one, four]: [&str; 2]| PlannedScenario {
        id: id.into(),
        load,
        cases: vec![case(one, 1, 20, 0.0), case(four, 4, 20, 0.0)],
        ..PlannedScenario::default()
    };
    Plan {
        invocations: 5,
        warmup_requests: 2,
        scenarios: vec![
            scenario("closed", LoadShape::ClosedLoop, ["u1", "u4"]),
            scenario("batch", LoadShape::Batch, ["b1", "b4"]),
        ],
        ..Plan::default()
    }
}

/// A pilot of a target that loads in a second and takes `round_s` for any round.
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
        ..Pilot::default()
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
fn a_shared_process_is_loaded_once_and_a_shared_case_costs_nothing() {
    let mut plan = plan();
    let mut second = plan.scenarios[0].clone();
    second.id = "again".into();
    plan.scenarios.push(second);
    let pilot = pilot("t", 0.1);
    let apart = planned_s(&plan, &pilot).unwrap();
    plan.one_process = true;
    let one = planned_s(&plan, &pilot).unwrap();
    assert!(
        (apart - one - 5.0).abs() < 1e-9,
        "a load of 1 s less a block"
    );
    for case in &mut plan.scenarios[2].cases {
        case.measured_by = Some(schema::key::CaseKey::new("closed", &case.id));
    }
    let shared = planned_s(&plan, &pilot).unwrap();
    assert!((shared - pilot.planned_s).abs() < 1e-9, "{shared}");
}

#[test]
fn an_estimate_counts_what_the_load_generator_issues_and_every_launch() {
    // u1: 20 + 2 warm-up; u4: 5 + 1 and 1 filler; b1: 20 + 1; b4: 5 + 1 rounds,
    // of 0.1 s, five times; and 1 + 2 launches of 1 s, five times.
    let expected = 5.0 * (0.1 * (22.0 + 7.0 + 21.0 + 6.0) + 3.0);
    assert!((pilot("t", 0.1).planned_s - expected).abs() < 1e-9);
    let closed = plan().scenarios.remove(0);
    assert_eq!(case_s(&closed, &case("u4", 4, 20, 9.0), 2, 0.1), 9.2);
    // In turns: 20 + 2 warm-up, and one more in each of 4 turns, the last of two requests.
    let turns = PlannedScenario {
        load: LoadShape::Serial,
        turns: true,
        ..closed
    };
    let took_s = case_s(&turns, &case("u1", 1, 20, 0.0), 2, 0.1);
    assert!((took_s - 2.6).abs() < 1e-9, "{took_s}");
    // Four users in turns: a round of warm-up, and windows of four and of five rounds, each with an
    // untimed round before and after it.
    let users = PlannedScenario {
        load: LoadShape::ClosedLoop,
        ..turns.clone()
    };
    let took_s = case_s(&users, &case("u4", 4, 36, 0.0), 2, 0.1);
    assert!((took_s - 0.1 * (1.0 + 9.0 + 4.0)).abs() < 1e-9, "{took_s}");
    // One request of half a second is enough warm-up.
    let took_s = case_s(&turns, &case("u1", 1, 20, 0.0), 2, 0.5);
    assert!((took_s - 0.5 * 25.0).abs() < 1e-9, "{took_s}");
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
    let expected = 5.0 * (1.25 + 1.0) + 1.0 + pace::capacity_s(0.1);
    assert!((planned_s(&plan, &pilot).unwrap() - expected).abs() < 1e-9);
    // A target that doesn't run the scenario takes no time for it.
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
    let pilots = [pilot("base", 1.0), pilot("slow", 0.4), pilot("quick", 0.01)];
    let gone = |slow_s: f64| -> Vec<String> {
        let budget = pilots[0].planned_s + pilots[2].planned_s + slow_s;
        let (share_s, over) = share_out(&plan, &pilots, budget, "base");
        assert!((share_s.unwrap() - slow_s).abs() < 1e-6);
        assert!(over.iter().all(|cell| cell.target == "slow"));
        over.into_iter().map(|cell| cell.case).collect()
    };
    // u1 takes 44 s, b1 42 s, u4 14 s, b4 12 s, in this order; and a launch 5 s.
    assert_eq!(gone(120.0), ["b4"]);
    assert_eq!(gone(104.0), ["u4", "b4"], "a case of each comes first");
    assert_eq!(gone(70.0), ["b1", "b4"], "what is too long is passed over");
}

#[test]
fn what_whole_cells_leave_of_the_shares_raises_all_of_them() {
    let plan = plan();
    let pilots = ["base", "slow", "slower"].map(|name| match name {
        "slower" => pilot(name, 0.48),
        name => pilot(name, 0.4),
    });
    // Fair shares of 103 s hold u1 and b1 of `slow` (96 s) and u1, u4 and b4 of `slower`
    // (94 s). What they leave is enough for u4 of `slow` (110 s), not for u1 and b1 of
    // `slower` (113 s).
    let time_s = 2.0 * 103.0;
    let (share_s, over) = share_out(&plan, &pilots, pilots[0].planned_s + time_s, "base");
    let share_s = share_s.unwrap();
    assert!((110.0..113.2).contains(&share_s), "{share_s}");
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
    let mut pilots = vec![pilot("base", 0.4), pilot("slow", 0.4)];
    pilots.extend(["slow@twin", "base@twin"].map(|name| pilot(name, 0.4)));
    let budget = pilots[0].planned_s + 3.0 * 104.0;
    let (_, over) = share_out(&plan, &pilots, budget, "base");
    let gone = |target: &str| -> Vec<&str> {
        let of = over.iter().filter(|cell| cell.target == target);
        of.map(|cell| cell.case.as_str()).collect()
    };
    assert_eq!(gone("slow"), ["u4", "b4"]);
    assert_eq!(gone("slow@twin"), gone("slow"));
    assert_eq!(gone("base@twin"), gone("slow"));
    assert!(gone("base").is_empty());
    // u1 and b1, and a launch of 1 s for each scenario, five times.
    let kept = kept_s(&plan, &pilots[2], &over);
    assert!((kept - (44.0 + 42.0 + 10.0)).abs() < 1e-9, "{kept}");
}

#[test]
fn a_pilot_that_failed_gives_up_nothing() {
    let mut failed = pilot("slow", 1.0);
    failed.rounds.clear();
    failed.planned_s = 0.0;
    assert_eq!(share_out(&plan(), &[failed], 1.0, "base"), (None, vec![]));
}

#[test]
fn cells_that_a_target_is_not_verified_for_cost_nothing() {
    let mut plan = plan();
    let all = pilot("t", 0.1).planned_s;
    let mut long = plan.scenarios[0].clone();
    long.id = "long".into();
    for case in &mut long.cases {
        case.prompt_tokens = 8192;
    }
    plan.scenarios.push(long);
    // The target was not asked for the long ones, which is no failure.
    let mut short = pilot("t", 0.1);
    assert_eq!(planned_s(&plan, &short), Some(all));
    short.failure = "crashed".into();
    assert_eq!(planned_s(&plan, &short), None);
}

#[test]
fn mixed_lengths_are_tried_apart_from_batches_of_their_mean() {
    let mut plan = plan();
    for case in &mut plan.scenarios[0].cases {
        (case.prompt_tokens, case.prompt_tokens_mean) = (900, Some(50));
    }
    let tried: Vec<(u32, u32, bool)> = shapes(&plan)
        .iter()
        .map(|round| (round.prompt_tokens, round.concurrency, round.mixed))
        .collect();
    let (one, four) = (
        [(50, 1, true), (50, 1, false)],
        [(50, 4, true), (50, 4, false)],
    );
    assert_eq!(tried, [one, four].concat());
    let mut pilot = pilot("t", 0.1);
    let case = |pilot: &Pilot| {
        let scenario = &plan.scenarios[0];
        launch_s(&plan, pilot, scenario, &scenario.cases[0])
    };
    assert_eq!(
        case(&pilot),
        None,
        "equal lengths say nothing of mixed ones"
    );
    let mixed: Vec<Round> = pilot
        .rounds
        .iter()
        .map(|r| Round { mixed: true, ..*r })
        .collect();
    pilot.rounds.extend(mixed);
    assert!(case(&pilot).is_some());
}
