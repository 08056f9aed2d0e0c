//! Tests of predictions against made-up cells whose intervals are worked out by hand.

use crate::common::{Engine, Made, SCENARIO, assert_close, made, place, prediction};
use schema::hypothesis::{CaseSelector, Claim, Hypothesis, NamedCases, Place, Selector};
use schema::record::Status;
use schema::scenario::Axis;
use stats::analysis::{Analysis, Cell, MetricId, Noise};
use stats::hypotheses::{Finding, Measure, Verdict, evaluate, over_runs};

const BASE: &str = "base.cpu.f32";
const FAST: &str = "fast.cpu.f32";
const OTHER: &str = "other.cpu.q8_0";

/// Three targets with five launches each, whose values tests set.
struct Stage {
    made: Made,
    analysis: Analysis,
}

fn stage() -> Stage {
    let made = made(&[BASE, FAST, OTHER].map(Engine::plain), 5, 22);
    let analysis = made.analyse();
    Stage { made, analysis }
}

impl Stage {
    fn cell(&mut self, target: &str) -> &mut Cell {
        let mut cells = self.analysis.cells.iter_mut();
        cells.find(|cell| cell.target == target).unwrap()
    }

    fn set(mut self, target: &str, values: [f64; 5]) -> Self {
        let mut metrics = self.cell(target).metrics.iter_mut();
        let metric = metrics.find(|m| m.id == MetricId::TtftNs).unwrap();
        metric.by_invocation = values.to_vec();
        metric.value = values.iter().sum::<f64>() / 5.0;
        metric.cv_invocations = stats::describe::cv(&values);
        self
    }

    fn lose(mut self, target: &str, status: Status) -> Self {
        let cell = self.cell(target);
        cell.status = status;
        cell.metrics.clear();
        self
    }

    fn ask(&self, hypothesis: &Hypothesis, place: &Place, parameters: Option<u64>) -> Finding {
        let Made { run, scenarios } = &self.made;
        evaluate(
            hypothesis,
            place,
            run,
            &self.analysis,
            scenarios,
            parameters,
        )
    }

    fn judge(&self, hypothesis: &Hypothesis) -> Finding {
        self.ask(hypothesis, &place(&[]), None)
    }
}

fn says(claim: Claim, targets: &[&str]) -> Hypothesis {
    Hypothesis {
        metric: Some("ttft_ns".into()),
        ..prediction(claim, SCENARIO, targets)
    }
}

fn range(min: f64, max: f64) -> Claim {
    Claim::Range {
        min: Some(min),
        max: Some(max),
    }
}

// Mean 10, s = √2.5 and t(0.975, 4) = 2.776445 give the interval 10 ± 1.963243.
const TEN: [f64; 5] = [8.0, 9.0, 10.0, 11.0, 12.0];

#[test]
fn a_range_is_settled_by_the_interval_and_not_by_the_mean() {
    let stage = stage().set(BASE, TEN);
    let verdict = |min, max| {
        let finding = stage.judge(&says(range(min, max), &[BASE]));
        let evidence = &finding.evidence[0];
        assert_close(evidence.value, 10.0);
        let (low, high) = evidence.ci95.unwrap();
        assert!((low - 8.036757).abs() < 1e-6 && (high - 11.963243).abs() < 1e-6);
        assert_eq!(evidence.measure, Measure::Value(MetricId::TtftNs));
        finding.verdict
    };
    assert_eq!(verdict(8.0, 12.0), Verdict::Confirmed);
    // First the mean lies inside and the interval reaches out, then the other way round.
    assert_eq!(verdict(9.0, 11.0), Verdict::Inconclusive);
    assert_eq!(verdict(10.5, 30.0), Verdict::Inconclusive);
    assert_eq!(verdict(12.0, 30.0), Verdict::Refuted);
    assert_eq!(verdict(1.0, 8.0), Verdict::Refuted);
}

