//! Reads JSON Lines files, and defines what the record files of all launches have in common.

use crate::error::DataError;
use crate::hash::sha256_hex;
use crate::run_files::{MAX_LINE_BYTES, MAX_LINES, RunFiles};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Whether a count is left out of a line, because it is 0.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The record of a launch, built event by event: while its file is read, or while it is written.
pub trait Log: Sized {
    /// The type of a line of the file.
    type Event: Serialize + DeserializeOwned;

    /// Begin a log with its first event; `None` unless that is `launch`, which is the first line
    /// and no other.
    fn begin(event: &Self::Event) -> Option<Self>;

    /// Take an event that follows the first.
    ///
    /// # Errors
    /// The reason, where a record can't have this event here.
    fn take(&mut self, event: Self::Event) -> Result<(), String>;

    /// Set the file, relative to the run's directory, and the sha256 of its bytes.
    fn set_file(&mut self, file: PathBuf, sha256: String);

    /// Number of readings of counters in an event.
    fn readings(_event: &Self::Event) -> usize {
        0
    }
}

/// Read a record file; `None` where not even its first line was written whole.
///
/// # Errors
/// If the file can't be read or isn't a record, if its first line is no `launch` event, or if
/// another line is one.
pub(crate) fn read_log<L: Log>(files: &RunFiles, name: &str) -> Result<Option<L>, DataError> {
    let path = &files.path(name);
    let Some(text) = files.text(name)? else {
        let message = "was removed while the run was being read";
        return Err(DataError::new(path, message));
    };
    let mut events = (1..).zip(parse_lines::<L::Event>(path, &text)?);
    let Some((_, first)) = events.next() else {
        return Ok(None);
    };
    let Some(mut log) = L::begin(&first) else {
        let message = "the first line is not a `launch` event";
        return Err(DataError::at(path, 1, message));
    };
    for (line, event) in events {
        files
            .count_readings(L::readings(&event))
            .and_then(|()| log.take(event))
            .map_err(|why| DataError::at(path, line, why))?;
    }
    log.set_file(name.into(), sha256_hex(text.as_bytes()));
    Ok(Some(log))
}

/// Read all whole lines of a JSON Lines file of a run; empty where there is no such file.
pub(crate) fn read_lines<T: DeserializeOwned>(
    files: &RunFiles,
    name: &str,
) -> Result<Vec<T>, DataError> {
    match files.text(name)? {
        Some(text) => parse_lines(&files.path(name), &text),
        None => Ok(Vec::new()),
    }
}

/// Parse all whole lines. A last line without its newline was cut short while it was written, and
/// is left out.
fn parse_lines<T: DeserializeOwned>(path: &Path, text: &str) -> Result<Vec<T>, DataError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(index, line): (usize, &str)| {
        let wrong = |what: String| DataError::at(path, index + 1, what);
        if line.len() > MAX_LINE_BYTES {
            let limit = MAX_LINE_BYTES >> 20;
            return Err(wrong(format!(
                "over {limit} MiB: no record has a line as long"
            )));
        }
        if index == MAX_LINES {
            return Err(wrong(format!("no record has over {MAX_LINES} lines")));
        }
        serde_json::from_str(line).map_err(|e| wrong(format!("not a record: {e}")))
    };
    whole.lines().enumerate().map(parse).collect()
}
