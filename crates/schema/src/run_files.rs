//! Gives access to a run's files, whether they lie in a directory or in one packed file. All code
//! that reads a run uses this module.
//!
//! A run may come from anybody, so nothing in it is trusted: only regular files are read, links are
//! not followed, and the limits below bound how much is read. What the files say is checked where
//! they are parsed (see [`crate::run`]).

mod packed;

pub use packed::{SUFFIX, WINDOW_LOG};

use crate::error::{DataError, check_id};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Largest number of files of a run.
pub const MAX_FILES: usize = 20_000;
/// Largest size of a file (bytes).
pub const MAX_FILE_BYTES: u64 = 32 << 20;
/// Largest size of all files of a directory together (bytes).
pub const MAX_RUN_BYTES: u64 = 1 << 30;
/// Largest size of all files in a packed run together (bytes); they are all held in memory.
pub const MAX_PACKED_BYTES: u64 = 128 << 20;
/// Largest length of a line (bytes).
pub const MAX_LINE_BYTES: usize = 4 << 20;
/// Largest number of lines of a file.
pub const MAX_LINES: usize = 1_000_000;
/// Largest number of readings of counters in a run: six hours of them.
pub const MAX_READINGS: usize = 500_000;
/// Largest depth of directories: `sources/<run>/micro/<suite>/<file>`.
const MAX_DEPTH: usize = 5;

/// Name of the file that makes a directory a run.
pub const HEADER: &str = "run.json";

/// The files of one run, by name: a path relative to the run, with `/` between its parts.
#[derive(Debug)]
pub struct RunFiles {
    place: PathBuf,
    id: String,
    source: Source,
    /// Number of readings of counters that have been unpacked.
    readings: Cell<usize>,
}

#[derive(Debug)]
enum Source {
    /// Sizes by name (bytes); contents are read when they are asked for.
    Directory(BTreeMap<String, u64>),
    /// Contents by name.
    Packed(BTreeMap<String, Vec<u8>>),
}

impl RunFiles {
    /// List a run's directory, or unpack a packed run into memory.
    ///
    /// # Errors
    /// If the place isn't a run, holds anything but regular files and directories, or is larger
    /// than a run may be.
    pub fn open(place: &Path) -> Result<Self, DataError> {
        let id = id_of(place)?;
        let source = match place.is_dir() {
            true => Source::Directory(list(place)?),
            false => Source::Packed(packed::read(place, &id)?),
        };
        let files = Self {
            place: place.to_owned(),
            id,
            source,
            readings: Cell::new(0),
        };
        if !files.names().any(|name| name == HEADER) {
            let message = format!("is no run: there is no {HEADER} in it");
            return Err(DataError::new(place, message));
        }
        Ok(files)
    }

    /// Read the name of a run and the text of its `run.json`, without the rest of it.
    ///
    /// # Errors
    /// As for [`RunFiles::open`], as far as they concern this file.
    pub(crate) fn header(place: &Path) -> Result<(String, String), DataError> {
        let id = id_of(place)?;
        let bytes = match place.is_dir() {
            true => read_regular(&place.join(HEADER))?,
            false => packed::read_header(place, &id)?,
        };
        Ok((id, text_of(&place.join(HEADER), bytes.into())?.into_owned()))
    }

    /// The name that the directory or the packed file gives the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the files lie in one packed file, which is never written to.
    pub fn is_packed(&self) -> bool {
        matches!(self.source, Source::Packed(_))
    }

    /// The names of all files, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (listed, packed) = match &self.source {
            Source::Directory(files) => (Some(files.keys()), None),
            Source::Packed(files) => (None, Some(files.keys())),
        };
        let listed = listed.into_iter().flatten();
        listed
            .chain(packed.into_iter().flatten())
            .map(String::as_str)
    }

    /// The names of the files directly in a directory of the run that end in `suffix`, sorted.
    pub fn names_in<'a>(&'a self, dir: &'a str, suffix: &'a str) -> impl Iterator<Item = &'a str> {
        self.names().filter(move |name| {
            let inside = name.strip_prefix(dir).and_then(|n| n.strip_prefix('/'));
            inside.is_some_and(|file| !file.contains('/') && file.ends_with(suffix))
        })
    }

    /// The path of a file for messages.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Count readings of counters before they are unpacked; an error once there are more than a run
    /// may have.
    pub(crate) fn count_readings(&self, more: usize) -> Result<(), String> {
        let count = self.readings.get().saturating_add(more);
        self.readings.set(count);
        match count > MAX_READINGS {
            true => Err(format!("over {MAX_READINGS} readings: no run has as many")),
            false => Ok(()),
        }
    }

    /// A file's bytes; `None` where there is no such file.
    ///
    /// # Errors
    /// If the file can't be read, or is no regular file any more.
    pub fn bytes(&self, name: &str) -> Result<Option<Cow<'_, [u8]>>, DataError> {
        match &self.source {
            Source::Directory(files) if files.contains_key(name) => {
                Ok(Some(read_regular(&self.path(name))?.into()))
            }
            Source::Directory(_) => Ok(None),
            Source::Packed(files) => Ok(files.get(name).map(|bytes| bytes.as_slice().into())),
        }
    }

    /// A file's text; `None` where there is no such file.
    ///
    /// # Errors
    /// As for [`RunFiles::bytes`], and if the file isn't UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<Cow<'_, str>>, DataError> {
        let bytes = self.bytes(name)?;
        bytes
            .map(|bytes| text_of(&self.path(name), bytes))
            .transpose()
    }
}

