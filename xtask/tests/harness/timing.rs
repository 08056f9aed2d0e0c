//! Tests that records describe what happened in a run.
//!
//! Reported times are compared with the times at which `fake` really emitted tokens, and a wrong
//! clock is detected by the harness's own stamps.
//!
//! Counters of a real run: every case, even a failed one, has readings of the engine's own process,
//! of the host, and of the cost of reading them.

use crate::blocks::turns_alone;
use crate::checkout::{Checkout, PROFILE, logs, text};
use schema::record::Status;
use serde::Deserialize;

/// The times that `fake` wrote down for one batch.
#[derive(Deserialize)]
struct Truth {
    started_ns: u64,
    token_ns: Vec<u64>,
}

fn truths(path: &std::path::Path) -> Vec<Truth> {
    let text = std::fs::read_to_string(path).expect("fake wrote the truth");
    let truths = text.lines().map(serde_json::from_str);
    truths.map(|truth| truth.expect("it has stamps")).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn reported_latencies_are_those_really_emitted() {
    let checkout = Checkout::with(&[]);
    let path = checkout.path("truth.jsonl");
    let run = checkout.measured(&[("FAKE_TRUTH", &path.display().to_string())]);
    let truths = truths(&path);
    let mut matched = 0;
    for scenario in ["single_request", "concurrent"] {
        let launches = logs(&run, |launch| launch.scenario == scenario);
        let requests = launches.iter().flat_map(|log| &log.requests);
        // What was reported, and what was emitted.
        let mut ttft_ns = [Vec::new(), Vec::new()];
        let mut itl_ns = [Vec::new(), Vec::new()];
        for request in requests.filter(|request| !request.warmup) {
            // One batch runs at a time, so the batch that began during the request is the
            // request's.
            let truth = truths
                .iter()
                .find(|t| (request.started_ns..=request.answered_ns).contains(&t.started_ns))
                .expect("every request ran in a batch");
            matched += 1;
            let emitted = &truth.token_ns[..request.token_ns.len()];
            for (i, stamps) in [&request.token_ns[..], emitted].into_iter().enumerate() {
                ttft_ns[i].push((stamps[0] - request.scheduled_ns) as f64);
                itl_ns[i].extend(stamps.windows(2).map(|w| (w[1] - w[0]) as f64));
            }
        }
        for (what, [reported, emitted]) in [("TTFT", ttft_ns), ("ITL", itl_ns)] {
            let ratio = median(reported) / median(emitted);
            assert!(
                (ratio - 1.0).abs() < 0.01,
                "{scenario}: {what} reported ÷ emitted = {ratio}"
            );
        }
    }
    assert!(matched >= 28, "only {matched} requests could be matched");
}

#[test]
fn a_clock_that_lies_or_runs_backwards_is_caught() {
    let checkout = Checkout::with(&["liar", "backwards"]);
    let (_, run) = checkout.bench_ends(&[], 3);
    checkout.cells_are(&run, |target, _| match target {
        "fake.cpu.f32" => (Status::Ok, "", 0),
        _ => (Status::BadTiming, "", 0),
    });
}

/// These stamps would pass every other check, because the last token's is true.
#[test]
fn stamps_that_claim_tokens_before_they_are_there_are_caught_in_one_launch() {
    let checkout = Checkout::with(&["stamps_early", "stamps_spread", "held_back"]);
    checkout.profile(&turns_alone(40).replace("invocations = 2", "invocations = 1"));
    let (_, run) = checkout.bench_ends(&[("FAKE_PREFILL_US", "20000")], 3);
    checkout.cells_are(&run, |target, _| match target {
        "fake.cpu.f32" => (Status::Ok, "", 0),
        _ => (Status::BadTiming, "before they are there", 0),
    });
    for log in &run.launches {
        let witnessed = log.case_ends[0]
            .witnessed
            .expect("there is room for the file");
        assert!(witnessed.looks > 0 && witnessed.watched_ns > 0);
        assert_eq!((witnessed.first.tokens, witnessed.later.tokens), (40, 200));
        assert_eq!((witnessed.contradicted, witnessed.uncommitted), (0, 0));
        // Stamps spread over a request come after a commit too, where decoding was held up.
        if log.launch.target != "fake+stamps_spread.cpu.f32" {
            assert_eq!(witnessed.later.late.sum, 0);
        }
    }
}

#[test]
fn a_target_that_keeps_answers_unasked_does_not_pass_the_gate() {
    let checkout = Checkout::with(&["caches"]);
    // So long that waiting for a processor is short against it.
    let (_, run) = checkout.bench_ends(&[("FAKE_PREFILL_TOKEN_US", "150")], 3);
    let honest = &run.verify["fake.cpu.f32"];
    assert_eq!(honest.status, Status::Ok, "{}", honest.reason);
    assert!(honest.repeat_ratio > Some(0.5), "{honest:?}");
    let caches = &run.verify["fake+caches.cpu.f32"];
    assert_eq!(caches.status, Status::WrongOutput, "{}", caches.reason);
    assert!(caches.reason.contains("asked again"), "{}", caches.reason);
    assert!(caches.repeat_ratio < Some(0.5), "{caches:?}");
}

#[test]
fn every_case_has_readings_even_one_that_failed() {
    let checkout = Checkout::with(&["exit"]);
    // As in `faults`: a fault at the 100th batch occurs only while timed.
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 110"));
    let (output, run) = checkout.bench(&[("FAKE_FAULT_AT", "100")]);
    let failed = |log: &&schema::launch_log::LaunchLog| {
        let end = log.end.as_ref();
        log.ready.is_some() && end.is_some_and(|end| end.status == Status::Crashed)
    };
    assert!(
        run.launches.iter().any(|log| failed(&log)),
        "{}",
        text(&output)
    );
    for log in run.launches.iter().filter(failed) {
        assert!(!log.telemetry.is_empty(), "{}", log.file.display());
    }
    let mut complete = 0;
    for log in &run.launches {
        let readings = &log.telemetry;
        assert!(readings.is_sorted_by_key(|reading| reading.t_ns));
        assert!(readings.is_sorted_by_key(|reading| reading.cpu_ns));
        assert!(readings.is_sorted_by_key(|reading| reading.minor_faults));
        for end in &log.case_ends {
            complete += 1;
            let first = readings.iter().find(|reading| reading.case == end.case);
            let first = first.expect("the first reading of a case is taken as it begins");
            assert!(first.t_ns <= end.end_ns);
            assert_eq!(first.processes, Some(1));
            assert!(first.rss_bytes > Some(0) && first.cpu_ns > Some(0));
            assert!(first.host_busy_ns > first.cpu_ns);
            assert!(first.sampler_cpu_ns < first.harness_cpu_ns);
            assert_eq!(first.gpu_power_mw, None, "its backend uses no GPU");
        }
    }
    assert!(complete > 0, "{}", text(&output));
}
