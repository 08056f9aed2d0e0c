//! The samples of one complete case: which stamps and counters of its records each metric uses.
//!
//! Warm-up requests are removed beforehand (see `evidence.rs`), nothing is trimmed, and a counter
//! that the machine could not read gives no sample, not a zero.

use crate::analysis::MetricId;
use crate::counters::{Readings, energy_mj};
use crate::disturbance::is_throttled;
use crate::evidence::Attempt;
use crate::open_loop::{Flow, is_good};
use crate::timing::{ns_between, tpot_ns};
use crate::utilization::{Limits, decode_mbu_percent, prefill_mfu_percent};
use crate::window::{Steady, steady, steady_in_turns};
use schema::plan::{Case, PlannedScenario};
use schema::record::{RequestRecord, Telemetry};
use schema::scenario::LoadShape;

/// Return the samples of one invocation: many for metrics of requests and gaps, at most one for
/// metrics of invocations. `limits` are those of the target's device in its number format.
pub(crate) fn samples(
    metric: MetricId,
    scenario: &PlannedScenario,
    case: &Case,
    attempt: &Attempt,
    limits: &Limits,
) -> Vec<f64> {
    let each = |of: fn(&RequestRecord) -> Option<f64>| -> Vec<f64> {
        attempt.timed.iter().filter_map(|r| of(r)).collect()
    };
    let ready = attempt.log.ready.as_ref();
    // Metrics that are computed from a prompt's length need serial requests of one length.
    let alone = scenario.load == LoadShape::Serial && !case.has_mixed_lengths();
    let open = scenario.load.is_open();
    let flow = || Flow::new(&all(attempt)).filter(|_| open);
    // The load is that of the case that was measured, which may belong to another scenario.
    let window = || match attempt.scenario.load {
        load if open => steady(load, case.concurrency, &all(attempt)),
        LoadShape::ClosedLoop if attempt.scenario.turns => {
            steady_in_turns(case.concurrency, &all(attempt))
        }
        load => steady(load, case.concurrency, &attempt.timed),
    };
    let shares_steps = case.concurrency != 1 && attempt.scenario.load != LoadShape::Serial;
    let one = |value: Option<f64>| value.into_iter().collect();
    match metric {
        MetricId::TtftNs => each(|r| Some(ns_between(r.scheduled_ns, *r.token_ns.first()?))),
        MetricId::TtftFromSentNs => each(|r| Some(ns_between(r.sent_ns, *r.token_ns.first()?))),
        MetricId::E2eNs => each(|r| Some(ns_between(r.scheduled_ns, *r.token_ns.last()?))),
        MetricId::ReportLagNs => each(|r| Some(ns_between(*r.token_ns.last()?, r.answered_ns))),
        MetricId::TpotNs => each(tpot_ns),
        MetricId::ItlNs => attempt
            .timed
            .iter()
            .flat_map(|r| r.token_ns.windows(2).map(|two| ns_between(two[0], two[1])))
            .collect(),
        MetricId::OutputTokPerS => one(window().and_then(|w| w.tokens_per_s())),
        MetricId::RequestsPerS => one(window()
            .and_then(|w| w.tokens_per_s())
            .map(|rate| rate / f64::from(case.new_tokens))),
        MetricId::ColdStartNs => {
            one(ready.map(|r| ns_between(attempt.log.launch.start_ns, r.ready_ns)))
        }
        MetricId::LoadNs => one(ready.map(|r| r.load_ns as f64)),
        MetricId::WeightBytes => one(ready.map(|r| r.weight_bytes as f64)),
        MetricId::PeakRssBytes => one(attempt.end.peak_rss_bytes.map(|bytes| bytes as f64)),
        // Prompts of mixed lengths have no single size of the cache.
        MetricId::KvBytes if case.has_mixed_lengths() => Vec::new(),
        MetricId::KvBytes => one(ready.map(|r| {
            let tokens = f64::from(case.prompt_tokens) + f64::from(case.new_tokens);
            let held = if r.batching == "none" {
                1
            } else {
                case.concurrency
            };
            r.kv_bytes_per_token as f64 * tokens * f64::from(held)
        })),
        MetricId::BatchRequests if !shares_steps => Vec::new(),
        MetricId::BatchRequests => each(|r| Some(f64::from(r.batch))),
        MetricId::GoodputPerS => one(goodput_per_s(scenario.load, attempt, window())),
        MetricId::OfferedPerS => one(flow().map(|flow| flow.offered_per_s())),
        MetricId::ShortfallPercent => one(flow().map(|flow| flow.shortfall_percent())),
        MetricId::ScheduleLagNs if !open => Vec::new(),
        MetricId::ScheduleLagNs => each(|r| Some(ns_between(r.scheduled_ns, r.sent_ns))),
        MetricId::DecodeMbuPercent => one(alone.then_some(ready).flatten().and_then(|ready| {
            decode_mbu_percent(&attempt.timed, case.prompt_tokens, ready, limits)
        })),
        // The part of a prompt that is cached isn't computed.
        MetricId::PrefillMfuPercent => one((alone && case.shared_tokens() == 0)
            .then(|| prefill_mfu_percent(&attempt.timed, case.prompt_tokens, limits))
            .flatten()),
        // These are metrics of micro programs, which have no requests.
        MetricId::CallNs | MetricId::FirstCallNs => Vec::new(),
        MetricId::PeakGpuMemoryBytes => one(peak_gpu_memory_bytes(attempt)),
        MetricId::CpuUtilizationPercent
        | MetricId::CpuPerTokenNs
        | MetricId::CpuEnergyPerTokenJ
        | MetricId::GpuUtilizationPercent
        | MetricId::GpuSmActivePercent
        | MetricId::GpuTensorActivePercent
        | MetricId::GpuDramBandwidthPercent
        | MetricId::GpuMemoryUtilizationPercent
        | MetricId::GpuTemperatureCelsius
        | MetricId::GpuSmClockMhz
        | MetricId::GpuThrottledPercent
        | MetricId::GpuEnergyPerTokenJ
        | MetricId::SamplerCpuPercent => {
            one(window().and_then(|w| of_counters(metric, attempt, &w)))
        }
    }
}

