//! What an open loop offered and what was served of it.
//!
//! All rates are over the steady window: from the arrival at which the latencies settle
//! ([`crate::stationarity`]) to the last timed one, after which the load is no longer the case's.
//! Over-saturated is a cell whose shortfall is above 0 by its interval over invocations:
//! within one invocation the queue's ups and downs depend on each other, and a trend
//! test on them would find growth where there is none.
//!
//! Goodput: requests a second that a user would still call responsive.
//!
//! A request counts where its time to first token is within the limit and so are at
//! least 90 % of its gaps between tokens. The idea is DistServe's (Zhong et al., OSDI
//! 2024); theirs is the largest rate at which 90 % of the requests are good, ours the
//! rate of good ones at the load that was offered, which needs no search.

use crate::analysis::{Cell, MetricId};
use crate::stationarity;
use crate::timing::ns_between;
use schema::profile::Slo;
use schema::record::RequestRecord;

/// An open loop's steady window and what fell into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The arrival that opens it (ns).
    pub start_ns: u64,
    /// The last timed arrival (ns).
    pub end_ns: u64,
    /// Timed requests that were due within it, the opening one not counted.
    pub arrivals: u64,
    /// Requests, untimed ones too, whose last token came within it.
    pub completions: u64,
    /// Output tokens, of untimed requests too, that came within it.
    pub tokens: u64,
    /// Whether the latencies settled before half of the arrivals.
    pub settled: bool,
}

impl Flow {
    /// The flow of all requests of a case in one invocation, warm-up and fillers included;
    /// `None` with fewer than two timed arrivals.
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
            settled: stationarity::settled(timed.len(), cut),
        })
    }

    /// Length of the window (s).
    pub fn window_s(&self) -> f64 {
        ns_between(self.start_ns, self.end_ns) / 1e9
    }

    /// Requests a second that came.
    pub fn offered_per_s(&self) -> f64 {
        self.arrivals as f64 / self.window_s()
    }

    /// 100 · (1 − served ÷ offered): the share of what came that was left for later. 0 on
    /// average where the engine keeps up, negative where a queue shrank.
    pub fn shortfall_percent(&self) -> f64 {
        100.0 * (1.0 - self.completions as f64 / self.arrivals as f64)
    }
}

/// Whether a cell was offered more than it served: its shortfall's 95 % interval lies
/// above 0. `None` where there is no interval, or it is no open loop.
pub fn over_saturated(cell: &Cell) -> Option<bool> {
    let shortfall = cell.metric(MetricId::ShortfallPercent)?;
    Some(shortfall.ci95?.0 > 0.0)
}

/// Share of a request's gaps that must be within the limit.
const GAPS_WITHIN: f64 = 0.9;

/// Whether a request meets both limits.
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

/// Whether a cell meets both limits at its 90th percentiles; `None` where it has too few
/// requests for one.
pub fn meets(cell: &Cell, slo: &Slo) -> Option<bool> {
    let p90_ms = |id| Some(cell.metric(id)?.shape.as_ref()?.p90? / 1e6);
    let (ttft_ms, itl_ms) = (p90_ms(MetricId::TtftNs)?, p90_ms(MetricId::ItlNs)?);
    Some(ttft_ms <= slo.ttft_p90_ms && itl_ms <= slo.itl_p90_ms)
}
