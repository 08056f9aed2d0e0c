//! The progress of a command while it works, shown as plain lines on stderr or as the dashboard of
//! `--tui`.
//!
//! Stages report by [`emit`], [`warn`] and [`error`], from wherever they are; there is one observer
//! for the whole process, as there is one terminal. Emitting an event only hands it over: the
//! dashboard draws on a thread of its own (`dashboard`), from a state (`state`, `tree`, `live`) by
//! a renderer (`view`); state and renderer are pure. Every error and warning is also appended to
//! the file that the user named (`error_log`). `log` has details that are shown only on request.
//!
//! No event is part of a record, and no number in a record comes from here.

// The macros of `base` do all printing.
#[macro_use]
extern crate base;

pub mod control;
pub mod dashboard;
pub mod error_log;
pub mod eta;
pub mod event;
mod live;
pub mod log;
mod plain;
pub mod plan;
mod screen;
#[cfg(test)]
mod screens;
mod state;
mod tree;
mod view;
mod words;

pub use control::Control;

use anyhow::Result;
use base::{names, say};
use event::{Alert, Begin, Event, Mark, Severity, Stage};
use plain::Plain;
use protocol::clock::now_ns;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};

/// A receiver of progress events.
trait Observer: Send {
    /// Take an event that happened at `t_ns` (`CLOCK_MONOTONIC`). Returns `false` where it takes no
    /// further ones.
    fn see(&mut self, t_ns: u64, event: Event) -> bool;
    /// Whether it shows what happens between two requests of a launch.
    fn is_live(&self) -> bool;
}

static OBSERVER: Mutex<Option<Box<dyn Observer>>> = Mutex::new(None);

fn observer() -> MutexGuard<'static, Option<Box<dyn Observer>>> {
    OBSERVER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Pass an event to the observer: the dashboard, or else plain progress on stderr.
pub fn emit(event: Event) {
    emit_to(&mut observer(), event);
}

fn emit_to(observer: &mut Option<Box<dyn Observer>>, event: Event) {
    let alert = match &event {
        Event::Alert(alert) => Some(alert.clone()),
        _ => None,
    };
    let looks = observer.get_or_insert_with(|| Box::new(Plain::stderr()));
    if !looks.see(now_ns(), event) {
        *looks = Box::new(Plain::stderr());
        if let Some(alert) = alert {
            looks.see(now_ns(), Event::Alert(alert));
        }
    }
}

/// Whether the observer shows what happens between two requests, so that emitting it is worthwhile.
pub fn is_live() -> bool {
    observer().as_ref().is_some_and(|looks| looks.is_live())
}

/// Report that a stage begins.
pub fn stage(stage: Stage) {
    log::stage(stage);
    emit(Event::Stage(stage));
}

/// Report a warning: the command goes on, but something is missing from its result.
pub fn warn(text: impl Into<String>) {
    alert(Severity::Warning, text.into());
}

/// Report an error: something failed.
pub fn error(text: impl Into<String>) {
    alert(Severity::Error, text.into());
}

fn alert(severity: Severity, text: String) {
    // The text may quote a program's output, whose escape sequences must not reach a terminal.
    let text = base::text::without_escapes(&text);
    let alert = Alert { severity, text };
    error_log::keep(&alert);
    log::alert(&alert);
    emit(Event::Alert(alert));
}

/// The command's verb, as the user gave it.
fn verb() -> String {
    base::argv::given()
        .find(|argument| !argument.starts_with('-'))
        .unwrap_or_else(|| "xtask".into())
}

/// Report that a piece of work without samples begins.
pub fn begin(group: impl Into<String>, item: impl Into<String>) {
    emit(Event::Begin(Begin::plain(group, item)));
}

/// Report that the running piece of work is over. `failure` says why it failed, and is empty where
/// it didn't.
pub fn end(failure: &str) {
    let mark = match failure.is_empty() {
        true => Mark::Done,
        false => Mark::Failed,
    };
    let reason = failure.to_owned();
    emit(Event::End { mark, reason });
}

/// Do `work`, with the dashboard where the user wants it and there is a terminal. Its keys make
/// their requests through the control that `work` is given. After a dashboard, a failure has
/// already been shown, and only its exit status is returned.
pub fn session(tui: bool, work: impl FnOnce(Control) -> Result<ExitCode>) -> Result<ExitCode> {
    let control = Control::default();
    if !tui {
        return work(control);
    }
    let title = format!("cargo xtask {}", verb());
    match dashboard::open(&title, control.clone()) {
        Err(why) => {
            eprintln!("No dashboard: {why}; plain progress instead");
            work(control)
        }
        Ok(dashboard) => {
            let code = conclude(work(control));
            dashboard.close();
            Ok(code)
        }
    }
}

/// End the command: report its error (as an alert, unless the user wanted it to stop), and return
/// its exit status. 1 = it failed, or stdout did not take what was printed, 2 = an unknown name or
/// another request that can't be met here, 130 = interrupted.
pub fn conclude(result: Result<ExitCode>) -> ExitCode {
    let result = result.and_then(|code| say::check_stdout().map(|()| code));
    let code = match result {
        Ok(code) => code,
        Err(error) if base::interrupt::requested() => {
            emit(Event::PrintAtExit(format!("error: {error:#}")));
            ExitCode::from(130)
        }
        Err(failed) => {
            error(format!("{failed:#}"));
            match names::is_refused(&failed) {
                true => ExitCode::from(names::EXIT_STATUS),
                false => ExitCode::FAILURE,
            }
        }
    };
    log::over();
    emit(Event::Over);
    code
}

/// Print what clap says of a command line that can't be understood or asks for help, and return the
/// exit status. An error is also appended to the user's log; help is no error.
pub fn usage(said: &clap::Error) -> ExitCode {
    if said.use_stderr() {
        let text = said.render().to_string();
        error_log::keep(&Alert {
            severity: Severity::Error,
            text: text.trim_start_matches("error: ").to_owned(),
        });
    }
    let _ = said.print(); // a closed pipe is no error
    ExitCode::from(said.exit_code().clamp(0, 255) as u8)
}
