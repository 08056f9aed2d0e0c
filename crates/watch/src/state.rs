//! What the dashboard shows, as plain data. Events and keys go in, and the requests that keys mean
//! come out. Pure: time comes with the events.
//!
//! The part about the plan is in `tree`, and the one about the running samples in `live`.

use super::event::{Alert, Begin, Event, METERS_MAX, Mark, Stage};
use super::live::{Live, Machine};
use super::tree::{Now, Tree};
use stats::ci::{Interval, mean_interval};
use std::collections::{BTreeMap, VecDeque};

/// Number of log lines that are kept.
const LOG_LINES_MAX: usize = 1000;

/// Everything on the screen.
#[derive(Debug, Default)]
pub struct State {
    /// The command, such as `cargo xtask bench`.
    pub command: String,
    /// The subject of the command.
    pub title: String,
    pub stage: Option<Stage>,
    /// Time at which this state was created (ns).
    pub began_ns: u64,
    pub now_ns: u64,
    /// The plan: groups of items and their progress.
    pub tree: Tree,
    pub running: Option<Running>,
    /// Launches that have begun and wait for their turn.
    pub resting: Vec<Running>,
    /// Estimated times of later stages (s).
    pub later: Vec<(Stage, f64)>,
    pub machine: Machine,
    /// Lines of the log, the oldest first.
    pub log: VecDeque<String>,
    /// Alerts that the user hasn't dismissed, the oldest first.
    pub alerts: VecDeque<Alert>,
    pub alerts_raised: usize,
    pub wish: Wish,
    pub paused: bool,
    pub over: bool,
    /// Whether the user wants to leave the dashboard of a command that is over.
    pub left: bool,
    /// Index of the meter that is drawn, modulo the number of meters.
    pub meter: usize,
    /// First row of the plan that is shown; `None` = show the rows around the running item.
    pub plan_top: Option<usize>,
    /// Number of log lines below those that are shown.
    pub log_back: usize,
    /// Number of the plan's rows that the last drawing had room for.
    pub plan_rows: usize,
    medians: BTreeMap<Cell, [Vec<f64>; METERS_MAX]>,
}

/// Names of a group, an item and a part.
type Cell = (String, String, String);

/// What the user wants of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// No further launch is to begin for now.
    pub pause: bool,
    /// `q` was pressed once.
    pub quit_asked: bool,
    /// The run is to stop: `q` was pressed a second time, or Ctrl-C.
    pub quit: bool,
}

/// A launch that runs, or ran last.
#[derive(Clone, Debug)]
pub struct Running {
    /// The event that announced the launch.
    pub begin: Begin,
    /// When the launch began, or its current turn did (ns).
    pub began_ns: u64,
    /// Time that the launch's earlier turns took (ns).
    pub took_ns: u64,
    /// The part that runs, such as a case.
    pub part: Option<String>,
    /// Least number of timed samples that the part will have; 0 = not known.
    pub samples: u32,
    pub parts: Vec<String>,
    /// Time that the launch had run when the last part was complete (ns).
    pub parts_ns: u64,
    pub live: Live,
    /// The share of the launch that is done, 0 to 1, where that is known.
    pub share: Option<f64>,
    /// The mark with which the launch ended; `None` while it runs.
    pub ended: Option<Mark>,
}

impl Running {
    /// Time that the launch has run, without waiting for turns (ns).
    pub fn took_ns(&self, now_ns: u64) -> u64 {
        self.took_ns + now_ns.saturating_sub(self.began_ns)
    }
}

/// A key that was pressed, by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Dismiss an alert: Enter, Esc or Space.
    Dismiss,
    /// Pause before the next launch, or go on.
    Pause,
    /// Skip the rest of what runs.
    Skip,
    Quit,
    /// Draw the next meter.
    Meter,
    /// Scroll the plan up a row.
    Up,
    /// Scroll the plan down a row.
    Down,
    /// Scroll the plan to what runs, and the log to its end.
    Follow,
    /// Scroll the log back some lines.
    Back,
    /// Scroll the log forward some lines.
    Forth,
    Other,
}

/// A request that a key makes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pause before the next launch (`true`), or go on.
    Pause(bool),
    Skip,
    Quit,
}

