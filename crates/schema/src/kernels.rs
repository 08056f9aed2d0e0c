//! A kernel trace: which kernels a process ran on the GPU, and when. The injection library
//! (`crates/tracer`) writes it as JSON Lines; here it is loaded into a value that `stats` may
//! trust. It is raw: which kernel belongs to which token is derived elsewhere.
//!
//! A trace comes from a launch of its own that is never timed. Its requests, with the
//! engine's token stamps, lie beside it in the format of every other launch.

use crate::error::DataError;
use crate::hash::sha256_hex;
use crate::launch_log::LaunchLog;
use crate::lines::{is_zero, read_log};
use crate::run_files::RunFiles;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Value of [`TraceHeader::format`].
pub const TRACE_FORMAT: u32 = 1;
/// Directory of the traces inside a run's directory.
pub const TRACES_DIR: &str = "kernels";
/// Suffix of the name of a trace's file.
pub const TRACE_SUFFIX: &str = ".trace.jsonl";
/// Suffix of the name of the file with a trace's requests.
pub const REQUESTS_SUFFIX: &str = ".requests.jsonl";
/// Environment variable that tells the injection library which file to write.
pub const TRACE_VARIABLE: &str = "BENCH_KERNEL_TRACE";

/// One line of a trace, in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum TraceEvent {
    /// The first line.
    Header(TraceHeader),
    /// A kernel's name, written before the first kernel that has it.
    Name(KernelName),
    /// A kernel that ran.
    Kernel(Kernel),
    /// A count of kernels that ran and left no record.
    Lost(Lost),
    /// Something failed; the process went on.
    Failure(TraceFailure),
    /// The last line, written once everything is flushed.
    End(TraceEnd),
}

/// The first line of a trace: what made it, and on which clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Number of the format, [`TRACE_FORMAT`].
    pub format: u32,
    /// Whether it was made up for a test: no GPU ran this, and nothing may be claimed from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// Version of the tracer.
    pub tracer: String,
    /// Id of the traced process.
    pub pid: u32,
    /// Time when the file was opened (`CLOCK_MONOTONIC`).
    pub opened_ns: u64,
    /// `CUPTI_API_VERSION` of the library that recorded; absent where none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cupti_version: Option<u32>,
    /// Mapping of CUPTI's timestamps to `CLOCK_MONOTONIC`; absent where CUPTI gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockMapping>,
}

/// The mapping of CUPTI's timestamps to `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockMapping {
    /// Method of the mapping.
    pub method: ClockMethod,
    /// Clock sample that the mapping rests on, taken when tracing began.
    pub sample: ClockSample,
}

/// The method by which timestamps are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMethod {
    /// CUPTI reads `CLOCK_MONOTONIC` itself: nothing is subtracted.
    Callback,
    /// CUPTI reads its own clock, and the offset of the sample was subtracted.
    Offset,
}

/// A reading of CUPTI's clock between two readings of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSample {
    /// CUPTI's reading minus the middle of the two (ns).
    pub offset_ns: i64,
    /// Half the time between the two (ns): the largest possible error of the offset.
    pub error_ns: u64,
}

/// The name of kernels, written once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelName {
    /// Id of the name, counted from 0.
    pub id: u32,
    /// Name as CUPTI gives it: mangled where the kernel is C++.
    pub name: String,
}

/// One kernel that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Id of its name.
    pub name: u32,
    /// Time when it began on the device (`CLOCK_MONOTONIC`).
    pub start_ns: u64,
    /// Time when it ended on the device (`CLOCK_MONOTONIC`).
    pub end_ns: u64,
    /// Number of blocks in x, y, z.
    pub grid: [i32; 3],
    /// Number of threads per block in x, y, z.
    pub block: [i32; 3],
    /// Device index.
    pub device: u32,
    /// CUPTI's number of its stream.
    pub stream: u32,
    /// Node of the CUDA graph that launched it; 0: no graph did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub graph_node: u64,
}

/// Counts of kernels without a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Number of records that CUPTI dropped because its buffers were full.
    pub dropped: u64,
    /// Number of records that CUPTI gave without timestamps.
    pub untimed: u64,
}

/// A failure that the traced process survived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFailure {
    /// The operation that failed, such as a function of CUPTI.
    pub what: String,
    /// CUPTI's result code, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// Reason, and what to do about it; one line.
    pub reason: String,
}

impl std::fmt::Display for TraceFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.reason)
    }
}

/// The last line of a trace, written when the process ended in good order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEnd {
    /// Number of kernel lines above.
    pub kernels: u64,
    /// Clock sample at the end: its difference from [`ClockMapping::sample`] is drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSample>,
    /// Time of the end (`CLOCK_MONOTONIC`).
    pub end_ns: u64,
}

/// A trace, parsed and checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTrace {
    /// sha256 of the file's bytes.
    pub sha256: String,
    /// First line of the trace.
    pub header: TraceHeader,
    /// Names of kernels by id.
    pub names: Vec<String>,
    /// Kernels, sorted by start.
    pub kernels: Vec<Kernel>,
    /// Total counts of kernels without a record.
    pub lost: Lost,
    /// Everything that failed.
    pub failures: Vec<TraceFailure>,
    /// Last line of the trace; `None`: the process was killed, or its disk was full.
    pub end: Option<TraceEnd>,
}

