//! The harness's own error beside the results: the table where it was measured, a plain sentence
//! where it was not; the error of engines' stamps; and which targets met a profile's limits on
//! latency.

use crate::common::launch::audit;
use crate::common::{render, usual, usual_site};
use crate::html::{checked, html_of, lacks, page, run_page, says};
use schema::calibration::{Calibration, LatencyError, Level, ScheduleLag};
use schema::capacity::Capacity;
use schema::profile::Slo;
use schema::record::Status;

fn calibration(failures: &[&str]) -> Calibration {
    let error = || LatencyError {
        emitted_ns_p50: 2e6,
        p50_error: 0.0004,
        emitted_ns_p99: 3e6,
        p99_error_ns: 1500.0,
        sample_error_ns_p99: 2500.0,
    };
    Calibration {
        instrument: "known.cpu.f32".into(),
        levels: vec![Level {
            concurrency: 10,
            requests: 1000,
            ttft: error(),
            itl: error(),
            delivery_ns_p50: 40e3,
            delivery_ns_p99: 90e3,
        }],
        schedule: ScheduleLag {
            rate_per_s: 1000.0,
            requests: 1000,
            lag_ns_p50: 9e3,
            lag_ns_p99: 71e3,
            lag_ns_max: 3e6,
        },
        failures: failures.iter().map(|&line| line.to_owned()).collect(),
    }
}

#[test]
fn a_run_without_calibration_says_so_on_every_page() {
    let unknown = "Instrument error: not measured in this run.";
    for path in ["index.html", "scenario/concurrent.html"] {
        says(html_of(usual_site(), path), &[unknown]);
    }
}

#[test]
fn the_instrument_error_stands_beside_results_and_in_full_on_the_run_page() {
    let mut world = usual();
    world.runs[0].calibration = Some(calibration(&[]));
    let sentence = "Instrument error: in calibration medians are off by at most 0.040 %, 99th percentiles \
                    by 1.50 µs, and requests of an open loop were sent 71.0 µs late at the 99th percentile.";
    let run_path = format!("run/{}.html", world.runs[0].header.id);
    let pages = render(&world);
    for path in ["index.html", "scenario/concurrent.html", &run_path] {
        says(html_of(&pages, path), &[sentence]);
    }
    let run = html_of(&pages, &run_path);
    says(run, &["known.cpu.f32", "<td>2.00 ms</td>"]);
    says(run, &["40.0 µs, 90.0 µs"]);
    world.runs[0].calibration = Some(calibration(&["the schedule lag was too long"]));
    let broken = "did not keep its own limits: the schedule lag was too long.";
    says(&page(&world, "index.html"), &[broken]);
}

#[test]
fn a_run_s_own_lag_stands_beside_the_calibrated_one() {
    let mut world = usual();
    world.runs[0].calibration = Some(calibration(&[]));
    lacks(&page(&world, "index.html"), &["Beside real engines"]);
    let planned = &mut world.runs[0].header.plan.scenarios;
    let planned = planned.iter_mut().find(|s| s.id == "sustained").unwrap();
    planned.load = schema::scenario::LoadShape::Poisson;
    planned.axis = schema::scenario::Axis::LoadPercent;
    // Every synthetic request is written 8 µs after it was due.
    let lag = "were sent late by 8.00 µs at the 99th percentile and by 8.00 µs at most;";
    says(&page(&world, "index.html"), &[lag]);
    // Two requests are too few for a percentile, but have a maximum.
    let mut left = 2;
    for log in &mut world.runs[0].launches {
        if log.launch.scenario != "sustained" {
            continue;
        }
        log.requests.retain(|request| {
            let kept = !request.warmup && left > 0;
            left -= u32::from(kept);
            kept
        });
        if let [_, last] = &mut log.requests[..] {
            last.sent_ns = last.scheduled_ns + 5_000_000;
        }
    }
    let lag = "this run’s 2 requests of open loops were sent late by 5.00 ms at most;";
    says(&page(&world, "index.html"), &[lag]);
}

#[test]
fn every_target_s_error_of_stamps_stands_in_its_case() {
    let caption = "How far stamps are off in the mean";
    lacks(html_of(usual_site(), "scenario/sustained.html"), &[caption]);
    let mut world = usual();
    for target in ["lmrs.cpu.q8_0", "candle.cpu.f32"] {
        audit(&mut world.runs[0], target);
    }
    let pages = checked(&world);
    let text = html_of(&pages, "scenario/sustained.html");
    // Of five launches: 5 000 looks in 5 s, at 100 first and 300 other tokens. Garwood's limits of
    // the 0 and 5 looks that found a token missing are 2.996 and 10.513.
    for target in ["lmrs.cpu.q8_0", "candle.cpu.f32"] {
        let row = format!(
            "<th scope=\"row\">{target}</th><td>0 ns</td><td>30.0 µs</td><td>16.7 µs</td><td>35.0 µs</td><td>5000</td>"
        );
        assert_eq!(text.matches(&row).count(), 2, "{text}");
    }
    assert_eq!(text.matches(caption).count(), 2);
    says(text, &["could not be checked."]);
}

#[test]
fn capacities_stand_on_the_run_page_failed_ones_too() {
    let mut world = usual();
    let capacity = |target: &str, status| Capacity {
        target: target.into(),
        prompt_tokens: 50,
        new_tokens: 16,
        concurrency: 8,
        status,
        reason: match status {
            Status::Ok => String::new(),
            _ => "the capacity stage failed: it died".into(),
        },
        requests: 64,
        window_s: 2.5,
        requests_per_s: 25.6,
    };
    world.runs[0].capacities = vec![
        capacity("candle.cpu.q8_0", Status::Ok),
        capacity("lmrs.cpu.q8_0", Status::Crashed),
    ];
    let run = run_page(&world);
    let capacity = "25.6 req/s (50 → 16 tokens, 8 in flight; 64 requests in 2.5 s)";
    says(&run, &[capacity, "the capacity stage failed: it died"]);
}

#[test]
fn who_meets_the_limits_is_said_where_they_are_asked_for() {
    let mut world = usual();
    world.runs[0].header.plan.slo = Some(Slo {
        ttft_p90_ms: 1e6,
        itl_p90_ms: 1e6,
    });
    let pages = render(&world);
    let limits = "Limits at the 90th percentile, 1000000 ms to the first token";
    let concurrent = html_of(&pages, "scenario/concurrent.html");
    says(concurrent, &[limits, "met by "]);
    // A scenario of single requests reports no goodput, so no limits are mentioned.
    let single = html_of(&pages, "scenario/single_request.html");
    lacks(single, &["Limits at the"]);
}
