//! The lines of a record file `results/<run>/<target>/<scenario>.<invocation>….jsonl`.
//!
//! They are raw: stamps and ids as they came, in integer nanoseconds on `CLOCK_MONOTONIC`. Nothing
//! here is derived; `stats` does that when a page is rendered.

pub use crate::audit::{AuditResult, StampComparison, Sum};
use crate::key::CellKey;
pub use crate::telemetry::{Readings, Telemetry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One event of a launch, in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum RecordEvent {
    /// The first line: what was launched.
    Launch(LaunchRecord),
    /// What the engine reported, and when it was ready.
    Ready(Ready),
    /// A completed request.
    Request(RequestRecord),
    /// A timed request of an open loop that was given up.
    Unanswered(Unanswered),
    /// One reading of the counters, in records from before [`Readings`].
    Telemetry(Box<Telemetry>),
    /// Readings of the counters, column by column.
    Readings(Readings),
    /// The end of a complete case; without this line its samples do not count.
    CaseEnd(CaseEnd),
    /// The last line: how the launch ended.
    End(End),
}

/// The first line of a record: what was launched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Number of the block, from 0.
    pub invocation: u32,
    /// Number of the attempt: 0, or more where `--resume` had to launch again.
    pub attempt: u32,
    /// Case ids this launch will run.
    pub cases: Vec<String>,
    /// The command line.
    pub argv: Vec<String>,
    /// Limit on the instructions that its library may use; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa_limit: Option<IsaLimit>,
    /// Time just before the process was started.
    pub start_ns: u64,
    /// Whether an earlier launch of the block started the process: `start_ns` and `ready` are those
    /// of that start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

impl LaunchRecord {
    /// Return the key of its cell in a case.
    pub fn cell_key(&self, case: &str) -> CellKey {
        CellKey::new(&self.target, &self.scenario, case)
    }
}

/// A limit on the processor's instructions that a program's library may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsaLimit {
    /// Name of the environment variable that was set.
    pub variable: String,
    /// Value of the variable.
    pub value: String,
    /// Reason in a few words: who set it and why.
    pub why: String,
}

impl IsaLimit {
    /// The variable and its value as a shell takes them: `VARIABLE=value`.
    pub fn assignment(&self) -> String {
        format!("{}={}", self.variable, self.value)
    }
}

impl std::fmt::Display for IsaLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.assignment(), self.why)
    }
}

/// What the engine reported when it was ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Engine version, from `hello`.
    pub version: String,
    /// Facts about the build, from `hello`, and about the loaded library, from `loaded`.
    pub build: BTreeMap<String, String>,
    /// Kind of batching: `none`, `static_equal_length` or `continuous`.
    pub batching: String,
    /// Notes that a reader must know, from `hello`.
    pub notes: Vec<String>,
    /// Time when `hello` arrived.
    pub hello_ns: u64,
    /// Time when `loaded` arrived: `ready_ns − start_ns` is the cold start.
    pub ready_ns: u64,
    /// Load time by the engine's own clock.
    pub load_ns: u64,
    /// Bytes of weights that one decode step reads.
    pub weight_bytes: u64,
    /// Bytes of KV cache per token of context.
    pub kv_bytes_per_token: u64,
}

impl Ready {
    /// Beginning of a note on a defect of the engine that its adapter mends.
    pub const MENDED: &str = "mended: ";

    /// The defects of the engine that its adapter mends, and how: what follows
    /// [`MENDED`](Self::MENDED) in its notes.
    pub fn mended(&self) -> impl Iterator<Item = &str> {
        let notes = self.notes.iter();
        notes.filter_map(|note| note.strip_prefix(Self::MENDED))
    }
}

/// A completed request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Case id.
    pub case: String,
    /// Id of the request, unique within the launch.
    pub id: u64,
    /// Index of its prompt; distinct within a cell, equal across targets. Where the user brought
    /// prompts, several indices may stand for the same one.
    pub prompt: u64,
    /// Whether it is a warm-up, which is not timed.
    pub warmup: bool,
    /// Time when the request was due.
    pub scheduled_ns: u64,
    /// Time when the harness had written the request.
    pub sent_ns: u64,
    /// Time when the engine read the request.
    pub received_ns: u64,
    /// Time when the engine began the request.
    pub started_ns: u64,
    /// Time of each output token.
    pub token_ns: Vec<u64>,
    /// Time when the harness had read the answer.
    pub answered_ns: u64,
    /// Largest number of requests that shared a step with it, itself included.
    pub batch: u32,
    /// Token ids of the output; empty where the engine gives text and no ids.
    pub output_ids: Vec<u32>,
    /// The output as text, from an engine that gives no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_text: Option<String>,
}