impl State {
    pub fn new(command: impl Into<String>, now_ns: u64) -> Self {
        Self {
            command: command.into(),
            began_ns: now_ns,
            now_ns,
            plan_rows: 1,
            ..Self::default()
        }
    }

    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Apply an event that happened at `t_ns`.
    pub fn apply(&mut self, t_ns: u64, event: Event) {
        self.tick(t_ns);
        match event {
            Event::Title(title) => self.title = title,
            Event::Stage(stage) => {
                self.stage = Some(stage);
                self.later.retain(|(later, _)| *later != stage);
                self.running = None;
                self.resting.clear();
                self.line(format!("── {}", stage.name()));
            }
            Event::Group(group) => self.tree.declare(self.stage, group),
            Event::StageEstimates(later) => self.later = later,
            Event::Begin(begin) => {
                self.tree.begin(self.stage, &begin.group, &begin.item);
                self.rest(t_ns);
                self.running = Some(Running {
                    live: Live::default(),
                    begin,
                    began_ns: t_ns,
                    took_ns: 0,
                    part: None,
                    samples: 0,
                    parts: Vec::new(),
                    parts_ns: 0,
                    share: None,
                    ended: None,
                });
            }
            Event::Turn { item } => self.turn(t_ns, &item),
            Event::Part { name, samples } => self.change_running(|running| {
                running.part = Some(name);
                running.samples = samples;
                running.live = Live::default();
            }),
            Event::Sample(sample) => self.change_running(|running| running.live.push(sample)),
            Event::Share(share) => self.change_running(|running| running.share = Some(share)),
            Event::PartEnd => self.part_end(t_ns),
            Event::Reading(reading) => self.machine.read(reading),
            Event::End { mark, reason } => {
                if let Some(running) = &mut self.running {
                    let took_ns = running.took_ns(t_ns);
                    running.ended = Some(mark);
                    let (group, item) = (&running.begin.group, &running.begin.item);
                    self.tree.end(group, item, mark, reason, took_ns);
                }
            }
            Event::Drop { group, item, mark } => self.tree.drop(&group, &item, mark),
            Event::Line(line) | Event::PrintAtExit(line) => self.line(line),
            Event::Alert(alert) => {
                self.line(format!("{}: {}", alert.severity.word(), alert.text));
                self.alerts.push_back(alert);
                self.alerts_raised += 1;
            }
            Event::Paused(paused) => self.paused = paused,
            Event::Over => {
                self.over = true;
                self.paused = false;
            }
        }
    }

    fn change_running(&mut self, change: impl FnOnce(&mut Running)) {
        if let Some(running) = &mut self.running {
            change(running);
        }
    }

    /// Let what runs wait for its next turn, if it isn't over.
    fn rest(&mut self, t_ns: u64) {
        if let Some(mut running) = self.running.take().filter(|r| r.ended.is_none()) {
            running.took_ns = running.took_ns(t_ns);
            self.resting.push(running);
        }
    }

    fn turn(&mut self, t_ns: u64, item: &str) {
        let is_it = |running: &Running| running.begin.item == item;
        if self.running.as_ref().is_some_and(is_it) {
            return;
        }
        let Some(at) = self.resting.iter().position(is_it) else {
            return;
        };
        let mut next = self.resting.swap_remove(at);
        next.began_ns = t_ns;
        self.machine.other_process();
        self.rest(t_ns);
        self.tree.go_on(&next.begin.group, item);
        self.running = Some(next);
    }

    fn line(&mut self, text: String) {
        for line in text.lines() {
            // A user who has scrolled back keeps the same lines in sight.
            self.log_back += usize::from(self.log_back > 0);
            let line = base::text::without_escapes(line).replace('\t', "    ");
            self.log.push_back(line);
        }
        while self.log.len() > LOG_LINES_MAX {
            self.log.pop_front();
        }
        self.log_back = self.log_back.min(self.log.len().saturating_sub(1));
    }

