//! One line of a record file `results/<run>/<target>/<scenario>.<invocation>….jsonl`.
//!
//! Raw: stamps and ids as they came, in integer nanoseconds on `CLOCK_MONOTONIC`.
//! Nothing here is derived; `stats` does that when a page is rendered.

use crate::key::CellKey;
pub use crate::telemetry::{Readings, Telemetry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One event of a launch, in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum RecordEvent {
    /// First line: what was launched.
    Launch(LaunchRecord),
    /// The engine's own words, and when it was ready.
    Ready(Ready),
    /// A completed request.
    Request(RequestRecord),
    /// A timed request of an open loop that was given up.
    Unanswered(Unanswered),
    /// One reading of the counters: how records were kept before [`Readings`].
    Telemetry(Box<Telemetry>),
    /// Readings of the counters, column by column.
    Readings(Readings),
    /// A case is complete; without this line its samples do not count.
    CaseEnd(CaseEnd),
    /// Last line: how the launch ended.
    End(End),
}

/// What was launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Block, from 0.
    pub invocation: u32,
    /// 0, or more where `--resume` had to launch again.
    pub attempt: u32,
    /// Case ids this launch will run.
    pub cases: Vec<String>,
    /// The command line.
    pub argv: Vec<String>,
    /// What its library was kept to; absent: to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa_limit: Option<IsaLimit>,
    /// Just before the process was started.
    pub start_ns: u64,
    /// Whether an earlier launch of the block started the process: `start_ns` and `ready` are
    /// of that start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// What a program's library was kept to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsaLimit {
    /// The variable that was set.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// Who set it and why, in a few words.
    pub why: String,
}

impl IsaLimit {
    /// As a shell takes it: `VARIABLE=value`.
    pub fn assignment(&self) -> String {
        format!("{}={}", self.variable, self.value)
    }
}

impl std::fmt::Display for IsaLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.assignment(), self.why)
    }
}

/// The engine is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Engine version, from `hello`.
    pub version: String,
    /// Build facts, from `hello`.
    pub build: BTreeMap<String, String>,
    /// `none`, `static_equal_length`, `continuous`.
    pub batching: String,
    /// What a reader must know, from `hello`.
    pub notes: Vec<String>,
    /// When `hello` arrived.
    pub hello_ns: u64,
    /// When `loaded` arrived: `ready_ns − start_ns` is the cold start.
    pub ready_ns: u64,
    /// Load time by the engine's own clock.
    pub load_ns: u64,
    /// Bytes of weights one decode step reads.
    pub weight_bytes: u64,
    /// Bytes of KV cache per token of context.
    pub kv_bytes_per_token: u64,
}

/// A completed request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Case id.
    pub case: String,
    /// Unique within the launch.
    pub id: u64,
    /// Index of its prompt; distinct within a cell, equal across targets. Of the user's
    /// prompts several indices may be of one.
    pub prompt: u64,
    /// `true`: not timed.
    pub warmup: bool,
    /// When it was due.
    pub scheduled_ns: u64,
    /// When the harness had written it.
    pub sent_ns: u64,
    /// The engine read it.
    pub received_ns: u64,
    /// The engine began it.
    pub started_ns: u64,
    /// Each output token.
    pub token_ns: Vec<u64>,
    /// The harness had read the answer.
    pub answered_ns: u64,
    /// Largest number of requests it shared a step with.
    pub batch: u32,
    /// The output; empty where the engine gives text and no ids.
    pub output_ids: Vec<u32>,
    /// The output as text, from an engine that gives no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_text: Option<String>,
}

impl RequestRecord {
    /// When its first work may have begun. Who reads it may be quicker than who wrote it.
    pub fn begin_ns(&self) -> u64 {
        self.sent_ns.min(self.received_ns)
    }

    /// How many tokens are stamped up to then; of a stream's pieces, how many different stamps there are.
    pub fn stamped(&self, at_ns: u64, in_pieces: bool) -> u64 {
        let mut last = None;
        let stamped = self.token_ns.iter().filter(|&&ns| ns <= at_ns);
        let stamped = stamped.filter(|&ns| !in_pieces || last.replace(ns) != Some(ns));
        stamped.count() as u64
    }
}

/// A timed request of an open loop without an answer when the case was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unanswered {
    /// Case id.
    pub case: String,
    /// Unique within the launch.
    pub id: u64,
    /// Index of its prompt.
    pub prompt: u64,
    /// When it was due.
    pub scheduled_ns: u64,
    /// When the harness had written it; absent: never, since too many were in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ns: Option<u64>,
    /// When it was given up.
    pub given_up_ns: u64,
}

/// A case is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseEnd {
    /// Case id.
    pub case: String,
    /// First timed request was sent.
    pub start_ns: u64,
    /// Last timed answer was read.
    pub end_ns: u64,
    /// Peak resident set of the engine process so far, bytes (`VmHWM`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// What the audit found of its requests' stamps; absent where there was no audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnessed: Option<Witnessed>,
    /// How fast the machine was before and after it, or before its turns; empty where that wasn't
    /// measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canary: Vec<CanaryReading>,
}

/// What known work took while no engine ran (ns). What a machine can't do is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryReading {
    /// Integer products on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_core_ns: Option<u32>,
    /// The same on as many cores at once as engines have threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_cores_ns: Option<u32>,
    /// One way of a cache line between two cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_line_ns: Option<u32>,
    /// A read of memory that caches of a desktop don't hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ns: Option<u32>,
}

