//! What a command tells while it works, and who looks: plain progress on stderr, or
//! the dashboard of `--tui`.
//!
//! Stages tell by [`emit`], [`warn`] and [`error`], from wherever they are; there is
//! one observer for the whole process, as there is one terminal. An event is handed
//! over and nothing more: the dashboard draws on a thread of its own (`dashboard`),
//! from a state (`state`, `tree`, `live`) by a renderer (`view`) that are both pure.
//! Every error and warning also goes to the file that the user named (`error_log`). `log` is the detail
//! that nobody sees who doesn't ask.
//!
//! Nothing told here is a record, and no number of a record comes from here.

// What is printed goes through its macros.
#[macro_use]
extern crate base;

pub mod control;
pub mod dashboard;
pub mod error_log;
pub mod eta;
pub mod event;
pub mod live;
pub mod log;
mod plain;
pub mod plan;
mod screen;
#[cfg(test)]
mod screens;
pub mod state;
pub mod tree;
pub mod view;
pub mod words;

pub use control::Control;

use anyhow::Result;
use base::names;
use base::repo::Repo;
use base::say;
use event::{Alert, Begin, Event, Mark, NO_METERS, Severity, Stage};
use plain::Plain;
use protocol::clock::now_ns;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};

/// A receiver of progress events.
trait Observer: Send {
    /// Take an event that happened at `t_ns` (`CLOCK_MONOTONIC`). Returns `false` where it takes no
    /// further ones.
    fn see(&mut self, t_ns: u64, event: Event) -> bool;
    /// Whether it shows what happens between two requests.
    fn is_live(&self) -> bool;
}

static OBSERVER: Mutex<Option<Box<dyn Observer>>> = Mutex::new(None);

fn observer() -> MutexGuard<'static, Option<Box<dyn Observer>>> {
    OBSERVER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Tell.
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

/// Whether it is worth telling what happens between two requests.
pub fn is_live() -> bool {
    observer().as_ref().is_some_and(|looks| looks.is_live())
}

/// A stage begins.
pub fn stage(stage: Stage) {
    log::stage(stage);
    emit(Event::Stage(stage));
}

/// The command goes on, but something is missing from its result.
pub fn warn(text: impl Into<String>) {
    alert(Severity::Warning, text.into());
}

/// Something failed.
pub fn error(text: impl Into<String>) {
    alert(Severity::Error, text.into());
}

fn alert(severity: Severity, text: String) {
    // It may be in the words of a program, and no terminal should obey it.
    let text = base::text::plain(&text);
    let alert = Alert { severity, text };
    keep(&alert);
    log::alert(&alert);
    emit(Event::Alert(alert));
}

/// Append an alert to the user's file, if there is one. That this failed is said
/// once, and is no alert: it would have to be appended too.
fn keep(alert: &Alert) {
    static FAILED: Mutex<bool> = Mutex::new(false);
    let build_dir = || match Repo::find() {
        Ok(repo) => repo.build_dir,
        Err(_) => "target".into(),
    };
    let Some(path) = error_log::path(|name| std::env::var_os(name), build_dir) else {
        return;
    };
    let result = error_log::append(&path, &verb(), alert);
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

/// The command's verb, as the user gave it.
fn verb() -> String {
    let mut arguments = std::env::args().skip(1);
    arguments
        .find(|argument| !argument.starts_with('-'))
        .unwrap_or_else(|| "xtask".into())
}

/// A piece of work without samples begins.
pub fn begin(group: impl Into<String>, item: impl Into<String>) {
    emit(Event::Begin(Begin {
        group: group.into(),
        item: item.into(),
        detail: String::new(),
        meters: &NO_METERS,
        skippable: false,
    }));
}

/// And is over; `failure` is empty where it went well.
pub fn end(failure: &str) {
    let mark = match failure.is_empty() {
        true => Mark::Done,
        false => Mark::Failed,
    };
    let reason = failure.to_owned();
    emit(Event::End { mark, reason });
}

/// Do `work`, with the dashboard where the user wants it and there is a terminal; its keys ask by
/// the control that `work` is given. What failed has then been shown, and only its exit status comes
/// back.
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

/// The command is over: its error is shown, unless the user wanted it to stop; its
/// exit status. 1 = failed, or stdout did not take what was printed, 2 = a name that nothing
/// has, or what can't be had here, 130 = interrupted.
pub fn conclude(result: Result<ExitCode>) -> ExitCode {
    let result = result.and_then(|code| say::whole().map(|()| code));
    let code = match result {
        Ok(code) => code,
        Err(error) if base::interrupt::requested() => {
            emit(Event::Farewell(format!("error: {error:#}")));
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

/// The command line can't be understood, or asks for help: what clap says, in its own
/// words; its exit status. Help is no error.
pub fn usage(said: &clap::Error) -> ExitCode {
    if said.use_stderr() {
        let text = said.render().to_string();
        keep(&Alert {
            severity: Severity::Error,
            text: text.trim_start_matches("error: ").to_owned(),
        });
    }
    let _ = said.print(); // a closed pipe is no error
    ExitCode::from(said.exit_code().clamp(0, 255) as u8)
}
