//! Checks of an engine's stamps against the harness's own.
//!
//! All processes of a host share one `CLOCK_MONOTONIC`, so the harness's stamps bound an engine's
//! from both sides without any slack: no request is received before it was due, and no token comes
//! after its answer was read. (The lower bound is `scheduled_ns`, not `sent_ns`: the latter is
//! stamped *after* the write, and a reader on another core may well be quicker.)
//!
//! Inside these bounds a clock can still run slow, or start over. Then the last token is stamped
//! too early, and the answer seems late: the report lag grows with the length of the request, which
//! the lag of a pipe does not. On a busy machine single lags can be long although the stamps are
//! right (the engine's threads hold every core when the answer is written), so no single request is
//! judged, but the cell:
//!
//! 1. The median lag must not exceed 5 ms or 10 % of the median end-to-end time, whichever is more:
//!    half of all answers would have to be held up. (Over a bare pipe, with a spinning thread on
//!    each of two cores and a load of 4, the median of 300 lags was 0.01 ms, the 90th percentile
//!    0.04 ms and the greatest 9 ms; an engine with right stamps beside another that kept both
//!    cores busy had a median of 3.5 ms over five requests, which 2 ms and 5 % would not allow.)
//! 2. The least lag must not exceed 0.5 ms or 5 % of the median end-to-end time, whichever is more.
//!    Noise only ever lengthens a lag, so the least of many is nearly free of it and reveals a slow
//!    clock. The least of n lags that are exponentially distributed is on average an n-th of their
//!    mean, so for fewer than 20 answers the 0.5 ms are raised in proportion. (Requests of one
//!    batch end at one time, and what delays one of their answers delays all, so they count once.)
//!    This check is the sharper of the two; the first catches an engine whose stamps are right only
//!    now and then.
//!
//! These checks can't see where inside a request its tokens fell, because tokens are not streamed;
//! [`crate::witness`] compares their stamps with what the engine had committed.

use crate::describe::median;
use crate::evidence::Attempt;
use schema::record::RequestRecord;
use std::collections::BTreeSet;

/// Median report lag that is always allowed (ns).
pub const LAG_MEDIAN_NS: f64 = 5e6;
/// Median report lag that is allowed, as a fraction of the median end-to-end time.
pub const LAG_MEDIAN_FRACTION: f64 = 0.10;
/// Least report lag that is always allowed (ns), of [`LAG_LEAST_OF`] answers or more.
pub const LAG_LEAST_NS: f64 = 5e5;
/// Number of answers at different times below which [`LAG_LEAST_NS`] is raised in proportion.
pub const LAG_LEAST_OF: f64 = 20.0;
/// Least report lag that is allowed, as a fraction of the median end-to-end time.
pub const LAG_LEAST_FRACTION: f64 = 0.05;

/// Return `later − earlier` in ns. The difference is taken in integers: as floats, stamps of a host
/// up for months would lose nanoseconds.
pub(crate) fn ns_between(earlier: u64, later: u64) -> f64 {
    (i128::from(later) - i128::from(earlier)) as f64
}

/// Return the mean time between the tokens of a request (ns); `None` with fewer than two.
pub(crate) fn tpot_ns(request: &RequestRecord) -> Option<f64> {
    let [first, .., last] = request.token_ns.as_slice() else {
        return None;
    };
    Some(ns_between(*first, *last) / (request.token_ns.len() - 1) as f64)
}

/// Describe the first contradiction among a request's stamps; `None` where scheduled ≤ received ≤
/// started ≤ token 0 ≤ … ≤ last token ≤ answered.
pub fn contradiction(request: &RequestRecord) -> Option<String> {
    let mut stamps = vec![
        request.scheduled_ns,
        request.received_ns,
        request.started_ns,
    ];
    stamps.extend(&request.token_ns);
    let name = |at: usize| match at {
        0 => "it was due".to_owned(),
        1 => "it was received".to_owned(),
        2 => "it was started".to_owned(),
        _ => format!("token {}", at - 3),
    };
    if let Some(at) = (1..stamps.len()).find(|&at| stamps[at] < stamps[at - 1]) {
        let by = ms(ns_between(stamps[at], stamps[at - 1]));
        let (what, before) = (name(at), name(at - 1));
        return Some(format!("by its stamps {what} {by} before {before}"));
    }
    let last = stamps[stamps.len() - 1];
    (request.answered_ns < last).then(|| {
        format!(
            "its last token is stamped {} after the harness had read the answer",
            ms(ns_between(request.answered_ns, last))
        )
    })
}

/// Check the stamps of a cell. `Err` is the reason, with numbers.
pub(crate) fn check(attempts: &[Attempt]) -> Result<(), String> {
    let mut lags = Vec::new();
    let mut e2es = Vec::new();
    for attempt in attempts {
        for request in &attempt.timed {
            if let Some(wrong) = contradiction(request) {
                return Err(format!(
                    "request {} of invocation {}: {wrong}",
                    request.id, attempt.invocation
                ));
            }
            if let Some(&last) = request.token_ns.last() {
                lags.push((ns_between(last, request.answered_ns), request.id, last));
                e2es.push(ns_between(request.scheduled_ns, last));
            }
        }
    }
    let Some(e2e) = median(&e2es) else {
        return Ok(());
    };
    lags.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The lower median: a lag that some request really had.
    let middle = lags[(lags.len() - 1) / 2];
    let least = lags[0];
    let ends: BTreeSet<u64> = lags.iter().map(|(_, _, last)| *last).collect();
    let least_ns = LAG_LEAST_NS * (LAG_LEAST_OF / ends.len() as f64).max(1.0);
    for (which, lag, floor, fraction) in [
        ("median", middle, LAG_MEDIAN_NS, LAG_MEDIAN_FRACTION),
        ("shortest", least, least_ns, LAG_LEAST_FRACTION),
    ] {
        let limit = floor.max(fraction * e2e);
        if lag.0 > limit {
            return Err(format!(
                "the {which} report lag is {}, over the {} that {} end to end allows: the engine \
                 says the last token of request {} was at {} ns, the harness had the answer {} later",
                ms(lag.0),
                ms(limit),
                ms(e2e),
                lag.1,
                lag.2,
                ms(lag.0)
            ));
        }
    }
    Ok(())
}

/// Describe a time in ms.
pub(crate) fn ms(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}
