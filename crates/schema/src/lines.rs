//! JSON Lines files, and what the record files of all launches have in common.

use crate::error::DataError;
use crate::hash::sha256_hex;
use crate::run_files::{MAX_LINE_BYTES, MAX_LINES, RunFiles};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// What the record of a launch says, taken event by event: by who reads a file of them, and by
/// who writes one.
pub trait Log: Sized {
    /// A line of the file.
    type Event: Serialize + DeserializeOwned;

    /// The log that an event begins; `None` of any but `launch`, which is the first line alone.
    fn begin(event: &Self::Event) -> Option<Self>;

    /// Take an event that follows the first.
    ///
    /// # Errors
    /// Why no record says so.
    fn take(&mut self, event: Self::Event) -> Result<(), String>;

    /// Which file it is, relative to the run's directory, and the sha256 of its bytes.
    fn filed(&mut self, file: PathBuf, sha256: String);

    /// Counters that an event stands for.
    fn readings(_event: &Self::Event) -> usize {
        0
    }
}

/// Read a record file; `None` where not even its first line was written whole.
///
/// # Errors
/// A file that can't be read or isn't a record, or whose `launch` event isn't its
/// first line alone.
pub(crate) fn read_log<L: Log>(files: &RunFiles, name: &str) -> Result<Option<L>, DataError> {
    let path = &files.path(name);
    let Some(text) = files.text(name)? else {
        return Err(DataError::new(path, "is gone"));
    };
    let mut events = (1..).zip(parse_lines::<L::Event>(path, &text)?);
    let Some((_, first)) = events.next() else {
        return Ok(None);
    };
    let Some(mut log) = L::begin(&first) else {
        return Err(DataError::at(
            path,
            1,
            "the first line is not a `launch` event",
        ));
    };
    for (line, event) in events {
        files
            .count_readings(L::readings(&event))
            .and_then(|()| log.take(event))
            .map_err(|why| DataError::at(path, line, why))?;
    }
    log.filed(name.into(), sha256_hex(text.as_bytes()));
    Ok(Some(log))
}

/// All whole lines of a JSON Lines file of a run; none where the file isn't there.
pub(crate) fn read_lines<T: DeserializeOwned>(
    files: &RunFiles,
    name: &str,
) -> Result<Vec<T>, DataError> {
    match files.text(name)? {
        Some(text) => parse_lines(&files.path(name), &text),
        None => Ok(Vec::new()),
    }
}

/// A last line without its newline was cut while it was written, and is left out.
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
