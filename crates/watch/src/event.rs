//! The progress events that a command emits while it works. They are plain data: how they are
//! shown is the viewer's decision, and no record contains them.
//!
//! The events between two requests of a launch ([`Event::Sample`], [`Event::Reading`]) are a few
//! numbers each, so that emitting one allocates nothing but its place in the queue.

use schema::record::Status;

/// Most meters of one piece of work.
pub const METERS_MAX: usize = 3;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What is worked on, in a few words.
    Title(String),
    /// A stage of the command begins; the one before is over.
    Stage(Stage),
    /// What a stage has to do under a name. The same name again replaces it.
    Group(Group),
    /// What stages to come should take (s).
    Later(Vec<(Stage, f64)>),
    /// An item of a group begins.
    Begin(Begin),
    /// One of the items that have begun goes on, and the others wait.
    Turn {
        /// Its name.
        item: String,
    },
    /// A part of the running item begins.
    Part {
        /// Its name.
        name: String,
        /// Timed samples it will have at least; 0 = not known.
        samples: u32,
    },
    /// A sample of the running part.
    Sample(Sample),
    /// This share of the running item is done, 0 to 1, where it has no samples.
    Share(f64),
    /// The running part is over, and complete.
    PartEnd,
    /// Counters of what runs.
    Reading(Reading),
    /// The running item is over.
    End {
        /// How it ended.
        mark: Mark,
        /// Why, where it isn't done.
        reason: String,
    },
    /// An item that was waiting won't be begun, this many launches of it.
    Drop {
        /// Its group.
        group: String,
        /// Its name.
        item: String,
        /// Why not.
        mark: Mark,
    },
    /// A line for the log.
    Line(String),
    /// A line that is said again when the dashboard is gone.
    Farewell(String),
    /// An error or a warning.
    Alert(Alert),
    /// Work waits for the user, or goes on.
    Paused(bool),
    /// The command is over.
    Over,
}

impl Event {
    /// The running item ended as the record of a launch says; `reason` as there.
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
    /// Targets go through the parity gate.
    Gate,
    /// Each target's pace is learnt.
    Pilot,
    /// What scales the open loops is measured.
    Capacity,
    /// The plan is measured.
    Measure,
    /// What lies below the engines is measured.
    Micro,
    /// Timed outputs are judged.
    Check,
    /// Kernels are traced.
    Trace,
    /// The report is rendered.
    Render,
    /// A model is trained.
    Train,
}

impl Stage {
    /// In a word or two.
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
            Stage::Train => "training",
        }
    }
}

/// What a stage has to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// A scenario, or what else its items share.
    pub name: String,
    /// In the order in which they are shown.
    pub items: Vec<Item>,
}

/// A piece of work, done in one or more launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// A target, mostly.
    pub name: String,
    /// Launches in all.
    pub total: u32,
    /// Launches done before.
    pub done: u32,
    /// [`Mark::Waiting`], or why it won't be begun.
    pub mark: Mark,
    /// That in words.
    pub reason: String,
    /// What a launch of it should take, where that was estimated.
    pub expected: Option<Expected>,
}

/// What a launch should take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// All of it (s): of several launches that differ the mean.
    pub launch_s: f64,
    /// Until its first part begins (s).
    pub load_s: f64,
    /// Its parts (s).
    pub parts_s: Vec<(String, f64)>,
}

impl Expected {
    /// Loading and these parts (s).
    pub fn until(&self, parts: &[String]) -> f64 {
        let known = self.parts_s.iter().filter(|(name, _)| parts.contains(name));
        match parts {
            [] => 0.0,
            _ => self.load_s + known.map(|(_, part_s)| part_s).sum::<f64>(),
        }
    }
}

impl Item {
    /// One to be done, in `total` launches.
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

/// How a piece of work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// To be done.
    Waiting,
    /// Being done.
    Running,
    /// Done.
    Done,
    /// Failed by its own doing.
    Failed,
    /// Not to be done: not verified, no time, or not to be had here.
    Refused,
    /// Left out by the user; a resumed run does it.
    Skipped,
}

/// A launch, or what else takes its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// Its group.
    pub group: String,
    /// Its item.
    pub item: String,
    /// Which launch of it, in words; may be empty.
    pub detail: String,
    /// What its samples say.
    pub meters: &'static Meters,
    /// Whether the user may skip it.
    pub skippable: bool,
}

/// What the values of samples are.
#[derive(Debug, PartialEq, Eq)]
pub struct Meters {
    /// Name and unit of each value; the first is shown first.
    pub names: &'static [(&'static str, &'static str)],
    /// Unit of the work a sample did.
    pub work: &'static str,
}

/// The meters of work without samples.
pub static NO_METERS: Meters = Meters {
    names: &[],
    work: "",
};

/// The meters of requests: time per output token, to the first token and to the last.
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
    /// When it was complete, `CLOCK_MONOTONIC`.
    pub t_ns: u64,
    /// Whether it counts, or only warms up or holds up the load.
    pub timed: bool,
    /// In the order and units of its meters.
    pub values: [Option<f64>; METERS_MAX],
    /// Work done, in the meters' unit.
    pub work: f64,
}

/// Counters, as far as a machine has them. Those that only grow are told as they
/// grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// When, `CLOCK_MONOTONIC`.
    pub t_ns: u64,
    /// CPU time of the engine's processes.
    pub cpu_ns: Option<u64>,
    /// Their resident memory.
    pub rss_bytes: Option<u64>,
    /// Time the CPUs were at work for anybody.
    pub host_busy_ns: Option<u64>,
    /// Time they had nothing to do.
    pub host_idle_ns: Option<u64>,
    /// Energy of all processor packages.
    pub package_energy_uj: Option<u64>,
    /// Share of time a kernel ran on the GPU.
    pub gpu_percent: Option<f64>,
    /// GPU memory in use.
    pub gpu_memory_bytes: Option<u64>,
    /// Power of the GPU's board.
    pub gpu_power_mw: Option<u64>,
    /// Temperature of its die.
    pub gpu_celsius: Option<u32>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The command goes on, and something is missing from its result.
    Warning,
    /// Something failed.
    Error,
    /// A bug.
    Panic,
}

impl Severity {
    /// In a word.
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
    /// How bad it is.
    pub severity: Severity,
    /// What failed, why, and what to do.
    pub text: String,
}
