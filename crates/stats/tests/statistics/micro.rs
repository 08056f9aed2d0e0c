//! Tests of the micro suites of made-up runs: records of known durations must give these numbers,
//! and what is missing or failed must give none.

use crate::common::{assert_close, made, place, plain, prediction};
use schema::hypothesis::{Claim, Hypothesis};
use schema::micro::record::{MicroFailed, MicroStart};
use schema::micro::{
    MicroLaunch, MicroLog, MicroPlan, MicroSample, PlannedSuite, SuiteCase, Variant,
};
use schema::record::Status;
use schema::run::Run;
use stats::analysis::{MetricId, Role, Verdict};
use stats::between::between;
use stats::hypotheses::{Verdict as Judged, evaluate};
use stats::micro::analyse;

const BLOCKS: u32 = 5;

/// Times of a call (ns) of `base`, `base@twin`, `fast` and `alike`, by block.
type Ns = [[u64; 5]; 4];

const STEADY: Ns = [
    [1000, 1010, 990, 1005, 995],
    [1003, 1009, 992, 1004, 996],
    [500, 505, 495, 502, 498],
    [1002, 1011, 989, 1006, 994],
];

fn run(ns: &Ns) -> Run {
    let mut run = made(&[plain()], 1, 5).run;
    let variant = |id: &str| Variant {
        id: id.into(),
        backend: "cpu".into(),
        ..Variant::default()
    };
    let names = ["base", "base@twin", "fast", "alike"];
    let launches = (0..BLOCKS).flat_map(|invocation| {
        names.map(|variant| MicroLaunch {
            invocation,
            suite: "s".into(),
            variant: variant.into(),
        })
    });
    run.header.plan.micro = MicroPlan {
        suites: vec![PlannedSuite {
            id: "s".into(),
            baseline: "base".into(),
            variants: ["base", "fast", "alike"].map(variant).to_vec(),
            cases: vec![SuiteCase {
                id: "c".into(),
                ..SuiteCase::default()
            }],
            ..PlannedSuite::default()
        }],
        launches: launches.collect(),
    };
    for (name, blocks) in names.iter().zip(ns) {
        for (invocation, &ns) in (0..).zip(blocks) {
            run.micro.push(log(name, invocation, ns));
        }
    }
    run
}

/// Make a log with three samples of ten calls, in the middle one of which a call takes `ns`.
fn log(variant: &str, invocation: u32, ns: u64) -> MicroLog {
    MicroLog {
        file: format!("{variant}.i{invocation}").into(),
        launch: MicroStart {
            suite: "s".into(),
            variant: variant.into(),
            invocation,
            ..MicroStart::default()
        },
        cases: vec![MicroSample {
            case: "c".into(),
            work: 2000.0,
            first_call_ns: 7000,
            calls: 10,
            ns: vec![10 * ns - 20, 10 * ns, 10 * ns + 90],
            error_max: f64::from(invocation) * 1e-7,
            ..MicroSample::default()
        }],
        ..MicroLog::default()
    }
}

#[test]
fn a_cell_is_the_mean_over_launches_of_the_median_call() {
    let suite = analyse(&run(&STEADY)).remove(0);
    let cell = suite.cell("c", "fast").unwrap();
    assert_eq!(
        (cell.status, cell.invocations, cell.requests),
        (Status::Ok, 5, 15)
    );
    let time = cell.metric(MetricId::CallNs).unwrap();
    assert_close(time.value, 500.0);
    assert_eq!(time.n, 15);
    // s = √((0 + 25 + 25 + 4 + 4)/4) = √14.5, t(0.975, 4) = 2.776445105197793.
    let half = 2.776_445_105_197_793 * 14.5_f64.sqrt() / 5_f64.sqrt();
    assert_close(time.ci95.unwrap().1, 500.0 + half);
    assert_close(suite.rate(cell).unwrap(), 2000.0 / 500e-9);
    let facts = &suite.facts[&("c".to_owned(), "fast".to_owned())];
    assert_close(facts.error_max, 4e-7);
    assert!(
        suite.cell("c", "base@twin").is_none(),
        "a twin is no variant"
    );
}

