//! The load generator: issues a case's requests in the scenario's shape and
//! hands each finished one on with the harness's own stamps beside the engine's.
//!
//! Load is held up around what is timed: warm-up requests come before, and in a
//! closed loop fillers come after, until the last timed answer is in. Both are
//! recorded with `warmup: true`, so throughput can count their tokens and
//! latency never does.
//!
//! Open loops stand in `open_loop.rs`: they need a thread that sends. One request at a
//! time stands in `serial.rs`: it can be put down and taken up again.

use super::open_loop::{self, Offered};
use super::serial::Serial;
use crate::engine::EngineFailure;
use crate::engine::session::Session;
use protocol::clock::now_ns;
use protocol::wire::Done;
use schema::plan::Case;
use schema::record::{RecordEvent, RequestRecord};
use schema::scenario::LoadShape;
use std::collections::{BTreeMap, VecDeque};

/// Prompts with their index in the cell.
pub struct PromptQueue(VecDeque<(u64, Vec<u32>)>);

impl PromptQueue {
    /// Number `prompts` from `first`.
    pub fn new(first: u64, prompts: Vec<Vec<u32>>) -> Self {
        Self((first..).zip(prompts).collect())
    }

    pub(super) fn take(&mut self) -> Option<(u64, Vec<u32>)> {
        self.0.pop_front()
    }

