//! The messages of a micro program: one JSON object per line, one answer per request.
//!
//! All times are integer nanoseconds on `CLOCK_MONOTONIC`. Unknown fields are ignored.

use crate::wire::FailureKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the protocol, sent in [`Hello::protocol`].
pub const PROTOCOL: u32 = 1;

/// A message from the harness to a micro program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Open a suite's variant. Always first, exactly once. Answered by [`Event::Hello`].
    Load(Load),
    /// Make a case ready and call it once. Answered by [`Event::Prepared`].
    Prepare(Prepare),
    /// Write the last call's output into a file. Answered by [`Event::Written`].
    Output {
        /// Path of a file that doesn't exist yet. Every value is written to it as a little-endian
        /// `f64`.
        path: String,
    },
    /// Time the case that was prepared last. Answered by [`Event::Timed`].
    Time(Time),
    /// Exit with status 0. End of input means the same.
    Exit,
}

/// The suite and variant to open, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The suite's id, without `micro/`.
    pub suite: String,
    /// The variant of the suite, by the program's name for it.
    pub variant: String,
    /// The backend: `cpu`, `flex`, `cuda`, …
    pub backend: String,
    /// The precision: `f32`, `f16`, `exact`, …
    pub precision: String,
    /// Number of compute threads.
    pub threads: u32,
    /// Directory of the run's model, for programs that read one of its files.
    pub model_dir: String,
    /// Seed of all inputs, the same for every variant.
    pub seed: u64,
}

/// A case to prepare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The case's id.
    pub case: String,
    /// The case's parameters by name: sizes, or 0 or 1 for a switch.
    pub params: BTreeMap<String, u64>,
}

/// How to time the prepared case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    /// Number of samples.
    pub samples: u32,
    /// Intended duration of a sample (ns). The number of calls per sample is derived from the mean
    /// of the warm-up, so a sample may take a little less.
    pub sample_ns: u64,
    /// Least duration of the untimed calls before the samples (ns); at least one call is made.
    pub warmup_ns: u64,
}

/// A message from a micro program to the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum Event {
    /// The program is ready to prepare cases.
    Hello(Hello),
    /// A case is ready and was called once.
    Prepared(Prepared),
    /// The last output is in the file.
    Written {
        /// Number of values in it.
        values: u64,
    },
    /// The samples of the timed case.
    Timed(Timed),
    /// Something failed. The process goes on unless `is_last` is set or the process ends.
    Error {
        /// The kind of failure.
        kind: FailureKind,
        /// What failed, in one line.
        message: String,
        /// `true` after a panic: the program's state is unknown, so the process ends.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_last: bool,
    },
}

/// A micro program's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol's version, [`PROTOCOL`]; the runtime sets it.
    #[serde(default)]
    pub protocol: u32,
    /// Version of the code that is measured.
    pub version: String,
    /// How this program was built.
    #[serde(default)]
    pub build: BTreeMap<String, String>,
    /// Remarks that a reader of the numbers must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Hello {
    /// Create the description of a program that measures this version, without remarks.
    pub fn of(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            ..Self::default()
        }
    }
}

/// The answer to [`Prepare`]: the case is ready.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Work of one call, in the suite's unit.
    pub work: f64,
    /// Duration of the first call, which includes everything that is compiled, tuned or allocated
    /// once.
    pub first_call_ns: u64,
}

/// The samples of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Calls per sample.
    pub calls: u64,
    /// When the first sample began (ns).
    pub start_ns: u64,
    /// When the last sample ended (ns).
    pub end_ns: u64,
    /// Duration of each sample, that is of all its calls together.
    pub ns: Vec<u64>,
}
