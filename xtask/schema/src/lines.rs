//! JSON Lines files, and what the record files of all launches have in common.

use crate::error::{DataError, read_text};
use crate::run::sha256_hex;
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
        run_dir: &Path,
        path: &Path,
        launch: impl Fn(&E) -> Option<&S>,
    ) -> Result<Option<Self>, DataError> {
        let text = read_text(path)?;
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
            file: path.strip_prefix(run_dir).unwrap_or(path).to_owned(),
            sha256: sha256_hex(text.as_bytes()),
            launch: started,
            events,
        }))
    }
}

/// The `.jsonl` files of a directory, sorted by path.
pub(crate) fn jsonl_files(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries =
        std::fs::read_dir(dir).map_err(|e| DataError::new(dir, format!("can't be listed: {e}")))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
        .collect();
    files.sort();
    Ok(files)
}

/// All whole lines of a JSON Lines file; none where the file isn't there.
pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, DataError> {
    match path.exists() {
        true => parse_lines(path, &read_text(path)?),
        false => Ok(Vec::new()),
    }
}

/// A last line without its newline was cut while it was written, and is left out.
fn parse_lines<T: DeserializeOwned>(path: &Path, text: &str) -> Result<Vec<T>, DataError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(line)
                .map_err(|e| DataError::at(path, index + 1, format!("not a record: {e}")))
        })
        .collect()
}
