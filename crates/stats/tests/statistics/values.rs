//! Tests of each metric against values worked out by hand from a few stamps.

use crate::common::{self, assert_close, made, metric, plain, scenario};
use schema::plan::{Case, PlannedScenario};
use schema::record::{RequestRecord, Telemetry};
use schema::scenario::{Axis, LoadShape};
use stats::analysis::{Cell, MetricId};
use stats::metrics::{Better, Sample, leading_of, validate};
use stats::window::{steady, steady_in_turns};

const MS: u64 = 1_000_000;

/// Make a request that is sent when due and answered 0.1 ms after the last token; stamps are in ms.
fn request(id: u64, due_ms: u64, tokens_ms: &[u64]) -> RequestRecord {
    let last = tokens_ms.last().copied().unwrap_or(due_ms);
    RequestRecord {
        case: common::CASE.into(),
        id,
        prompt: id,
        scheduled_ns: due_ms * MS,
        sent_ns: due_ms * MS + 1000,
        received_ns: due_ms * MS + 500,
        started_ns: due_ms * MS + 2000,
        token_ns: tokens_ms.iter().map(|ms| ms * MS).collect(),
        answered_ns: last * MS + 100_000,
        batch: 1,
        output_ids: vec![0; tokens_ms.len()],
        ..RequestRecord::default()
    }
}

/// Return the cell of one invocation with exactly these requests.
fn cell_of(load: LoadShape, concurrency: u32, requests: Vec<RequestRecord>) -> Cell {
    cell_batching("static_equal_length", load, concurrency, requests)
}

fn cell_batching(
    batching: &str,
    load: LoadShape,
    concurrency: u32,
    requests: Vec<RequestRecord>,
) -> Cell {
    let mut made = made(&[plain()], 1, 1);
    let new_tokens = requests[0].token_ns.len() as u32;
    made.run.header.plan.scenarios = vec![PlannedScenario {
        id: common::SCENARIO.into(),
        version: 1,
        load,
        axis: Axis::InFlight,
        cases: vec![Case {
            new_tokens,
            concurrency,
            ..common::case(1)
        }],
        ..PlannedScenario::default()
    }];
    made.log(0).requests = requests;
    let ready = made.log(0).ready.as_mut().expect("it was ready");
    ready.batching = batching.into();
    let cell = made.cell();
    assert_eq!(cell.reason, "");
    cell
}

#[test]
fn latencies_by_hand() {
    let late = RequestRecord {
        // Sent 2 ms late: the wait counts from when it was due.
        sent_ns: 102 * MS,
        received_ns: 102 * MS,
        started_ns: 102 * MS,
        ..request(1, 100, &[107, 108, 112])
    };
    let cell = cell_of(
        LoadShape::Serial,
        1,
        vec![request(0, 10, &[14, 16, 19]), late],
    );
    let values = |id| {
        let shape = metric(&cell, id).shape.clone().unwrap();
        (metric(&cell, id).n, shape.min, shape.max)
    };
    let ms = 1e6;
    assert_eq!(values(MetricId::TtftNs), (2, 4.0 * ms, 7.0 * ms));
    assert_eq!(
        values(MetricId::TtftFromSentNs),
        (2, 4.0 * ms - 1000.0, 5.0 * ms)
    );
    assert_eq!(values(MetricId::ItlNs), (4, 1.0 * ms, 4.0 * ms));
    assert_eq!(values(MetricId::TpotNs), (2, 2.5 * ms, 2.5 * ms));
    assert_eq!(values(MetricId::E2eNs), (2, 9.0 * ms, 12.0 * ms));
    assert_eq!(values(MetricId::ReportLagNs), (2, 0.1 * ms, 0.1 * ms));
    // 6 tokens in 9 ms + 12 ms; the harness's pause between requests is not the engine's time.
    let rate = metric(&cell, MetricId::OutputTokPerS);
    assert_eq!((rate.n, rate.shape.is_none()), (1, true));
    assert_close(rate.value, 6.0 / 0.021);
    assert_close(metric(&cell, MetricId::RequestsPerS).value, 2.0 / 0.021);
    assert_close(metric(&cell, MetricId::ColdStartNs).value, 90e6);
    assert_close(metric(&cell, MetricId::LoadNs).value, 70e6);
    assert_close(metric(&cell, MetricId::PeakRssBytes).value, 50e6);
    assert_close(metric(&cell, MetricId::WeightBytes).value, 1e6);
    assert_close(metric(&cell, MetricId::KvBytes).value, 256.0 * 13.0);
}

