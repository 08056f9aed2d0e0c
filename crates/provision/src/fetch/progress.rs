//! The progress of a fetch: bars and lines for people, and shares for a dashboard.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;
use watch::event::Event;

/// The progress that a fetch shows while it works, on one piece of work at a time: a bar on stderr
/// with bytes, rate and ETA. Where stderr is no terminal there are no bars, but lines are still
/// printed. A dashboard is told the share that is done.
#[derive(Debug, Default)]
pub struct Progress {
    draws: bool,
    /// Whether nothing is shown, printed or told.
    is_silent: bool,
    /// Total of the work that a dashboard was told of; `None` where there is no such work.
    told: Option<u64>,
    percent: u64,
    bar: Option<ProgressBar>,
    label: String,
}

const BYTES: &str = "{msg:32!} {wide_bar} {bytes:>10}/{total_bytes} {bytes_per_sec:>12} {eta:>4}";
const SHARE: &str = "{msg:32!} {wide_bar} {percent:>3} % {eta:>4}";
/// Number of steps of a bar that shows a share.
const STEPS: u64 = 1000;

impl Progress {
    /// Progress on this process's stderr.
    pub fn stderr() -> Self {
        Self {
            draws: console::user_attended_stderr() && !base::say::is_quiet(),
            ..Self::default()
        }
    }

    /// Progress that nobody sees, for tests.
    pub fn silent() -> Self {
        Self {
            is_silent: true,
            ..Self::default()
        }
    }

    /// Tell a dashboard each whole percent once.
    fn tell(&mut self, done: u64) {
        let Some(total) = self.told.filter(|total| *total > 0) else {
            return;
        };
        let percent = done.min(total) * 100 / total;
        if percent > self.percent {
            self.percent = percent;
            watch::emit(Event::Share(percent as f64 / 100.0));
        }
    }

    fn start(&mut self, label: &str, total: u64, template: &str) {
        if self.is_silent {
            return;
        }
        self.end();
        self.label = label.to_owned();
        if watch::is_live() {
            watch::begin("files", label);
            (self.told, self.percent) = (Some(total), 0);
        }
        if !self.draws {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_message(label.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    /// Begin a piece of work on `total_bytes` bytes. This ends an earlier one.
    pub fn begin(&mut self, label: &str, total_bytes: u64) {
        self.start(label, total_bytes, BYTES);
    }

    /// Report how many of its bytes are done since [`Progress::begin`] (not since the last call).
    pub fn at(&mut self, bytes: u64) {
        self.tell(bytes);
        if let Some(bar) = &self.bar {
            // A resumed download begins far along. That is told to the bar as its start, so that
            // the rate and the ETA count only what this run fetched.
            if bar.position() == 0 && bytes > 1 << 20 {
                bar.set_position(bytes);
                bar.reset_eta();
            }
            bar.set_position(bytes);
        }
    }

    /// Report the share, 0 to 1, that is done of work that isn't counted in bytes.
    pub fn fraction(&mut self, label: &str, fraction: f64) {
        if self.label != label {
            self.start(label, STEPS, SHARE);
        }
        let done = (fraction.clamp(0.0, 1.0) * STEPS as f64) as u64;
        self.tell(done);
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// End the piece of work, whether or not it succeeded.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.told.take().is_some() {
            watch::end("");
        }
        self.label.clear();
    }

    /// Print a line.
    pub fn say(&self, line: &str) {
        self.print(|| eprintln!("{line}"));
    }

    /// Report that something went wrong and was mended or tried again.
    pub fn warn(&self, line: &str) {
        self.print(|| watch::warn(line));
    }

    /// Call `print` while the bar is hidden.
    fn print(&self, print: impl FnOnce()) {
        match &self.bar {
            _ if self.is_silent => {}
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}