#[test]
fn comparisons_are_paired_by_block_corrected_and_under_the_noise_rule() {
    let suite = analyse(&run(&STEADY)).remove(0);
    let against_base = |target: &str| {
        let mut all = suite.analysis.comparisons.iter();
        all.find(|c| c.role == Role::Baseline && c.target == target)
            .unwrap()
    };
    let logs = [
        1000_f64 / 500.0,
        1010.0 / 505.0,
        990.0 / 495.0,
        1005.0 / 502.0,
        995.0 / 498.0,
    ];
    let mean = logs.iter().map(|r| r.ln()).sum::<f64>() / 5.0;
    assert_close(against_base("fast").ratio, mean.exp());
    assert_eq!(against_base("fast").verdict, Verdict::Better);
    assert_eq!(against_base("alike").verdict, Verdict::Equal);
    let noise = suite.analysis.noise(MetricId::CallNs).unwrap();
    assert_eq!(noise.pairs.len(), 1);
    assert!((1.0..2.0).contains(&noise.inflation), "{}", noise.inflation);
    assert_eq!(suite.cell("c", "fast").unwrap().rank, Some(1));
    assert_eq!(suite.cell("c", "alike").unwrap().rank, Some(2));
    assert_eq!(suite.cell("c", "base").unwrap().rank, Some(2));
}

#[test]
fn a_difference_that_does_not_matter_is_none_and_neither_is_one_the_pairs_make_uncertain() {
    let mut ns = STEADY;
    ns[3] = [1010, 1020, 1000, 1015, 1005]; // 1 % in every block
    let alike = |ns: &[[u64; 5]; 4]| {
        let suite = analyse(&run(ns)).remove(0);
        let mut all = suite.analysis.comparisons.into_iter();
        all.find(|c| c.role == Role::Baseline && c.target == "alike")
            .unwrap()
    };
    let small = alike(&ns);
    assert!(small.p_holm.unwrap() < 0.001);
    assert_eq!(small.verdict, Verdict::Equal);
    ns[3] = [1050, 1061, 1042, 1055, 1045]; // 5 %
    assert_eq!(alike(&ns).verdict, Verdict::Worse);
    ns[1] = [1100, 1112, 1089, 1105, 1096]; // the twin lies 10 % off
    let uncertain = alike(&ns);
    assert!(uncertain.inflation.unwrap() > 10.0);
    assert_eq!(uncertain.verdict, Verdict::Undecided);
}

#[test]
fn a_launch_without_samples_makes_no_cell() {
    let mut cut = run(&STEADY);
    cut.micro
        .retain(|log| log.launch.variant != "fast" || log.launch.invocation != 3);
    let suite = analyse(&cut).remove(0);
    let cell = suite.cell("c", "fast").unwrap();
    assert_eq!(cell.status, Status::NotRun);
    assert_eq!(cell.reason, "4 of 5 launches are complete");
    let mut comparisons = suite.analysis.comparisons.iter();
    assert!(comparisons.all(|c| c.target != "fast"));

    let mut failed = run(&STEADY);
    let mut logs = failed.micro.iter_mut();
    let log = logs.find(|log| log.launch.variant == "fast").unwrap();
    log.failed.push(MicroFailed {
        case: "c".into(),
        status: Status::WrongOutput,
        reason: "value 3 is 1, the reference has 2".into(),
    });
    let suite = analyse(&failed).remove(0);
    let cell = suite.cell("c", "fast").unwrap();
    assert_eq!(cell.status, Status::WrongOutput);
    assert!(cell.metrics.is_empty() && suite.facts.len() == 2);
}

