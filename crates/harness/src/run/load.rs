//! The parts that all loads share: prompts, requests in flight with the harness's own stamps beside
//! the engine's, and the start and end of the timed part.
//!
//! Load is held up around the timed requests: warm-up requests come before, and in a closed loop
//! fillers come after, until the last timed answer is in. Both are recorded with `warmup: true`, so
//! throughput can count their tokens and latency never does.
//!
//! `issue.rs` chooses the load's shape. `serial.rs` has one request at a time and `closed_loop.rs`
//! users who wait, and batches; `windows.rs` has users whose loop is interrupted and continued;
//! `open_loop.rs` has open loops, which need a thread that sends.

use crate::engine::EngineFailure;
use protocol::wire::Done;
use schema::plan::Case;
use schema::record::{RecordEvent, RequestRecord};
use std::collections::VecDeque;

/// A queue of prompts with their indices in the cell.
pub struct PromptQueue(VecDeque<(u64, Vec<u32>)>);

impl PromptQueue {
    /// A queue of `prompts`, with indices from `first` on.
    pub fn new(first: u64, prompts: Vec<Vec<u32>>) -> Self {
        Self((first..).zip(prompts).collect())
    }

    /// Take a prompt and put it back at the end: the number of fillers that a case needs depends on
    /// the engine, and fillers needn't be distinct.
    fn rotate(&mut self) -> Option<(u64, Vec<u32>)> {
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
    /// Prompts of untimed requests: before the timed ones, and to hold up the load after them.
    pub untimed: PromptQueue,
    /// Prompts of timed requests. When they run out the case ends, whatever its duration.
    pub timed: PromptQueue,
}

impl CasePrompts {
    /// Take the next prompt of a timed or an untimed request. Callers count the timed ones before
    /// they take one, and a case has an untimed prompt.
    pub(super) fn next(&mut self, timed: bool) -> (u64, Vec<u32>) {
        let next = match timed {
            true => self.timed.0.pop_front(),
            false => self.untimed.rotate(),
        };
        next.expect("callers look before they take, and a case has an untimed prompt")
    }
}

/// The timed part of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When the first timed request was due (ns).
    pub start_ns: u64,
    /// When the last timed answer was read (ns).
    pub end_ns: u64,
}

impl Window {
    pub(super) fn took_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// How far a case is done that is interrupted and continued.
pub(super) struct Progress<'a> {
    pub(super) case: &'a Case,
    /// Number of timed requests that are answered.
    pub(super) timed: u32,
    busy_ns: u64,
    window: Option<Window>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        Self {
            case,
            timed: 0,
            busy_ns: 0,
            window: None,
        }
    }

    /// Count `timed` requests, which took this long.
    pub(super) fn add(&mut self, timed: u32, took: Window) {
        self.timed += timed;
        self.busy_ns += took.took_ns();
        self.window.get_or_insert(took).end_ns = took.end_ns;
    }

    /// The done share: the smaller one of requests and time; at least 1 when the case is done.
    pub(super) fn share(&self) -> f64 {
        let of_requests = f64::from(self.timed) / f64::from(self.case.requests);
        let of_time = match self.case.duration_s > 0.0 {
            true => self.busy_ns as f64 / 1e9 / self.case.duration_s,
            false => 1.0,
        };
        of_requests.min(of_time)
    }

    /// The time from when the first timed request was due to when the last was answered.
    pub(super) fn window(&self) -> Window {
        self.window.expect("a case times at least one request")
    }
}

/// Why a case was stopped.
pub enum CaseError {
    /// The engine failed.
    Engine(EngineFailure),
    /// The record can't be written.
    Record(anyhow::Error),
}

impl From<EngineFailure> for CaseError {
    fn from(failure: EngineFailure) -> Self {
        CaseError::Engine(failure)
    }
}

impl From<CaseError> for anyhow::Error {
    fn from(stop: CaseError) -> Self {
        match stop {
            CaseError::Engine(failure) => failure.into(),
            CaseError::Record(error) => error,
        }
    }
}

/// A function that takes the events of requests that were answered or given up.
pub type Sink<'a> = &'a mut dyn FnMut(RecordEvent) -> anyhow::Result<()>;

pub(super) struct InFlight {
    pub(super) prompt: u64,
    pub(super) warmup: bool,
    pub(super) scheduled_ns: u64,
    pub(super) sent_ns: u64,
}

impl InFlight {
    /// The record of this request, with the answer `done` to it.
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