    /// Take one and put it back at the end: how many fillers a case needs is the
    /// engine's doing, and nothing is claimed of them.
    pub(super) fn rotate(&mut self) -> Option<(u64, Vec<u32>)> {
        let first = self.0.pop_front()?;
        self.0.push_back(first.clone());
        Some(first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The prompts of one case in one invocation.
pub struct CasePrompts {
    /// Before the timed ones, and to hold up the load after them.
    pub untimed: PromptQueue,
    /// The timed ones. When they run out the case ends, whatever its duration.
    pub timed: PromptQueue,
}

/// When the timed part of a case began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First timed request was due.
    pub start_ns: u64,
    /// Last timed answer was read.
    pub end_ns: u64,
}

impl Window {
    /// How long it is (ns).
    pub(super) fn took_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What stops a case: the engine, or the disk.
pub enum Stop {
    /// The engine failed.
    Engine(EngineFailure),
    /// The record can't be written.
    Record(anyhow::Error),
}

impl From<EngineFailure> for Stop {
    fn from(failure: EngineFailure) -> Self {
        Stop::Engine(failure)
    }
}

/// Where requests go when they are answered, or given up.
pub type Sink<'a> = &'a mut dyn FnMut(RecordEvent) -> anyhow::Result<()>;

/// Issue the requests of a case. An open loop must say what is `offered`.
pub fn issue(
    session: &mut Session,
    shape: LoadShape,
    case: &Case,
    warmup: u32,
    offered: Option<Offered>,
    prompts: CasePrompts,
    sink: Sink,
) -> Result<Window, Stop> {
    if let Some(offered) = offered {
        return open_loop::issue(session, shape, case, warmup, &offered, prompts, sink);
    }
    let users = case.concurrency;
    let issuer = |prompts, session, sink| Issuer {
        session,
        case,
        prompts,
        sink,
        open: BTreeMap::new(),
        timed_done: 0,
        window: None,
    };
    // Every slot of a closed loop warms up, so that no batch size is met first while timed.
    match shape {
        LoadShape::Serial => Serial::new(case, prompts).all(session, warmup, sink),
        // One user sends one request at a time, too.
        LoadShape::ClosedLoop if users == 1 => {
            Serial::new(case, prompts).all(session, warmup.max(1), sink)
        }
        LoadShape::ClosedLoop => {
            issuer(prompts, session, sink).closed_loop(users, warmup.max(users))
        }
        LoadShape::Batch => issuer(prompts, session, sink).batches(users),
        LoadShape::Poisson | LoadShape::ConstantRate => {
            panic!("an open loop is launched only with its capacity measured (see `pending`)")
        }
    }
}

struct Issuer<'a> {
    session: &'a mut Session,
    case: &'a Case,
    prompts: CasePrompts,
    sink: Sink<'a>,
    open: BTreeMap<u64, Open>,
    timed_done: u32,
    window: Option<Window>,
}

/// A request in flight.
pub(super) struct Open {
    pub(super) prompt: u64,
    pub(super) warmup: bool,
    pub(super) scheduled_ns: u64,
    pub(super) sent_ns: u64,
}

impl Open {
    /// Its record, now that it is answered.
    pub(super) fn answered(self, case: &Case, done: Done, answered_ns: u64) -> RequestRecord {
        RequestRecord {
            case: case.id.clone(),
            id: done.id,
            prompt: self.prompt,
            warmup: self.warmup,
            scheduled_ns: self.scheduled_ns,
            sent_ns: self.sent_ns,
            received_ns: done.received_ns,
            started_ns: done.started_ns,
            token_ns: done.token_ns,
            answered_ns,
            batch: done.batch,
            output_ids: done.output_ids,
            output_text: done.output_text,
        }
    }
}

impl Issuer<'_> {
    fn closed_loop(mut self, users: u32, warmup: u32) -> Result<Window, Stop> {
        let mut warmups_left = warmup;
        for _ in 0..users {
            let timed = warmups_left == 0;
            warmups_left = warmups_left.saturating_sub(1);
            self.send(now_ns(), timed)?;
        }
        let mut timed_open = self.open.values().filter(|open| !open.warmup).count();
        loop {
            let record = self.receive()?;
            let was_timed = !record.warmup;
            timed_open -= usize::from(was_timed);
            // The user's next request is due the moment this answer was in.
            let due_ns = record.answered_ns;
            let want_more = !self.floors_reached(timed_open);
            if warmups_left > 0 {
                warmups_left -= 1;
                self.send(due_ns, false)?;
            } else if want_more && !self.prompts.timed.is_empty() {
                self.send(due_ns, true)?;
                timed_open += 1;
            } else if timed_open > 0 {
                self.send(due_ns, false)?;
            }
            // Written after the answer to it: the others are running, and this user's think
            // time is zero.
            self.record(record)?;
            if self.open.is_empty() {
                return Ok(self.window.expect("a case times at least one request"));
            }
        }
    }

    /// Whether enough timed requests are done or on their way, and long enough.
    fn floors_reached(&self, timed_open: usize) -> bool {
        let enough = self.timed_done as usize + timed_open >= self.case.requests as usize;
        let long = self
            .window
            .is_some_and(|w| (now_ns() - w.start_ns) as f64 >= self.case.duration_s * 1e9);
        enough && (long || self.case.duration_s == 0.0)
    }

    fn batches(mut self, rows: u32) -> Result<Window, Stop> {
        let mut timed = false; // the first batch warms up
        loop {
            let due_ns = now_ns();
            for _ in 0..rows {
                self.send(due_ns, timed)?;
            }
            let mut records = Vec::with_capacity(rows as usize);
            while !self.open.is_empty() {
                records.push(self.receive()?);
            }
            for record in records {
                self.record(record)?;
            }
            timed = true;
            if self.floors_reached(0) || self.prompts.timed.0.len() < rows as usize {
                return Ok(self.window.expect("a case times at least one batch"));
            }
        }
    }

    fn send(&mut self, scheduled_ns: u64, timed: bool) -> Result<(), Stop> {
        let next = if timed {
            self.prompts.timed.take()
        } else {
            self.prompts.untimed.rotate()
        };
        let (prompt, ids) =
            next.expect("callers look before they take, and a case has an untimed prompt");
        let (id, sent_ns) = self.session.send_generate(ids, self.case.new_tokens)?;
        if timed {
            self.window.get_or_insert(Window {
                start_ns: scheduled_ns,
                end_ns: scheduled_ns,
            });
        }
        self.open.insert(
            id,
            Open {
                prompt,
                warmup: !timed,
                scheduled_ns,
                sent_ns,
            },
        );
        Ok(())
    }

    fn receive(&mut self) -> Result<RequestRecord, Stop> {
        let (done, answered_ns) = self.session.next_done()?;
        let open = self
            .open
            .remove(&done.id)
            .expect("the session knows what is in flight");
        if !open.warmup {
            self.timed_done += 1;
            if let Some(window) = &mut self.window {
                window.end_ns = answered_ns;
            }
        }
        Ok(open.answered(self.case, done, answered_ns))
    }

    fn record(&mut self, request: RequestRecord) -> Result<(), Stop> {
        (self.sink)(RecordEvent::Request(request)).map_err(Stop::Record)
    }
}
