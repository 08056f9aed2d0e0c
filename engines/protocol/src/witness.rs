//! A ring buffer in memory that an engine's process and the harness share. The runtime commits
//! each token to it as soon as the token is known on the host.
//!
//! The engine's time stamps are only its own claim: an engine that stamps a token too early looks
//! faster than it is. The harness reads this memory at moments that the engine can't foresee and
//! notes how many tokens are committed; later it counts how many the stamps claim for that moment.
//! A commit holds the token's id too, so that no token can be committed before it is known.
//!
//! The file consists of 64-bit words in the machine's byte order: the number of commits so far,
//! seven unused words, then [`ENTRIES`] entries of two words each (the request's id; the token's
//! index in the low half and its id in the high half). Commit n is stored in entry n modulo
//! [`ENTRIES`]. `engines/pytorch/witness.py` writes the same format.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::now_ns;

/// The environment variable that gives an engine's process the file's path; unset if there is no
/// audit.
pub const VARIABLE: &str = "BENCH_WITNESS";
/// The id that is committed for a piece of text whose number of tokens isn't known yet.
pub const PIECE: u32 = u32::MAX;
/// Number of entries in the ring: only the last so many commits are kept.
pub const ENTRIES: u64 = 1 << 13;
/// Words before the first entry.
const HEADER: usize = 8;
const WORDS: usize = HEADER + 2 * ENTRIES as usize;
const BYTES: usize = WORDS * size_of::<u64>();

/// One committed token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The request's id.
    pub request: u64,
    /// Index of the token in the request's output, or of the piece of text, from 0.
    pub index: u32,
    /// The token's id, or [`PIECE`].
    pub id: u32,
}

/// The shared memory, mapped into this process.
pub struct Ring {
    words: NonNull<AtomicU64>,
}

// SAFETY: the memory is shared with another process anyway, and read and written as atomics only.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Size the empty `file` and map it as a ring with no commits. Fails if the file system has no
    /// room for it, because a process that touches mapped memory without space behind it is
    /// killed.
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

    /// Map the ring that another process created at `path`.
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

    /// Return the number of tokens committed so far.
    pub fn committed(&self) -> u64 {
        self.words()[0].load(Ordering::Acquire)
    }

    /// Return commit `n` (from 0), which must be one of the last [`ENTRIES`].
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

    /// Store an entry and count it. Only one thread of one process may do so at a time.
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

/// A handle through which the runtime and its threads commit tokens; without a ring it does
/// nothing.
#[derive(Clone, Default)]
pub struct Witness(Option<Arc<Mutex<Ring>>>);

impl Witness {
    /// Open the ring that [`VARIABLE`] names; if it is unset, return a handle without a ring.
    pub fn from_env() -> io::Result<Self> {
        match std::env::var_os(VARIABLE) {
            Some(path) => Self::open(Path::new(&path)),
            None => Ok(Self::default()),
        }
    }

    /// Open the ring that another process, or another part of this one, created at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let ring = Ring::open(path)?;
        Ok(Self(Some(Arc::new(Mutex::new(ring)))))
    }

    /// Commit that token `index` of a request is `id`, now that it is known on the host.
    pub fn commit(&self, request: u64, index: usize, id: u32) {
        if let Some(ring) = &self.0 {
            let index = index as u32;
            let ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            ring.commit(Entry { request, index, id });
        }
    }

    /// Return a handle that stamps and commits the tokens of one request.
    pub fn commits(&self, request: u64) -> Commits {
        let witness = self.clone();
        Commits { request, witness }
    }
}

/// A handle that stamps the tokens of one request and commits them.
#[derive(Clone, Default)]
pub struct Commits {
    request: u64,
    witness: Witness,
}

impl Commits {
    /// Commit that token `index` is `id`; return the time just before (ns).
    pub fn token(&self, index: usize, id: u32) -> u64 {
        let at_ns = now_ns();
        self.witness.commit(self.request, index, id);
        at_ns
    }

    /// Commit that piece `index` of the answer has arrived; return the time just before (ns).
    /// Tokens are stamped with the time of the piece that contained them.
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