/// Read a regular file of at most [`MAX_FILE_BYTES`]; a link is not followed.
///
/// # Errors
/// If it is anything else, in one line.
pub fn read_regular(path: &Path) -> Result<Vec<u8>, DataError> {
    let unreadable = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ELOOP) => DataError::new(path, IS_A_LINK),
        _ => DataError::new(path, format!("can't be read: {error}")),
    };
    // Opening a pipe would block until somebody writes into it.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(DataError::new(path, IS_NO_FILE));
    }
    let small = |bytes: u64| match bytes > MAX_FILE_BYTES {
        true => Err(DataError::new(path, too_large(bytes))),
        false => Ok(()),
    };
    small(about.len())?;
    let mut bytes = Vec::with_capacity(about.len() as usize);
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    small(read.map_err(unreadable)? as u64)?;
    Ok(bytes)
}

const IS_A_LINK: &str = "is a link, which is not followed: put the file itself there";
const IS_NO_FILE: &str = "is no regular file: take it away";

fn too_large(bytes: u64) -> String {
    format!(
        "has {bytes} bytes; no file of a run has more than {} MiB, so this is none",
        MAX_FILE_BYTES >> 20
    )
}

fn text_of<'a>(path: &Path, bytes: Cow<'a, [u8]>) -> Result<Cow<'a, str>, DataError> {
    let not_text =
        |error: std::str::Utf8Error| DataError::new(path, format!("is no text: {error}"));
    match bytes {
        Cow::Borrowed(bytes) => Ok(std::str::from_utf8(bytes).map_err(not_text)?.into()),
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(not_text(error.utf8_error())),
        },
    }
}

/// The name of the run at a place: the directory's name, or the packed file's name without its
/// suffix.
fn id_of(place: &Path) -> Result<String, DataError> {
    let whole = match place.file_name() {
        Some(_) => place.to_owned(),
        None => place
            .canonicalize()
            .map_err(|error| DataError::new(place, format!("can't be read: {error}")))?,
    };
    let name = whole.file_name().and_then(|name| name.to_str());
    let id = match place.is_dir() {
        true => name,
        false => name.and_then(|name| name.strip_suffix(SUFFIX)),
    };
    let Some(id) = id else {
        return Err(DataError::new(
            place,
            format!("is no run: a run is a directory with a {HEADER}, or a file <run>{SUFFIX}"),
        ));
    };
    check_id(place, "run", id)?;
    Ok(id.to_owned())
}

/// List all regular files below a directory: name → size (bytes). Names that begin with a dot are
/// no part of a run.
fn list(place: &Path) -> Result<BTreeMap<String, u64>, DataError> {
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    let mut open = vec![(place.to_owned(), String::new(), 1)];
    while let Some((dir, prefix, depth)) = open.pop() {
        let unreadable =
            |error: std::io::Error| DataError::new(&dir, format!("can't be listed: {error}"));
        for entry in std::fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            let wrong = |what: &str| Err(DataError::new(&path, what));
            let Ok(name) = entry.file_name().into_string() else {
                return wrong("its name isn't UTF-8: no file of a run is called so");
            };
            if name.starts_with('.') {
                continue;
            }
            if name.chars().any(char::is_control) {
                return wrong("a control character is in its name: no file of a run is called so");
            }
            let kind = entry.file_type().map_err(unreadable)?;
            let name = format!("{prefix}{name}");
            if kind.is_dir() && depth < MAX_DEPTH {
                open.push((path, name + "/", depth + 1));
                continue;
            }
            if !kind.is_file() {
                return wrong(match (kind.is_dir(), kind.is_symlink()) {
                    (true, _) => "lies deeper than any directory of a run",
                    (_, true) => IS_A_LINK,
                    _ => IS_NO_FILE,
                });
            }
            let size = entry.metadata().map_err(unreadable)?.len();
            if size > MAX_FILE_BYTES {
                return wrong(&too_large(size));
            }
            bytes += size;
            files.insert(name, size);
            within(place, files.len(), bytes, MAX_RUN_BYTES)?;
        }
    }
    Ok(files)
}

/// Refuse a run that has more files or bytes than a run may have.
fn within(place: &Path, files: usize, bytes: u64, limit: u64) -> Result<(), DataError> {
    if files > MAX_FILES {
        let message = format!("holds over {MAX_FILES} files: no run has as many");
        return Err(DataError::new(place, message));
    }
    if bytes > limit {
        let message = format!("holds over {} MiB: no run has as much", limit >> 20);
        return Err(DataError::new(place, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
