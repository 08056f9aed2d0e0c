//! What is going on, in detail, for whoever looks for a fault: `tracing`'s spans (stage, launch, case)
//! and events, on stderr as `-v` or `RUST_LOG` asks, and all but the protocol's lines in a file beside
//! the run's records.
//!
//! Between two requests nothing is logged but at TRACE, which the file doesn't take.

use super::emit;
use super::event::{Alert, Event, Severity, Stage};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tracing::span::EnteredSpan;
use tracing::{Level, info_span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Where alerts go: they are shown on stderr without this.
const ALERT: &str = "alert";

/// What a command line asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loudness {
    /// How often `-v` was given.
    pub verbose: u8,
    /// Whether `-q` was.
    pub quiet: bool,
}

/// Log from now on. Call once, at the start. `-v` goes before `RUST_LOG` (directives of targets and
/// levels: `debug`, `harness=trace`), which is ignored with a warning where it can't be read.
pub fn install(loudness: Loudness) {
    base::say::quiet(loudness.quiet);
    let asked = std::env::var("RUST_LOG").ok();
    let shown = shown(loudness.verbose, asked.as_deref());
    let stderr = tracing_subscriber::fmt::layer()
        .without_time()
        .with_ansi(false)
        .with_writer(|| Shown)
        .with_filter(
            shown
                .clone()
                .unwrap_or_default()
                .with_target(ALERT, LevelFilter::OFF),
        );
    let kept = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| Kept)
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

/// What stderr shows.
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

/// A line that is shown like any other, beside the bar or on the dashboard.
struct Shown;

impl Write for Shown {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        emit(Event::Line(text.trim_end().to_owned()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file beside the records, where there is a run.
static FILE: Mutex<Option<File>> = Mutex::new(None);

fn file() -> MutexGuard<'static, Option<File>> {
    FILE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A line for it.
struct Kept;

impl Write for Kept {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = file().as_mut() {
            // On a full disk the records say so.
            let _ = file.write_all(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As long as it lives, what is logged goes into the file of its run.
pub struct Beside(());

impl Beside {
    /// Append to [`path`] of this run's directory. Where that can't be opened, a warning says so.
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

/// The log of a run, beside its records. What begins with a dot is no part of a run, so it is neither
/// read nor published with it.
pub fn path(run_dir: &Path) -> PathBuf {
    run_dir.join(".log")
}

thread_local! {
    /// The stage that the thread is in. Stages follow each other and have no end of their own, so
    /// nobody else could hold it.
    static STAGE: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
}

/// A stage begins on this thread, and the one before it is over.
pub(crate) fn stage(stage: Stage) {
    STAGE.with_borrow_mut(|entered| {
        drop(entered.take());
        *entered = Some(info_span!("stage", name = stage.name()).entered());
    });
    tracing::info!("begins");
}

/// The last one is over.
pub(crate) fn over() {
    STAGE.with_borrow_mut(|entered| drop(entered.take()));
}

/// An alert, for the file.
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
