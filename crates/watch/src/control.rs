//! What the user may ask of a run: by `--stop-after` to end once its time is up, and while it goes
//! on to wait before the next launch (or round of launches that take turns) or to leave out the rest
//! of what runs. Stopping altogether is `interrupt`'s.
//!
//! `--stop-after`: a run ends between two pieces of work, so that a machine lent for minutes at a
//! time can finish it in several goes. A piece is what a resumed run does not do again: a target's
//! verification, its pilot, a capacity, a launch (where targets take turns: those of a block), the
//! check of a case's outputs, a trace. No piece is cut short, and the first is always done: every go
//! gets further.
//!
//! Nothing is stopped in the middle of a request but by giving up its launch, whose
//! record then ends as `not_run`: a resumed run makes it again.

use super::event::Event;
use base::interrupt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Nothing runs that could be skipped.
const CLOSED: u8 = 0;
/// Something does.
const OPEN: u8 = 1;
/// And the user doesn't want it.
const ASKED: u8 = 2;

/// Why what runs is given up before it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// The whole run is to stop.
    Interrupted,
    /// The user wants to leave this out, and to go on with the rest.
    Skipped,
}

impl GivenUp {
    /// The reason in its record.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Skipped => "skipped by the user",
        }
    }
}

/// How often someone who waits looks whether to go on.
const LOOK: Duration = Duration::from_millis(20);

/// What is asked of one run. Clones are of the same run: the one who asks (the dashboard's keys, the
/// command line) and those who do the work hold one each.
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
    /// When it is up.
    deadline: Option<Instant>,
    /// Whether a piece of work has been begun since that was set.
    begun: bool,
    /// Whether a piece was left because of it.
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
    /// Begin nothing new, or go on.
    pub fn pause(&self, pause: bool) {
        self.0.pause.store(pause, Ordering::SeqCst);
    }

    /// Leave out the rest of what runs. Between two launches this asks nothing.
    pub fn skip(&self) {
        let skip = &self.0.skip;
        let _ = skip.compare_exchange(OPEN, ASKED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// From now on pieces are only begun before `deadline`.
    pub fn stop_at(&self, deadline: Instant) {
        *self.time() = Time {
            deadline: Some(deadline),
            ..Time::default()
        };
    }

    /// Between two pieces of work: wait while the user wants to; an error where they want
    /// to stop.
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

    /// Call before a piece of work that takes at least `at_least`: an error where it should
    /// not be begun, because there is no time for it or because the user asked to stop.
    pub fn next_piece(&self, at_least: Duration) -> anyhow::Result<()> {
        interrupt::check()?;
        match self.time().fits(Instant::now(), at_least) {
            true => Ok(()),
            false => anyhow::bail!("the time of --stop-after is up"),
        }
    }

    /// Whether a piece of work was left because the time is up.
    pub fn has_stopped(&self) -> bool {
        self.time().is_up
    }

    /// From now until [`Control::skipped`] the user may skip what runs; what was to be skipped before
    /// is given up.
    pub fn skippable(&self) {
        self.0.skip.store(OPEN, Ordering::SeqCst);
    }

    /// Whether the user skipped it. It can't be skipped any more.
    pub fn skipped(&self) -> bool {
        self.0.skip.swap(CLOSED, Ordering::SeqCst) == ASKED
    }

    /// Why what runs is to be given up; `None` where it is to go on.
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
