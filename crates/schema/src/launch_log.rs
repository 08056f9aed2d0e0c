//! The record of one launch, loaded as a whole.

use crate::key::CellKey;
use crate::lines::Log;
use crate::record::{
    CaseEnd, End, LaunchRecord, Ready, RecordEvent, RequestRecord, Telemetry, Unanswered,
};
use std::path::PathBuf;

/// One record file, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchLog {
    /// The file, relative to the run's directory.
    pub file: PathBuf,
    /// sha256 of its bytes.
    pub sha256: String,
    /// The first event: what was launched.
    pub launch: LaunchRecord,
    /// What the engine reported when it was ready; `None` if it never was.
    pub ready: Option<Ready>,
    /// Completed requests, in order of completion, warm-up included.
    pub requests: Vec<RequestRecord>,
    /// Timed requests of open loops that were given up.
    pub unanswered: Vec<Unanswered>,
    /// Readings of the counters.
    pub telemetry: Vec<Telemetry>,
    /// The ends of the cases that are complete.
    pub case_ends: Vec<CaseEnd>,
    /// The last line: how the launch ended; `None`: the harness itself was killed.
    pub end: Option<End>,
}

impl Log for LaunchLog {
    type Event = RecordEvent;

    fn begin(event: &RecordEvent) -> Option<Self> {
        let RecordEvent::Launch(launch) = event else {
            return None;
        };
        Some(Self {
            launch: launch.clone(),
            ..Self::default()
        })
    }

    fn take(&mut self, event: RecordEvent) -> Result<(), String> {
        match event {
            RecordEvent::Launch(_) => return Err("a second `launch` event".into()),
            RecordEvent::Ready(ready) => self.ready = Some(ready),
            RecordEvent::Request(request) => self.requests.push(request),
            RecordEvent::Unanswered(request) => self.unanswered.push(request),
            RecordEvent::Telemetry(reading) => self.telemetry.push(*reading),
            RecordEvent::Readings(readings) => self.telemetry.extend(readings.unpack()?),
            RecordEvent::CaseEnd(end) => self.case_ends.push(end),
            RecordEvent::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn set_file(&mut self, file: PathBuf, sha256: String) {
        (self.file, self.sha256) = (file, sha256);
    }

    fn readings(event: &RecordEvent) -> usize {
        match event {
            RecordEvent::Readings(readings) => readings.t_ns.len(),
            _ => 0,
        }
    }
}

/// The timed requests of a cell or its twin, from launches that completed the case: those that the
/// reference judges.
pub fn timed<'a>(
    logs: impl IntoIterator<Item = &'a LaunchLog>,
    cell: &CellKey,
) -> impl Iterator<Item = &'a RequestRecord> {
    logs.into_iter()
        .filter(move |log| log.launch.target == cell.target && log.launch.scenario == cell.scenario)
        .filter(move |log| log.case_ends.iter().any(|end| end.case == cell.case))
        .flat_map(|log| &log.requests)
        .filter(move |request| request.case == cell.case && !request.warmup)
}