/// What looks at the tokens that an engine had committed found, beside what the stamps of a case's
/// timed requests claim. Sums, where all else in a record is raw: there are more looks than samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witnessed {
    /// How often it was looked, at moments drawn at random (a Poisson process).
    pub looks: u64,
    /// Over how long (ns).
    pub watched_ns: u64,
    /// Most requests that shared a step: as many tokens may be missing at once.
    pub batch: u64,
    /// `true`: the engine streams pieces of text, and how many tokens a piece has isn't known yet.
    /// Then `tokens` counts different stamps, and lateness isn't looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pieces: bool,
    /// `true`: commits were overwritten before they were read, so nothing else stands here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// First tokens.
    pub first: Claims,
    /// All others.
    pub later: Claims,
    /// Commits that aren't of the answer's next token: another id, or another index.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contradicted: u64,
    /// Tokens of answers that had never been committed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncommitted: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How tokens' stamps and commits stood to each other, summed over looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Stamps.
    pub tokens: u64,
    /// Tokens that were not there at a look, and by their stamps should have been.
    pub early: Sum,
    /// Tokens that were there at a look, and by their stamps were not yet.
    pub late: Sum,
}

/// A count, summed over looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Looks that saw any.
    pub looks: u64,
    /// The greatest count.
    pub most: u64,
    /// The sum of the counts.
    pub sum: u64,
    /// The sum of their squares.
    pub squares: u64,
}

impl Sum {
    /// Another look's.
    pub fn add(&mut self, count: u64) {
        self.looks += u64::from(count > 0);
        self.most = self.most.max(count);
        self.sum += count;
        self.squares += count * count;
    }

    /// Another launch's.
    pub fn join(&mut self, other: Self) {
        self.looks += other.looks;
        self.most = self.most.max(other.most);
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Whether it succeeded, or what kind of failure ended it.
    pub status: Status,
    /// One line, empty where `status` is `ok`.
    #[serde(default)]
    pub reason: String,
    /// Last lines of the engine's stderr, where something failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// When it ended (`CLOCK_MONOTONIC`).
    pub end_ns: u64,
}

/// How a launch, or a cell, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Measured.
    Ok,
    /// The engine says it can't do this.
    Unsupported,
    /// This machine lacks something the target needs.
    Unavailable,
    /// Out of memory.
    Oom,
    /// No answer in time.
    Timeout,
    /// The process died.
    Crashed,
    /// It did not do the same work, so it was not timed or its times don't count.
    WrongOutput,
    /// It is verified for shorter contexts than this needs, so it was not timed.
    Unverified,
    /// What it said was not the protocol.
    ProtocolError,
    /// Its stamps contradict the harness's own.
    BadTiming,
    /// Planned, but there was no time for it.
    OverBudget,
    /// Planned, but not run (yet): the run was interrupted.
    NotRun,
}

impl Status {
    /// As in records, e.g. `wrong_output`.
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
}

/// A line of `results/<run>/verify.jsonl`: the parity gate's judgement of a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyRecord {
    /// Target id.
    pub target: String,
    /// Model id.
    pub model: String,
    /// `ok` or why not.
    pub status: Status,
    /// One line: what was found.
    pub reason: String,
    /// Largest context (tokens) within which the target is verified; absent = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_positions: Option<u32>,
    /// `logits` or `text`.
    pub scope: String,
    /// Largest mean KL divergence (nats) over the prompts within the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_nats: Option<f64>,
    /// Share of positions where the reference's margin was decisive and argmax agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argmax_agreement: Option<f64>,
    /// Batch sizes at which `generate` was checked.
    #[serde(default)]
    pub batches: Vec<u32>,
    /// What its library was kept to when it was asked, and is in all launches that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa_limit: Option<IsaLimit>,
    /// Whether its hello declares a prefix cache and its answers were right with it; asked only
    /// where the plan has a scenario that uses one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_cache: bool,
    /// How its process failed with the cache on; empty: it didn't, or wasn't asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix_cache_failure: String,
    /// How long prompts took that were asked before, relative to the first time, where nothing may be
    /// kept: the median of three. Absent: not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_ratio: Option<f64>,
}

impl VerifyRecord {
    /// Why it isn't timed where prompts share their beginnings on purpose; `None`: it is.
    pub fn prefix_cache_refusal(&self) -> Option<(Status, &str)> {
        match (self.prefix_cache, self.prefix_cache_failure.as_str()) {
            (true, _) => None,
            (false, "") => Some((Status::Unsupported, NO_PREFIX_CACHE)),
            (false, failure) => Some((Status::Unverified, failure)),
        }
    }
}

/// Why a target isn't timed where prompts share their beginnings on purpose.
const NO_PREFIX_CACHE: &str =
    "keeps nothing of earlier prompts: its hello declares no prefix cache";

/// A line of `results/<run>/check.jsonl`: a timed output judged after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Requests whose output equals the reference's own.
    pub equal: u64,
    /// Requests whose output differs but every token is within the tie width.
    pub rescored: u64,
    /// Requests whose output the reference rejects.
    pub wrong: u64,
    /// Requests not checked (no reference on this machine).
    pub unchecked: u64,
    /// The limit in force: a token further behind the reference's best is wrong.
    pub tie_width_nats: f64,
    /// Largest gap (nats) between the reference's best and the token chosen.
    pub gap_nats_max: f64,
    /// What the check rests on, in words.
    pub method: String,
}

impl CheckRecord {
    /// Which cell's outputs it judges.
    pub fn key(&self) -> CellKey {
        CellKey {
            target: self.target.clone(),
            scenario: self.scenario.clone(),
            case: self.case.clone(),
        }
    }
}
