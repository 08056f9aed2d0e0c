//! The record of one launch, read back.

use crate::error::DataError;
use crate::lines::RecordFile;
use crate::record::{
    CaseEnd, End, LaunchRecord, Ready, RecordEvent, RequestRecord, Telemetry, Unanswered,
};
use crate::run_files::RunFiles;
use std::path::PathBuf;

/// One record file, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchLog {
    /// The file, relative to the run's directory.
    pub file: PathBuf,
    /// sha256 of its bytes.
    pub sha256: String,
    /// What was launched.
    pub launch: LaunchRecord,
    /// The engine, if it got so far.
    pub ready: Option<Ready>,
    /// Requests, in order of completion, warm-up included.
    pub requests: Vec<RequestRecord>,
    /// Timed requests of open loops that were given up.
    pub unanswered: Vec<Unanswered>,
    /// Counters.
    pub telemetry: Vec<Telemetry>,
    /// Complete cases.
    pub case_ends: Vec<CaseEnd>,
    /// How it ended; `None`: the harness itself was killed.
    pub end: Option<End>,
}

impl LaunchLog {
    /// Load one record file; `None` where not even its first line was written whole.
    pub(crate) fn load(files: &RunFiles, name: &str) -> Result<Option<Self>, DataError> {
        let read = RecordFile::read(files, name, |event| match event {
            RecordEvent::Launch(launch) => Some(launch),
            _ => None,
        })?;
        let Some(read) = read else {
            return Ok(None);
        };
        let mut log = Self {
            file: read.file,
            sha256: read.sha256,
            launch: read.launch,
            ready: None,
            requests: Vec::new(),
            unanswered: Vec::new(),
            telemetry: Vec::new(),
            case_ends: Vec::new(),
            end: None,
        };
        for (line, event) in read.events {
            match event {
                RecordEvent::Launch(_) => unreachable!("RecordFile takes the only one out"),
                RecordEvent::Ready(ready) => log.ready = Some(ready),
                RecordEvent::Request(request) => log.requests.push(request),
                RecordEvent::Unanswered(request) => log.unanswered.push(request),
                RecordEvent::Telemetry(reading) => log.telemetry.push(*reading),
                RecordEvent::Readings(readings) => log.telemetry.extend(
                    files
                        .count_readings(readings.t_ns.len())
                        .and_then(|()| readings.unpack())
                        .map_err(|why| DataError::at(&files.path(name), line, why))?,
                ),
                RecordEvent::CaseEnd(end) => log.case_ends.push(end),
                RecordEvent::End(end) => log.end = Some(end),
            }
        }
        Ok(Some(log))
    }
}
