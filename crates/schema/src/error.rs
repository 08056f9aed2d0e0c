//! The error type of this crate: which file, where in it, what is wrong and what to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file under `data/` or `engines/` that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError {
    /// Path of the file.
    pub path: PathBuf,
    /// Line number (from 1), where one is known.
    pub line: Option<usize>,
    /// What is wrong and what to do about it; one line.
    pub message: String,
}

impl DataError {
    /// An error about the whole file.
    pub fn new(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    /// An error at a line, counted from 1.
    pub fn at(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: Some(line),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for DataError {}

/// Read and parse one TOML file.
pub fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, DataError> {
    let text = read_text(path)?;
    toml::from_str(&text).map_err(|error| {
        let line = error
            .span()
            .map(|span| 1 + text[..span.start].matches('\n').count());
        DataError {
            path: path.to_owned(),
            line,
            message: error.message().replace('\n', " "),
        }
    })
}

/// Read and parse one JSON file.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, DataError> {
    parse_json(path, &read_text(path)?)
}

/// Parse the text of a JSON file; `path` stands in errors.
pub(crate) fn parse_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    text: &str,
) -> Result<T, DataError> {
    serde_json::from_str(text).map_err(|error| DataError::at(path, error.line(), error.to_string()))
}

pub(crate) fn read_text(path: &Path) -> Result<String, DataError> {
    std::fs::read_to_string(path)
        .map_err(|error| DataError::new(path, format!("can't be read: {error}")))
}

/// Read, parse and check one TOML file; `check` says what is wrong with its content.
pub(crate) fn read_checked<T: serde::de::DeserializeOwned>(
    path: &Path,
    check: impl FnOnce(&T) -> Result<(), String>,
) -> Result<T, DataError> {
    let content = read_toml(path)?;
    check(&content).map_err(|what| DataError::new(path, what))?;
    Ok(content)
}

/// Refuse ids that could not stand in a file name and a URL without change.
pub fn check_id(path: &Path, what: &str, id: &str) -> Result<(), DataError> {
    fits(what, id).map_err(|why| DataError::new(path, why))
}

/// Check as [`check_id`] does; the error is the message alone.
pub(crate) fn fits(what: &str, id: &str) -> Result<(), String> {
    let fits = !id.is_empty()
        && id.len() <= 64
        && !id.starts_with(['.', '-'])
        && id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._+-".contains(&b));
    match fits {
        true => Ok(()),
        false => Err(format!(
            "{what} id {id:?}: use 1–64 of a–z, 0–9, '.', '_', '+', '-', not '.' or '-' first"
        )),
    }
}

/// Check that each id of a list [`fits`], and that none comes twice.
pub(crate) fn all_fit<'a>(
    what: &str,
    ids: impl IntoIterator<Item = &'a String>,
) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for id in ids {
        fits(what, id)?;
        if !seen.insert(id) {
            return Err(format!("{what} {id:?} is listed twice"));
        }
    }
    Ok(())
}

/// Check that an id is the file's stem.
pub(crate) fn is_stem(path: &Path, id: &str) -> Result<(), String> {
    match path.file_stem().and_then(|stem| stem.to_str()) == Some(id) {
        true => Ok(()),
        false => Err(format!("id {id:?} must equal the file's name")),
    }
}
