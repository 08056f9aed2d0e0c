//! Tests of ratios, verdicts and ranks of made-up runs whose truth is known.

use crate::common::{self, Engine, made, plain};
use stats::analysis::{Analysis, Comparison, MetricId, Role, Verdict};

fn engine(target: &'static str, prefill_ns: u64) -> Engine {
    Engine {
        prefill_ns,
        ..Engine::plain(target)
    }
}

fn trio() -> [Engine; 4] {
    [
        plain(),
        engine("fast.cpu.f32", 1_500_000),
        engine("twin.cpu.f32", 1_500_000),
        engine("slow.cpu.f32", 6_000_000),
    ]
}

fn find<'a>(all: &'a [Comparison], target: &str, role: Role) -> &'a Comparison {
    all.iter()
        .find(|c| c.target == target && c.role == role)
        .unwrap()
}

#[test]
fn verdicts_and_ranks_follow_the_truth() {
    let analysis = made(&trio(), 5, 22).analyse();
    let ranks: Vec<_> = analysis
        .cells
        .iter()
        .map(|c| (c.target.as_str(), c.rank.unwrap()))
        .collect();
    assert_eq!(
        ranks,
        [
            ("base.cpu.f32", 3),
            ("fast.cpu.f32", 1),
            ("twin.cpu.f32", 1),
            ("slow.cpu.f32", 4)
        ]
    );
    let all = &analysis.comparisons;
    assert_eq!(all.len(), 6, "three others against each of two");
    let fast = find(all, "fast.cpu.f32", Role::Baseline);
    assert_eq!(
        (fast.metric, fast.verdict),
        (MetricId::TtftNs, Verdict::Better)
    );
    // The times are 3.03 ms and 1.53 ms.
    assert!((fast.ratio - 1.98).abs() < 0.04, "{}", fast.ratio);
    let (low, high) = fast.ci95.unwrap();
    assert!(low < fast.ratio && fast.ratio < high);
    assert_eq!(fast.cliffs_delta, Some(1.0));
    let slow = find(all, "slow.cpu.f32", Role::Baseline);
    assert_eq!(
        (slow.verdict, slow.cliffs_delta),
        (Verdict::Worse, Some(-1.0))
    );
    assert!((slow.ratio - 0.5).abs() < 0.02, "{}", slow.ratio);
    let leader = &find(all, "slow.cpu.f32", Role::Leader).against;
    let other = match leader.as_str() {
        "fast.cpu.f32" => "twin.cpu.f32",
        _ => "fast.cpu.f32",
    };
    assert!(find(all, other, Role::Leader).verdict.is_tie());
}

#[test]
fn a_higher_is_better_metric_keeps_the_sense_of_the_ratio() {
    let analysis = made(&trio(), 5, 22)
        .reports(&["output_tok_per_s"])
        .analyse();
    let fast = find(&analysis.comparisons, "fast.cpu.f32", Role::Baseline);
    assert!(fast.ratio > 1.0);
    assert_eq!(fast.verdict, Verdict::Better);
    assert_eq!(fast.cliffs_delta, None, "one value per invocation");
}

#[test]
fn holm_is_over_the_family_of_one_case_and_role() {
    let analysis = made(&trio(), 5, 22).analyse();
    let two = made(&trio()[..2], 5, 22).analyse();
    let of = |a: &Analysis| {
        let fast = find(&a.comparisons, "fast.cpu.f32", Role::Baseline);
        fast.p_holm.unwrap()
    };
    assert!(of(&analysis) >= of(&two));
}

#[test]
fn one_invocation_says_nothing_about_others() {
    let analysis = made(&trio(), 1, 5).analyse();
    assert!(analysis.cells.iter().all(|c| c.rank.is_none()));
    for c in &analysis.comparisons {
        assert_eq!(
            (c.verdict, c.p_holm, c.ci95),
            (Verdict::Unknown, None, None)
        );
        assert!(c.ratio.is_finite());
    }
}

