//! Printing. The standard library's macros panic when the reading end of a pipe is closed, but a
//! benchmark of an hour must not end because of a pipe, and `export | head` is no fault. So every
//! crate of the harness uses the `println!`, `print!` and so on of this module.
//!
//! A closed pipe is no error: a command goes on to its end and has the exit status that it would
//! have had. Where a write to stdout failed for another reason (a full disk), that is reported
//! once, at the end. SIGPIPE stays ignored: with its default disposition an engine that dies would
//! take the harness with it.

use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Result, Write, stderr, stdout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Print a line on stdout.
#[macro_export]
macro_rules! println {
    () => { $crate::say::out(cfg!(test), format_args!("\n")) };
    ($($what:tt)*) => { $crate::say::out(cfg!(test), format_args!("{}\n", format_args!($($what)*))) };
}

/// Print on stdout.
#[macro_export]
macro_rules! print {
    ($($what:tt)*) => { $crate::say::out(cfg!(test), format_args!($($what)*)) };
}

/// Print a line of progress on stderr, unless `-q` asks for none.
#[macro_export]
macro_rules! eprintln {
    ($($what:tt)*) => { $crate::say::err(cfg!(test), format_args!("{}\n", format_args!($($what)*))) };
}

/// Print progress on stderr, unless `-q` asks for none.
#[macro_export]
macro_rules! eprint {
    ($($what:tt)*) => { $crate::say::err(cfg!(test), format_args!($($what)*)) };
}

/// The first error of a write to stdout. A closed pipe is no such error.
static LOST: Mutex<Option<Error>> = Mutex::new(None);

/// Print text on stdout. A failure is reported later, by [`whole`].
pub fn out(in_test: bool, text: Arguments) {
    match in_test {
        // The test harness captures only what this macro prints.
        true => std::print!("{text}"),
        false => bytes(text.to_string().as_bytes()),
    }
}

/// Print bytes that need not be text on stdout. A failure is reported later, by [`whole`].
pub fn bytes(bytes: &[u8]) {
    let mut out = stdout().lock();
    keep(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Whether progress is suppressed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppress progress from now on (`true`), or show it. Warnings and errors are printed in any case.
pub fn quiet(wanted: bool) {
    QUIET.store(wanted, Ordering::Relaxed);
}

/// Whether progress is suppressed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Print progress on stderr, unless it is suppressed.
pub fn err(in_test: bool, text: Arguments) {
    if !is_quiet() {
        always(in_test, text);
    }
}

/// Print a warning or an error on stderr, even where `-q` asks for silence. A failure is ignored,
/// because there is no place left to report it.
pub fn always(in_test: bool, text: Arguments) {
    match in_test {
        true => std::eprint!("{text}"),
        false => drop(stderr().write_all(text.to_string().as_bytes())),
    }
}

fn keep(written: Result<()>) {
    let lost = written.err().filter(|e| e.kind() != ErrorKind::BrokenPipe);
    if let Some(error) = lost {
        let mut lost = LOST.lock().unwrap_or_else(|lock| lock.into_inner());
        lost.get_or_insert(error);
    }
}

/// Return an error, once, where stdout didn't take all that was printed.
pub fn check_stdout() -> anyhow::Result<()> {
    let mut lost = LOST.lock().unwrap_or_else(|lock| lock.into_inner());
    match lost.take() {
        None => Ok(()),
        Some(error) => anyhow::bail!(
            "not all of the output could be written to stdout: {error}; make room, or send it elsewhere"
        ),
    }
}
