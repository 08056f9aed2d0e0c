//! Tests of A/A pairs in made-up runs whose twins differ by a known amount.

use crate::common::{CASE, Engine, Made, SCENARIO, check, log, made, metric};
use schema::key::{CaseKey, twin_name};
use schema::record::Status;
use stats::analysis::{MetricId, Role, Verdict};
use stats::noise::inflation;
use stats::ratio::paired_ratio;

fn still(target: &'static str, prefill_ns: u64) -> Engine {
    Engine {
        prefill_ns,
        jitter: 0.0,
        ..Engine::plain(target)
    }
}

/// Let a target run twice: the second launches take `prefill_ns`, by block.
fn twin(made: &mut Made, target: &'static str, prefill_ns: &[u64]) {
    let logs = (0..).zip(prefill_ns).map(|(invocation, &prefill_ns)| {
        let engine = still(target, prefill_ns);
        log(&engine, invocation, 22, 1)
    });
    made.twice(target, logs);
}

/// Make a run of the baseline and a target that is 6 % faster; their launches vary a little.
fn close() -> Made {
    let shaky = |target, prefill_ns| Engine {
        jitter: 0.01,
        ..still(target, prefill_ns)
    };
    let engines = [
        shaky("base.cpu.f32", 3_000_000),
        shaky("near.cpu.f32", 2_820_000),
    ];
    made(&engines, 5, 22)
}

/// Times to the first token of second launches that hardly differ from the first.
const QUIET: [u64; 5] = [3_003_000, 2_997_000, 3_003_000, 2_997_000, 3_000_000];

fn said(made: &Made) -> (Verdict, Option<f64>, Option<u32>) {
    let analysis = made.analyse();
    let comparison = &analysis.comparisons[0];
    assert_eq!(comparison.role, Role::Baseline);
    let worse = analysis.cells.iter().find(|c| c.target == "base.cpu.f32");
    let rank = worse.unwrap().rank;
    (comparison.verdict, comparison.inflation, rank)
}

#[test]
fn without_twins_errors_are_what_launches_show() {
    let made = close();
    assert_eq!(said(&made), (Verdict::Better, None, Some(2)));
    assert!(made.analyse().noise.is_empty());
}

#[test]
fn a_target_that_differs_from_itself_in_all_blocks_alike_enlarges_all_errors() {
    let mut made = close();
    let off = [3_600_000, 3_660_000, 3_540_000, 3_630_000, 3_600_000];
    twin(&mut made, "base.cpu.f32", &off);
    let (verdict, enlarged, rank) = said(&made);
    assert_eq!((verdict, rank), (Verdict::Undecided, Some(1)));
    let analysis = made.analyse();
    let noise = analysis.noise(MetricId::TtftNs).unwrap();
    let [pair] = &noise.pairs[..] else {
        panic!("{noise:?}")
    };
    let base = analysis.cells.iter().find(|c| c.target == pair.target);
    let first = &metric(base.unwrap(), MetricId::TtftNs).by_invocation;
    // The 30 µs before the engine starts count too.
    let second = off.map(|ns| ns as f64 + 30_000.0);
    let ratio = paired_ratio(first, &second).unwrap();
    assert!((pair.ratio / ratio.ratio - 1.0).abs() < 1e-12);
    let want = inflation(&[ratio]).unwrap();
    assert!((enlarged.unwrap() / want - 1.0).abs() < 1e-9);
    assert!(want > 10.0);
    assert!(!pair.is_different, "it is what all are measured by");
}

#[test]
fn pairs_that_agree_leave_errors_as_they_are() {
    let mut made = close();
    twin(&mut made, "base.cpu.f32", &QUIET);
    let (verdict, enlarged, rank) = said(&made);
    assert_eq!((verdict, rank), (Verdict::Better, Some(2)));
    assert!((1.0..3.0).contains(&enlarged.unwrap()), "{enlarged:?}");
}

#[test]
fn the_pairs_of_all_targets_speak_together_and_one_may_be_called_different() {
    let mut made = close();
    twin(&mut made, "base.cpu.f32", &QUIET);
    let analysis = made.analyse();
    let alone = analysis.inflation(MetricId::TtftNs);
    twin(&mut made, "near.cpu.f32", &[3_600_000; 5]);
    let analysis = made.analyse();
    let noise = analysis.noise(MetricId::TtftNs).unwrap();
    let different: Vec<_> = noise
        .pairs
        .iter()
        .map(|p| (&*p.target, p.is_different))
        .collect();
    assert_eq!(different.len(), 2);
    assert!(noise.inflation > alone, "half of them differ");
    assert_eq!(noise.of_case(&at()).count(), 2);
    let step = analysis.noise(MetricId::ItlNs).unwrap();
    assert!(step.pairs.iter().all(|pair| !pair.is_different));
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
    CaseKey::new(SCENARIO, CASE)
}

#[test]
fn a_pair_counts_only_where_both_were_measured_and_found_right() {
    let pair = || {
        let mut made = close();
        twin(&mut made, "base.cpu.f32", &[3_100_000; 5]);
        made
    };
    assert!(!pair().analyse().noise.is_empty());
    let mut incomplete = pair();
    incomplete.run.twins.pop();
    let mut wrong = pair();
    wrong.judge(check(&twin_name("base.cpu.f32"), 1));
    let mut refused = pair();
    let verify = refused.run.verify.get_mut("base.cpu.f32").unwrap();
    verify.status = Status::WrongOutput;
    let mut no_time = pair();
    let over = fixtures::over(&twin_name("base.cpu.f32"), SCENARIO, CASE, "slow");
    no_time.run.budget.as_mut().unwrap().over.push(over);
    for made in [incomplete, wrong, refused, no_time] {
        assert!(made.analyse().noise.is_empty());
    }
}
