//! The progress events that a command emits while it works. They are plain data: how they are
//! shown is the viewer's decision, and no record contains them.
//!
//! The events between two requests of a launch ([`Event::Sample`], [`Event::Reading`]) are a few
//! numbers each, so that emitting one allocates nothing but its place in the queue.

use schema::record::Status;

/// Maximum number of meters (values of a sample) of one piece of work.
pub const METERS_MAX: usize = 3;

/// A progress event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The subject of the command, in a few words.
    Title(String),
    /// A stage of the command begins; the one before it is over.
    Stage(Stage),
    /// A group of items that the current stage has to do. It replaces an earlier group of that
    /// name.
    Group(Group),
    /// Estimated times of later stages (s).
    StageEstimates(Vec<(Stage, f64)>),
    /// An item of a group begins.
    Begin(Begin),
    /// One of the items that have begun goes on, while the others wait for their turn.
    Turn {
        /// The item's name.
        item: String,
    },
    /// A part of the running item begins.
    Part {
        /// The part's name.
        name: String,
        /// Least number of timed samples that the part will have; 0 = not known.
        samples: u32,
    },
    /// The running part has a sample.
    Sample(Sample),
    /// The share of the running item that is done, 0 to 1, where it has no samples.
    Share(f64),
    /// The running part is over, and complete.
    PartEnd,
    /// Counters of the running process and its machine were read.
    Reading(Reading),
    /// The running item is over.
    End {
        /// How the item ended.
        mark: Mark,
        /// Why the item isn't done; empty where it is.
        reason: String,
    },
    /// One launch of an item that was waiting won't be begun.
    Drop {
        /// The name of the item's group.
        group: String,
        /// The item's name.
        item: String,
        /// Why the launch won't be begun.
        mark: Mark,
    },
    /// A line for the log.
    Line(String),
    /// A line that is printed again when the dashboard is gone.
    PrintAtExit(String),
    /// An error or a warning was raised.
    Alert(Alert),
    /// Work is paused by the user (`true`), or goes on.
    Paused(bool),
    /// The command is over.
    Over,
}

impl Event {
    /// Create the event that the running item ended with this status and `reason` of a launch's
    /// record.
    pub fn ended(status: Status, reason: &str) -> Self {
        let (mark, reason) = match status {
            Status::Ok => (Mark::Done, String::new()),
            Status::NotRun => (Mark::Skipped, reason.to_owned()),
            _ => (Mark::Failed, format!("{}: {reason}", status.id())),
        };
        Self::End { mark, reason }
    }
}

/// The stages of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Models are made or downloaded.
    Fetch,
    /// Engines are built.
    Build,
    /// The harness's own error is measured.
    Calibrate,
    /// Targets are verified by the parity gate.
    Gate,
    /// The speed of each target is estimated by a few requests.
    Pilot,
    /// The capacity of targets is measured, which scales the load of open loops.
    Capacity,
    /// The plan is measured.
    Measure,
    /// The micro suites are measured: operations below the engines.
    Micro,
    /// Timed outputs are judged.
    Check,
    /// Kernels are traced.
    Trace,
    /// The report is rendered.
    Render,
}

impl Stage {
    /// The stage's name in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Fetch => "fetching",
            Stage::Build => "building",
            Stage::Calibrate => "calibrating",
            Stage::Gate => "parity gate",
            Stage::Pilot => "pilot",
            Stage::Capacity => "capacity",
            Stage::Measure => "measuring",
            Stage::Micro => "micro suites",
            Stage::Check => "checking outputs",
            Stage::Trace => "tracing kernels",
            Stage::Render => "rendering",
        }
    }
}

/// A group of items that a stage has to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The group's name: a scenario, or what else its items share.
    pub name: String,
    /// The items, in the order in which they are shown.
    pub items: Vec<Item>,
}

/// An item: a piece of work that is done in one or more launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The item's name, mostly a target's id.
    pub name: String,
    /// Number of launches in all.
    pub total: u32,
    /// Number of launches done before.
    pub done: u32,
    /// The item's state: [`Mark::Waiting`], or why it won't be begun.
    pub mark: Mark,
    /// Why the item won't be begun, in words; may be empty.
    pub reason: String,
    /// Estimated times of one launch, where there are any.
    pub expected: Option<Expected>,
}

/// The estimated times of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Time of the whole launch (s): the mean, where launches differ.
    pub launch_s: f64,
    /// Time until the launch's first part begins (s).
    pub load_s: f64,
    /// Name and time (s) of each of the launch's parts.
    pub parts_s: Vec<(String, f64)>,
}

impl Expected {
    /// The time for loading and these parts (s); 0 where there are no parts.
    pub fn until(&self, parts: &[String]) -> f64 {
        let known = self.parts_s.iter().filter(|(name, _)| parts.contains(name));
        match parts {
            [] => 0.0,
            _ => self.load_s + known.map(|(_, part_s)| part_s).sum::<f64>(),
        }
    }
}

