//! Generates the load of closed loops: a number of users who each wait for an answer before the
//! next request, or one batch after another.
//!
//! `serial.rs` has one request at a time, `windows.rs` a closed loop that is interrupted, as it is
//! where targets take turns.

use super::load::{CaseError, CasePrompts, InFlight, Sink, Window};
use crate::engine::session::Session;
use protocol::clock::now_ns;
use schema::plan::Case;
use schema::record::{RecordEvent, RequestRecord};
use std::collections::BTreeMap;

/// How much of a closed loop is untimed at its beginning, and how much is timed.
pub(super) struct Extent {
    /// Least number of untimed requests; at least as many as users, for each begins with one.
    pub(super) untimed: u32,
    /// Most untimed requests, of which those beyond the least are made only in the first
    /// `untimed_ns`.
    pub(super) untimed_max: u32,
    /// See `untimed_max`.
    pub(super) untimed_ns: u64,
    /// Least number of timed requests.
    pub(super) timed: u32,
    /// Least length of the timed part (ns).
    pub(super) timed_ns: u64,
}

impl Extent {
    /// That of a whole case, where nobody else has the machine: each user warms up, so that no
    /// batch size occurs first while timed.
    pub(super) fn of_case(case: &Case, warmup: u32) -> Self {
        let untimed = warmup.max(case.concurrency);
        Self {
            untimed,
            untimed_max: untimed,
            untimed_ns: 0,
            timed: case.requests,
            timed_ns: duration_ns(case),
        }
    }
}

/// What a closed loop leaves when it is over.
pub(super) struct Done {
    pub(super) window: Window,
    pub(super) timed: u32,
    pub(super) prompts: CasePrompts,
}

pub(super) struct Issuer<'a> {
    session: &'a mut Session,
    case: &'a Case,
    prompts: CasePrompts,
    sink: Sink<'a>,
    open: BTreeMap<u64, InFlight>,
    timed_done: u32,
    window: Option<Window>,
}

impl<'a> Issuer<'a> {
    pub(super) fn new(
        session: &'a mut Session,
        case: &'a Case,
        prompts: CasePrompts,
        sink: Sink<'a>,
    ) -> Self {
        Self {
            session,
            case,
            prompts,
            sink,
            open: BTreeMap::new(),
            timed_done: 0,
            window: None,
        }
    }

    /// Run as many users as the case has, each of whom sends the next request when the last is
    /// answered, for `extent`.
    pub(super) fn closed_loop(mut self, extent: &Extent) -> Result<Done, CaseError> {
        let begin_ns = now_ns();
        let users = self.case.concurrency;
        self.send(users, begin_ns, false)?;
        let mut untimed = users;
        let mut timed_open = 0;
        loop {
            let record = self.receive()?;
            let was_timed = !record.warmup;
            timed_open -= u32::from(was_timed);
            // The user's next request is due when this answer was read.
            let due_ns = record.answered_ns;
            let wakes =
                untimed < extent.untimed_max && due_ns.saturating_sub(begin_ns) < extent.untimed_ns;
            let want_more = !self.floors_reached(timed_open, extent.timed, extent.timed_ns);
            if untimed < extent.untimed || wakes {
                untimed += 1;
                self.send(1, due_ns, false)?;
            } else if want_more && !self.prompts.timed.is_empty() {
                self.send(1, due_ns, true)?;
                timed_open += 1;
            } else if timed_open > 0 {
                self.send(1, due_ns, false)?;
            }
            // Recorded only after the next request is sent: the other users' requests are running,
            // and this user's think time is zero.
            self.record(record)?;
            if self.open.is_empty() {
                return Ok(Done {
                    window: self.window.expect("a case times at least one request"),
                    timed: self.timed_done,
                    prompts: self.prompts,
                });
            }
        }
    }

    /// Whether enough timed requests are answered or in flight, and over a long enough time.
    fn floors_reached(&self, timed_open: u32, requests: u32, length_ns: u64) -> bool {
        let long = |window: Window| now_ns() - window.start_ns >= length_ns;
        self.timed_done + timed_open >= requests
            && (length_ns == 0 || self.window.is_some_and(long))
    }

    /// Send `rows` requests at once, and the next ones when all are answered.
    pub(super) fn batches(mut self, rows: u32) -> Result<Window, CaseError> {
        let mut timed = false; // the first batch warms up
        loop {
            self.send(rows, now_ns(), timed)?;
            let mut records = Vec::with_capacity(rows as usize);
            while !self.open.is_empty() {
                records.push(self.receive()?);
            }
            for record in records {
                self.record(record)?;
            }
            timed = true;
            if self.floors_reached(0, self.case.requests, duration_ns(self.case))
                || self.prompts.timed.len() < rows as usize
            {
                return Ok(self.window.expect("a case times at least one batch"));
            }
        }
    }

    /// Send as many untimed requests as fit, at once, so that no batch size occurs first while
    /// timed; returns the prompts for what follows.
    pub(super) fn fill(mut self, users: u32) -> Result<CasePrompts, CaseError> {
        self.send(users, now_ns(), false)?;
        while !self.open.is_empty() {
            let record = self.receive()?;
            self.record(record)?;
        }
        Ok(self.prompts)
    }

    /// Send `count` requests at once.
    fn send(&mut self, count: u32, scheduled_ns: u64, timed: bool) -> Result<(), CaseError> {
        for _ in 0..count {
            let (prompt, ids) = self.prompts.next(timed);
            let (id, sent_ns) = self.session.send_one_of(count, ids, self.case.new_tokens)?;
            if timed {
                self.window.get_or_insert(Window {
                    start_ns: scheduled_ns,
                    end_ns: scheduled_ns,
                });
            }
            let request = InFlight {
                prompt,
                warmup: !timed,
                scheduled_ns,
                sent_ns,
            };
            self.open.insert(id, request);
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<RequestRecord, CaseError> {
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

    fn record(&mut self, request: RequestRecord) -> Result<(), CaseError> {
        (self.sink)(RecordEvent::Request(request)).map_err(CaseError::Record)
    }
}

/// The least length of a case's timed part (ns).
fn duration_ns(case: &Case) -> u64 {
    (case.duration_s * 1e9) as u64
}
