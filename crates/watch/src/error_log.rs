//! The user's log of errors, as `protocol::error_log` describes it, for alerts of the harness.
//! [`path`] uses the build directory where the variable asks for a log and names no file.
//!
//! A panic is an error like any other: it is appended to the user's file and, where the rest of the
//! process lives on, shown in a dialog. Where it ends the process, the terminal is given back
//! first, so that its message can be read.

use super::event::{Alert, Event, Severity};
use super::{OBSERVER, dashboard, emit_to, keep, screen};
use std::path::Path;

pub use protocol::error_log::path;

/// Append an alert that `command` raised.
pub fn append(path: &Path, command: &str, alert: &Alert) -> std::io::Result<()> {
    protocol::error_log::append(path, alert.severity.word(), command, &alert.text)
}

/// Install the panic hook. Call once, at the start.
pub fn install() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed");
        if name == "main" || name == dashboard::THREAD {
            dashboard::give_back();
        }
        let alert = Alert {
            severity: Severity::Panic,
            text: format!("thread {name} {info}"),
        };
        keep(&alert);
        // The thread that panics may hold the observer's lock. Then the panic isn't shown.
        if screen::is_taken()
            && let Ok(mut observer) = OBSERVER.try_lock()
        {
            emit_to(&mut observer, Event::Alert(alert));
        }
        default(info);
    }));
}
