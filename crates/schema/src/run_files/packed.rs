//! A packed run: a tar archive of regular files, `<run>/run.json` first and the others
//! sorted by name, compressed with zstd. `tar --zstd -xf` makes the directory of it again.

use super::{HEADER, MAX_FILE_BYTES, MAX_FILES, MAX_PACKED_BYTES, too_large, within};
use crate::error::DataError;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tar::EntryType;

/// Suffix of the name of a packed run.
pub const SUFFIX: &str = ".tar.zst";

/// Base-2 logarithm of the window that it is compressed with (bytes), and of the largest window
/// that is read: decompression takes as much memory.
pub const WINDOW_LOG: u32 = 25;

/// Largest size of the headers and padding of an archive's files (bytes).
const OVERHEAD: u64 = 2 * 512 * MAX_FILES as u64;

/// Read all files of a packed run, by their names in it.
pub(super) fn read(place: &Path, id: &str) -> Result<BTreeMap<String, Vec<u8>>, DataError> {
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    each(place, id, |name, content| {
        bytes += content.len() as u64;
        if files.insert(name.clone(), content).is_some() {
            return Err(wrong(place, format!("holds {name} twice")));
        }
        within(place, files.len(), bytes, MAX_PACKED_BYTES)?;
        Ok(true)
    })?;
    Ok(files)
}

/// Read `run.json` alone, which is the first file.
pub(super) fn read_header(place: &Path, id: &str) -> Result<Vec<u8>, DataError> {
    let mut header = None;
    each(place, id, |name, content| {
        header = (name == HEADER).then_some(content);
        Ok(false)
    })?;
    header.ok_or_else(|| wrong(place, format!("its first file isn't {HEADER}")))
}

/// Give every file to `take` until it returns `false`.
fn each(
    place: &Path,
    id: &str,
    mut take: impl FnMut(String, Vec<u8>) -> Result<bool, DataError>,
) -> Result<(), DataError> {
    let unreadable =
        |error: std::io::Error| DataError::new(place, format!("can't be read: {error}"));
    let damaged = |error: std::io::Error| wrong(place, format!("is damaged: {error}"));
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(place)
        .map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(wrong(place, "is no regular file".into()));
    }
    let mut decoder =
        zstd::stream::read::Decoder::with_buffer(BufReader::new(file)).map_err(damaged)?;
    decoder.window_log_max(WINDOW_LOG).map_err(damaged)?;
    // An archive that is larger than the limit must be refused for its size, not as cut short.
    let limit = MAX_PACKED_BYTES + MAX_FILE_BYTES + OVERHEAD;
    let mut archive = tar::Archive::new(decoder.take(limit));
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != EntryType::Regular {
            return Err(wrong(place, format!("{name:?} in it is no regular file")));
        }
        let inside = name.strip_prefix(id).and_then(|n| n.strip_prefix('/'));
        let Some(inside) = inside.filter(|inside| is_plain(inside)) else {
            return Err(wrong(place, format!("{name:?} in it lies outside {id}/")));
        };
        let size = entry.size();
        if size > MAX_FILE_BYTES {
            return Err(wrong(place, format!("{name} in it {}", too_large(size))));
        }
        let mut content = Vec::with_capacity(size as usize);
        let read = entry.read_to_end(&mut content).map_err(damaged)?;
        if read as u64 != size {
            return Err(wrong(place, format!("is cut short in {name}")));
        }
        if !take(inside.to_owned(), content)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether all parts of a name could be names of files of a run.
fn is_plain(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.split('/').all(plain)
        && !name
            .chars()
            .any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER)
}

fn wrong(place: &Path, what: String) -> DataError {
    let message =
        format!("{what}: this is no run packed by `cargo xtask publish`, or it is damaged");
    DataError::new(place, message)
}
