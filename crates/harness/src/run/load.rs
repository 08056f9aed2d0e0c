//! What every load has: prompts, requests in flight with the harness's own stamps beside the
//! engine's, and when the timed part began and ended.
//!
//! Load is held up around what is timed: warm-up requests come before, and in a
//! closed loop fillers come after, until the last timed answer is in. Both are
//! recorded with `warmup: true`, so throughput can count their tokens and
//! latency never does.
//!
//! `issue.rs` chooses the load's shape. Users who wait and batches stand in `closed_loop.rs`, open
//! loops in `open_loop.rs`: they need a thread that sends. One request at a time stands in
//! `serial.rs`: it can be put down and taken up again.

use crate::engine::EngineFailure;
use protocol::wire::Done;
use schema::plan::Case;
use schema::record::{RecordEvent, RequestRecord};
use std::collections::VecDeque;

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