#[test]
fn one_token_has_no_gaps() {
    let cell = cell_of(LoadShape::Serial, 1, vec![request(0, 10, &[14])]);
    assert!(cell.metric(MetricId::ItlNs).is_none() && cell.metric(MetricId::TpotNs).is_none());
    assert_close(metric(&cell, MetricId::OutputTokPerS).value, 1.0 / 0.004);
}

#[test]
fn a_last_batch_that_is_not_full_is_left_out() {
    let cell = cell_of(
        LoadShape::Batch,
        2,
        vec![
            request(0, 0, &[5, 10]),
            request(1, 0, &[5, 10]),
            request(2, 20, &[25, 30]),
            request(3, 20, &[25, 30]),
            request(4, 40, &[42, 44]),
        ],
    );
    assert_close(metric(&cell, MetricId::OutputTokPerS).value, 8.0 / 0.020);
    assert_close(metric(&cell, MetricId::KvBytes).value, 256.0 * 12.0 * 2.0);
}

#[test]
fn an_engine_that_runs_one_at_a_time_holds_one_cache_and_its_batches_say_so() {
    let two_at_once = |batching, batch| {
        let rows = [request(0, 0, &[5, 10]), request(1, 0, &[15, 20])];
        let rows = rows.map(|row| RequestRecord { batch, ..row });
        cell_batching(batching, LoadShape::Batch, 2, rows.to_vec())
    };
    let cell = two_at_once("none", 1);
    assert_close(metric(&cell, MetricId::KvBytes).value, 256.0 * 12.0);
    assert_close(metric(&cell, MetricId::BatchRequests).value, 1.0);
    let cell = two_at_once("static_equal_length", 2);
    assert_close(metric(&cell, MetricId::KvBytes).value, 256.0 * 12.0 * 2.0);
    assert_close(metric(&cell, MetricId::BatchRequests).value, 2.0);
    let alone = cell_of(LoadShape::Serial, 1, vec![request(0, 10, &[14, 16])]);
    let shared = alone.metric(MetricId::BatchRequests);
    assert_eq!(shared, None, "nothing to share");
}

#[test]
fn ramp_up_and_ramp_down_are_not_in_the_window() {
    // Three users of an engine without batching that takes 10 ms for a request of two tokens. Users
    // come at 0, 1 and 4 ms and send five requests in all. After the answer at 30.1 ms nothing new
    // is sent: the ramp-down begins.
    let requests = [
        request(0, 0, &[5, 10]),
        request(1, 1, &[15, 20]),
        request(2, 4, &[25, 30]),
        request(3, 11, &[35, 40]),
        request(4, 21, &[45, 50]),
    ];
    let timed: Vec<_> = requests.iter().collect();
    let window = steady(LoadShape::ClosedLoop, 3, &timed).unwrap();
    // The window opens with the third send and closes with the first answer that no send follows.
    assert_eq!(window.stretches, [(4 * MS + 1000, 30 * MS + 100_000)]);
    assert_eq!(window.tokens, 6);
    assert_close(window.tokens_per_s().unwrap(), 6.0 / 0.026099);
    // Order of the records does not matter.
    let turned: Vec<_> = requests.iter().rev().collect();
    assert_eq!(steady(LoadShape::ClosedLoop, 3, &turned), Some(window));
    // With more users than requests, the most requests that were in flight count.
    assert_eq!(
        steady(LoadShape::ClosedLoop, 8, &timed),
        steady(LoadShape::ClosedLoop, 3, &timed)
    );
    assert_eq!(steady(LoadShape::ClosedLoop, 3, &[]), None);
    assert_eq!(steady(LoadShape::Serial, 1, &[]), None);
}

