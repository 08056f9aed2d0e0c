//! The signals that end a process: SIGINT, SIGTERM and SIGHUP (the terminal was closed). The first
//! one only requests a stop, so that a run can close its record, stop its engine and say how to go
//! on. A second one ends the process. For commands that only compute the first one does.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static AT_ONCE: AtomicBool = AtomicBool::new(false);
static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

fn on_signal(signal: libc::c_int) {
    let at_once = AT_ONCE.load(Ordering::SeqCst);
    if at_once {
        let said = b"error: interrupted\n";
        // SAFETY: plain system call on memory of this length, allowed in a signal handler.
        unsafe { libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len()) };
    }
    if REQUESTED.swap(true, Ordering::SeqCst) || at_once {
        if let Some(before_exit) = BEFORE_EXIT.get() {
            before_exit();
        }
        low_level::exit(128 + signal);
    }
}

/// Install the handlers. Call once, at the start. Where SIGHUP is ignored already, as under
/// nohup(1), it stays ignored.
pub fn install() {
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // SAFETY: `on_signal` only touches atomics, `write`, `exit` and what `before_exit` was
        // given, all of which are allowed in a signal handler.
        unsafe { low_level::register(signal, move || on_signal(signal)) }
            .expect("a program may handle these signals");
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros is a valid `sigaction`, which the call overwrites; it changes no handler.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction == libc::SIG_IGN
    }
}

/// Set what is done before a second signal ends the process. It must be async-signal-safe. Only the
/// first call has an effect.
pub fn before_exit(what: fn()) {
    let _ = BEFORE_EXIT.set(what);
}

/// Let the first signal end the process from now on: for a command that only computes, and so has
/// neither a record to close nor an engine to stop. An error where a stop was requested already.
pub fn at_once() -> anyhow::Result<()> {
    AT_ONCE.store(true, Ordering::SeqCst);
    check()
}

/// Do what a terminal does with Ctrl-C unless it is in raw mode: send SIGINT to this process's
/// group, and so also to a compiler or a download that this process waits for. Engines have groups
/// of their own.
pub fn signal_group() {
    // SAFETY: plain system call without pointers; 0 is the caller's own group.
    unsafe { libc::kill(0, libc::SIGINT) };
}

/// Whether a stop was requested.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Return an error where a stop was requested. Stages call this between pieces of work.
pub fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!requested(), "interrupted");
    Ok(())
}
