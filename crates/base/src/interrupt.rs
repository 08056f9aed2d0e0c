//! What ends a run before it is done: a signal, or its time.
//!
//! SIGINT, SIGTERM and SIGHUP (the terminal is gone): ask once politely, so that a run can
//! close its record, stop its engine and say how to go on. A second signal ends the process.
//!
//! `--stop-after`: a run ends between two pieces of work once its time is up, so that a
//! machine lent for minutes at a time can finish it in several goes. A piece is what a
//! resumed run does not do again: a target's verification, its pilot, a capacity, a
//! launch (where targets take turns: those of a block), the check of a case's outputs, a
//! trace. No piece is cut short, and the first is always done: every go gets further.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

fn on_signal(signal: libc::c_int) {
    if REQUESTED.swap(true, Ordering::SeqCst) {
        if let Some(before_exit) = BEFORE_EXIT.get() {
            before_exit();
        }
        low_level::exit(128 + signal);
    }
}

/// Install the handlers. Call once, at the start. Where SIGHUP is ignored already, as nohup(1)
/// has it, it stays ignored.
pub fn install() {
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // SAFETY: `on_signal` only touches atomics, `exit` and what `before_exit` was given,
        // all of which are allowed in a signal handler.
        unsafe { low_level::register(signal, move || on_signal(signal)) }
            .expect("a program may handle these signals");
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: zeros are a value of it, which the call overwrites; it changes no handler.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction == libc::SIG_IGN
    }
}

/// Do this before a second signal ends the process. It must be async-signal-safe. Only
/// the first one given counts.
pub fn before_exit(what: fn()) {
    let _ = BEFORE_EXIT.set(what);
}

/// Ask to stop, as a first signal does.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// An error where the user asked to stop: stages call it between pieces of work.
pub fn check() -> anyhow::Result<()> {
    if requested() {
        Err(anyhow::anyhow!("interrupted"))
    } else {
        Ok(())
    }
}

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