impl KernelTrace {
    /// Load a trace from a run's files.
    fn of_run(files: &RunFiles, name: &str) -> Result<Self, DataError> {
        let path = files.path(name);
        match files.text(name)? {
            Some(text) => Self::parse(&path, &text),
            None => Err(DataError::new(
                &path,
                "is not there: the process never started CUDA, so nothing was traced",
            )),
        }
    }

    /// Parse the text of a trace; `path` stands in errors. A last line cut short by a kill is left
    /// out; any other line that can't be read, or contradicts the others, is an error with its
    /// number.
    pub fn parse(path: &Path, text: &str) -> Result<Self, DataError> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines().enumerate();
        let Some((_, first)) = lines.next() else {
            let message = "has no whole line: the traced process died before the tracer was ready";
            return Err(DataError::new(path, message));
        };
        let TraceEvent::Header(header) = event(path, 1, first)? else {
            return Err(DataError::at(path, 1, "the first line is not a `header`"));
        };
        if header.format != TRACE_FORMAT {
            let message = format!(
                "is format {}, this program reads format {TRACE_FORMAT}",
                header.format
            );
            return Err(DataError::at(path, 1, message));
        }
        let mut trace = Self {
            sha256: sha256_hex(text.as_bytes()),
            header,
            ..Self::default()
        };
        for (index, line) in lines {
            let number = index + 1;
            let event = event(path, number, line)?;
            trace
                .add(event)
                .map_err(|message| DataError::at(path, number, message))?;
        }
        trace.kernels.sort_by_key(|k| (k.start_ns, k.end_ns));
        Ok(trace)
    }

    fn add(&mut self, event: TraceEvent) -> Result<(), String> {
        if self.end.is_some() {
            return Err("comes after the `end` line".into());
        }
        match event {
            TraceEvent::Header(_) => return Err("a second `header`".into()),
            TraceEvent::Name(name) if name.id as usize == self.names.len() => {
                self.names.push(name.name);
            }
            TraceEvent::Name(name) => {
                return Err(format!(
                    "name {} where {} is due: a line is missing",
                    name.id,
                    self.names.len()
                ));
            }
            TraceEvent::Kernel(kernel) if kernel.name as usize >= self.names.len() => {
                return Err(format!("a kernel with name {}, not given", kernel.name));
            }
            TraceEvent::Kernel(kernel) if kernel.end_ns < kernel.start_ns => {
                return Err("a kernel that ends before it starts".into());
            }
            TraceEvent::Kernel(kernel) => self.kernels.push(kernel),
            TraceEvent::Lost(lost) => {
                self.lost.dropped += lost.dropped;
                self.lost.untimed += lost.untimed;
            }
            TraceEvent::Failure(failure) => self.failures.push(failure),
            TraceEvent::End(end) if end.kernels != self.kernels.len() as u64 => {
                return Err(format!(
                    "the `end` line counts {} kernels, there are {}: lines are missing",
                    end.kernels,
                    self.kernels.len()
                ));
            }
            TraceEvent::End(end) => self.end = Some(end),
        }
        Ok(())
    }
}

fn event(path: &Path, number: usize, line: &str) -> Result<TraceEvent, DataError> {
    serde_json::from_str(line)
        .map_err(|e| DataError::at(path, number, format!("not a line of a trace: {e}")))
}

/// A launch that was traced: its requests and its kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedLaunch {
    /// The launch's requests, which are never timed.
    pub log: LaunchLog,
    /// Path of the trace, relative to the run's directory.
    pub file: PathBuf,
    /// The trace, or why it can't be used.
    pub trace: Result<KernelTrace, DataError>,
}

impl TracedLaunch {
    /// Load the newest traced launch of every target of a run, by target id. A trace that can't be
    /// used is no error of the run: its reason stands in `trace`.
    pub fn load_all(files: &RunFiles) -> Result<Vec<Self>, DataError> {
        let mut newest: Vec<Self> = Vec::new();
        let is_requests = |name: &&str| {
            name.starts_with(TRACES_DIR)
                && name.ends_with(REQUESTS_SUFFIX)
                && name.split('/').count() == 3
        };
        for name in files.names().filter(is_requests) {
            let Some(log) = read_log::<LaunchLog>(files, name)? else {
                continue; // killed before its first line
            };
            let file = trace_path(Path::new(name));
            let launch = Self {
                trace: KernelTrace::of_run(files, &file.to_string_lossy()),
                file,
                log,
            };
            let same = |other: &Self| other.log.launch.target == launch.log.launch.target;
            match newest.iter_mut().find(|other| same(other)) {
                Some(other) if other.log.launch.attempt < launch.log.launch.attempt => {
                    *other = launch;
                }
                Some(_) => {}
                None => newest.push(launch),
            }
        }
        newest.sort_by(|a, b| a.log.launch.target.cmp(&b.log.launch.target));
        Ok(newest)
    }
}

/// The path of the trace that belongs to a file of requests.
pub fn trace_path(requests: &Path) -> PathBuf {
    let name = requests.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(REQUESTS_SUFFIX).unwrap_or(&name);
    requests.with_file_name(format!("{stem}{TRACE_SUFFIX}"))
}

#[cfg(test)]
mod tests;