#[test]
fn a_lost_second_launch_costs_the_pair_and_not_the_baseline() {
    let mut lost = run(&STEADY);
    let second = |log: &&mut MicroLog| log.launch.variant == "base@twin";
    for log in lost.micro.iter_mut().filter(second) {
        log.cases.clear();
        log.failed.push(MicroFailed {
            case: "c".into(),
            status: Status::Crashed,
            reason: "killed by signal 9".into(),
        });
    }
    let suite = analyse(&lost).remove(0);
    assert_eq!(suite.cell("c", "base").unwrap().status, Status::Ok);
    assert!(suite.analysis.noise.is_empty());
    let [twin] = &suite.twins[..] else {
        panic!("a cell a case: {:?}", suite.twins)
    };
    assert_eq!(
        (twin.status, twin.reason.as_str()),
        (Status::Crashed, "killed by signal 9")
    );
}

#[test]
fn launches_of_different_work_are_no_cell() {
    let mut run = run(&STEADY);
    run.micro[0].cases[0].work = 2001.0;
    let suite = analyse(&run).remove(0);
    assert_eq!(suite.cell("c", "base").unwrap().status, Status::WrongOutput);
}

#[test]
fn two_runs_are_compared_cell_by_cell() {
    let (a, mut b) = (run(&STEADY), run(&STEADY));
    let is_fast = |log: &&mut MicroLog| log.launch.variant == "fast";
    for log in b.micro.iter_mut().filter(is_fast) {
        log.cases[0].ns.iter_mut().for_each(|ns| *ns *= 2);
    }
    let verdicts = |a: &Run, b: &Run| -> Vec<(String, Verdict)> {
        let changes = between(a, b, &[], None).changes.into_iter();
        let of_suite = changes.filter(|change| change.scenario == "micro/s");
        of_suite.map(|c| (c.target, c.verdict)).collect()
    };
    let same = Verdict::Equal;
    assert_eq!(
        verdicts(&a, &b),
        [
            ("base".into(), same),
            ("fast".into(), Verdict::Worse),
            ("alike".into(), same)
        ]
    );
    let case = &mut b.header.plan.micro.suites[0].cases[0];
    case.params.insert("n".into(), 3);
    let mut said = verdicts(&a, &b).into_iter();
    assert!(said.all(|(_, verdict)| verdict == Verdict::Unknown));
}

#[test]
fn a_prediction_about_a_suite_is_judged_by_its_cells() {
    let made = made(&[plain()], 1, 5);
    let analysis = made.analyse();
    let mut run = run(&STEADY);
    run.header.plan.publishable = true;
    let no_better = |of: &str, than: &str| {
        let claim = Claim::Ratio {
            against: vec![than.into()],
            min: None,
            max: Some(1.0),
        };
        prediction(claim, "micro/s", &[of])
    };
    let judge = |run: &Run, hypothesis: &Hypothesis, backend: &str| {
        let place = place(&[backend]);
        evaluate(hypothesis, &place, run, &analysis, &made.scenarios, None)
    };
    let found = judge(&run, &no_better("base", "fast"), "cpu");
    assert_eq!(found.verdict, Judged::Confirmed);
    assert_eq!(found.evidence.len(), 1);
    assert_eq!(found.evidence[0].scenario, "micro/s");
    let times = found.evidence[0].value;
    assert!((times - 0.5).abs() < 0.01, "{times}");
    let found = judge(&run, &no_better("fast", "base"), "cpu");
    assert_eq!(found.verdict, Judged::Refuted);
    let found = judge(&run, &no_better("alike", "base"), "cpu");
    assert_eq!(found.verdict, Judged::Inconclusive);
    let elsewhere = judge(&run, &no_better("base", "fast"), "cuda");
    assert_eq!(elsewhere.verdict, Judged::NotMeasured);
    assert!(
        elsewhere.why.contains("nothing on cuda"),
        "{}",
        elsewhere.why
    );
    run.header.plan.publishable = false;
    let few = judge(&run, &no_better("base", "fast"), "cpu");
    assert_eq!(few.verdict, Judged::NotMeasured);
}
