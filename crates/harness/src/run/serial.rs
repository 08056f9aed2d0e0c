//! Generates the load of one request at a time, which can be interrupted after any request and
//! continued.

use super::load::{CaseError, CasePrompts, InFlight, Progress, Sink, Window};
use crate::engine::session::Session;
use base::pace::{TURN_NS, TURN_REQUESTS_MIN, WAKE_NS, WAKE_REQUESTS_MAX, WARM_NS};
use protocol::clock::now_ns;
use schema::plan::Case;
use schema::record::RecordEvent;

/// A case of one request at a time, and how far it is done.
pub(super) struct Serial<'a> {
    pub(super) progress: Progress<'a>,
    prompts: CasePrompts,
}

impl<'a> Serial<'a> {
    pub(super) fn new(case: &'a Case, prompts: CasePrompts) -> Self {
        Self {
            progress: Progress::new(case),
            prompts,
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
        Ok(self.progress.window())
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

    /// Make the requests of one turn: untimed ones, then timed ones. Call only while the case isn't
    /// done.
    pub(super) fn turn(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        self.untimed(session, WAKE_REQUESTS_MAX, WAKE_NS, sink)?;
        let (mut requests, mut busy_ns) = (0, 0);
        while !self.is_done() && (requests < TURN_REQUESTS_MIN || busy_ns < TURN_NS) {
            busy_ns += self.timed(session, sink)?;
            requests += 1;
        }
        Ok(())
    }

    /// Make the next timed request; returns its time (ns). Call only while the case isn't done.
    fn timed(&mut self, session: &mut Session, sink: Sink) -> Result<u64, CaseError> {
        let request = self.request(session, true, sink)?;
        self.progress.add(1, request);
        Ok(request.took_ns())
    }

    /// Whether the case has enough requests and time, or its prompts are used up.
    pub(super) fn is_done(&self) -> bool {
        self.progress.share() >= 1.0 || self.prompts.timed.is_empty()
    }

    fn request(
        &mut self,
        session: &mut Session,
        timed: bool,
        sink: Sink,
    ) -> Result<Window, CaseError> {
        let (prompt, ids) = self.prompts.next(timed);
        let scheduled_ns = now_ns();
        let (done, sent_ns, answered_ns) = session.generate(ids, self.progress.case.new_tokens)?;
        let open = InFlight {
            prompt,
            warmup: !timed,
            scheduled_ns,
            sent_ns,
        };
        let record = open.answered(self.progress.case, done, answered_ns);
        sink(RecordEvent::Request(record)).map_err(CaseError::Record)?;
        Ok(Window {
            start_ns: scheduled_ns,
            end_ns: answered_ns,
        })
    }
}
