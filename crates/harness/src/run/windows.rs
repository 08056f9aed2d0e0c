//! Generates the load of several users in windows: a closed loop that is interrupted between two
//! windows and continued.
//!
//! A window is a closed loop of its own. It begins with untimed requests of every user, and untimed
//! ones hold up the load until its last timed answer is in. Then nothing is in flight, and the
//! process can be stopped.

use super::closed_loop::{Extent, Issuer};
use super::load::{CaseError, CasePrompts, Progress, Sink};
use crate::engine::session::Session;
use base::pace::{TURN_NS, WAKE_NS, WAKE_REQUESTS_MAX, WINDOW_ROUNDS};
use schema::plan::Case;

/// A case of several users, and how far it is done.
pub(super) struct Windows<'a> {
    pub(super) progress: Progress<'a>,
    /// `None` while a window runs, and after one that failed.
    prompts: Option<CasePrompts>,
}

impl<'a> Windows<'a> {
    pub(super) fn new(case: &'a Case, prompts: CasePrompts) -> Self {
        Self {
            progress: Progress::new(case),
            prompts: Some(prompts),
        }
    }

    /// Make an untimed request of every user, all at once, before any window.
    pub(super) fn warm_up(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        let users = self.progress.case.concurrency;
        self.prompts = Some(self.issuer(session, sink).fill(users)?);
        Ok(())
    }

    /// Make the requests of one window. Call only while the case isn't done.
    pub(super) fn turn(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        let users = self.progress.case.concurrency;
        let extent = Extent {
            untimed: users,
            untimed_max: users * WAKE_REQUESTS_MAX,
            untimed_ns: WAKE_NS,
            timed: timed_in_window(self.progress.case, self.progress.timed),
            timed_ns: TURN_NS,
        };
        let done = self.issuer(session, sink).closed_loop(&extent)?;
        self.prompts = Some(done.prompts);
        self.progress.add(done.timed, done.window);
        Ok(())
    }

    /// Whether the case has enough requests and time. One that has enough requests also ends where
    /// its prompts don't suffice for all users.
    pub(super) fn is_done(&self) -> bool {
        let case = self.progress.case;
        let enough = match self.progress.timed >= case.requests {
            true => case.concurrency as usize,
            false => 1,
        };
        let is_short = |prompts: &CasePrompts| prompts.timed.len() < enough;
        self.progress.share() >= 1.0 || self.prompts.as_ref().is_none_or(is_short)
    }

    fn issuer<'s>(&mut self, session: &'s mut Session, sink: Sink<'s>) -> Issuer<'s>
    where
        'a: 's,
    {
        let prompts = self.prompts.take();
        let prompts = prompts.expect("a case ends with a window that failed");
        Issuer::new(session, self.progress.case, prompts, sink)
    }
}

/// The least number of timed requests of a case's next window, when `timed` are done: four rounds
/// of all users, or all that is left where that would not do for two such windows.
fn timed_in_window(case: &Case, timed: u32) -> u32 {
    let whole = case.concurrency * WINDOW_ROUNDS;
    match case.requests.saturating_sub(timed) {
        left if left < 2 * whole => left.max(whole),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_is_shorter_than_four_rounds() {
        let case = |concurrency, requests| Case {
            concurrency,
            requests,
            ..Case::default()
        };
        let windows = |users, requests| {
            let case = case(users, requests);
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
        // The prompts end this one.
        assert_eq!(windows(8, 24), [32]);
        // A case that lasts longer than its requests goes on with whole windows.
        assert_eq!(timed_in_window(&case(8, 72), 80), 32);
    }
}