#[test]
fn how_far_a_number_lies_beyond_its_bounds_is_a_factor() {
    let stage = stage().set(BASE, TEN);
    let beyond = |claim| stage.judge(&says(claim, &[BASE])).evidence[0].beyond;
    assert_close(beyond(range(1.0, 5.0)), 2.0);
    assert_close(beyond(range(40.0, 50.0)), 4.0);
    assert_close(beyond(range(8.0, 20.0)), 0.8);
    let open = Claim::Range {
        min: Some(5.0),
        max: None,
    };
    assert_close(beyond(open), 0.5);
    assert_eq!(beyond(range(0.0, f64::INFINITY)), 0.0);
}

#[test]
fn one_launch_settles_nothing() {
    let mut stage = stage();
    for cell in &mut stage.analysis.cells {
        for metric in &mut cell.metrics {
            metric.by_invocation.truncate(1);
        }
    }
    let finding = stage.judge(&says(range(0.0, 1e12), &[BASE]));
    assert_eq!(finding.verdict, Verdict::Inconclusive);
    assert_eq!(finding.evidence[0].ci95, None);
}

#[test]
fn every_cell_must_agree_and_a_stray_one_needs_the_family_s_level() {
    // 10 ± 1.963 at 95 %; two cells share the error: t(0.9875, 4) = 3.495406, ± 2.471625.
    let stage = stage().set(BASE, TEN).set(FAST, [20.0; 5]);
    let both = |min, max| stage.judge(&says(range(min, max), &[BASE, FAST]));
    assert_eq!(both(8.0, 21.0).verdict, Verdict::Confirmed);
    // The interval ends at 11.96 at 95 %, and at 12.47 within the family.
    let finding = both(12.2, 21.0);
    assert_eq!(finding.verdict, Verdict::Inconclusive);
    assert_eq!(both(12.5, 21.0).verdict, Verdict::Refuted);
    // As the only cell, it refutes the prediction.
    let alone = stage.judge(&says(range(12.2, 21.0), &[BASE]));
    assert_eq!(alone.verdict, Verdict::Refuted);
}

#[test]
fn where_one_is_enough_one_confirms_and_all_refute() {
    let stage = stage().set(BASE, TEN).set(FAST, [20.0; 5]);
    let any = |min, max| {
        let mut hypothesis = says(range(min, max), &[BASE, FAST]);
        hypothesis.any = true;
        stage.judge(&hypothesis).verdict
    };
    assert_eq!(any(19.0, 21.0), Verdict::Confirmed);
    assert_eq!(any(30.0, 40.0), Verdict::Refuted);
    assert_eq!(any(9.0, 11.0), Verdict::Inconclusive);
}

#[test]
fn a_ratio_is_paired_by_launch_and_turned_so_that_more_is_better() {
    // FAST is exactly four times faster in every launch, however the launches differ.
    let stage = stage()
        .set(BASE, TEN)
        .set(FAST, TEN.map(|x| x / 4.0))
        .set(OTHER, TEN.map(|x| x * 5.0));
    let ratio = |target: &str, min, max| {
        let against = vec!["none.cuda.f32".into(), BASE.into()];
        let claim = Claim::Ratio { against, min, max };
        stage.judge(&says(claim, &[target]))
    };
    let finding = ratio(FAST, Some(2.0), None);
    assert_eq!(finding.verdict, Verdict::Confirmed);
    assert_close(finding.evidence[0].value, 4.0);
    assert_eq!(finding.evidence[0].against.as_deref(), Some(BASE));
    assert_eq!(ratio(FAST, Some(5.0), None).verdict, Verdict::Refuted);
    assert_eq!(
        ratio(OTHER, Some(0.1), Some(0.25)).verdict,
        Verdict::Confirmed
    );
    assert_eq!(
        ratio(BASE, Some(1.0), Some(1.0)).verdict,
        Verdict::Confirmed
    );
}

