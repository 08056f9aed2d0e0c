//! The load that an open loop offered, and how much of it was served.
//!
//! All rates are over the steady window: from the arrival at which the latencies settle
//! ([`crate::stationarity`]) to the last timed one, after which the load is no longer the case's. A
//! cell is over-saturated where the interval of its shortfall over invocations lies above 0. Within
//! one invocation, successive queue lengths depend on each other, and a trend test on them would
//! find growth where there is none.
//!
//! Goodput is the number of requests per second that a user would still call responsive. A request
//! counts where its time to first token is within the limit and so are at least 90 % of its gaps
//! between tokens. The idea is DistServe's (Zhong et al., OSDI 2024). DistServe's goodput is the
//! largest rate at which 90 % of the requests are good; ours is the rate of good requests at the
//! load that was offered, which needs no search.

use crate::analysis::{Cell, MetricId};
use crate::stationarity;
use crate::timing::ns_between;
use schema::profile::Slo;
use schema::record::RequestRecord;

/// The steady window of an open loop, and counts of what fell into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Time of the arrival that opens the window (ns).
    pub start_ns: u64,
    /// Time of the last timed arrival (ns).
    pub end_ns: u64,
    /// Number of timed requests that were due within the window, the opening one not counted.
    pub arrivals: u64,
    /// Number of requests, untimed ones too, whose last token came within the window.
    pub completions: u64,
    /// Number of output tokens, of untimed requests too, that came within the window.
    pub tokens: u64,
}

impl Flow {
    /// Compute the flow from all requests of a case in one invocation, warm-up and fillers
    /// included; `None` with fewer than two timed arrivals.
    pub fn new(requests: &[&RequestRecord]) -> Option<Self> {
        let mut timed: Vec<&RequestRecord> =
            requests.iter().copied().filter(|r| !r.warmup).collect();
        timed.sort_by_key(|r| (r.scheduled_ns, r.id));
        let e2e_ns: Option<Vec<f64>> = timed
            .iter()
            .map(|r| Some(ns_between(r.scheduled_ns, *r.token_ns.last()?)))
            .collect();
        let cut = stationarity::truncation(&e2e_ns?);
        let (start_ns, end_ns) = (timed.get(cut)?.scheduled_ns, timed.last()?.scheduled_ns);
        let within = |ns: &u64| (start_ns + 1..=end_ns).contains(ns);
        let last_tokens = requests.iter().filter_map(|r| r.token_ns.last());
        let tokens = requests.iter().flat_map(|r| &r.token_ns);
        (start_ns < end_ns).then(|| Self {
            start_ns,
            end_ns,
            arrivals: timed.iter().filter(|r| within(&r.scheduled_ns)).count() as u64,
            completions: last_tokens.filter(|ns| within(ns)).count() as u64,
            tokens: tokens.filter(|ns| within(ns)).count() as u64,
        })
    }

    /// Return the length of the window (s).
    pub fn window_s(&self) -> f64 {
        ns_between(self.start_ns, self.end_ns) / 1e9
    }

    /// Return the number of requests that were due per second.
    pub fn offered_per_s(&self) -> f64 {
        self.arrivals as f64 / self.window_s()
    }

    /// Return 100 · (1 − served ÷ offered): the percentage of the offered load that was left for
    /// later. It is 0 on average where the engine keeps up, and negative where a queue shrank.
    pub fn shortfall_percent(&self) -> f64 {
        100.0 * (1.0 - self.completions as f64 / self.arrivals as f64)
    }
}

/// Whether a cell was offered more than it served: the 95 % interval of its shortfall lies above 0.
/// `None` where there is no interval, or the cell is no open loop.
pub fn over_saturated(cell: &Cell) -> Option<bool> {
    let shortfall = cell.metric(MetricId::ShortfallPercent)?;
    Some(shortfall.ci95?.0 > 0.0)
}

/// Minimum share of a request's gaps that must be within the limit.
const GAPS_WITHIN: f64 = 0.9;

/// Whether a request is good: its time to first token and enough of its gaps are within the limits.
pub fn is_good(request: &RequestRecord, slo: &Slo) -> bool {
    let Some(&first) = request.token_ns.first() else {
        return false;
    };
    let ttft_ms = ns_between(request.scheduled_ns, first) / 1e6;
    let gaps = request
        .token_ns
        .windows(2)
        .map(|w| ns_between(w[0], w[1]) / 1e6);
    let within = gaps.filter(|gap_ms| *gap_ms <= slo.itl_p90_ms).count();
    let needed = GAPS_WITHIN * (request.token_ns.len() - 1) as f64;
    ttft_ms <= slo.ttft_p90_ms && within as f64 >= needed
}

/// Whether a cell meets both limits at its 90th percentiles; `None` where it has too few requests
/// for these.
pub fn meets(cell: &Cell, slo: &Slo) -> Option<bool> {
    let p90_ms = |id| Some(cell.metric(id)?.shape.as_ref()?.p90? / 1e6);
    let (ttft_ms, itl_ms) = (p90_ms(MetricId::TtftNs)?, p90_ms(MetricId::ItlNs)?);
    Some(ttft_ms <= slo.ttft_p90_ms && itl_ms <= slo.itl_p90_ms)
}
