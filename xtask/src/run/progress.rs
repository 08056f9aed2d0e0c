//! What the user sees while a run goes on: a bar with what is running, what came
//! out last and when it will be done; on a stream that is no terminal, a plain
//! line now and then.

use indicatif::{ProgressBar, ProgressStyle};
use schema::plan::Launch;
use schema::record::{End, RequestRecord, Status};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between two plain lines.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);

type Key = (String, String);

/// The display of a run.
pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    left: Vec<Key>,
    total: usize,
    done: usize,
    took: BTreeMap<Key, (Duration, u32)>,
    began: Instant,
    launch_began: Instant,
    last_plain: Option<Instant>,
    title: String,
    failures: usize,
}

impl Progress {
    /// A display of as many launches as there are keys (target, scenario).
    pub fn new(launches: impl Iterator<Item = Key>) -> Self {
        let left: Vec<Key> = launches.collect();
        let total = left.len();
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal {
            ProgressBar::new(total as u64)
        } else {
            ProgressBar::hidden()
        };
        bar.set_style(
            ProgressStyle::with_template("{bar:24} {pos}/{len} [{elapsed_precise}] {wide_msg}")
                .expect("the template is valid"),
        );
        let now = Instant::now();
        Self {
            bar,
            terminal,
            left,
            total,
            done: 0,
            took: BTreeMap::new(),
            began: now,
            launch_began: now,
            last_plain: None,
            title: String::new(),
            failures: 0,
        }
    }

    /// A launch begins.
    pub fn begin(&mut self, launch: &Launch) {
        self.launch_began = Instant::now();
        self.title = format!(
            "block {} · {} · {}",
            launch.invocation + 1,
            launch.target,
            launch.scenario
        );
        self.show("loading");
        let due = self
            .last_plain
            .is_none_or(|last| last.elapsed() >= PLAIN_PERIOD);
        if !self.terminal && due {
            self.last_plain = Some(Instant::now());
            eprintln!(
                "[{}/{}] {}, {}",
                self.done + 1,
                self.total,
                self.title,
                self.eta()
            );
        }
    }

    /// A case of the launch begins.
    pub fn case(&mut self, case: &str) {
        self.show(case);
    }

    /// A request is done.
    pub fn request(&mut self, request: &RequestRecord) {
        if !self.terminal {
            return;
        }
        let ttft_ms = request
            .token_ns
            .first()
            .map_or(0.0, |t| t.saturating_sub(request.scheduled_ns) as f64 / 1e6);
        self.show(&format!("{} · TTFT {ttft_ms:.1} ms", request.case));
    }

    /// A launch ended.
    pub fn end(&mut self, launch: &Launch, end: &End) {
        let took = self.launch_began.elapsed();
        let key = self.step(launch);
        let entry = self.took.entry(key).or_default();
        entry.0 += took;
        entry.1 += 1;
        if !matches!(end.status, Status::Ok | Status::NotRun) {
            self.failures += 1;
            let line = format!(
                "{} · {}: {}: {}",
                launch.target,
                launch.scenario,
                end.status.id(),
                end.reason
            );
            if self.terminal {
                self.bar.println(line)
            } else {
                eprintln!("{line}")
            }
        }
    }

    /// A launch isn't made: an earlier one of the same cells failed.
    pub fn skip(&mut self, launch: &Launch) {
        self.step(launch);
    }

    /// All is done.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
        let s = self.began.elapsed().as_secs();
        let failed = if self.failures > 0 {
            format!(", {} failed", self.failures)
        } else {
            String::new()
        };
        eprintln!(
            "Measured {} launches in {} min {} s{failed}",
            self.done,
            s / 60,
            s % 60
        );
    }

    fn step(&mut self, launch: &Launch) -> Key {
        let key = (launch.target.clone(), launch.scenario.clone());
        if let Some(index) = self.left.iter().position(|left| *left == key) {
            self.left.remove(index);
        }
        self.done += 1;
        self.bar.set_position(self.done as u64);
        key
    }

    fn show(&self, what: &str) {
        if self.terminal {
            self.bar
                .set_message(format!("{} · {what} · {}", self.title, self.eta()));
        }
    }

    /// From what the same target and scenario took before; where it hasn't run
    /// yet, from what all took.
    fn eta(&self) -> String {
        let all: (Duration, u32) = self
            .took
            .values()
            .fold((Duration::ZERO, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        if all.1 == 0 {
            return "ETA after the first launch".into();
        }
        let mean_all = all.0 / all.1;
        let left: Duration = self
            .left
            .iter()
            .map(|key| self.took.get(key).map_or(mean_all, |(took, n)| *took / *n))
            .sum();
        format!(
            "ETA {} min {:02} s",
            left.as_secs() / 60,
            left.as_secs() % 60
        )
    }
}