impl Item {
    /// Create an item that is to be done, in `total` launches.
    pub fn waiting(name: impl Into<String>, total: u32) -> Self {
        Self {
            name: name.into(),
            total,
            done: 0,
            mark: Mark::Waiting,
            reason: String::new(),
            expected: None,
        }
    }
}

/// The state of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The work is still to be done.
    Waiting,
    /// The work is being done.
    Running,
    /// The work is done.
    Done,
    /// The work failed by its own fault.
    Failed,
    /// The work won't be done: its target isn't verified, can't be had here, or there is no time.
    Refused,
    /// The user left the work out; a resumed run does it.
    Skipped,
}

/// The beginning of a launch, or of other work that takes time.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// The name of the item's group.
    pub group: String,
    /// The item's name.
    pub item: String,
    /// Which of the item's launches begins, in words; may be empty.
    pub detail: String,
    /// The meaning of the values of the launch's samples.
    pub meters: &'static Meters,
    /// Whether the user may skip it.
    pub skippable: bool,
}

impl Begin {
    /// Create the beginning of work without samples, which can't be skipped.
    pub fn plain(group: impl Into<String>, item: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            item: item.into(),
            detail: String::new(),
            meters: &NO_METERS,
            skippable: false,
        }
    }
}

/// The meaning of the values of samples.
#[derive(Debug, PartialEq, Eq)]
pub struct Meters {
    /// Name and unit of each value; the first is shown first.
    pub names: &'static [(&'static str, &'static str)],
    /// Unit of the work that a sample did.
    pub work: &'static str,
}

/// The meters of work without samples.
pub static NO_METERS: Meters = Meters {
    names: &[],
    work: "",
};

/// The meters of requests: time per output token, time to the first token and to the last one.
pub static REQUEST_METERS: Meters = Meters {
    names: &[("TPOT", "ms"), ("TTFT", "ms"), ("end to end", "ms")],
    work: "tok",
};

/// The meters of calls of a micro suite.
pub static MICRO_METERS: Meters = Meters {
    names: &[("call", "ms")],
    work: "calls",
};

/// One sample: a request, a reading of a micro suite, or a step of training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Time at which the sample was complete (ns of `CLOCK_MONOTONIC`).
    pub t_ns: u64,
    /// Whether the sample is measured, rather than only warming up or keeping up the load.
    pub timed: bool,
    /// The sample's values, in the order and units of its meters.
    pub values: [Option<f64>; METERS_MAX],
    /// The work that the sample did, in the unit of its meters.
    pub work: f64,
}

/// Counters, as far as a machine has them. Those that only grow are given as totals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Time of the reading (ns of `CLOCK_MONOTONIC`).
    pub t_ns: u64,
    /// CPU time that the engine's processes have used (ns).
    pub cpu_ns: Option<u64>,
    /// Resident memory of the engine's processes (bytes).
    pub rss_bytes: Option<u64>,
    /// Time that the CPUs were busy, for any process (ns).
    pub host_busy_ns: Option<u64>,
    /// Time that the CPUs were idle (ns).
    pub host_idle_ns: Option<u64>,
    /// Energy that all processor packages have used (µJ).
    pub package_energy_uj: Option<u64>,
    /// Share of time in which a kernel ran on the GPU (%).
    pub gpu_percent: Option<f64>,
    /// GPU memory in use (bytes).
    pub gpu_memory_bytes: Option<u64>,
    /// Power of the GPU's board (mW).
    pub gpu_power_mw: Option<u64>,
    /// Temperature of the GPU's die (°C).
    pub gpu_celsius: Option<u32>,
}

/// The severity of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The command goes on, and something is missing from its result.
    Warning,
    /// Something failed.
    Error,
    /// A bug in the program: it panicked.
    Panic,
}

impl Severity {
    /// The word for this severity.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Panic => "panic",
        }
    }
}

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// How severe the alert is.
    pub severity: Severity,
    /// The message: what failed, why, and what to do.
    pub text: String,
}

/// Events for tests.
#[cfg(test)]
pub(crate) mod scripted {
    use super::*;

    pub(crate) fn group(name: &str, items: &[&str], total: u32) -> Event {
        Event::Group(Group {
            name: name.into(),
            items: items.iter().map(|i| Item::waiting(*i, total)).collect(),
        })
    }

    /// The beginning of a launch whose samples are requests, and which can be skipped.
    pub(crate) fn launch(group: &str, item: &str) -> Event {
        Event::Begin(Begin {
            detail: "block 1".into(),
            meters: &REQUEST_METERS,
            skippable: true,
            ..Begin::plain(group, item)
        })
    }

    pub(crate) fn part(name: &str, samples: u32) -> Event {
        let name = name.into();
        Event::Part { name, samples }
    }

    pub(crate) fn end(mark: Mark, reason: &str) -> Event {
        let reason = reason.into();
        Event::End { mark, reason }
    }

    pub(crate) fn alert(severity: Severity, text: &str) -> Event {
        let text = text.into();
        Event::Alert(Alert { severity, text })
    }
}
