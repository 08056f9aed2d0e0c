//! From the records of one complete case to samples: what is subtracted from what.
//!
//! Warm-up requests never get here (see `evidence.rs`), nothing is trimmed, and
//! a counter that the machine could not read gives no sample, not a zero.

use crate::analysis::MetricId;
use crate::evidence::Attempt;
use crate::open_loop::Flow;
use crate::slo::is_good;
use crate::timing::ns_between;
use crate::utilization::{Limits, decode_mbu_percent, prefill_mfu_percent};
use crate::window::{Steady, steady};
use schema::plan::{Case, PlannedScenario};
use schema::record::RequestRecord;
use schema::scenario::LoadShape;

/// Least share of the window that the CPU readings must span, so that a window
/// with two readings in a corner of it isn't spoken for by them.
const CPU_SPAN_MIN: f64 = 0.5;

/// What a metric may need beyond the records of the case.
pub(crate) struct Setting<'a> {
    /// The target's precision.
    pub(crate) precision: &'a str,
    /// Of the run's machine and model.
    pub(crate) limits: Limits,
}

/// The samples of one invocation: many for metrics of requests and gaps, at most
/// one for metrics of invocations.
pub(crate) fn samples(
    metric: MetricId,
    scenario: &PlannedScenario,
    case: &Case,
    attempt: &Attempt,
    setting: &Setting,
) -> Vec<f64> {
    let each = |of: fn(&RequestRecord) -> Option<f64>| -> Vec<f64> {
        attempt.timed.iter().filter_map(|r| of(r)).collect()
    };
    let ready = attempt.log.ready.as_ref();
    let alone = scenario.load == LoadShape::Serial;
    let open = scenario.load.is_open();
    let flow = || Flow::of(&all(case, attempt)).filter(|_| open);
    let window = || match open {
        true => steady(scenario.load, case.concurrency, &all(case, attempt)),
        false => steady(scenario.load, case.concurrency, &attempt.timed),
    };
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
        MetricId::KvBytes => one(ready.map(|r| {
            let tokens = f64::from(case.prompt_tokens) + f64::from(case.new_tokens);
            r.kv_bytes_per_token as f64 * tokens * f64::from(case.concurrency)
        })),
        MetricId::GoodputPerS => one(goodput_per_s(scenario.load, case, attempt, window())),
        MetricId::OfferedPerS => one(flow().map(|flow| flow.offered_per_s())),
        MetricId::ShortfallPercent => one(flow().map(|flow| flow.shortfall_percent())),
        MetricId::ScheduleLagNs if !open => Vec::new(),
        MetricId::ScheduleLagNs => each(|r| Some(ns_between(r.scheduled_ns, r.sent_ns))),
        MetricId::CpuUtilizationPercent => {
            one(window().and_then(|w| cpu_percent(attempt, w.start_ns, w.end_ns)))
        }
        MetricId::DecodeMbuPercent => one(alone.then_some(ready).flatten().and_then(|ready| {
            decode_mbu_percent(&attempt.timed, case.prompt_tokens, ready, &setting.limits)
        })),
        MetricId::PrefillMfuPercent => one(alone
            .then(|| {
                let (tokens, precision) = (case.prompt_tokens, setting.precision);
                prefill_mfu_percent(&attempt.timed, tokens, precision, &setting.limits)
            })
            .flatten()),
    }
}

/// Every request of a case, warm-up and fillers included.
fn all<'a>(case: &Case, attempt: &Attempt<'a>) -> Vec<&'a RequestRecord> {
    let requests = attempt.log.requests.iter();
    requests.filter(|r| r.case == case.id).collect()
}

/// Good requests a second: those whose last token came within the steady window, so that
/// no more are counted than were served. One user at a time, or a batch, is no load that
/// anybody promises a latency for.
fn goodput_per_s(
    load: LoadShape,
    case: &Case,
    attempt: &Attempt,
    window: Option<Steady>,
) -> Option<f64> {
    let (slo, window) = (attempt.slo?, window?);
    let requests = match load {
        LoadShape::Serial | LoadShape::Batch => return None,
        LoadShape::ClosedLoop => attempt.timed.clone(),
        LoadShape::Poisson | LoadShape::ConstantRate => all(case, attempt),
    };
    let within = |ns: &u64| (window.start_ns + 1..=window.end_ns).contains(ns);
    let good = |r: &&&RequestRecord| r.token_ns.last().is_some_and(within) && is_good(r, &slo);
    let good = requests.iter().filter(good).count();
    Some(good as f64 / (window.busy_ns / 1e9))
}

fn tpot_ns(request: &RequestRecord) -> Option<f64> {
    let [first, .., last] = request.token_ns.as_slice() else {
        return None;
    };
    Some(ns_between(*first, *last) / (request.token_ns.len() - 1) as f64)
}

/// CPU time over wall time between the first and the last reading inside the
/// window. Nothing is interpolated to its edges: a reading is a measurement.
fn cpu_percent(attempt: &Attempt, start_ns: u64, end_ns: u64) -> Option<f64> {
    let mut readings = attempt
        .log
        .telemetry
        .iter()
        .filter(|t| (start_ns..=end_ns).contains(&t.t_ns))
        .filter_map(|t| Some((t.t_ns, t.cpu_ns?)));
    let (first_at, first_cpu) = readings.next()?;
    let (last_at, last_cpu) = readings.next_back()?;
    let wall = ns_between(first_at, last_at);
    let long_enough = wall > 0.0 && wall >= CPU_SPAN_MIN * ns_between(start_ns, end_ns);
    // A process tree that loses a child can seem to run backwards; that is no reading.
    (long_enough && last_cpu >= first_cpu).then(|| 100.0 * ns_between(first_cpu, last_cpu) / wall)
}
