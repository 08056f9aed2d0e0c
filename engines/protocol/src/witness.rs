//! Tokens committed as they are produced: memory that an engine's process and the harness share,
//! into which the runtime writes each token as soon as it is known on the host.
//!
//! A stamp is only what the engine says: one that stamps a token too early looks faster than it is.
//! The harness looks at this memory at moments that the engine can't foresee, and sees how many
//! tokens there are; later it counts how many the stamps claim for that moment. The token's id
//! stands there too, so that nothing can be committed before it is known.
//!
//! A file of 64-bit words in the machine's byte order: the number of commits so far, seven unused
//! ones, then [`ENTRIES`] places of two words (the request's id; the token's index in the low half and
//! its id in the high one), of which commit n takes the n-th, round and round. `engines/pytorch/witness.py`
//! writes the same.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::now_ns;

/// The variable that names the file to an engine's process; unset where there is no audit.
pub const VARIABLE: &str = "BENCH_WITNESS";
/// The id of a piece of text for which the number of tokens isn't known yet.
pub const PIECE: u32 = u32::MAX;
/// Commits that are kept.
pub const ENTRIES: u64 = 1 << 13;
/// Words before the first place.
const HEADER: usize = 8;
const WORDS: usize = HEADER + 2 * ENTRIES as usize;
const BYTES: usize = WORDS * size_of::<u64>();

/// A token that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The request's id.
    pub request: u64,
    /// Which token of its output, or which piece of it, from 0.
    pub index: u32,
    /// The token, or [`PIECE`].
    pub id: u32,
}

/// The shared memory.
pub struct Ring {
    words: NonNull<AtomicU64>,
}

// SAFETY: the memory is shared with another process anyway, and read and written as atomics only.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Make `file`, which must be empty, the memory; nothing is committed. Fails where there is no room
    /// for it: a process that touches memory without room behind it is killed.
    pub fn create(file: &File) -> io::Result<Self> {
        file.set_len(BYTES as u64)?;
        #[cfg(target_os = "linux")]
        {
            // SAFETY: an open file; the call touches no memory of ours.
            let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, BYTES as libc::off_t) };
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
        }
        Self::map(file)
    }

    /// The memory that another process created at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != BYTES as u64 {
            let why = format!("it is not of {BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Self::map(&file)
    }

    fn map(file: &File) -> io::Result<Self> {
        // SAFETY: a new mapping of a file that has `BYTES` bytes; it lives until `drop`.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast()) {
            Some(words) if at != libc::MAP_FAILED => Ok(Self { words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `WORDS` words, page-aligned, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), WORDS) }
    }

    /// How many tokens were committed so far.
    pub fn committed(&self) -> u64 {
        self.words()[0].load(Ordering::Acquire)
    }

    /// Commit `n`, from 0: one of the last [`ENTRIES`].
    pub fn entry(&self, n: u64) -> Entry {
        let at = HEADER + 2 * (n % ENTRIES) as usize;
        let word = |at: usize| self.words()[at].load(Ordering::Relaxed);
        let token = word(at + 1);
        Entry {
            request: word(at),
            index: token as u32,
            id: (token >> 32) as u32,
        }
    }

    /// Commit. Only one thread of one process may do so at a time.
    fn commit(&self, entry: Entry) {
        let words = self.words();
        let n = words[0].load(Ordering::Relaxed);
        let at = HEADER + 2 * (n % ENTRIES) as usize;
        words[at].store(entry.request, Ordering::Relaxed);
        let token = u64::from(entry.index) | u64::from(entry.id) << 32;
        words[at + 1].store(token, Ordering::Relaxed);
        words[0].store(n + 1, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made, which nothing refers to any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

/// The way in for a runtime and its threads; without a ring it does nothing.
#[derive(Clone, Default)]
pub struct Witness(Option<Arc<Mutex<Ring>>>);

impl Witness {
    /// What [`VARIABLE`] names, if anything.
    pub fn from_env() -> io::Result<Self> {
        match std::env::var_os(VARIABLE) {
            Some(path) => Self::open(Path::new(&path)),
            None => Ok(Self::default()),
        }
    }

    /// The ring that another process, or another part of this one, created at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let ring = Ring::open(path)?;
        Ok(Self(Some(Arc::new(Mutex::new(ring)))))
    }

    /// Token `index` of a request is `id`, and known on the host.
    pub fn commit(&self, request: u64, index: usize, id: u32) {
        if let Some(ring) = &self.0 {
            let index = index as u32;
            let ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            ring.commit(Entry { request, index, id });
        }
    }

    /// For the tokens of one request.
    pub fn commits(&self, request: u64) -> Commits {
        let witness = self.clone();
        Commits { request, witness }
    }
}

/// Stamps the tokens of a request, and commits them.
#[derive(Clone, Default)]
pub struct Commits {
    request: u64,
    witness: Witness,
}

impl Commits {
    /// The time now (ns), when token `index` is known to be `id`.
    pub fn token(&self, index: usize, id: u32) -> u64 {
        let at_ns = now_ns();
        self.witness.commit(self.request, index, id);
        at_ns
    }

    /// The time now (ns), when piece `index` of the answer is here. Stamps of tokens are those of the
    /// pieces that brought them.
    pub fn piece(&self, index: usize) -> u64 {
        self.token(index, PIECE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_seen_through_another_mapping() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let seen = Ring::create(file.as_file()).unwrap();
        let written = Ring::open(file.path()).unwrap();
        assert_eq!(seen.committed(), 0);
        let witness = Witness(Some(Arc::new(Mutex::new(written))));
        let commits = witness.commits(7);
        let before = now_ns();
        let stamps = [commits.token(0, 40), commits.piece(1)];
        assert!(before <= stamps[0] && stamps[0] <= stamps[1] && stamps[1] <= now_ns());
        assert_eq!(seen.committed(), 2);
        let entry = |index, id| Entry {
            request: 7,
            index,
            id,
        };
        assert_eq!(
            [seen.entry(0), seen.entry(1)],
            [entry(0, 40), entry(1, PIECE)]
        );
        for index in 2..ENTRIES as usize + 1 {
            witness.commit(8, index, 1);
        }
        assert_eq!(seen.entry(ENTRIES).index, ENTRIES as u32, "round and round");
        assert_eq!(seen.entry(1), entry(1, PIECE), "the oldest that is kept");
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Ring::open(file.path()).is_err());
        Witness::default().commit(1, 0, 1); // without an audit it does nothing
    }
}
