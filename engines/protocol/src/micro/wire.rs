//! The messages of a micro program: one JSON object a line, one answer a request.
//!
//! All times are integer nanoseconds on `CLOCK_MONOTONIC`. Unknown fields are ignored.

use crate::wire::FailureKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number in [`Hello::protocol`].
pub const PROTOCOL: u32 = 1;

/// Harness → program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Always first, exactly once. Answered by [`Event::Hello`].
    Load(Load),
    /// Make a case ready and call it once. Answered by [`Event::Prepared`].
    Prepare(Prepare),
    /// Write the last call's output into a file. Answered by [`Event::Written`].
    Output {
        /// A file that isn't there yet. It gets every value as a little-endian `f64`.
        path: String,
    },
    /// Time the case that was prepared. Answered by [`Event::Timed`].
    Time(Time),
    /// Exit with status 0. End of input means the same.
    Exit,
}

/// What will be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Suite id, without `micro/`.
    pub suite: String,
    /// The program's name for what it runs.
    pub variant: String,
    /// `cpu`, `flex`, `cuda`, …
    pub backend: String,
    /// `f32`, `f16`, `exact` …
    pub precision: String,
    /// Compute threads.
    pub threads: u32,
    /// Directory of the run's model, for what reads one of its files.
    pub model_dir: String,
    /// Seed of all inputs: equal for every variant.
    pub seed: u64,
}

/// A case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// Its id.
    pub case: String,
    /// Its sizes; a switch is 0 or 1.
    pub params: BTreeMap<String, u64>,
}

/// How to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    /// How many samples.
    pub samples: u32,
    /// What a sample should take about: as many calls as that is by the warm-up's mean,
    /// so that one may take a little less.
    pub sample_ns: u64,
    /// Least duration of the untimed calls before; at least one is made.
    pub warmup_ns: u64,
}

/// Program → harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum Event {
    /// It is ready.
    Hello(Hello),
    /// A case is ready and was called once.
    Prepared(Prepared),
    /// The output is in the file.
    Written {
        /// How many values.
        values: u64,
    },
    /// The samples.
    Timed(Timed),
    /// Something failed. The process goes on unless it says or shows otherwise.
    Error {
        /// What sort.
        kind: FailureKind,
        /// One line.
        message: String,
        /// After a panic: what is left is anybody's guess, so the process ends.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_last: bool,
    },
}

/// What the program says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`]; the runtime sets it.
    #[serde(default)]
    pub protocol: u32,
    /// Version of what is measured.
    pub version: String,
    /// How this program was built.
    #[serde(default)]
    pub build: BTreeMap<String, String>,
    /// What a reader of the numbers must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A case is ready.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Work of one call, in the suite's unit.
    pub work: f64,
    /// The first call: what is compiled, tuned or allocated once is in it.
    pub first_call_ns: u64,
}

/// The samples of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Calls per sample.
    pub calls: u64,
    /// When the first sample began.
    pub start_ns: u64,
    /// When the last one ended.
    pub end_ns: u64,
    /// Duration of each sample: all its calls.
    pub ns: Vec<u64>,
}