#[test]
fn without_variance_equal_is_a_tie_and_different_is_certain() {
    let still = |target, prefill_ns| Engine {
        jitter: 0.0,
        ..engine(target, prefill_ns)
    };
    let engines = [
        still("base.cpu.f32", 3_000_000),
        still("same.cpu.f32", 3_000_000),
        still("near.cpu.f32", 3_000_100),
        still("slow.cpu.f32", 3_100_000),
    ];
    let analysis = made(&engines, 5, 22).analyse();
    let same = find(&analysis.comparisons, "same.cpu.f32", Role::Baseline);
    assert_eq!((same.ratio, same.p_holm), (1.0, Some(1.0)));
    assert_eq!(
        (same.verdict, same.cliffs_delta),
        (Verdict::Equal, Some(0.0))
    );
    let near = find(&analysis.comparisons, "near.cpu.f32", Role::Baseline);
    assert_eq!((near.p_holm, near.verdict), (Some(0.0), Verdict::Equal));
    let slow = find(&analysis.comparisons, "slow.cpu.f32", Role::Baseline);
    assert_eq!(slow.verdict, Verdict::Worse);
    let ranks: Vec<_> = analysis.cells.iter().map(|c| c.rank.unwrap()).collect();
    assert_eq!(ranks, [1, 1, 1, 4]);
    let cell = &analysis.cells[0];
    let ttft = common::metric(cell, MetricId::TtftNs);
    assert_eq!(ttft.ci95, Some((ttft.value, ttft.value)));
    assert_eq!(ttft.cv_invocations, Some(0.0));
    assert_eq!(ttft.shape.as_ref().unwrap().mad, 0.0);
}

#[test]
fn what_matters_is_the_profiles_to_say() {
    let mut made = made(&trio()[..2], 5, 22);
    let verdict = |made: &common::Made| {
        let analysis = made.analyse();
        let fast = find(&analysis.comparisons, "fast.cpu.f32", Role::Baseline);
        (fast.matters, fast.verdict)
    };
    assert_eq!(verdict(&made), (1.02, Verdict::Better));
    // The target is twice as fast.
    made.run.header.plan.matters_percent = 120.0;
    assert_eq!(verdict(&made), (2.2, Verdict::Equal));
}

#[test]
fn a_failed_cell_takes_no_part() {
    let mut made = made(&trio(), 5, 22);
    made.run.verify.remove("fast.cpu.f32");
    let analysis = made.analyse();
    assert_eq!(analysis.cells.len(), 4, "it is still a cell");
    assert_eq!(analysis.cells[2].rank, Some(1));
    let mut all = analysis.comparisons.iter();
    assert!(all.all(|c| c.target != "fast.cpu.f32" && c.against != "fast.cpu.f32"));
    // Without the baseline only the leader is left to compare with.
    made.run.verify.remove("base.cpu.f32");
    let analysis = made.analyse();
    assert!(analysis.comparisons.iter().all(|c| c.role == Role::Leader));
    assert_eq!(analysis.comparisons.len(), 1);
}

#[test]
fn nobody_is_ranked_by_what_is_neither_good_nor_bad() {
    for name in ["report_lag_ns", "no_such_metric"] {
        let made = made(&trio(), 5, 22).reports(&[name]);
        let analysis = made.analyse();
        assert!(analysis.comparisons.is_empty());
        assert!(analysis.cells.iter().all(|c| c.rank.is_none()));
        assert!(analysis.cells.iter().all(|c| !c.metrics.is_empty()));
    }
}

#[test]
fn the_metric_that_leads_is_of_the_version_that_was_measured() {
    let mut made = made(&trio(), 5, 22);
    assert!(!made.analyse().comparisons.is_empty());
    made.scenarios[0].version = 2;
    assert!(made.analyse().comparisons.is_empty());
}

#[test]
fn a_metric_of_zero_has_no_ratio_and_no_comparison() {
    let mut made = made(&trio()[..2], 5, 22).reports(&["itl_ns"]);
    // All tokens of a request come at once.
    for log in &mut made.run.launches {
        if log.launch.target == "fast.cpu.f32" {
            for r in &mut log.requests {
                r.token_ns = vec![*r.token_ns.last().unwrap(); r.token_ns.len()];
            }
        }
    }
    let analysis = made.analyse();
    assert!(analysis.comparisons.is_empty());
    assert_eq!(analysis.cells[1].rank, Some(1));
}
