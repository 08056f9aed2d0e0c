//! One request at a time: a load that can be put down after any request and taken up
//! again, as it is where targets take turns.

use super::load::{CasePrompts, Open, Sink, Stop, Window};
use crate::engine::session::Session;
use base::pace::WARM_NS;
use protocol::clock::now_ns;
use schema::plan::Case;
use schema::record::RecordEvent;

/// What has been done of a case.
pub(super) struct Serial<'a> {
    case: &'a Case,
    prompts: CasePrompts,
    timed: u32,
    busy_ns: u64,
    window: Option<Window>,
}

impl<'a> Serial<'a> {
    /// Nothing yet.
    pub(super) fn new(case: &'a Case, prompts: CasePrompts) -> Self {
        Self {
            case,
            prompts,
            timed: 0,
            busy_ns: 0,
            window: None,
        }
    }

    /// All of it, after at most `warmup` untimed requests.
    pub(super) fn all(
        mut self,
        session: &mut Session,
        warmup: u32,
        sink: Sink,
    ) -> Result<Window, Stop> {
        self.warm_up(session, warmup, sink)?;
        while !self.is_done() {
            self.timed(session, sink)?;
        }
        Ok(self.window())
    }

    /// The requests before any that is timed: `most`, or fewer that take half a second together.
    pub(super) fn warm_up(
        &mut self,
        session: &mut Session,
        most: u32,
        sink: Sink,
    ) -> Result<(), Stop> {
        let mut busy_ns = 0;
        for _ in 0..most {
            let next = self.prompts.untimed.rotate();
            let request = self.request(session, next, self.case.new_tokens, true, sink)?;
            busy_ns += request.took_ns();
            if busy_ns >= WARM_NS {
                break;
            }
        }
        Ok(())
    }

    /// A request that isn't timed, of at most so many prompt and new tokens.
    pub(super) fn wake(
        &mut self,
        session: &mut Session,
        (prompt_max, new_max): (usize, u32),
        sink: Sink,
    ) -> Result<(), Stop> {
        let mut next = self.prompts.untimed.rotate();
        if let Some((_, ids)) = &mut next {
            ids.truncate(prompt_max);
        }
        let new_tokens = new_max.min(self.case.new_tokens);
        self.request(session, next, new_tokens, true, sink)
            .map(drop)
    }

    /// The next that is; how long it took (ns). There is one as long as it isn't done.
    pub(super) fn timed(&mut self, session: &mut Session, sink: Sink) -> Result<u64, Stop> {
        let next = self.prompts.timed.take();
        let new_tokens = self.case.new_tokens;
        let request = self.request(session, next, new_tokens, false, sink)?;
        self.timed += 1;
        let took_ns = request.took_ns();
        self.busy_ns += took_ns;
        self.window.get_or_insert(request).end_ns = request.end_ns;
        Ok(took_ns)
    }

    /// Whether both floors of the case are reached, or its prompts are used up.
    pub(super) fn is_done(&self) -> bool {
        self.progress() >= 1.0 || self.prompts.timed.is_empty()
    }

    /// Which share of the case is done, 0 to 1: the smaller one of requests and time.
    pub(super) fn progress(&self) -> f64 {
        let of_requests = f64::from(self.timed) / f64::from(self.case.requests);
        let of_time = match self.case.duration_s > 0.0 {
            true => self.busy_ns as f64 / 1e9 / self.case.duration_s,
            false => 1.0,
        };
        of_requests.min(of_time)
    }

    /// When the first timed request was due and the last one answered.
    pub(super) fn window(&self) -> Window {
        self.window.expect("a case times at least one request")
    }

    fn request(
        &self,
        session: &mut Session,
        next: Option<(u64, Vec<u32>)>,
        new_tokens: u32,
        warmup: bool,
        sink: Sink,
    ) -> Result<Window, Stop> {
        let (prompt, ids) =
            next.expect("callers look before they take, and a case has an untimed prompt");
        let scheduled_ns = now_ns();
        let (_, sent_ns) = session.send_generate(ids, new_tokens)?;
        let (done, answered_ns) = session.next_done()?;
        let open = Open {
            prompt,
            warmup,
            scheduled_ns,
            sent_ns,
        };
        let record = open.answered(self.case, done, answered_ns);
        sink(RecordEvent::Request(record)).map_err(Stop::Record)?;
        Ok(Window {
            start_ns: scheduled_ns,
            end_ns: answered_ns,
        })
    }
}
