//! Requests that wait for an answer: so many users, or a batch at a time.

use super::load::{CasePrompts, Open, Sink, Stop, Window};
use crate::engine::session::Session;
use protocol::clock::now_ns;
use schema::plan::Case;
use schema::record::{RecordEvent, RequestRecord};
use std::collections::BTreeMap;

/// Issues the requests of one case.
pub(super) struct Issuer<'a> {
    session: &'a mut Session,
    case: &'a Case,
    prompts: CasePrompts,
    sink: Sink<'a>,
    open: BTreeMap<u64, Open>,
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

    /// So many users, each of whom sends the next request when the last is answered.
    pub(super) fn closed_loop(mut self, users: u32, warmup: u32) -> Result<Window, Stop> {
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

    /// So many requests at once; the next ones when all are answered.
    pub(super) fn batches(mut self, rows: u32) -> Result<Window, Stop> {
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
            if self.floors_reached(0) || self.prompts.timed.len() < rows as usize {
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
