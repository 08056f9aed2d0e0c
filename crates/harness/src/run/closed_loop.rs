//! Generates the load of closed loops: a number of users who each wait for an answer before the
//! next request, or one batch after another.
//!
//! One request at a time is a load that can be interrupted after any request and continued, as it
//! is where targets take turns.

use super::load::{CaseError, CasePrompts, InFlight, Sink, Window};
use crate::engine::session::Session;
use base::pace::{WAKE_NS, WAKE_REQUESTS_MAX, WARM_NS};
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

    /// Run `users` users, each of whom sends the next request when the last is answered. Each begins
    /// with an untimed one; `warmup` is the number of all.
    pub(super) fn closed_loop(mut self, users: u32, warmup: u32) -> Result<Window, CaseError> {
        self.send(users, now_ns(), false)?;
        let mut warmups_left = warmup.saturating_sub(users);
        let mut timed_open = 0;
        loop {
            let record = self.receive()?;
            let was_timed = !record.warmup;
            timed_open -= usize::from(was_timed);
            // The user's next request is due when this answer was read.
            let due_ns = record.answered_ns;
            let want_more = !self.floors_reached(timed_open);
            if warmups_left > 0 {
                warmups_left -= 1;
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
                return Ok(self.window.expect("a case times at least one request"));
            }
        }
    }

    /// Whether enough timed requests are answered or in flight, and over a long enough time.
    fn floors_reached(&self, timed_open: usize) -> bool {
        let enough = self.timed_done as usize + timed_open >= self.case.requests as usize;
        let long = self
            .window
            .is_some_and(|w| (now_ns() - w.start_ns) as f64 >= self.case.duration_s * 1e9);
        enough && (long || self.case.duration_s == 0.0)
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
            if self.floors_reached(0) || self.prompts.timed.len() < rows as usize {
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

/// A case of one request at a time, and how far it is done.
pub(super) struct Serial<'a> {
    case: &'a Case,
    prompts: CasePrompts,
    timed: u32,
    busy_ns: u64,
    window: Option<Window>,
}

impl<'a> Serial<'a> {
    /// A case of which nothing is done.
    pub(super) fn new(case: &'a Case, prompts: CasePrompts) -> Self {
        Self {
            case,
            prompts,
            timed: 0,
            busy_ns: 0,
            window: None,
        }
    }

    /// Make all requests of the case, after at most `warmup` untimed ones.
    pub(super) fn all(
        mut self,
        session: &mut Session,
        warmup: u32,
        sink: Sink,
    ) -> Result<Window, CaseError> {
        self.warm_up(session, warmup, sink)?;
        while !self.is_done() {
            self.timed(session, sink)?;
        }
        Ok(self.window())
    }

    /// Make untimed requests before any timed one: `most`, or fewer once they took [`WARM_NS`].
    pub(super) fn warm_up(
        &mut self,
        session: &mut Session,
        most: u32,
        sink: Sink,
    ) -> Result<(), CaseError> {
        self.untimed(session, most, WARM_NS, sink)
    }

    /// Make `most` untimed requests, or fewer that take `enough_ns` together.
    fn untimed(
        &mut self,
        session: &mut Session,
        most: u32,
        enough_ns: u64,
        sink: Sink,
    ) -> Result<(), CaseError> {
        let mut busy_ns = 0;
        for _ in 0..most {
            let request = self.request(session, false, sink)?;
            busy_ns += request.took_ns();
            if busy_ns >= enough_ns {
                break;
            }
        }
        Ok(())
    }

    /// Make the untimed requests at the start of a turn.
    pub(super) fn wake(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        self.untimed(session, WAKE_REQUESTS_MAX, WAKE_NS, sink)
    }

    /// Make the next timed request; returns its time (ns). Call only while the case isn't done.
    pub(super) fn timed(&mut self, session: &mut Session, sink: Sink) -> Result<u64, CaseError> {
        let request = self.request(session, true, sink)?;
        self.timed += 1;
        let took_ns = request.took_ns();
        self.busy_ns += took_ns;
        self.window.get_or_insert(request).end_ns = request.end_ns;
        Ok(took_ns)
    }

    /// Whether the case has enough requests and time, or its prompts are used up.
    pub(super) fn is_done(&self) -> bool {
        self.progress() >= 1.0 || self.prompts.timed.is_empty()
    }

    /// The done share of the case: the smaller one of requests and time; at least 1 when done.
    pub(super) fn progress(&self) -> f64 {
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

    fn request(
        &mut self,
        session: &mut Session,
        timed: bool,
        sink: Sink,
    ) -> Result<Window, CaseError> {
        let (prompt, ids) = self.prompts.next(timed);
        let scheduled_ns = now_ns();
        let (done, sent_ns, answered_ns) = session.generate(ids, self.case.new_tokens)?;
        let open = InFlight {
            prompt,
            warmup: !timed,
            scheduled_ns,
            sent_ns,
        };
        let record = open.answered(self.case, done, answered_ns);
        sink(RecordEvent::Request(record)).map_err(CaseError::Record)?;
        Ok(Window {
            start_ns: scheduled_ns,
            end_ns: answered_ns,
        })
    }
}
