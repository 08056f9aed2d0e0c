//! Tests of open loops: what was offered, what was served of it, and goodput.

use crate::common::{self, Engine, assert_close, made, metric, plain};
use schema::capacity::Capacity;
use schema::plan::{Case, PlannedScenario};
use schema::profile::Slo;
use schema::record::{RequestRecord, Status};
use schema::scenario::{Axis, LoadShape};
use splitmix::SplitMix64;
use stats::analysis::{Cell, MetricId};
use stats::open_loop::{Flow, is_good, meets, over_saturated};
use stats::window::steady;

const MS: u64 = 1_000_000;

/// Serve requests one at a time in order of arrival, each in `service_ms` and with two tokens.
fn serve(dues_ms: &[f64], service_ms: impl Fn(usize) -> f64) -> Vec<RequestRecord> {
    let mut free_ms = 0.0f64;
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    dues_ms
        .iter()
        .enumerate()
        .map(|(index, &due_ms)| {
            let start_ms = free_ms.max(due_ms);
            free_ms = start_ms + service_ms(index);
            RequestRecord {
                case: common::CASE.into(),
                id: index as u64,
                prompt: index as u64,
                scheduled_ns: ns(due_ms),
                sent_ns: ns(due_ms) + 20_000,
                received_ns: ns(due_ms) + 30_000,
                started_ns: ns(start_ms) + 30_000,
                token_ns: vec![ns(free_ms) - MS / 2, ns(free_ms)],
                answered_ns: ns(free_ms) + 50_000,
                batch: 1,
                output_ids: vec![0; 2],
                ..RequestRecord::default()
            }
        })
        .collect()
}

/// Draw arrivals every `gap_ms`, each up to a third of a gap late, by a seed.
fn arrivals(count: usize, gap_ms: f64, seed: u64) -> Vec<f64> {
    let mut random = SplitMix64(seed);
    (0..count)
        .map(|i| 100.0 + gap_ms * (i as f64 + common::unit(&mut random) / 3.0))
        .collect()
}

/// Compute the flow of requests that are due every 10 ms.
fn flow(count: u32, service_ms: impl Fn(usize) -> f64) -> Flow {
    let dues: Vec<f64> = (0..count).map(|i| 10.0 * f64::from(i)).collect();
    let requests = serve(&dues, service_ms);
    Flow::new(&requests.iter().collect::<Vec<_>>()).unwrap()
}

/// Make a cell of an open loop, with one list of requests per invocation.
fn cell(invocations: Vec<Vec<RequestRecord>>, slo: Option<Slo>) -> Cell {
    let mut made = made(&[plain()], invocations.len() as u32, 1);
    made.run.header.plan.slo = slo;
    made.run.header.plan.scenarios = vec![scenario()];
    for (invocation, requests) in invocations.into_iter().enumerate() {
        made.log(invocation as u32).requests = requests;
    }
    let cell = made.cell();
    assert_eq!(cell.reason, "");
    cell
}

fn scenario() -> PlannedScenario {
    PlannedScenario {
        id: common::SCENARIO.into(),
        version: 1,
        load: LoadShape::Poisson,
        axis: Axis::LoadPercent,
        cases: vec![Case {
            new_tokens: 2,
            load_percent: Some(90),
            ..common::case(1)
        }],
        ..PlannedScenario::default()
    }
}

fn value(cell: &Cell, id: MetricId) -> f64 {
    metric(cell, id).value
}

#[test]
fn a_flow_by_hand() {
    // Due every 10 ms, 4 ms of service: each is done before the next comes.
    let dues: Vec<f64> = (0..11).map(|i| 10.0 * f64::from(i)).collect();
    let requests = serve(&dues, |_| 4.0);
    let all: Vec<_> = requests.iter().collect();
    let flow = Flow::new(&all).unwrap();
    assert_eq!((flow.start_ns, flow.end_ns), (0, 100 * MS));
    // Ten came after the opening one; the last is not done when the window closes.
    assert_eq!((flow.arrivals, flow.completions, flow.tokens), (10, 10, 20));
    assert_close(flow.offered_per_s(), 100.0);
    assert_close(flow.shortfall_percent(), 0.0);
    let window = steady(LoadShape::Poisson, 1, &all).unwrap();
    assert_close(window.tokens_per_s().unwrap(), 200.0);
    assert_eq!(Flow::new(&all[..1]), None);
    assert_eq!(Flow::new(&[]), None);
}

