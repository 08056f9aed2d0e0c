//! The steady window of a case: the time over which throughput is computed.
//!
//! **Closed loops.** The window opens when, for the first time, as many timed requests are in
//! flight (sent, not yet answered) as the case asks for, and closes when that is so for the last
//! time. Output tokens are counted by their own stamps: those after the opening and up to the
//! closing. So the ramp-up counts neither as time nor as tokens. The ramp-down is left out too:
//! then the last requests run with ever fewer beside them, and a batching engine looks slower than
//! it is. Rejected: all tokens over `start_ns … end_ns` of the case, which penalises the engine
//! that batches best; and whole requests completed inside the window, which loses the parts of
//! those that straddle its ends. The dips by one between an answer and the next send belong to the
//! loop and stay in.
//!
//! **Serial and batch loads** have no such state. Busy time is the length of the union of the spans
//! (due … last token) of the requests; a batch's requests overlap and form one span. The harness's
//! time between an answer and the next request is not the engine's and is left out. A last batch
//! that isn't full is left out where full ones exist.
//!
//! **Open loops** have no ramp-up by design: the part that is cut is the beginning, in which
//! latencies have not settled yet, and its end is found from them ([`crate::stationarity`]), not
//! assumed.

use crate::open_loop::Flow;
use crate::timing::ns_between;
use schema::record::RequestRecord;
use schema::scenario::LoadShape;

/// A steady window: its output tokens and the time they took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Start of the window (ns).
    pub start_ns: u64,
    /// End of the window (ns).
    pub end_ns: u64,
    /// Time at work within the window (ns); all of it in closed and open loops.
    pub busy_ns: f64,
    /// Number of output tokens within the window.
    pub tokens: u64,
}

impl Steady {
    /// Return the output tokens per second.
    pub fn tokens_per_s(&self) -> Option<f64> {
        Some(self.tokens as f64 / (self.busy_ns / 1e9)).filter(|rate| rate.is_finite())
    }
}

/// Return the steady window of an invocation's timed requests (of an open loop: of all its
/// requests); `None` where there is none (no requests, or no time between opening and closing).
pub fn steady(load: LoadShape, concurrency: u32, timed: &[&RequestRecord]) -> Option<Steady> {
    let steady = match load {
        LoadShape::ClosedLoop => closed_loop(concurrency, timed),
        LoadShape::Serial | LoadShape::Batch => busy_spans(concurrency, timed),
        LoadShape::Poisson | LoadShape::ConstantRate => Flow::new(timed).map(open_loop),
    }?;
    (steady.busy_ns > 0.0).then_some(steady)
}

fn open_loop(flow: Flow) -> Steady {
    Steady {
        start_ns: flow.start_ns,
        end_ns: flow.end_ns,
        busy_ns: ns_between(flow.start_ns, flow.end_ns),
        tokens: flow.tokens,
    }
}

/// Compute the window of a closed loop. If there never were as many requests in flight as asked for
/// (fewer requests than users), the most that there were is used instead.
fn closed_loop(concurrency: u32, timed: &[&RequestRecord]) -> Option<Steady> {
    let mut changes: Vec<(u64, i64)> = timed
        .iter()
        .flat_map(|r| [(r.sent_ns, 1), (r.answered_ns, -1)])
        .collect();
    // At equal times the answer (−1) comes first.
    changes.sort_unstable();
    let level_after = |in_flight: &mut i64, change: i64| {
        *in_flight += change;
        *in_flight
    };
    let mut in_flight = 0;
    let peak = changes
        .iter()
        .map(|&(_, change)| level_after(&mut in_flight, change))
        .max()?;
    let full = peak.min(i64::from(concurrency));
    let (mut start_ns, mut end_ns) = (None, None);
    in_flight = 0;
    for &(at, change) in &changes {
        let before = in_flight;
        let after = level_after(&mut in_flight, change);
        if before < full && after >= full {
            start_ns.get_or_insert(at);
        }
        if before >= full && after < full {
            end_ns = Some(at);
        }
    }
    let (start_ns, end_ns) = (start_ns?, end_ns?);
    let tokens = timed
        .iter()
        .flat_map(|r| &r.token_ns)
        .filter(|&&at| at > start_ns && at <= end_ns)
        .count() as u64;
    Some(Steady {
        start_ns,
        end_ns,
        busy_ns: ns_between(start_ns, end_ns),
        tokens,
    })
}

/// A span of requests that overlap.
struct Span {
    start_ns: u64,
    end_ns: u64,
    requests: u32,
    tokens: u64,
}

fn busy_spans(concurrency: u32, timed: &[&RequestRecord]) -> Option<Steady> {
    let mut order: Vec<_> = timed
        .iter()
        .filter_map(|r| Some((r.scheduled_ns, *r.token_ns.last()?, r.token_ns.len() as u64)))
        .collect();
    order.sort_unstable();
    let mut spans: Vec<Span> = Vec::new();
    for (start_ns, end_ns, tokens) in order {
        match spans.last_mut() {
            Some(span) if start_ns < span.end_ns => {
                span.end_ns = span.end_ns.max(end_ns);
                span.requests += 1;
                span.tokens += tokens;
            }
            _ => spans.push(Span {
                start_ns,
                end_ns,
                requests: 1,
                tokens,
            }),
        }
    }
    if spans.iter().any(|span| span.requests >= concurrency) {
        spans.retain(|span| span.requests >= concurrency);
    }
    Some(Steady {
        start_ns: spans.first()?.start_ns,
        end_ns: spans.last()?.end_ns,
        busy_ns: spans
            .iter()
            .map(|span| ns_between(span.start_ns, span.end_ns))
            .sum(),
        tokens: spans.iter().map(|span| span.tokens).sum(),
    })
}
