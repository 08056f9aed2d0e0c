//! The noise floor of made-up runs whose twins' distance is known.

use crate::common::{CASE, Engine, Made, SCENARIO, check, log, made, plain};
use schema::budget::{Budget, OverBudget};
use schema::key::{CaseKey, Twin, TwinRole, twin_name};
use schema::record::Status;
use stats::analysis::{MetricId, Role, Verdict};
use stats::noise::bound;
use stats::ratio::paired_ratio;

fn still(target: &'static str, prefill_ns: u64) -> Engine {
    Engine {
        target,
        prefill_ns,
        jitter: 0.0,
        ..plain()
    }
}

/// Let a target run twice: the second time it takes `prefill_ns`, by block.
fn twin(made: &mut Made, target: &'static str, prefill_ns: &[u64]) {
    for (invocation, &prefill_ns) in prefill_ns.iter().enumerate() {
        let engine = still(target, prefill_ns);
        let mut log = log(&engine, invocation as u32, 22, 1);
        log.launch.target = twin_name(target);
        made.run.twins.push(log);
    }
    made.run
        .budget
        .get_or_insert_with(Budget::default)
        .twins
        .push(Twin {
            target: target.into(),
            role: TwinRole::Fastest,
            cost_s: 1.0,
        });
}

/// The baseline, and a target 3 % faster in every block alike.
fn close() -> Made {
    made(
        &[
            still("base.cpu.f32", 3_000_000),
            still("near.cpu.f32", 2_910_000),
        ],
        5,
        22,
    )
}

fn verdict(made: &Made) -> (Verdict, Option<f64>, Option<u32>) {
    let analysis = made.analyse();
    let comparison = &analysis.comparisons[0];
    assert_eq!(comparison.role, Role::Baseline);
    assert_eq!(comparison.p_holm, Some(0.0), "significant in itself");
    let worse = analysis.cells.iter().find(|c| c.target == "base.cpu.f32");
    (
        comparison.verdict,
        comparison.noise_floor,
        worse.unwrap().rank,
    )
}

#[test]
fn without_twins_there_is_no_floor_and_the_test_alone_decides() {
    let made = close();
    assert_eq!(verdict(&made), (Verdict::Better, None, Some(2)));
    assert!(made.analyse().floors.is_empty());
}

#[test]
fn a_difference_under_the_floor_is_a_tie_however_significant() {
    let noisy = [3_150_000, 2_850_000, 3_150_000, 2_850_000, 3_000_000];
    let mut made = close();
    twin(&mut made, "base.cpu.f32", &noisy);
    let (said, floor, rank) = verdict(&made);
    assert_eq!((said, rank), (Verdict::Tie, Some(1)));
    // The engine's 30 µs before it starts count: 3.03 ms against each block's.
    let first = [3_030_000.0; 5];
    let second = noisy.map(|ns| ns as f64 + 30_000.0);
    let want = bound(&paired_ratio(&first, &second).unwrap()).unwrap();
    assert!((floor.unwrap() - want).abs() < 1e-12);
    assert!(want > 1.03);
}

#[test]
fn a_difference_over_the_floor_stands() {
    let mut made = close();
    let quiet = [3_003_000, 2_997_000, 3_003_000, 2_997_000, 3_000_000];
    twin(&mut made, "base.cpu.f32", &quiet);
    let (said, floor, rank) = verdict(&made);
    assert_eq!((said, rank), (Verdict::Better, Some(2)));
    assert!(floor.unwrap() < 1.003);
}

#[test]
fn the_noisier_of_two_pairs_sets_the_floor_of_every_metric_it_has() {
    let mut made = close();
    let noisy = [3_150_000, 2_850_000, 3_150_000, 2_850_000, 3_000_000];
    twin(&mut made, "base.cpu.f32", &noisy);
    twin(&mut made, "near.cpu.f32", &[2_910_000; 5]);
    let analysis = made.analyse();
    let floor = analysis.floor(&at(), MetricId::TtftNs).unwrap();
    let pairs: Vec<_> = floor.pairs.iter().map(|p| (&*p.target, p.ratio)).collect();
    assert_eq!(pairs[1], ("near.cpu.f32", 1.0));
    assert!(floor.ratio > 1.05, "{}", floor.ratio);
    let step = analysis.floor(&at(), MetricId::ItlNs).unwrap();
    assert_eq!(step.ratio, 1.0, "the steps took the same time");
}

#[test]
fn a_twin_is_no_target_and_its_samples_are_nobodys() {
    let mut made = close();
    let before = made.analyse();
    twin(&mut made, "base.cpu.f32", &[9_000_000; 5]);
    let after = made.analyse();
    assert_eq!(before.cells.len(), after.cells.len());
    for (a, b) in before.cells.iter().zip(&after.cells) {
        assert_eq!((&a.target, &a.metrics), (&b.target, &b.metrics));
    }
}

fn at() -> CaseKey {
    CaseKey {
        scenario: SCENARIO.into(),
        case: CASE.into(),
    }
}

#[test]
fn a_pair_counts_only_where_both_were_measured_and_found_right() {
    let pair = || {
        let mut made = close();
        twin(&mut made, "base.cpu.f32", &[3_100_000; 5]);
        made
    };
    assert!(!pair().analyse().floors.is_empty());
    let mut incomplete = pair();
    incomplete.run.twins.pop();
    let mut wrong = pair();
    wrong.judge(check(&twin_name("base.cpu.f32"), 1));
    let mut refused = pair();
    let verify = refused.run.verify.get_mut("base.cpu.f32").unwrap();
    verify.status = Status::WrongOutput;
    let mut no_time = pair();
    no_time.run.budget.as_mut().unwrap().over.push(OverBudget {
        target: twin_name("base.cpu.f32"),
        scenario: SCENARIO.into(),
        case: CASE.into(),
        estimate_s: 1.0,
        reason: "slow".into(),
    });
    for made in [incomplete, wrong, refused, no_time] {
        assert!(made.analyse().floors.is_empty());
    }
}
