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
//! loop and stay in. Where targets take turns, each turn is a closed loop with a window of its own,
//! and the windows are added up: between them nothing of the target is in flight.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// The stretches of time in which the target was at work, as start and end (ns), in order: one
    /// in open loops, and in closed ones that aren't interrupted. At least one.
    pub stretches: Vec<(u64, u64)>,
    /// Number of output tokens within the window.
    pub tokens: u64,
}

impl Steady {
    /// Return the start of the window (ns).
    pub fn start_ns(&self) -> u64 {
        self.stretches[0].0
    }

    /// Return the end of the window (ns).
    pub fn end_ns(&self) -> u64 {
        self.stretches[self.stretches.len() - 1].1
    }

    /// Return the time at work within the window (ns).
    pub fn busy_ns(&self) -> f64 {
        let each = self.stretches.iter();
        each.map(|&(start_ns, end_ns)| ns_between(start_ns, end_ns))
            .sum()
    }

    /// Whether the target was at work just before a time (ns).
    pub fn contains(&self, at_ns: u64) -> bool {
        let mut stretches = self.stretches.iter();
        stretches.any(|&(start_ns, end_ns)| at_ns > start_ns && at_ns <= end_ns)
    }

    /// Return the output tokens per second.
    pub fn tokens_per_s(&self) -> Option<f64> {
        Some(self.tokens as f64 / (self.busy_ns() / 1e9)).filter(|rate| rate.is_finite())
    }
}

/// Return the steady window of an invocation's timed requests (of an open loop: of all its
/// requests); `None` where there is none (no requests, or no time between opening and closing).
pub fn steady(load: LoadShape, concurrency: u32, timed: &[&RequestRecord]) -> Option<Steady> {
    let steady = match load {
        LoadShape::ClosedLoop => closed_loop(concurrency, &[timed.to_vec()]),
        LoadShape::Serial | LoadShape::Batch => busy_spans(concurrency, timed),
        LoadShape::Poisson | LoadShape::ConstantRate => Flow::new(timed).map(|flow| Steady {
            stretches: vec![(flow.start_ns, flow.end_ns)],
            tokens: flow.tokens,
        }),
    }?;
    (steady.busy_ns() > 0.0).then_some(steady)
}

/// Return the steady window of a closed loop whose target took turns; `None` as for [`steady`].
/// `all` are its requests, with those that weren't timed.
pub fn steady_in_turns(concurrency: u32, all: &[&RequestRecord]) -> Option<Steady> {
    let mut turns = turns(all);
    for turn in &mut turns {
        turn.retain(|request| !request.warmup);
    }
    let steady = closed_loop(concurrency, &turns)?;
    (steady.busy_ns() > 0.0).then_some(steady)
}

/// Split requests where none is in flight and the next isn't timed, as at the beginning of a turn.
/// Between timed ones none may be in flight either, when all users are answered at once.
fn turns<'a>(all: &[&'a RequestRecord]) -> Vec<Vec<&'a RequestRecord>> {
    let mut order = all.to_vec();
    order.sort_by_key(|request| request.sent_ns);
    let mut turns: Vec<Vec<&RequestRecord>> = Vec::new();
    let mut answered_ns = 0;
    for request in order {
        let begins = request.warmup && request.sent_ns > answered_ns;
        match turns.last_mut() {
            Some(turn) if !begins => turn.push(request),
            _ => turns.push(vec![request]),
        }
        answered_ns = answered_ns.max(request.answered_ns);
    }
    turns
}

/// Compute the window of a closed loop from the timed requests of its turns. If there never were as
/// many in flight as asked for (fewer requests than users), the most that there were in any turn is
/// used instead.
fn closed_loop(concurrency: u32, turns: &[Vec<&RequestRecord>]) -> Option<Steady> {
    let in_flight = |turn: &Vec<&RequestRecord>| levels(turn).map(|(_, level)| level).max();
    let peak = turns.iter().filter_map(in_flight).max()?;
    let full = peak.min(i64::from(concurrency));
    let stretches: Vec<_> = turns
        .iter()
        .filter_map(|turn| at_full(turn, full))
        .collect();
    stretches.first()?;
    let mut steady = Steady {
        stretches,
        tokens: 0,
    };
    let stamps = turns.iter().flatten().flat_map(|request| &request.token_ns);
    steady.tokens = stamps.filter(|&&at_ns| steady.contains(at_ns)).count() as u64;
    Some(steady)
}

/// The number of requests in flight after each time (ns) at which it changes.
fn levels(requests: &[&RequestRecord]) -> impl Iterator<Item = (u64, i64)> {
    let mut changes: Vec<(u64, i64)> = requests
        .iter()
        .flat_map(|r| [(r.sent_ns, 1), (r.answered_ns, -1)])
        .collect();
    // At equal times the answer (−1) comes first.
    changes.sort_unstable();
    let mut in_flight = 0;
    changes.into_iter().map(move |(at_ns, change)| {
        in_flight += change;
        (at_ns, in_flight)
    })
}

/// From when `full` requests are in flight for the first time until the last time that they are.
fn at_full(requests: &[&RequestRecord], full: i64) -> Option<(u64, u64)> {
    let (mut start_ns, mut end_ns) = (None, None);
    let mut before = 0;
    for (at_ns, after) in levels(requests) {
        if before < full && after >= full {
            start_ns.get_or_insert(at_ns);
        }
        if before >= full && after < full {
            end_ns = Some(at_ns);
        }
        before = after;
    }
    Some((start_ns?, end_ns?))
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
    let stretches: Vec<_> = spans.iter().map(|s| (s.start_ns, s.end_ns)).collect();
    (!stretches.is_empty()).then(|| Steady {
        stretches,
        tokens: spans.iter().map(|span| span.tokens).sum(),
    })
}