#[test]
fn a_closed_loop_in_turns_has_a_window_in_each_turn() {
    // Two users who send a request of two tokens every 10 ms, 5 ms apart. Each turn begins and ends
    // with untimed requests. Between the turns the target is stopped for 900 ms.
    let turn = |from: u64| -> Vec<RequestRecord> {
        let request = |n: u64| {
            let due = from + 5 * n;
            RequestRecord {
                warmup: !(2..8).contains(&n),
                ..request(due, due, &[due + 5, due + 9])
            }
        };
        (0..10).map(request).collect()
    };
    let requests = [turn(0), turn(950)].concat();
    let all: Vec<_> = requests.iter().collect();
    let one = steady_in_turns(2, &all[..10]).unwrap();
    let both = steady_in_turns(2, &all).unwrap();
    assert_eq!(both.stretches.len(), 2);
    assert_eq!(both.tokens, 2 * one.tokens);
    assert_close(both.tokens_per_s().unwrap(), one.tokens_per_s().unwrap());
    // What is timed in one turn is what an uninterrupted loop times.
    let timed: Vec<_> = all[2..8].to_vec();
    assert_eq!(steady(LoadShape::ClosedLoop, 2, &timed), Some(one));
    // A turn that has fewer requests than users has no window where another has one.
    let short = [&all[..10], &all[12..13]].concat();
    assert_eq!(steady_in_turns(2, &short), steady_in_turns(2, &all[..10]));
    assert_eq!(steady_in_turns(2, &[]), None);
    // Users who are answered at once, and ask again 50 µs later, are in one turn: that time is the
    // loop's, as it is where nobody takes turns.
    let mut at_once = turn(0);
    for (n, r) in (0..).zip(&mut at_once) {
        let due = 10 * (n / 2);
        *r = RequestRecord {
            warmup: r.warmup,
            sent_ns: due * MS + 150_000 + n % 2,
            ..request(n, due, &[due + 5, due + 9])
        };
        r.answered_ns = (due + 10) * MS + 100_000;
    }
    let at_once: Vec<_> = at_once.iter().collect();
    let window = steady_in_turns(2, &at_once).unwrap();
    assert_eq!(window.stretches.len(), 1);
    assert_eq!(
        steady(LoadShape::ClosedLoop, 2, &at_once[2..8]),
        Some(window)
    );
}

#[test]
fn a_batching_engine_is_not_charged_for_the_ramp_down() {
    // Four requests at a time, 10 ms for a step of four tokens: 400 tok/s while kept busy. The ten
    // requests leave two for a last batch that is half empty.
    let batch_start = [0, 20, 40];
    let requests: Vec<_> = (0..10)
        .map(|id| {
            let start = batch_start[id as usize / 4];
            let due = if id < 4 { 0 } else { start };
            let mut r = request(id, due, &[start + 10, start + 20]);
            r.answered_ns -= 50_000;
            r
        })
        .collect();
    let timed: Vec<_> = requests.iter().collect();
    let window = steady(LoadShape::ClosedLoop, 4, &timed).unwrap();
    let rate = window.tokens_per_s().unwrap();
    assert!((rate - 400.0).abs() < 4.0, "{rate}");
    // All tokens over the whole time would give 333.
}

#[test]
fn cpu_utilisation_spans_the_window() {
    let reading = |ms: u64, cpu_ms: Option<u64>| Telemetry {
        t_ns: ms * MS,
        cpu_ns: cpu_ms.map(|ms| ms * MS),
        ..Telemetry::default()
    };
    let with = |telemetry: Vec<Telemetry>| {
        let mut made = made(&[plain()], 1, 1);
        let log = made.log(0);
        log.requests = vec![request(0, 0, &[25, 50, 75, 100])];
        log.telemetry = telemetry;
        let cell = made.cell();
        assert_eq!(cell.reason, "");
        let utilisation = cell.metric(MetricId::CpuUtilizationPercent);
        utilisation.map(|metric| metric.value)
    };
    // 135 ms of CPU time in 90 ms: one core and a half. Readings outside the window don't count.
    let all = vec![
        reading(5, Some(1000)),
        reading(50, Some(1080)),
        reading(95, Some(1135)),
        reading(300, Some(9000)),
    ];
    assert_close(with(all).unwrap(), 150.0);
    assert_eq!(with(vec![]), None);
    assert_eq!(with(vec![reading(5, None), reading(95, None)]), None);
    assert_eq!(with(vec![reading(50, Some(1))]), None);
    let corner = vec![reading(5, Some(1)), reading(45, Some(30))];
    assert_eq!(with(corner), None, "under half of the window");
    let backwards = vec![reading(5, Some(30)), reading(95, Some(1))];
    assert_eq!(with(backwards), None);
}

