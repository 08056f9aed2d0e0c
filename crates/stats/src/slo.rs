//! Goodput: requests a second that a user would still call responsive.
//!
//! A request counts where its time to first token is within the limit and so are at
//! least 90 % of its gaps between tokens. The idea is DistServe's (Zhong et al., OSDI
//! 2024); theirs is the largest rate at which 90 % of the requests are good, ours the
//! rate of good ones at the load that was offered, which needs no search.

use crate::analysis::{Cell, MetricId};
use crate::timing::ns_between;
use schema::profile::Slo;
use schema::record::RequestRecord;

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
