//! SIGINT and SIGTERM: ask once politely, so that a run can close its record,
//! stop its engine and say how to go on. A second signal ends the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

extern "C" fn on_signal(signal: libc::c_int) {
    if REQUESTED.swap(true, Ordering::SeqCst) {
        if let Some(before_exit) = BEFORE_EXIT.get() {
            before_exit();
        }
        // SAFETY: `_exit` is async-signal-safe and takes no pointers.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// Install the handlers. Call once, at the start.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: `on_signal` only touches atomics, `_exit` and what `before_exit` was
        // given, all of which are allowed in a signal handler, and it lives as long as
        // the program.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
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