#[test]
fn a_metric_that_one_invocation_lacks_is_left_out() {
    let mut made = made(&[plain()], 5, 22);
    made.log(3).case_ends[0].peak_rss_bytes = None;
    let cell = made.cell();
    assert_eq!(cell.metric(MetricId::PeakRssBytes), None);
    for metric in &cell.metrics {
        assert_eq!(metric.by_invocation.len() as u32, cell.invocations);
    }
}

#[test]
fn the_value_is_the_mean_of_the_invocations_medians() {
    let mut made = made(&[plain()], 2, 3);
    for (invocation, ms) in [(0, [4, 5, 90]), (1, [6, 7, 8])] {
        made.log(invocation).requests = ms
            .iter()
            .enumerate()
            .map(|(i, ms)| {
                let due = 1000 * i as u64;
                let mut r = request(i as u64, due, &[due + ms, due + 100, due + 101, due + 102]);
                r.prompt += 10 * u64::from(invocation);
                r
            })
            .collect();
    }
    let cell = made.cell();
    let ttft = metric(&cell, MetricId::TtftNs);
    assert_eq!(ttft.by_invocation, [5e6, 7e6]);
    assert_eq!((ttft.n, ttft.value), (6, 6e6));
    // s = √2 ms, t(0.975, 1) = 12.706…: 6 ± 12.706 ms.
    assert_close(ttft.ci95.unwrap().1, 6e6 + 12.706204736174694e6);
    assert_close(ttft.cv_invocations.unwrap(), 2f64.sqrt() / 6.0);
    assert_eq!(cell.requests, 6);
}

#[test]
fn requests_counts_distinct_prompts() {
    let mut made = made(&[plain()], 5, 22);
    made.each(|r| r.prompt = r.id);
    let cell = made.cell();
    assert_eq!(cell.requests, 22);
    let ttft = metric(&cell, MetricId::TtftNs);
    assert_eq!((ttft.n, ttft.shape.as_ref().unwrap().p90), (110, None));
}

#[test]
fn every_metric_describes_itself() {
    for (index, id) in MetricId::ALL.into_iter().enumerate() {
        let about = id.describe();
        assert_eq!(MetricId::from_id(about.name), Some(id));
        assert!(about.definition.ends_with('.') && !about.definition.contains("  "));
        assert!(about.sample != Sample::Gap || id == MetricId::ItlNs);
        let unit_at_end = match about.unit {
            "ns" => "_ns",
            "bytes" => "_bytes",
            "requests" => "_requests",
            "%" => "_percent",
            "J" => "_j",
            "°C" => "_celsius",
            "MHz" => "_mhz",
            _ => "_per_s",
        };
        assert!(about.name.ends_with(unit_at_end), "{}", about.name);
        assert!(MetricId::ALL[..index].iter().all(|before| *before < id));
    }
    assert_eq!(MetricId::TtftNs.describe().better, Better::Lower);
    assert_eq!(MetricId::from_id("ttft"), None);
}

#[test]
fn unknown_names_in_reports_are_found() {
    let planned = PlannedScenario {
        id: common::SCENARIO.into(),
        version: 1,
        ..PlannedScenario::default()
    };
    let good = [scenario(&["itl_ns", "ttft_ns"])];
    assert_eq!(leading_of(&planned, &good), Some(MetricId::ItlNs));
    let bad = [scenario(&["ttft_ms", "itl_ns", "speed"])];
    assert_eq!(leading_of(&planned, &bad), None);
    let lines = validate(&[good, bad].concat());
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("\"ttft_ms\", which is no metric: use one of ttft_ns,"));
    assert!(lines[1].contains("\"speed\""));
}

#[test]
fn what_needs_one_prompt_length_is_absent_where_lengths_are_mixed() {
    let has = |made: &common::Made, id| made.cell().metric(id).is_some();
    let mut made = made(&[plain()], 2, 22);
    assert!(has(&made, MetricId::KvBytes));
    made.run.header.plan.scenarios[0].cases[0].prompt_tokens_mean = Some(7);
    assert!(has(&made, MetricId::TtftNs) && has(&made, MetricId::RequestsPerS));
    for id in [
        MetricId::KvBytes,
        MetricId::DecodeMbuPercent,
        MetricId::PrefillMfuPercent,
    ] {
        assert!(!has(&made, id), "{id:?}");
    }
}
