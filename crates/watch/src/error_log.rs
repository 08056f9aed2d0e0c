//! The user's log of errors, as `protocol::error_log` describes it, for alerts of the harness. It
//! lies in the build directory where the variable asks for a log and names no file.
//!
//! A panic is an error like any other: it is appended to the user's file and, where the rest of the
//! process lives on, shown in a dialog. Where it ends the process, the terminal is given back
//! first, so that its message can be read.

use super::event::{Alert, Event, Severity};
use super::{OBSERVER, dashboard, emit_to, screen, verb};
use base::repo::Repo;
use base::say;
use protocol::error_log;
use std::sync::Mutex;

/// Append an alert to the user's log of errors, if there is one. A failure to append is printed
/// once. It is no alert itself, because that would have to be appended too.
pub(super) fn keep(alert: &Alert) {
    static FAILED: Mutex<bool> = Mutex::new(false);
    let build_dir = || match Repo::find() {
        Ok(repo) => repo.build_dir,
        Err(_) => "target".into(),
    };
    let Some(path) = error_log::path(|name| std::env::var_os(name), build_dir) else {
        return;
    };
    let result = error_log::append(&path, alert.severity.word(), &verb(), &alert.text);
    let mut failed = FAILED.lock().unwrap_or_else(|lock| lock.into_inner());
    if let (Err(error), false) = (result, *failed) {
        *failed = true;
        let path = path.display();
        say::always(
            cfg!(test),
            format_args!("{path} can't be appended to: {error}\n"),
        );
    }
}

/// Install the panic hook. Call once, at the start, on the thread that does the command's work.
pub fn install() {
    let default = std::panic::take_hook();
    let working = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed");
        if thread.id() == working || name == dashboard::THREAD {
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
