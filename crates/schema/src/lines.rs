//! JSON Lines files, and what the record files of all launches have in common.

use crate::error::DataError;
use crate::hash::sha256_hex;
use crate::run_files::{MAX_LINE_BYTES, MAX_LINES, RunFiles};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A launch's record file: its head, and the events that follow.
pub(crate) struct RecordFile<S, E> {
    /// The file, relative to the run's directory.
    pub(crate) file: PathBuf,
    /// sha256 of its bytes.
    pub(crate) sha256: String,
    /// What was launched: the first line.
    pub(crate) launch: S,
    /// The others, each with its line number.
    pub(crate) events: Vec<(usize, E)>,
}

impl<S: Clone, E: DeserializeOwned> RecordFile<S, E> {
    /// Read one; `None` where not even its first line was written whole. `launch` looks
    /// into a `launch` event, and there alone.
    ///
    /// # Errors
    /// A file that can't be read or isn't a record, or whose `launch` event isn't its
    /// first line alone.
    pub(crate) fn read(
        files: &RunFiles,
        name: &str,
        launch: impl Fn(&E) -> Option<&S>,
    ) -> Result<Option<Self>, DataError> {
        let path = &files.path(name);
        let Some(text) = files.text(name)? else {
            return Err(DataError::new(path, "is gone"));
        };
        let mut events: Vec<(usize, E)> = (1..).zip(parse_lines(path, &text)?).collect();
        let Some((_, first)) = events.first() else {
            return Ok(None);
        };
        let Some(started) = launch(first).cloned() else {
            return Err(DataError::at(
                path,
                1,
                "the first line is not a `launch` event",
            ));
        };
        events.remove(0);
        if let Some((line, _)) = events.iter().find(|(_, event)| launch(event).is_some()) {
            return Err(DataError::at(path, *line, "a second `launch` event"));
        }
        Ok(Some(Self {
            file: name.into(),
            sha256: sha256_hex(text.as_bytes()),
            launch: started,
            events,
        }))
    }
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
