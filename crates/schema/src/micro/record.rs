//! One line of a record file `results/<run>/micro/<suite>/<variant>.i<invocation>….jsonl`,
//! and the files of a run, loaded. Raw: durations as the program read them.

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
    /// First line: what was launched.
    Launch(MicroStart),
    /// The program's own words.
    Ready(MicroReady),
    /// A case that was verified and timed.
    Case(MicroSample),
    /// A case without samples.
    Failed(MicroFailed),
    /// Last line: how the launch ended.
    End(End),
}

/// What was launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroStart {
    /// Suite id.
    pub suite: String,
    /// Variant id, or a twin's name.
    pub variant: String,
    /// Block, from 0.
    pub invocation: u32,
    /// 0, or more where cases were left after a launch.
    pub attempt: u32,
    /// Case ids it will run.
    pub cases: Vec<String>,
    /// The command line.
    pub argv: Vec<String>,
    /// What its library was kept to; absent: to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa_limit: Option<IsaLimit>,
    /// Just before the process was started; 0 where there is none to start.
    pub start_ns: u64,
}

impl MicroStart {
    /// What its cell of a case is called.
    pub fn cell_key(&self, case: &str) -> CellKey {
        super::case_key(&self.suite, case).cell(&self.variant)
    }
}

/// The program is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroReady {
    /// Version of what is measured.
    pub version: String,
    /// Build facts.
    pub build: BTreeMap<String, String>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// When it said so.
    pub ready_ns: u64,
}

/// A case that was verified and timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroSample {
    /// Case id.
    pub case: String,
    /// Work of one call, in the suite's unit.
    pub work: f64,
    /// The first call of the case in this process.
    pub first_call_ns: u64,
    /// Calls per sample.
    pub calls: u64,
    /// Duration of each sample: all its calls.
    pub ns: Vec<u64>,
    /// When the first sample began.
    pub start_ns: u64,
    /// When the last one ended.
    pub end_ns: u64,
    /// Values in the output.
    pub values: u64,
    /// Largest error of any value, relative to the largest magnitude of the reference's
    /// output: the larger of before and after timing.
    pub error_max: f64,
    /// Largest resident set of the process while it was warmed up and timed, bytes;
    /// absent where the kernel would not forget what came before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes_timed: Option<u64>,
}

/// A case without samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroFailed {
    /// Case id.
    pub case: String,
    /// What kind of failure it was.
    pub status: Status,
    /// One line.
    pub reason: String,
}

/// One record file, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroLog {
    /// The file, relative to the run's directory.
    pub file: PathBuf,
    /// sha256 of its bytes.
    pub sha256: String,
    /// What was launched.
    pub launch: MicroStart,
    /// The program, if it got so far.
    pub ready: Option<MicroReady>,
    /// Cases with samples.
    pub cases: Vec<MicroSample>,
    /// Cases without.
    pub failed: Vec<MicroFailed>,
    /// How it ended; `None`: the harness itself was killed.
    pub end: Option<End>,
}

impl MicroLog {
    /// All record files of a run's suites, sorted by path.
    ///
    /// # Errors
    /// A file that isn't a record, or lies where it doesn't belong.
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
            file: PathBuf::new(),
            sha256: String::new(),
            launch: launch.clone(),
            ready: None,
            cases: Vec::new(),
            failed: Vec::new(),
            end: None,
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

    fn filed(&mut self, file: PathBuf, sha256: String) {
        (self.file, self.sha256) = (file, sha256);
    }
}