impl RequestRecord {
    /// Earliest time when work on the request may have begun. The engine may have read the request
    /// before the harness notes that it has written it.
    pub fn begin_ns(&self) -> u64 {
        self.sent_ns.min(self.received_ns)
    }

    /// Number of tokens stamped up to `at_ns`; for a stream in pieces, number of different stamps.
    pub fn stamped(&self, at_ns: u64, in_pieces: bool) -> u64 {
        let mut last = None;
        let stamped = self.token_ns.iter().filter(|&&ns| ns <= at_ns);
        let stamped = stamped.filter(|&ns| !in_pieces || last.replace(ns) != Some(ns));
        stamped.count() as u64
    }
}

/// A timed request of an open loop that had no answer when the case was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unanswered {
    /// Case id.
    pub case: String,
    /// Id of the request, unique within the launch.
    pub id: u64,
    /// Index of its prompt.
    pub prompt: u64,
    /// Time when the request was due.
    pub scheduled_ns: u64,
    /// Time when the harness had written the request; absent: never, since too many were in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ns: Option<u64>,
    /// Time when the request was given up.
    pub given_up_ns: u64,
}

/// The end of a complete case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseEnd {
    /// Case id.
    pub case: String,
    /// Time when the first timed request was sent.
    pub start_ns: u64,
    /// Time when the last timed answer was read.
    pub end_ns: u64,
    /// Peak resident set of the engine process so far, bytes (`VmHWM`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Result of the audit of its requests' stamps; absent where there was no audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnessed: Option<AuditResult>,
    /// Speed of the machine before and after the case, or before its turns; empty where that wasn't
    /// measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canary: Vec<CanaryReading>,
}

/// Durations of known work while no engine ran (ns). What a machine can't do is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryReading {
    /// Duration of integer products on one core (ns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_core_ns: Option<u32>,
    /// Duration of integer products on as many cores at once as engines have threads (ns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_cores_ns: Option<u32>,
    /// Time in which a cache line moves from one core to another (ns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_line_ns: Option<u32>,
    /// Duration of a read of memory that caches of a desktop don't hold (ns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ns: Option<u32>,
}

/// The last line of a record: how the launch ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Whether it succeeded, or what kind of failure ended it.
    pub status: Status,
    /// Reason in one line; empty where `status` is `ok`.
    #[serde(default)]
    pub reason: String,
    /// Last lines of the engine's stderr, where something failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Time when it ended (`CLOCK_MONOTONIC`).
    pub end_ns: u64,
}

/// How a launch, or a cell, ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was measured.
    Ok,
    /// The engine says it can't do this.
    Unsupported,
    /// This machine lacks something the target needs.
    Unavailable,
    /// There was not enough memory.
    Oom,
    /// There was no answer in time.
    Timeout,
    /// The process died.
    Crashed,
    /// It did not do the same work, so it was not timed or its times don't count.
    WrongOutput,
    /// It is verified for shorter contexts than this needs, so it was not timed.
    Unverified,
    /// It sent something that is not the protocol.
    ProtocolError,
    /// Its stamps contradict the harness's stamps.
    BadTiming,
    /// It was planned, but there was no time for it.
    OverBudget,
    /// It was planned, but not run (yet): the run was interrupted.
    #[default]
    NotRun,
}