#[test]
fn an_engine_may_be_spoken_for_by_its_best_target() {
    let mut stage = stage()
        .set(BASE, TEN)
        .set(FAST, [50.0; 5])
        .set(OTHER, [2.0; 5]);
    stage.made.run.header.plan.targets[2].engine = "fast".into();
    let mut hypothesis = says(
        Claim::Ratio {
            against: vec![BASE.into()],
            min: Some(2.0),
            max: None,
        },
        &[FAST, OTHER],
    );
    assert_eq!(stage.judge(&hypothesis).verdict, Verdict::Refuted);
    hypothesis.per_engine = true;
    let finding = stage.judge(&hypothesis);
    assert_eq!(finding.verdict, Verdict::Confirmed);
    assert_eq!(finding.evidence.len(), 1);
    assert_eq!(finding.evidence[0].target, OTHER);
}

#[test]
fn what_had_no_time_keeps_a_claim_open_and_what_failed_does_not() {
    let judge = |status| {
        let stage = stage().set(BASE, TEN).lose(FAST, status);
        stage.judge(&says(range(5.0, 15.0), &[BASE, FAST]))
    };
    let open = judge(Status::OverBudget);
    assert_eq!((open.verdict, open.missing), (Verdict::Inconclusive, 1));
    let failed = judge(Status::Crashed);
    assert_eq!((failed.verdict, failed.missing), (Verdict::Confirmed, 0));
}

#[test]
fn the_lowest_is_ahead_of_each_by_more_than_what_matters() {
    let lowest = || {
        let claim = Claim::Lowest {
            among: Selector::default(),
        };
        says(claim, &[FAST])
    };
    let behind = |times: f64| {
        stage()
            .set(BASE, TEN)
            .set(FAST, TEN.map(|x| x * times))
            .set(OTHER, TEN.map(|x| x * 2.0))
    };
    let finding = behind(1.0 / 1.05).judge(&lowest());
    assert_eq!(finding.verdict, Verdict::Confirmed);
    assert_eq!(finding.evidence.len(), 2);
    assert_close(finding.evidence[0].value, 1.05);
    let judged = |times| behind(times).judge(&lowest()).verdict;
    assert_eq!(judged(1.05), Verdict::Refuted);
    // A lead of 1 % doesn't matter, and neither does being 1 % behind.
    assert_eq!(judged(1.01), Verdict::Inconclusive);
    assert_eq!(judged(1.0 / 1.01), Verdict::Inconclusive);
    // Nothing is settled where targets differ from themselves.
    let mut lost = behind(1.5);
    lost.analysis.noise.push(Noise {
        metric: MetricId::TtftNs,
        inflation: f64::INFINITY,
        measured: 0,
        pairs: vec![],
    });
    assert_eq!(lost.judge(&lowest()).verdict, Verdict::Inconclusive);
}

#[test]
fn variation_is_bounded_by_its_interval() {
    // By Vangel's formula, cv = 0.158114 has the interval from 0.0945 to 0.4745.
    let stage = stage().set(BASE, TEN).set(FAST, [10.0; 5]);
    let under = |max, targets: &[&str]| stage.judge(&says(Claim::Variation { max }, targets));
    let finding = under(0.2, &[BASE]);
    assert_eq!(finding.verdict, Verdict::Inconclusive);
    assert!((finding.evidence[0].value - 0.158114).abs() < 1e-6);
    assert_eq!(under(0.05, &[BASE]).verdict, Verdict::Refuted);
    assert_eq!(under(0.5, &[BASE]).verdict, Verdict::Confirmed);
    assert_eq!(under(0.05, &[FAST]).verdict, Verdict::Confirmed);
}

#[test]
fn the_steadiest_varies_less_by_fisher_s_interval() {
    // F(4, 4) at 0.975 is 9.6: one standard deviation must be over 3.1 times the other.
    let wide = |factor: f64| TEN.map(|x| (x - 10.0) * factor + 1000.0);
    let verdict = |factor: f64| {
        let stage = stage()
            .set(BASE, wide(factor))
            .set(FAST, wide(1.0))
            .lose(OTHER, Status::Unsupported);
        let claim = Claim::LeastVariation {
            among: Selector::default(),
        };
        stage.judge(&says(claim, &[FAST])).verdict
    };
    assert_eq!(verdict(4.0), Verdict::Confirmed);
    assert_eq!(verdict(2.0), Verdict::Inconclusive);
    assert_eq!(verdict(0.2), Verdict::Refuted);
}

