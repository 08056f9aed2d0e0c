//! What the user asks of a run while it goes on: to stop after some time (`--stop-after`), to pause
//! before the next launch (or round of launches that take turns), or to skip the rest of what runs.
//! `base::interrupt` stops a run altogether.
//!
//! With `--stop-after` a run ends between two pieces of work, so that a machine lent for minutes at
//! a time can finish it in several goes. A piece is what a resumed run does not do again: a
//! target's verification, its pilot, a capacity stage, a launch (where targets take turns: those of
//! a block), the check of a case's outputs, a trace. No piece is cut short, and the first is always
//! done, so that every go gets further.
//!
//! In the middle of a request only its launch can be given up. The launch's record then ends as
//! `not_run`, and a resumed run makes it again.

use super::event::Event;
use base::interrupt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// State of `skip`: nothing runs that could be skipped.
const CLOSED: u8 = 0;
/// State of `skip`: something runs that can be skipped.
const OPEN: u8 = 1;
/// State of `skip`: the user asked to skip what runs.
const ASKED: u8 = 2;

/// Why the work that runs is given up before it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// The whole run is to stop.
    Interrupted,
    /// The user wants to leave out this work, and to go on with the rest.
    Skipped,
}

impl GivenUp {
    /// The reason that the launch's record gives.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Skipped => "skipped by the user",
        }
    }
}

/// Time between two looks at whether a pause is over.
const LOOK: Duration = Duration::from_millis(20);

/// A handle to what is asked of one run. All clones share one state: whoever asks (the dashboard's
/// keys, the command line) and whoever does the work each hold a clone.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    pause: AtomicBool,
    /// `CLOSED`, `OPEN` or `ASKED`.
    skip: AtomicU8,
    time: Mutex<Time>,
}

#[derive(Debug, Default)]
struct Time {
    /// When the time of `--stop-after` is up; `None` where there is no limit.
    deadline: Option<Instant>,
    /// Whether a piece of work has been begun since the deadline was set.
    begun: bool,
    /// Whether a piece of work was left undone because of the deadline.
    is_up: bool,
}

impl Time {
    fn fits(&mut self, now: Instant, at_least: Duration) -> bool {
        let Some(deadline) = self.deadline else {
            return true;
        };
        let is_first = !std::mem::replace(&mut self.begun, true);
        let fits = is_first || now + at_least <= deadline;
        self.is_up |= !fits;
        fits
    }
}

impl Control {
    /// Pause the run before its next launch (`true`), or let it go on.
    pub fn pause(&self, pause: bool) {
        self.0.pause.store(pause, Ordering::SeqCst);
    }

    /// Skip the rest of what runs. Between two launches this has no effect.
    pub fn skip(&self) {
        let skip = &self.0.skip;
        let _ = skip.compare_exchange(OPEN, ASKED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Set a deadline: from now on, pieces of work are only begun before it.
    pub fn stop_at(&self, deadline: Instant) {
        *self.time() = Time {
            deadline: Some(deadline),
            ..Time::default()
        };
    }

    /// Wait here, between two pieces of work, while the user pauses the run. An error where they
    /// want to stop it.
    pub fn checkpoint(&self) -> anyhow::Result<()> {
        let waits = || self.0.pause.load(Ordering::SeqCst) && !interrupt::requested();
        if waits() {
            super::emit(Event::Paused(true));
            while waits() {
                std::thread::sleep(LOOK);
            }
            super::emit(Event::Paused(false));
        }
        interrupt::check()
    }

    /// Check, before a piece of work that takes at least `at_least`, that it may begin. An error
    /// where there is no time for it or the user asked to stop.
    pub fn next_piece(&self, at_least: Duration) -> anyhow::Result<()> {
        interrupt::check()?;
        match self.time().fits(Instant::now(), at_least) {
            true => Ok(()),
            false => anyhow::bail!("the time of --stop-after is up"),
        }
    }

    /// Whether a piece of work was left undone because the time is up.
    pub fn has_stopped(&self) -> bool {
        self.time().is_up
    }

    /// From now until [`Control::skipped`] the user may skip what runs. An earlier request to skip
    /// is dropped.
    pub fn skippable(&self) {
        self.0.skip.store(OPEN, Ordering::SeqCst);
    }

    /// Whether the user skipped what runs. From now on it can't be skipped any more.
    pub fn skipped(&self) -> bool {
        self.0.skip.swap(CLOSED, Ordering::SeqCst) == ASKED
    }

    /// Why the work that runs is to be given up; `None` where it is to go on.
    pub fn given_up(&self) -> Option<GivenUp> {
        if interrupt::requested() {
            return Some(GivenUp::Interrupted);
        }
        (self.0.skip.load(Ordering::SeqCst) == ASKED).then_some(GivenUp::Skipped)
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.0.time.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_can_be_skipped() {
        let (control, other) = (Control::default(), Control::default());
        let keys = control.clone();
        keys.skip();
        control.skippable();
        assert_eq!(control.given_up(), None, "asked before anything ran");
        assert!(!control.skipped());
        control.skippable();
        other.skippable();
        keys.skip();
        assert_eq!(control.given_up(), Some(GivenUp::Skipped));
        assert_eq!(GivenUp::Skipped.reason(), "skipped by the user");
        assert_eq!(other.given_up(), None, "another run goes on");
        assert!(control.skipped());
        assert_eq!(control.given_up(), None);
        assert!(!control.skipped());
    }

    #[test]
    fn the_first_piece_is_always_begun_and_no_other_that_would_end_too_late() {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        assert!(Time::default().fits(now, minute));
        let until = |deadline| Time {
            deadline: Some(deadline),
            ..Time::default()
        };
        let mut over = until(now);
        assert!(over.fits(now, minute), "each go gets further");
        assert!(!over.is_up);
        assert!(!over.fits(now, Duration::from_nanos(1)));
        assert!(over.is_up);
        let mut ahead = until(now + minute);
        assert!(ahead.fits(now, Duration::ZERO));
        assert!(ahead.fits(now, minute));
        assert!(!ahead.fits(now, 2 * minute));
    }

    #[test]
    fn the_time_is_one_run_s() {
        let (control, other) = (Control::default(), Control::default());
        control.stop_at(Instant::now());
        let worker = control.clone();
        assert!(worker.next_piece(Duration::ZERO).is_ok(), "the first");
        assert!(worker.next_piece(Duration::ZERO).is_err());
        assert!(control.has_stopped() && !other.has_stopped());
        for _ in 0..2 {
            assert!(other.next_piece(Duration::ZERO).is_ok());
        }
    }
}
