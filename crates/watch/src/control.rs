//! What the user may ask of a run while it goes on: wait before the next launch, or round
//! of launches that take turns; leave out the rest of what runs. Stopping altogether is
//! `interrupt`'s.
//!
//! Nothing is stopped in the middle of a request but by giving up its launch, whose
//! record then ends as `not_run`: a resumed run makes it again.

use super::event::Event;
use base::interrupt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

static PAUSE: AtomicBool = AtomicBool::new(false);
static SKIP: AtomicU8 = AtomicU8::new(CLOSED);

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

/// Begin nothing new, or go on.
pub fn pause(pause: bool) {
    PAUSE.store(pause, Ordering::SeqCst);
}

/// Leave out the rest of what runs. Between two launches this asks nothing.
pub fn skip() {
    let _ = SKIP.compare_exchange(OPEN, ASKED, Ordering::SeqCst, Ordering::SeqCst);
}

/// Between two pieces of work: wait while the user wants to; an error where they want
/// to stop.
pub fn checkpoint() -> anyhow::Result<()> {
    if PAUSE.load(Ordering::SeqCst) && !interrupt::requested() {
        super::emit(Event::Paused(true));
        while PAUSE.load(Ordering::SeqCst) && !interrupt::requested() {
            std::thread::sleep(LOOK);
        }
        super::emit(Event::Paused(false));
    }
    interrupt::check()
}

/// From now until [`skipped`] the user may skip what runs; what was to be skipped before is
/// given up.
pub fn skippable() {
    SKIP.store(OPEN, Ordering::SeqCst);
}

/// Whether the user skipped it. It can't be skipped any more.
pub fn skipped() -> bool {
    SKIP.swap(CLOSED, Ordering::SeqCst) == ASKED
}

/// Why what runs is to be given up; `None` where it is to go on.
pub fn given_up() -> Option<GivenUp> {
    if interrupt::requested() {
        return Some(GivenUp::Interrupted);
    }
    (SKIP.load(Ordering::SeqCst) == ASKED).then_some(GivenUp::Skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_can_be_skipped() {
        // The only test that touches the switch: it is one for the whole process.
        skip();
        skippable();
        assert_eq!(given_up(), None, "asked before anything ran");
        assert!(!skipped());
        skippable();
        skip();
        assert_eq!(given_up(), Some(GivenUp::Skipped));
        assert_eq!(GivenUp::Skipped.reason(), "skipped by the user");
        assert!(skipped());
        assert_eq!(given_up(), None);
        assert!(!skipped());
    }
}
