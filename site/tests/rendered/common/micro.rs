//! Adds a micro suite to a run: two variants with numbers and one that fails. No number in it was
//! measured.

use schema::micro::record::{MicroFailed, MicroReady, MicroStart};
use schema::micro::{
    MicroLaunch, MicroLog, MicroPlan, MicroSample, PlannedSuite, Suite, SuiteCase, Variant, Work,
};
use schema::record::{End, Status};
use schema::run::Run;
use std::collections::BTreeMap;

/// The text of the suite.
pub fn suite() -> Suite {
    Suite {
        id: "adding".into(),
        version: 1,
        title: "Adding".into(),
        question: "How long does a sum take?".into(),
        analysis: "One call adds *numbers*.".into(),
        work: Work::Flop,
        limits: [("f32".to_owned(), 1e-5)].into(),
        cases: cases(),
    }
}

fn cases() -> Vec<SuiteCase> {
    let case = |id: &str, n| SuiteCase {
        id: id.into(),
        label: format!("{n} numbers"),
        params: [("n".to_owned(), n)].into(),
    };
    vec![case("few", 10), case("many", 1000)]
}

fn variant(id: &str, engine: &str) -> Variant {
    Variant {
        id: id.into(),
        about: format!("{id}, in words"),
        engine: engine.into(),
        program: "adder".into(),
        run: id.into(),
        backend: "cpu".into(),
        precision: "f32".into(),
    }
}

/// Plan the suite in the run, and measure it in each of the run's blocks.
pub fn with_micro(mut run: Run) -> Run {
    let names = ["plain", "simd", "plain@twin", "broken"];
    let blocks = run.header.plan.invocations;
    let launches = (0..blocks).flat_map(|invocation| {
        names.map(|name| MicroLaunch {
            invocation,
            suite: "adding".into(),
            variant: name.into(),
        })
    });
    run.header.plan.micro = MicroPlan {
        launches: launches.collect(),
        suites: vec![PlannedSuite {
            id: "adding".into(),
            version: 1,
            work: Work::Flop,
            limits: suite().limits,
            baseline: "plain".into(),
            reference: variant("reference", ""),
            variants: vec![
                variant("plain", ""),
                variant("simd", "candle"),
                variant("broken", ""),
            ],
            cases: cases(),
            samples: 20,
            sample_ns: 1_000_000,
            warmup_ns: 2_000_000,
            cell_ns: 0,
        }],
    };
    for invocation in 0..blocks {
        for name in names {
            run.micro.push(log(name, invocation));
        }
    }
    run
}

fn log(name: &str, invocation: u32) -> MicroLog {
    let is_broken = name == "broken";
    let base = if name == "simd" { 1000 } else { 2000 };
    let sample = |case: &SuiteCase| MicroSample {
        case: case.id.clone(),
        work: case.params["n"] as f64,
        first_call_ns: 50_000 + u64::from(invocation),
        calls: 10,
        ns: (0..20)
            .map(|i| case.params["n"] * (base + i + 3 * u64::from(invocation)))
            .collect(),
        start_ns: 1,
        end_ns: 2,
        values: 1,
        error_max: if name == "simd" { 1.5e-7 } else { 0.0 },
        peak_rss_bytes_timed: Some(3 << 20),
    };
    let failed = |case: &SuiteCase| MicroFailed {
        case: case.id.clone(),
        status: Status::WrongOutput,
        reason: "value 0 is 3, the reference has 2 <or so>".into(),
    };
    MicroLog {
        file: format!("micro/adding/{name}.i{invocation}.jsonl").into(),
        sha256: "0".repeat(64),
        launch: MicroStart {
            suite: "adding".into(),
            variant: name.into(),
            invocation,
            cases: cases().into_iter().map(|case| case.id).collect(),
            argv: vec!["adder".into()],
            start_ns: 1,
            ..MicroStart::default()
        },
        ready: Some(MicroReady {
            version: "1.2".into(),
            build: BTreeMap::new(),
            notes: vec!["instructions: none".into()],
            ready_ns: 2,
        }),
        cases: cases().iter().filter(|_| !is_broken).map(sample).collect(),
        failed: cases().iter().filter(|_| is_broken).map(failed).collect(),
        end: Some(End {
            status: Status::Ok,
            end_ns: 3,
            ..End::default()
        }),
    }
}