impl Status {
    /// The name in records, e.g. `wrong_output`.
    pub fn id(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Unsupported => "unsupported",
            Status::Unavailable => "unavailable",
            Status::Oom => "oom",
            Status::Timeout => "timeout",
            Status::Crashed => "crashed",
            Status::WrongOutput => "wrong_output",
            Status::Unverified => "unverified",
            Status::ProtocolError => "protocol_error",
            Status::BadTiming => "bad_timing",
            Status::OverBudget => "over_budget",
            Status::NotRun => "not_run",
        }
    }

    /// Whether the engine broke, or did something wrong. The others mean that the machine lacks
    /// something, that the engine can't do it, that there was no time, or that it wasn't run.
    pub fn is_engines_fault(self) -> bool {
        match self {
            Status::Oom | Status::Timeout | Status::Crashed => true,
            Status::WrongOutput | Status::ProtocolError | Status::BadTiming => true,
            Status::Ok | Status::Unsupported | Status::Unavailable => false,
            Status::Unverified | Status::OverBudget | Status::NotRun => false,
        }
    }
}

/// A line of `results/<run>/verify.jsonl`: the parity gate's judgement of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyRecord {
    /// Target id.
    pub target: String,
    /// Model id.
    pub model: String,
    /// `ok`, or the kind of failure.
    pub status: Status,
    /// What was found, in one line.
    pub reason: String,
    /// Largest context (tokens) within which the target is verified; absent = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_positions: Option<u32>,
    /// What was compared: `logits` or `text`.
    pub scope: String,
    /// Largest mean KL divergence (nats) over the prompts within the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_nats: Option<f64>,
    /// Of the positions where the reference's margin was decisive, the share where argmax agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argmax_agreement: Option<f64>,
    /// Batch sizes at which `generate` was checked.
    #[serde(default)]
    pub batches: Vec<u32>,
    /// Limit on the instructions that its library could use when it was verified, and can in all
    /// launches that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa_limit: Option<IsaLimit>,
    /// Whether it declares a prefix cache and its answers were right with it; checked only where
    /// the plan has a scenario that uses one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_cache: bool,
    /// How its process failed with the prefix cache on; empty: it didn't, or wasn't asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix_cache_failure: String,
    /// Time that prompts took when asked again, relative to the first time, where nothing may be
    /// kept: the median of three. Absent: not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_ratio: Option<f64>,
    /// What it answered about the model with outliers; absent: it wasn't asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
}

/// A target's answers about the model with outliers, which shows shortcuts that other models hide.
/// A target that fails there without an excuse is `wrong_output`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    /// Model id.
    pub model: String,
    /// Largest mean KL divergence (nats) over the prompts; absent where it gives no
    /// log-probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_nats: Option<f64>,
    /// Why failing there, or not being asked there, isn't held against it; empty: nothing had to be
    /// excused, or nothing excuses it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excuse: String,
}

impl VerifyRecord {
    /// Why the target isn't timed where prompts share their beginnings on purpose; `None`: it is
    /// timed.
    pub fn prefix_cache_refusal(&self) -> Option<(Status, &str)> {
        match (self.prefix_cache, self.prefix_cache_failure.as_str()) {
            (true, _) => None,
            (false, "") => Some((Status::Unsupported, NO_PREFIX_CACHE)),
            (false, failure) => Some((Status::Unverified, failure)),
        }
    }
}

/// The reason why a target whose adapter declares no prefix cache isn't timed where prompts share
/// their beginnings on purpose.
pub const NO_PREFIX_CACHE: &str =
    "our adapter uses no prefix cache of this engine, whether it has one or not";

/// A line of `results/<run>/check.jsonl`: the judgement of a cell's timed outputs after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Number of requests whose output equals the reference's own.
    pub equal: u64,
    /// Number of requests whose output differs but every token is within the tie width.
    pub rescored: u64,
    /// Number of requests whose output the reference rejects.
    pub wrong: u64,
    /// Number of requests not checked (no reference on this machine).
    pub unchecked: u64,
    /// The limit in force: a token further behind the reference's best is wrong.
    pub tie_width_nats: f64,
    /// Largest gap (nats) between the reference's best and the token chosen.
    pub gap_nats_max: f64,
    /// Method of the check, in words.
    pub method: String,
}

impl CheckRecord {
    /// Number of requests that it counts.
    pub fn outputs(&self) -> u64 {
        self.equal + self.rescored + self.wrong + self.unchecked
    }

    /// The key of the cell whose outputs it judges.
    pub fn key(&self) -> CellKey {
        CellKey::new(&self.target, &self.scenario, &self.case)
    }
}
