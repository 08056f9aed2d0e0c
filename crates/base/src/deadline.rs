//! `--stop-after`: a run ends between two pieces of work once its time is up, so that a
//! machine lent for minutes at a time can finish it in several goes. A piece is what a
//! resumed run does not do again: a target's verification, its pilot, a capacity, a
//! launch (where targets take turns: those of a block), a cell's check, a trace. No piece is
//! cut short, and the first is always done: every go gets further.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When the time is up, and whether a piece of work has been begun since it was set.
static DEADLINE: Mutex<Option<(Instant, bool)>> = Mutex::new(None);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on pieces are only begun before `deadline`.
pub fn set(deadline: Instant) {
    *DEADLINE.lock().unwrap_or_else(|e| e.into_inner()) = Some((deadline, false));
}

/// Call before a piece of work that takes at least `at_least`: an error where it should
/// not be begun, because there is no time for it or because the user asked to stop.
pub fn next_piece(at_least: Duration) -> anyhow::Result<()> {
    crate::interrupt::check()?;
    let mut deadline = DEADLINE.lock().unwrap_or_else(|e| e.into_inner());
    if fits(&mut deadline, Instant::now(), at_least) {
        return Ok(());
    }
    STOPPED.store(true, Ordering::SeqCst);
    anyhow::bail!("the time of --stop-after is up")
}

/// Whether work was stopped because of the deadline.
pub fn has_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

fn fits(deadline: &mut Option<(Instant, bool)>, now: Instant, at_least: Duration) -> bool {
    let Some((at, begun)) = deadline else {
        return true;
    };
    let is_first = !std::mem::replace(begun, true);
    is_first || now + at_least <= *at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_piece_is_always_begun_and_no_other_that_would_end_too_late() {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        assert!(fits(&mut None, now, minute));
        let mut over = Some((now, false));
        assert!(fits(&mut over, now, minute), "each go gets further");
        assert!(!fits(&mut over, now, Duration::from_nanos(1)));
        let mut ahead = Some((now + minute, true));
        assert!(fits(&mut ahead, now, Duration::ZERO));
        assert!(fits(&mut ahead, now, minute));
        assert!(!fits(&mut ahead, now, 2 * minute));
    }
}
