//! A detailed log, for whoever looks for a fault: spans (stage, launch, case) and events of the
//! crate `tracing`. They are shown on stderr as `-v` or `RUST_LOG` asks, and appended, except for
//! the protocol's lines, to a file beside the run's records.
//!
//! Between two requests only messages of level TRACE are logged, which the file leaves out.

use super::emit;
use super::event::{Alert, Event, Severity, Stage};
use clap::ArgAction;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tracing::span::EnteredSpan;
use tracing::{Level, info_span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// The `tracing` target of alerts. Stderr's log leaves it out, because alerts are shown there
/// anyway.
const ALERT: &str = "alert";

/// How much the command line asks to be printed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Loudness {
    /// Log what is done on stderr: stages and launches; -vv: also cases and processes; -vvv: also
    /// the protocol's lines. RUST_LOG does the same by target, as in `RUST_LOG=harness=trace`.
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Print only warnings, errors and results, no progress.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// Install the log. Call once, at the start. `-v` takes precedence over `RUST_LOG` (directives of
/// targets and levels: `debug`, `harness=trace`), which is ignored with a warning where it can't be
/// parsed.
pub fn install(loudness: Loudness) {
    base::say::quiet(loudness.quiet);
    let asked = std::env::var("RUST_LOG").ok();
    let shown = shown(loudness.verbose, asked.as_deref());
    let filter = shown.clone().unwrap_or_default();
    let stderr = tracing_subscriber::fmt::layer()
        .without_time()
        .with_ansi(false)
        .with_writer(|| Lines(show))
        .with_filter(filter.with_target(ALERT, LevelFilter::OFF));
    let kept = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| Lines(keep))
        .with_filter(LevelFilter::DEBUG);
    tracing_subscriber::registry()
        .with(stderr)
        .with(kept)
        .init();
    if let Err(why) = shown {
        super::warn(format!(
            "RUST_LOG is ignored: {why}. It is a level (`debug`), or targets with theirs (`harness=trace,watch=info`)"
        ));
    }
}

/// The filter of what stderr shows. The error says what is wrong with `RUST_LOG`.
fn shown(verbose: u8, asked: Option<&str>) -> Result<Targets, String> {
    let all = |level| Ok(Targets::new().with_default(level));
    match (verbose, asked) {
        (0, None | Some("")) => all(LevelFilter::OFF),
        (0, Some(asked)) => asked.parse::<Targets>().map_err(|why| why.to_string()),
        (1, _) => all(LevelFilter::INFO),
        (2, _) => all(LevelFilter::DEBUG),
        _ => all(LevelFilter::TRACE),
    }
}

/// A writer that hands each line on.
struct Lines(fn(&[u8]));

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        (self.0)(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Show a line like any other progress: beside the bar or on the dashboard.
fn show(line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    emit(Event::Line(text.trim_end().to_owned()));
}

/// The log file beside the records, where there is a run.
static FILE: Mutex<Option<File>> = Mutex::new(None);

fn file() -> MutexGuard<'static, Option<File>> {
    FILE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn keep(line: &[u8]) {
    if let Some(file) = file().as_mut() {
        // A full disk is reported when records are written.
        let _ = file.write_all(line);
    }
}

/// A guard: while it lives, the log is also appended to the file of its run.
pub struct Beside(());

impl Beside {
    /// Append the log to [`path`] of this run's directory. Where that can't be opened, a warning
    /// says so.
    pub fn new(run_dir: &Path) -> Self {
        let path = path(run_dir);
        match OpenOptions::new().create(true).append(true).open(&path) {
            Ok(opened) => *file() = Some(opened),
            Err(why) => super::warn(format!("{} can't be written: {why}", path.display())),
        }
        Self(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        *file() = None;
    }
}

/// The path of a run's log, beside its records. A name that begins with a dot is no part of a run,
/// so it is neither read nor published with it.
pub fn path(run_dir: &Path) -> PathBuf {
    run_dir.join(".log")
}

thread_local! {
    /// The span of the stage that the thread is in. Stages follow each other and have no end of
    /// their own, so no function could hold it.
    static STAGE: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
}

/// Enter the span of a stage that begins on this thread, and leave the one before it.
pub(crate) fn stage(stage: Stage) {
    STAGE.with_borrow_mut(|entered| {
        drop(entered.take());
        *entered = Some(info_span!("stage", name = stage.name()).entered());
    });
    tracing::info!("begins");
}

/// Leave the span of the last stage.
pub(crate) fn over() {
    STAGE.with_borrow_mut(|entered| drop(entered.take()));
}

/// Log an alert, for the file.
pub(crate) fn alert(alert: &Alert) {
    let text = alert.text.as_str();
    match alert.severity {
        Severity::Warning => tracing::event!(target: ALERT, Level::WARN, "{text}"),
        _ => tracing::event!(target: ALERT, Level::ERROR, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_goes_before_the_variable() {
        let shows = |verbose, asked: Option<&str>, target: &str, level| {
            shown(verbose, asked).unwrap().would_enable(target, &level)
        };
        assert!(!shows(0, None, "harness", Level::ERROR));
        assert!(!shows(0, Some(""), "harness", Level::ERROR));
        assert!(shows(1, Some("off"), "harness", Level::INFO));
        assert!(!shows(1, Some("trace"), "harness", Level::DEBUG));
        assert!(shows(2, None, "harness", Level::DEBUG));
        assert!(shows(3, None, "harness", Level::TRACE));
        let one = Some("harness=trace,watch=info");
        assert!(shows(0, one, "harness::engine::process", Level::TRACE));
        assert!(!shows(0, one, "watch", Level::DEBUG));
        assert!(shown(0, Some("harness=loud")).is_err());
    }
}