#[test]
fn untimed_requests_count_as_served_and_not_as_offered() {
    let dues: Vec<f64> = (0..6).map(|i| 10.0 * f64::from(i)).collect();
    // 12 ms each: the untimed first two are still being served when the timed ones come.
    let mut requests = serve(&dues, |_| 12.0);
    requests[0].warmup = true;
    requests[1].warmup = true;
    let all: Vec<_> = requests.iter().collect();
    let flow = Flow::new(&all).unwrap();
    // Timed: due at 20, 30, 40, 50 ms. Done at 24 (untimed), 36, 48, then after the end.
    assert_eq!((flow.arrivals, flow.completions), (3, 3));
}

#[test]
fn a_slow_beginning_is_not_in_the_window() {
    // The first 40 take 9 ms of 10, later ones 2 ms: a cold start.
    let flow = flow(200, |i| if i < 40 { 9.0 } else { 2.0 });
    assert_eq!(flow.start_ns, 400 * MS);
}

#[test]
fn a_queue_that_only_grows_never_settles() {
    let flow = flow(200, |_| 12.0);
    assert_eq!(flow.start_ns, 1000 * MS, "half of it is left out");
    // 12 ms of work come every 10 ms: a sixth is left for later.
    assert!((flow.shortfall_percent() - 100.0 / 6.0).abs() < 2.0);
}

#[test]
fn over_saturation_is_said_where_the_interval_over_launches_says_so() {
    let at = |gap_ms: f64| {
        let launch = |seed| serve(&arrivals(120, gap_ms, seed), |_| 10.0);
        cell((1..=5).map(launch).collect(), None)
    };
    let over = at(9.0);
    assert_eq!(over_saturated(&over), Some(true));
    assert!((value(&over, MetricId::ShortfallPercent) - 10.0).abs() < 2.0);
    assert!((value(&over, MetricId::OfferedPerS) - 1000.0 / 9.0).abs() < 2.0);
    assert!((value(&over, MetricId::RequestsPerS) - 100.0).abs() < 2.0);
    assert_eq!(over_saturated(&at(20.0)), Some(false));
    // One launch has no interval, so nothing is said of over-saturation.
    let once = cell(vec![serve(&arrivals(120, 9.0, 1), |_| 10.0)], None);
    assert_eq!(over_saturated(&once), None);
    // Nothing is said of a load that is no open loop either.
    assert_eq!(over_saturated(&made(&[plain()], 5, 20).cell()), None);
}

#[test]
fn lag_is_sent_minus_due_and_only_open_loops_have_it() {
    let open = cell(vec![serve(&arrivals(20, 20.0, 1), |_| 5.0)], None);
    assert_close(value(&open, MetricId::ScheduleLagNs), 20_000.0);
    let serial = made(&[plain()], 2, 20).cell();
    let has = |id| serial.metric(id).is_some();
    assert!(!has(MetricId::ScheduleLagNs) && !has(MetricId::OfferedPerS));
    assert!(!has(MetricId::GoodputPerS));
}

const SLO: Slo = Slo {
    ttft_p90_ms: 10.0,
    itl_p90_ms: 1.0,
};

#[test]
fn a_request_is_good_within_both_limits() {
    let request = |ttft_ms: u64, gaps_us: &[u64]| {
        let mut at = 100 * MS + ttft_ms * MS;
        let mut token_ns = vec![at];
        for us in gaps_us {
            at += us * 1000;
            token_ns.push(at);
        }
        RequestRecord {
            scheduled_ns: 100 * MS,
            token_ns,
            ..serve(&[100.0], |_| 1.0).remove(0)
        }
    };
    let fast = [500; 10];
    let one_slow = [500, 500, 500, 500, 500, 500, 500, 500, 500, 9000];
    let two_slow = [500, 500, 500, 500, 500, 500, 500, 500, 9000, 9000];
    assert!(is_good(&request(10, &fast), &SLO));
    assert!(!is_good(&request(11, &fast), &SLO));
    assert!(is_good(&request(5, &one_slow), &SLO), "nine gaps of ten");
    assert!(!is_good(&request(5, &two_slow), &SLO));
    assert!(is_good(&request(5, &[]), &SLO), "one token has no gaps");
}