#[test]
fn samples_are_counted_and_need_no_interval() {
    let stage = stage();
    let at_least = |min| stage.judge(&says(Claim::Samples { min }, &[]));
    let finding = at_least(110);
    assert_eq!(finding.verdict, Verdict::Confirmed);
    assert_eq!(
        (finding.evidence[0].value, finding.evidence[0].ci95),
        (110.0, None)
    );
    assert_eq!(at_least(111).verdict, Verdict::Refuted);
}

#[test]
fn growth_is_a_share_of_the_linear_one() {
    let mut stage = stage().set(BASE, TEN);
    let scenario = &mut stage.made.run.header.plan.scenarios[0];
    scenario.axis = Axis::Users;
    scenario.cases[0].concurrency = 10;
    let mut most = scenario.cases[0].clone();
    (most.id, most.concurrency) = ("u40".into(), 40);
    scenario.cases.push(most);
    let mut cells: Vec<_> = stage.analysis.cells.clone();
    for cell in &mut cells {
        cell.case = "u40".into();
        for metric in &mut cell.metrics {
            metric.by_invocation.iter_mut().for_each(|x| *x *= 3.0);
        }
    }
    stage.analysis.cells.extend(cells);
    let linear = |min| stage.judge(&says(Claim::Linear { min }, &[BASE]));
    let finding = linear(0.7);
    assert_eq!(finding.verdict, Verdict::Confirmed);
    assert_close(finding.evidence[0].value, 0.75);
    assert_eq!(linear(0.9).verdict, Verdict::Refuted);
    // Other loads are selected by a word or by their value.
    let mut largest = says(range(23.0, 37.0), &[BASE]);
    largest.at = CaseSelector::Word(NamedCases::Largest);
    assert_eq!(stage.judge(&largest).verdict, Verdict::Confirmed);
    largest.at = CaseSelector::Value(10);
    assert_eq!(stage.judge(&largest).verdict, Verdict::Refuted);
}

#[test]
fn elsewhere_nothing_is_measured_and_it_says_why() {
    let mut stage = stage();
    let hypothesis = says(range(0.0, 1e12), &[]);
    let ask = |stage: &Stage, place: &Place, n| stage.ask(&hypothesis, place, n);
    let big = Place {
        parameters_min: Some(1000),
        ..place(&[])
    };
    assert_eq!(ask(&stage, &big, Some(1000)).verdict, Verdict::Confirmed);
    assert_eq!(ask(&stage, &big, Some(999)).why, "its model is too small");
    assert_eq!(
        ask(&stage, &big, None).why,
        "the size of its model is not known"
    );
    let gpu = place(&["cuda"]);
    assert_eq!(ask(&stage, &gpu, None).why, "it ran nothing on cuda");
    let never = says(Claim::Unmeasured { why: "no".into() }, &[]);
    assert_eq!(stage.judge(&never).why, "no");
    stage.made.run.header.plan.publishable = false;
    let finding = ask(&stage, &place(&[]), None);
    assert_eq!(finding.verdict, Verdict::NotMeasured);
    assert!(finding.why.contains("too few samples"), "{}", finding.why);
}

#[test]
fn over_several_runs_the_worst_counts_and_silence_does_not() {
    let finding = |verdict| Finding {
        verdict,
        evidence: vec![],
        missing: 0,
        why: String::new(),
    };
    let over = |verdicts: &[Verdict]| {
        let all: Vec<Finding> = verdicts.iter().map(|&v| finding(v)).collect();
        over_runs(&all)
    };
    use Verdict::{Confirmed, Inconclusive, NotMeasured, Refuted};
    assert_eq!(over(&[]), NotMeasured);
    assert_eq!(over(&[NotMeasured, Confirmed]), Confirmed);
    assert_eq!(over(&[Confirmed, Inconclusive]), Inconclusive);
    assert_eq!(over(&[Confirmed, Refuted, Inconclusive]), Refuted);
}
