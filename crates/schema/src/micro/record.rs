//! The record of a launch of a micro suite: one line of a file
//! `results/<run>/micro/<suite>/<variant>.i<invocation>….jsonl`, and the files of a run, loaded.
//! Raw: durations as the program read them.

use super::MicroPlan;
use crate::error::DataError;
use crate::key::CellKey;
use crate::lines::{Log, read_log};
use crate::record::{End, IsaLimit, Status};
use crate::run_files::RunFiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One event of a launch, in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum MicroEvent {
    /// The first line: what was launched.
    Launch(MicroStart),
    /// What the program reported when it was ready.
    Ready(MicroReady),
    /// A case that was verified and timed.
    Case(MicroSample),
    /// A case without samples.
    Failed(MicroFailed),
    /// The last line: how the launch ended.
    End(End),
}

/// The first line of a record: what was launched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MicroStart {
    /// Suite id.
    pub suite: String,
    /// Variant id, or a twin's name.
    pub variant: String,
    /// Number of the block, from 0.
    pub invocation: u32,
    /// Number of the attempt: 0, or more where a launch left cases over.
    pub attempt: u32,
    /// Ids of the cases it will run.
    pub cases: Vec<String>,
    /// The command line.
    pub argv: Vec<String>,
    /// Limit on the instructions that its library may use; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa_limit: Option<IsaLimit>,
    /// Time just before the process was started (ns); 0 where there is none to start.
    pub start_ns: u64,
}

impl MicroStart {
    /// Return the key of its cell in a case.
    pub fn cell_key(&self, case: &str) -> CellKey {
        super::case_key(&self.suite, case).cell(&self.variant)
    }
}

/// What the program reported when it was ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroReady {
    /// Version of what is measured.
    pub version: String,
    /// Facts about the build.
    pub build: BTreeMap<String, String>,
    /// Notes that a reader must know.
    pub notes: Vec<String>,
    /// Time when it was ready (ns).
    pub ready_ns: u64,
}

/// A case that was verified and timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MicroSample {
    /// Case id.
    pub case: String,
    /// Work of one call, in the suite's unit.
    pub work: f64,
    /// Duration of the first call of the case in this process (ns).
    pub first_call_ns: u64,
    /// Number of calls per sample.
    pub calls: u64,
    /// Duration of each sample with all its calls (ns).
    pub ns: Vec<u64>,
    /// Time when the first sample began (ns).
    pub start_ns: u64,
    /// Time when the last sample ended (ns).
    pub end_ns: u64,
    /// Number of values in the output.
    pub values: u64,
    /// Largest error of any value, relative to the largest magnitude of the reference's output: the
    /// larger of the errors before and after timing.
    pub error_max: f64,
    /// Largest resident set of the process while it was warmed up and timed (bytes); absent where
    /// the kernel couldn't reset its peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes_timed: Option<u64>,
}

/// A case that failed and has no samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroFailed {
    /// Case id.
    pub case: String,
    /// Kind of failure.
    pub status: Status,
    /// Reason in one line.
    pub reason: String,
}

/// One record file, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MicroLog {
    /// The file, relative to the run's directory.
    pub file: PathBuf,
    /// sha256 of its bytes.
    pub sha256: String,
    /// The first line: what was launched.
    pub launch: MicroStart,
    /// What the program reported when it was ready; `None` if it never was.
    pub ready: Option<MicroReady>,
    /// Cases with samples.
    pub cases: Vec<MicroSample>,
    /// Cases without samples.
    pub failed: Vec<MicroFailed>,
    /// The last line: how the launch ended; `None`: the harness itself was killed.
    pub end: Option<End>,
}

impl MicroLog {
    /// Load all record files of a run's suites, sorted by path.
    ///
    /// # Errors
    /// If a file isn't a record, or lies where it doesn't belong.
    pub(crate) fn load_all(files: &RunFiles, plan: &MicroPlan) -> Result<Vec<Self>, DataError> {
        let mut logs = Vec::new();
        for suite in &plan.suites {
            let dir = format!("{}/{}", super::DIR, suite.id);
            for name in files.names_in(&dir, ".jsonl") {
                let Some(log) = read_log::<Self>(files, name)? else {
                    continue;
                };
                let launch = &log.launch;
                let planned = |case: &String| suite.cases.iter().any(|c| c.id == *case);
                let wrong = |what: String| Err(DataError::at(&files.path(name), 1, what));
                if launch.suite != suite.id {
                    return wrong(format!(
                        "is a record of suite {:?}: put it back",
                        launch.suite
                    ));
                }
                if let Some(case) = launch.cases.iter().find(|case| !planned(case)) {
                    return wrong(format!("names case {case:?}, which the plan doesn't have"));
                }
                logs.push(log);
            }
        }
        Ok(logs)
    }
}

impl Log for MicroLog {
    type Event = MicroEvent;

    fn begin(event: &MicroEvent) -> Option<Self> {
        let MicroEvent::Launch(launch) = event else {
            return None;
        };
        Some(Self {
            launch: launch.clone(),
            ..Self::default()
        })
    }

    fn take(&mut self, event: MicroEvent) -> Result<(), String> {
        match event {
            MicroEvent::Launch(_) => return Err("a second `launch` event".into()),
            MicroEvent::Ready(ready) => self.ready = Some(ready),
            MicroEvent::Case(case) if case.calls == 0 || case.ns.is_empty() => {
                return Err("a case without samples".into());
            }
            MicroEvent::Case(case) => self.cases.push(case),
            MicroEvent::Failed(failed) => self.failed.push(failed),
            MicroEvent::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn set_file(&mut self, file: PathBuf, sha256: String) {
        (self.file, self.sha256) = (file, sha256);
    }
}