/// Compute a metric of counters from the readings within the steady window.
fn of_counters(metric: MetricId, attempt: &Attempt, window: &Steady) -> Option<f64> {
    let telemetry = &attempt.log.telemetry;
    let readings = Readings::within(telemetry, window.start_ns(), window.end_ns());
    let cores = |of: fn(&Telemetry) -> Option<u64>| Some(readings.growth(of)?.per_ns());
    // The readings of a turn surround its untimed requests too, so their tokens count.
    let tokens = match readings.are_of_turns() {
        true => {
            let tokens = all(attempt).into_iter().flat_map(|r| &r.token_ns);
            tokens.filter(|t_ns| readings.span(**t_ns)).count() as u64
        }
        false => window.tokens,
    };
    let tokens = Some(tokens as f64).filter(|&tokens| tokens > 0.0)?;
    let per_token = |per_ns: f64| per_ns * readings.time_ns / tokens;
    match metric {
        MetricId::CpuUtilizationPercent => Some(100.0 * cores(|t| t.cpu_ns)?),
        MetricId::CpuPerTokenNs => Some(per_token(cores(|t| t.cpu_ns)?)),
        MetricId::CpuEnergyPerTokenJ => {
            let package = cores(|t| t.package_energy_uj)?;
            let dram = cores(|t| t.dram_energy_uj).unwrap_or(0.0);
            Some(per_token(package + dram) / 1e6)
        }
        // Power is read too seldom to tell turns apart.
        MetricId::GpuEnergyPerTokenJ if readings.are_of_turns() => None,
        MetricId::GpuEnergyPerTokenJ => {
            let power: Vec<(u64, f64)> = telemetry
                .iter()
                .filter_map(|t| Some((t.t_ns, t.gpu_power_mw? as f64)))
                .collect();
            Some(energy_mj(&power, window.start_ns(), window.end_ns())? / 1e3 / tokens)
        }
        MetricId::GpuUtilizationPercent => readings.mean(|t| t.gpu_utilization_percent),
        MetricId::GpuSmActivePercent => readings.mean(|t| t.gpu_sm_active_percent),
        MetricId::GpuTensorActivePercent => readings.mean(|t| t.gpu_tensor_active_percent),
        MetricId::GpuDramBandwidthPercent => readings.mean(|t| t.gpu_dram_bandwidth_percent),
        MetricId::GpuMemoryUtilizationPercent => {
            readings.mean(|t| t.gpu_memory_utilization_percent)
        }
        MetricId::GpuTemperatureCelsius => {
            readings.mean(|t| t.gpu_temperature_celsius.map(f64::from))
        }
        MetricId::GpuSmClockMhz => readings.mean(|t| t.gpu_sm_clock_mhz.map(f64::from)),
        MetricId::GpuThrottledPercent => readings.mean(|t| {
            let is_held = is_throttled(t.gpu_throttle_reasons?);
            Some(if is_held { 100.0 } else { 0.0 })
        }),
        MetricId::SamplerCpuPercent => Some(100.0 * cores(|t| t.sampler_cpu_ns)?),
        _ => None, // not a metric of counters
    }
}

/// Return the peak of the engine's own GPU memory (bytes), where the driver tells memory apart by
/// process; else that of all memory in use, on a device that shows no second process. All readings
/// up to the end of the case count, because memory belongs to a process, not to a case.
fn peak_gpu_memory_bytes(attempt: &Attempt) -> Option<f64> {
    let until_end = || {
        let all = attempt.log.telemetry.iter();
        all.filter(|reading| reading.t_ns <= attempt.end.end_ns)
    };
    let own = until_end()
        .filter_map(|reading| reading.gpu_memory_bytes)
        .max();
    let alone = !until_end().any(|reading| reading.gpu_processes.is_some_and(|n| n > 1));
    let used = || {
        until_end()
            .filter_map(|reading| reading.gpu_memory_used_bytes)
            .max()
    };
    own.or_else(|| used().filter(|_| alone))
        .map(|bytes| bytes as f64)
}

/// Return every request of a case, warm-up and fillers included.
fn all<'a>(attempt: &Attempt<'a>) -> Vec<&'a RequestRecord> {
    let requests = attempt.log.requests.iter();
    requests.filter(|r| r.case == attempt.case).collect()
}

/// Return the good requests per second: those whose last token came within the steady window, so
/// that no more are counted than were served. `None` for serial loads and batches, for which no
/// service promises a latency.
fn goodput_per_s(load: LoadShape, attempt: &Attempt, window: Option<Steady>) -> Option<f64> {
    let (slo, window) = (attempt.slo?, window?);
    let requests = match load {
        LoadShape::Serial | LoadShape::Batch => return None,
        LoadShape::ClosedLoop => attempt.timed.clone(),
        LoadShape::Poisson | LoadShape::ConstantRate => all(attempt),
    };
    let within = |at_ns: &u64| window.contains(*at_ns);
    let good = |r: &&&RequestRecord| r.token_ns.last().is_some_and(within) && is_good(r, &slo);
    let good = requests.iter().filter(good).count();
    Some(good as f64 / (window.busy_ns() / 1e9))
}