    fn part_end(&mut self, t_ns: u64) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.parts.extend(running.part.clone());
        running.parts_ns = running.took_ns(t_ns);
        let medians = running.live.medians();
        let Some(cell) = self.cell() else { return };
        let kept = self.medians.entry(cell).or_default();
        for (kept, median) in kept.iter_mut().zip(medians) {
            kept.extend(median);
        }
    }

    fn cell(&self) -> Option<Cell> {
        let running = self.running.as_ref()?;
        let (group, item) = (&running.begin.group, &running.begin.item);
        Some((group.clone(), item.clone(), running.part.clone()?))
    }

    /// The meter that is drawn of what runs: its index, name and unit.
    pub fn meter(&self) -> Option<(usize, &'static str, &'static str)> {
        let names = self.running.as_ref()?.begin.meters.names;
        let index = self.meter % names.len().max(1);
        names.get(index).map(|(name, unit)| (index, *name, *unit))
    }

    /// The complete launches of the running cell: their number and, from two on, the mean of their
    /// medians of the drawn meter with its interval (Student's t).
    pub fn launches(&self) -> (usize, Option<Interval>) {
        let medians = self
            .meter()
            .zip(self.cell())
            .and_then(|((meter, _, _), cell)| Some(&self.medians.get(&cell)?[meter]));
        medians.map_or((0, None), |values| (values.len(), mean_interval(values)))
    }

    /// Estimated time until the stage's items are done (ns); `None` where nothing is known.
    pub fn eta_ns(&self) -> Option<u64> {
        let running = self.running.iter().filter(|r| r.ended.is_none());
        let running = running.map(|r| (r, r.took_ns(self.now_ns)));
        let resting = self.resting.iter().map(|r| (r, r.took_ns));
        let now = running.chain(resting).map(|(r, elapsed_ns)| Now {
            group: &r.begin.group,
            item: &r.begin.item,
            elapsed_ns,
            parts: &r.parts,
            parts_ns: r.parts_ns,
        });
        self.tree.eta_ns(self.stage, &now.collect::<Vec<_>>())
    }

    /// Estimated time of the stages after this one (ns), as far as there are estimates.
    pub fn later_ns(&self) -> u64 {
        let later_s: f64 = self.later.iter().map(|(_, later_s)| later_s).sum();
        (later_s * 1e9) as u64
    }

    /// Whether the dashboard can close: the command is over, and no alert is left or the user
    /// leaves.
    pub fn is_finished(&self) -> bool {
        self.over && (self.alerts.is_empty() || self.left || self.wish.quit)
    }

    pub fn can_skip(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|r| r.begin.skippable && r.ended.is_none())
    }

    /// Apply a key that the user pressed, and return the request that it makes of the run.
    pub fn key(&mut self, key: Key) -> Option<Action> {
        let asked = std::mem::take(&mut self.wish.quit_asked);
        match key {
            Key::Dismiss => {
                self.alerts.pop_front();
            }
            Key::Quit if self.over => self.left = true,
            Key::Quit if self.wish.quit => {}
            Key::Quit if asked => {
                self.wish.quit = true;
                return Some(Action::Quit);
            }
            Key::Quit => self.wish.quit_asked = true,
            Key::Pause if !self.over => {
                self.wish.pause = !self.wish.pause;
                return Some(Action::Pause(self.wish.pause));
            }
            Key::Skip if self.can_skip() => return Some(Action::Skip),
            Key::Meter => self.meter += 1,
            Key::Up => self.scroll(-1),
            Key::Down => self.scroll(1),
            Key::Follow => {
                self.plan_top = None;
                self.log_back = 0;
            }
            Key::Back => self.log_back = (self.log_back + 5).min(self.log.len().saturating_sub(1)),
            Key::Forth => self.log_back = self.log_back.saturating_sub(5),
            Key::Pause | Key::Skip | Key::Other => {}
        }
        None
    }

    /// The index of the first row of the plan that is shown.
    pub fn plan_top(&self) -> usize {
        let rows = self.tree.rows();
        let top_max = rows.len().saturating_sub(self.plan_rows);
        let running = rows.iter().position(|row| row.is_item && row.is_current);
        let following = running.map_or(0, |row| row.saturating_sub(self.plan_rows / 2));
        self.plan_top.unwrap_or(following).min(top_max)
    }

    fn scroll(&mut self, rows: isize) {
        let top_max = self.tree.rows().len().saturating_sub(self.plan_rows);
        let top = self.plan_top().saturating_add_signed(rows);
        self.plan_top = Some(top.min(top_max));
    }
}

#[cfg(test)]
mod tests;
