//! Generates the load of several users in windows: a closed loop that is interrupted between two
//! windows and continued.
//!
//! A window is a closed loop of its own. It begins with untimed requests of every user, and untimed
//! ones hold up the load until its last timed answer is in. Then nothing is in flight, and the
//! process can be stopped.

use super::closed_loop::{Extent, Issuer};
use super::load::{CaseError, CasePrompts, Sink, Window, done_share};
use crate::engine::session::Session;
use base::pace::{TURN_NS, WAKE_NS, WAKE_REQUESTS_MAX, WINDOW_ROUNDS};
use schema::plan::Case;

/// A case of several users, and how far it is done.
pub(super) struct Windows<'a> {
    case: &'a Case,
    /// `None` while a window runs, and after one that failed.
    prompts: Option<CasePrompts>,
    timed: u32,
    busy_ns: u64,
    window: Option<Window>,
}

impl<'a> Windows<'a> {
    /// A case of which nothing is done.
    pub(super) fn new(case: &'a Case, prompts: CasePrompts) -> Self {
        Self {
            case,
            prompts: Some(prompts),
            timed: 0,
            busy_ns: 0,
            window: None,
        }
    }

    /// Make an untimed request of every user, all at once, before any window.
    pub(super) fn warm_up(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        let issuer = Issuer::new(session, self.case, self.take_prompts(), sink);
        self.prompts = Some(issuer.fill(self.case.concurrency)?);
        Ok(())
    }

    /// Make the requests of one window. Call only while the case isn't done.
    pub(super) fn turn(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        let users = self.case.concurrency;
        let extent = Extent {
            untimed: users,
            untimed_max: users * WAKE_REQUESTS_MAX,
            untimed_ns: WAKE_NS,
            timed: timed_in_window(self.case, self.timed),
            timed_ns: TURN_NS,
        };
        let issuer = Issuer::new(session, self.case, self.take_prompts(), sink);
        let done = issuer.closed_loop(&extent)?;
        self.prompts = Some(done.prompts);
        self.timed += done.timed;
        self.busy_ns += done.window.took_ns();
        self.window.get_or_insert(done.window).end_ns = done.window.end_ns;
        Ok(())
    }

    /// Whether the case has enough requests and time, or too few prompts for another window.
    pub(super) fn is_done(&self) -> bool {
        let is_short = |prompts: &CasePrompts| prompts.timed.len() < self.case.concurrency as usize;
        self.progress() >= 1.0 || self.prompts.as_ref().is_none_or(is_short)
    }

    /// The done share of the case: the smaller one of requests and time; at least 1 when done.
    pub(super) fn progress(&self) -> f64 {
        done_share(self.case, self.timed, self.busy_ns)
    }

    /// The time from when the first timed request was due to when the last was answered.
    pub(super) fn window(&self) -> Window {
        self.window.expect("a case times at least one request")
    }

    fn take_prompts(&mut self) -> CasePrompts {
        self.prompts
            .take()
            .expect("a case ends with a window that failed")
    }
}

/// The least number of timed requests of a case's next window, when `timed` are done. What would be
/// left for a short window belongs to this one.
fn timed_in_window(case: &Case, timed: u32) -> u32 {
    let whole = case.concurrency * WINDOW_ROUNDS;
    match case.requests.saturating_sub(timed) {
        0 => whole,
        left if left < 2 * whole => left,
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_is_shorter_than_four_rounds_unless_the_case_is() {
        let windows = |users, requests| {
            let case = Case {
                concurrency: users,
                requests,
                ..Case::default()
            };
            let mut timed = 0;
            let mut all = Vec::new();
            while timed < requests {
                all.push(timed_in_window(&case, timed));
                timed += all[all.len() - 1];
            }
            all
        };
        assert_eq!(windows(2, 72), [8; 9]);
        assert_eq!(windows(4, 72), [16, 16, 16, 24]);
        assert_eq!(windows(8, 72), [32, 40]);
        assert_eq!(windows(8, 24), [24]);
        // A case that lasts longer than its requests goes on with whole windows.
        let case = Case {
            concurrency: 8,
            requests: 72,
            ..Case::default()
        };
        assert_eq!(timed_in_window(&case, 80), 32);
    }
}
