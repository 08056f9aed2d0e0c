//! Tests of costs against values worked out by hand.

use super::*;
use crate::analysis::Shape;
use schema::key::{CaseKey, CellKey};
use schema::plan::Case;

fn range(value: f64, ci95: Option<(f64, f64)>) -> Range {
    Range { value, ci95 }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn a_token_costs_the_hour_over_its_tokens() {
    // $3.60 an hour and 100 tok/s are $3.60 for 360 000 tokens: $10 a million.
    let cost = usd_per_m_tokens(range(100.0, Some((80.0, 125.0))), 3.6, 1.0).unwrap();
    assert!(close(cost.value, 10.0));
    let (low, high) = cost.ci95.unwrap();
    assert!(
        close(low, 8.0) && close(high, 12.5),
        "the bounds change places"
    );
    // Busy half of the time, each token costs twice as much.
    let half = usd_per_m_tokens(range(100.0, None), 3.6, 0.5).unwrap();
    assert!(close(half.value, 20.0) && half.ci95.is_none());
}

#[test]
fn where_the_interval_reaches_zero_the_cost_has_no_upper_bound() {
    let cost = usd_per_m_tokens(range(10.0, Some((-1.0, 21.0))), 1.0, 1.0).unwrap();
    assert_eq!(cost.ci95, None);
    for nothing in [0.0, -1.0, f64::NAN] {
        assert_eq!(usd_per_m_tokens(range(nothing, None), 1.0, 1.0), None);
    }
    assert_eq!(usd_per_m_tokens(range(1e-308, None), 1e300, 1.0), None);
}

#[test]
fn tokens_without_a_price_are_counted_by_the_core_hour_and_the_joule() {
    // 10 tok/s on two cores are 36 000 tokens an hour, half of them of each core.
    let tokens = tokens_per_part_h(range(10.0, Some((8.0, 12.0))), 2).unwrap();
    assert!(close(tokens.value, 18_000.0));
    let (low, high) = tokens.ci95.unwrap();
    assert!(close(low, 14_400.0) && close(high, 21_600.0));
    assert_eq!(tokens_per_part_h(range(10.0, None), 0), None);
    let tokens = tokens_per_j(range(4.0, Some((2.0, 5.0)))).unwrap();
    assert!(close(tokens.value, 0.25));
    assert_eq!(tokens.ci95, Some((0.2, 0.5)));
    assert_eq!(tokens_per_j(range(0.0, None)), None);
}

#[test]
fn requests_energy_and_the_price_of_an_api() {
    let requests = requests_per_h(range(2.0, Some((1.5, 2.5))), 0.25).unwrap();
    assert!(close(requests.value, 1800.0));
    assert_eq!(requests.ci95, Some((1350.0, 2250.0)));
    // 3.6 J a token is a kilowatt-hour a million tokens.
    let energy = energy_usd_per_m_tokens(range(3.6, None), 0.08).unwrap();
    assert!(close(energy.value, 0.08));
    // 50 tokens in at $0.2 and 16 out at $1 a million: 10 + 16 millionths.
    assert!(close(api_usd_per_request(50, 16, 0.2, 1.0), 26e-6));
}

#[test]
fn break_even_is_where_the_machine_costs_what_the_api_asks() {
    // A request for $0.001 and 1 req/s: $3.60 an hour of API, so a machine at
    // $0.90 is worth it from a quarter of the time on.
    let share = break_even_utilisation(range(1.0, Some((0.5, 2.0))), 0.9, 0.001).unwrap();
    assert!(close(share.value, 0.25));
    let (low, high) = share.ci95.unwrap();
    assert!(close(low, 0.125) && close(high, 0.5));
    let never = break_even_utilisation(range(1.0, None), 7.2, 0.001).unwrap();
    assert!(close(never.value, 2.0));
    // At that share, by the other formula, both cost the same.
    let per_h = requests_per_h(range(1.0, None), 0.25).unwrap().value;
    assert!(close(per_h * 0.001, 0.9));
}

#[test]
fn a_saving_is_of_the_cost_and_does_not_depend_on_the_price() {
    // Always exactly four times the throughput: three quarters are saved.
    let baseline = [10.0, 11.0, 9.0];
    let ours = baseline.map(|v| v * 4.0);
    let saved = saving(&ours, &baseline, 1.0).unwrap();
    assert!(close(saved.value, 0.75));
    // Half the throughput costs twice as much: −100 %.
    let dearer = saving(&baseline.map(|v| v / 2.0), &baseline, 1.0).unwrap();
    assert!(close(dearer.value, -1.0));
    // The interval's ends are those of the ratio.
    let ours = [20.0, 44.0, 27.0];
    let ratio = paired_ratio_at(&ours, &baseline, CONFIDENCE, 1.0).unwrap();
    let (low, high) = saving(&ours, &baseline, 1.0).unwrap().ci95.unwrap();
    let (r_low, r_high) = ratio.ci95.unwrap();
    assert!(close(low, 1.0 - 1.0 / r_low) && close(high, 1.0 - 1.0 / r_high));
    // Noise that A/A pairs found widens it as it widens the ratio's.
    let wide = saving(&ours, &baseline, 1.5).unwrap();
    let ratio = paired_ratio_at(&ours, &baseline, CONFIDENCE, 1.5).unwrap();
    let (r_low, r_high) = ratio.ci95.unwrap();
    assert_eq!(wide.value, 1.0 - 1.0 / ratio.ratio);
    let (low, high) = wide.ci95.unwrap();
    assert!(close(low, 1.0 - 1.0 / r_low) && close(high, 1.0 - 1.0 / r_high));
    assert_eq!(saving(&ours, &baseline, f64::INFINITY).unwrap().ci95, None);
    assert_eq!(saving(&[1.0, 2.0], &baseline, 1.0), None);
}

fn metric(id: MetricId, value: f64, p90: f64) -> Metric {
    Metric {
        ci95: Some((value * 0.9, value * 1.1)),
        shape: Some(Shape {
            p90: Some(p90),
            ..Shape::default()
        }),
        ..Metric::of(id, value, vec![value; 5])
    }
}

/// Make a cell with a throughput of `tok` tokens/s, gaps of `itl_ms` and a p90 of the time to first
/// token of `ttft_ms`; an answer of 16 tokens takes the time that follows from both.
fn cell(target: &str, scenario: &str, case: &str, tok: f64, itl_ms: f64, ttft_ms: f64) -> Cell {
    let e2e_ns = (ttft_ms + 15.0 * itl_ms) * 1e6;
    Cell {
        metrics: vec![
            metric(MetricId::TtftNs, ttft_ms * 1e6, ttft_ms * 1e6),
            metric(MetricId::ItlNs, itl_ms * 1e6, itl_ms * 1e6),
            metric(MetricId::E2eNs, e2e_ns, e2e_ns),
            metric(MetricId::OutputTokPerS, tok, tok),
            metric(MetricId::RequestsPerS, tok / 16.0, tok),
        ],
        ..Cell::new(CellKey::new(target, scenario, case), 4)
    }
}

fn case(id: &str, prompt_tokens: u32) -> Case {
    Case {
        id: id.into(),
        prompt_tokens,
        new_tokens: 16,
        ..Case::default()
    }
}

fn plan(scenarios: Vec<(&str, LoadShape, Vec<Case>)>) -> Plan {
    Plan {
        scenarios: scenarios
            .into_iter()
            .map(|(id, load, cases)| PlannedScenario {
                id: id.into(),
                load,
                cases,
                ..PlannedScenario::default()
            })
            .collect(),
        ..Plan::default()
    }
}

#[test]
fn the_best_load_is_the_one_that_keeps_the_limits() {
    let served = LoadShape::ClosedLoop;
    let plan = plan(vec![
        ("serial", LoadShape::Serial, vec![case("p50", 50)]),
        ("loop", served, vec![case("c4", 50), case("c8", 50)]),
        ("long", served, vec![case("p900", 900)]),
    ]);
    let analysis = Analysis {
        cells: vec![
            cell("a", "serial", "p50", 999.0, 1.0, 1.0),
            cell("a", "loop", "c4", 100.0, 10.0, 100.0),
            cell("a", "loop", "c8", 160.0, 20.0, 600.0),
            cell("b", "loop", "c4", 90.0, 12.0, 100.0),
            cell("a", "long", "p900", 500.0, 1.0, 1.0),
        ],
        ..Analysis::default()
    };
    let slo = Slo {
        ttft_p90_ms: 450.0,
        itl_p90_ms: 40.0,
    };
    let work = work(&plan, &analysis, Some(&slo));
    assert_eq!((work.prompt_tokens, work.new_tokens), (50, 16));
    assert_eq!(work.points.len(), 3, "neither the serial nor the long cell");
    assert_eq!(work.best("a", false).unwrap().case, "c8");
    assert_eq!(work.best("a", true).unwrap().case, "c4");
    assert!(work.best("b", true).is_some() && work.best("c", true).is_none());
    // 100 ms to the first token and 15 gaps of 10 ms: 16 tokens in a quarter of a second.
    // The wait counts, so that is not the 100 tok/s of the gaps.
    let user = work.points[0].user_tok_per_s.unwrap();
    assert!(close(user.value, 64.0));
    assert_eq!(work.points[0].j_per_token, None);
    assert_eq!(
        super::work(&plan, &analysis, None).points[0].meets_slo,
        None
    );
}

#[test]
fn a_cell_that_several_scenarios_show_counts_once() {
    let served = LoadShape::ClosedLoop;
    let mut plan = plan(vec![
        ("serial", LoadShape::Serial, vec![case("p50", 50)]),
        ("users", served, vec![case("u1", 50), case("u4", 50)]),
        ("loop", served, vec![case("c1", 50), case("c4", 50)]),
    ]);
    let alone = Some(CaseKey::new("serial", "p50"));
    plan.scenarios[1].cases[0].measured_by = alone.clone();
    plan.scenarios[2].cases[0].measured_by = alone;
    plan.scenarios[1].cases[1].measured_by = Some(CaseKey::new("loop", "c4"));
    let analysis = Analysis {
        cells: vec![
            cell("a", "serial", "p50", 50.0, 10.0, 100.0),
            cell("a", "users", "u1", 50.0, 10.0, 100.0),
            cell("a", "users", "u4", 90.0, 10.0, 100.0),
            cell("a", "loop", "c1", 50.0, 10.0, 100.0),
            cell("a", "loop", "c4", 90.0, 10.0, 100.0),
        ],
        ..Analysis::default()
    };
    let work = super::work(&plan, &analysis, None);
    let cases: Vec<&str> = work.points.iter().map(|p| p.case.as_str()).collect();
    assert_eq!(
        cases,
        ["u1", "c4"],
        "a serial load is no cost's, a loop's is"
    );
}

#[test]
fn energies_of_processor_and_gpu_add_up() {
    let (a, b) = (range(1.0, Some((0.5, 1.5))), range(2.0, Some((1.0, 3.0))));
    assert_eq!(sum(Some(a), Some(b)), Some(range(3.0, Some((1.5, 4.5)))));
    assert_eq!(sum(Some(a), None), Some(a));
    assert_eq!(sum(None, None), None);
}

#[test]
fn prompts_of_mixed_lengths_are_no_load_that_a_price_is_of() {
    let mixed = Case {
        prompt_tokens_mean: Some(50),
        ..case("u1", 50)
    };
    let plan = plan(vec![("own", LoadShape::ClosedLoop, vec![mixed])]);
    let analysis = Analysis {
        cells: vec![cell("a", "own", "u1", 100.0, 10.0, 100.0)],
        ..Analysis::default()
    };
    assert_eq!(super::work(&plan, &analysis, None), Work::default());
}