#[test]
fn goodput_counts_good_requests_in_the_window() {
    // Due every 20 ms; every fifth takes 15 ms, too long to its first token.
    let dues: Vec<f64> = (0..101).map(|i| 20.0 * f64::from(i)).collect();
    let launch = || serve(&dues, |i| if i % 5 == 4 { 15.0 } else { 5.0 });
    let open = cell(vec![launch(), launch()], Some(SLO));
    assert_close(value(&open, MetricId::OfferedPerS), 50.0);
    assert_close(value(&open, MetricId::GoodputPerS), 40.0);
    assert_eq!(meets(&open, &SLO), Some(false), "a fifth is late");
    let lenient = Slo {
        ttft_p90_ms: 15.0,
        ..SLO
    };
    assert_eq!(meets(&open, &lenient), Some(true));
    // More is offered than served, and every request is good: no more are counted than were served.
    let forgiving = Slo {
        ttft_p90_ms: 1e6,
        itl_p90_ms: 1e6,
    };
    let over = cell(vec![serve(&dues, |_| 40.0)], Some(forgiving));
    assert!((value(&over, MetricId::OfferedPerS) - 50.0).abs() < 0.1);
    assert!((value(&over, MetricId::GoodputPerS) - 25.0).abs() < 1.0);
    let few = cell(vec![serve(&dues[..20], |_| 5.0)], Some(SLO));
    assert_eq!(meets(&few, &SLO), None, "20 requests have no p90");
}

#[test]
fn in_a_closed_loop_goodput_is_of_what_was_answered() {
    let mut made = made(&[plain()], 1, 1);
    made.run.header.plan.slo = Some(SLO);
    made.run.header.plan.scenarios = vec![PlannedScenario {
        load: LoadShape::ClosedLoop,
        axis: Axis::Users,
        ..scenario()
    }];
    // One user sends each request when the last one is answered: 5 ms a request.
    let dues: Vec<f64> = (0..40).map(|i| 5.0 * f64::from(i)).collect();
    made.log(0).requests = serve(&dues, |_| 5.0);
    let cell = made.cell();
    let rate = value(&cell, MetricId::RequestsPerS);
    assert!((value(&cell, MetricId::GoodputPerS) / rate - 1.0).abs() < 0.03);
}

#[test]
fn nobody_is_ranked_or_compared_where_each_has_a_load_of_its_own() {
    let made = || {
        let twice = Engine::plain("twice.cpu.f32");
        let mut made = made(&[plain(), twice], 5, 1);
        made.run.header.plan.scenarios = vec![scenario()];
        for log in &mut made.run.launches {
            // Each is offered half of its capacity: the second serves twice as much, and is offered
            // it.
            let ms = match log.launch.target.as_str() {
                "twice.cpu.f32" => 5.0,
                _ => 10.0,
            };
            let seed = u64::from(log.launch.invocation) + 1;
            log.requests = serve(&arrivals(120, 2.0 * ms, seed), |_| ms);
        }
        made.reports(&["e2e_ns", "requests_per_s"])
    };
    let own = made().analyse();
    assert!(own.cells.iter().all(|cell| !cell.metrics.is_empty()));
    assert!(own.cells.iter().all(|cell| cell.rank.is_none()));
    assert!(own.comparisons.is_empty());
    // In a closed loop the same numbers are compared.
    let mut closed = made();
    let scenario = &mut closed.run.header.plan.scenarios[0];
    (scenario.load, scenario.axis) = (LoadShape::ClosedLoop, Axis::Users);
    let closed = closed.analyse();
    assert!(closed.cells.iter().all(|cell| cell.rank.is_some()));
    assert!(!closed.comparisons.is_empty());
}

#[test]
fn an_open_loop_without_a_capacity_says_why() {
    let mut made = made(&[plain()], 1, 1);
    made.run.header.plan.scenarios = vec![scenario()];
    made.run.launches.clear();
    made.run.capacities = vec![Capacity {
        target: plain().target.into(),
        prompt_tokens: 10,
        new_tokens: 2,
        concurrency: 1,
        status: Status::Oom,
        reason: "the capacity stage failed: out of memory".into(),
        ..Capacity::default()
    }];
    let cell = made.cell();
    assert_eq!(cell.status, Status::Oom);
    assert!(cell.reason.contains("capacity stage"));
}

#[test]
fn a_target_that_a_scenario_leaves_out_has_no_cell_there() {
    let mut made = made(&[plain()], 1, 20);
    made.run.header.plan.scenarios[0].targets = vec!["other.cpu.f32".into()];
    assert!(made.analyse().cells.is_empty());
}
