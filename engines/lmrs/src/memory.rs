//! Large, zeroed, aligned buffers on huge pages, for repacked weights and the key/value cache.
//!
//! When a decode step is limited by memory bandwidth, a quarter of it can be page-table walks over
//! 4 KiB pages, so a buffer asks for 2 MiB pages. It is deliberately not a general allocator: a
//! buffer has one size, never grows and is freed as a whole.

use std::ops::{Deref, DerefMut};

/// Types for which all-zero bytes are a valid value, and which own nothing.
///
/// # Safety
/// Implement it only for plain numbers.
pub unsafe trait Plain: Copy + Send + Sync {}
// SAFETY: a plain number.
unsafe impl Plain for u8 {}
// SAFETY: a plain number.
unsafe impl Plain for f32 {}

/// A zeroed slice of `T`, aligned to at least 64 bytes.
pub struct Buffer<T: Plain> {
    map: Option<memmap2::MmapMut>,
    start: *mut T,
    len: usize,
}

/// Size of a huge page on x86-64 and AArch64, in bytes.
const HUGE_PAGE: usize = 2 << 20;

impl<T: Plain> Buffer<T> {
    /// Allocate `len` zeros.
    ///
    /// # Errors
    /// Fails if the size overflows or the system has no memory for it.
    pub fn zeroed(len: usize) -> std::io::Result<Self> {
        let overflow = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        if len == 0 {
            return Ok(Self {
                map: None,
                start: std::ptr::dangling_mut(),
                len,
            });
        }
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(overflow)?;
        let mapped = bytes.checked_add(HUGE_PAGE).ok_or_else(overflow)?;
        let mut map = memmap2::MmapMut::map_anon(mapped)?;
        // This is only advice: if the system has no huge pages, small ones are used.
        let _ = map.advise(memmap2::Advice::HugePage);
        let base = map.as_mut_ptr();
        let skip = base.align_offset(HUGE_PAGE);
        // SAFETY: `skip < HUGE_PAGE`, which is the slack mapped beyond `bytes`.
        let start = unsafe { base.add(skip) }.cast();
        Ok(Self {
            map: Some(map),
            start,
            len,
        })
    }

    /// Make every page resident now, so that no request pays for the page faults.
    pub fn touch(&mut self) {
        let bytes = self.len * size_of::<T>();
        let start: *mut u8 = self.start.cast();
        for offset in (0..bytes).step_by(4096) {
            // SAFETY: in bounds; the buffer is zeroed or plain data, and writing
            // back the byte that is there changes nothing. Volatile, or it would
            // be optimised away.
            unsafe {
                start
                    .add(offset)
                    .write_volatile(start.add(offset).read_volatile())
            };
        }
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements of zeroed or written plain data that lie in
        // `map`, which lives as long as `self`; dangling only where `len` is 0.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        debug_assert!(self.len == 0 || self.map.is_some());
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

// SAFETY: the buffer owns its memory, like a Vec of plain numbers.
unsafe impl<T: Plain> Send for Buffer<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Plain> Sync for Buffer<T> {}

/// Tell the system that these pages of a file mapping will not be needed soon. They stay valid: a
/// later read fetches them from the file.
///
/// # Safety
/// `bytes` must lie in a mapping of a file; anonymous memory would lose its data.
pub unsafe fn release_file_pages(bytes: &[u8]) {
    let page = 4096;
    let start = (bytes.as_ptr() as usize).next_multiple_of(page);
    let end = (bytes.as_ptr() as usize + bytes.len()) / page * page;
    if start < end {
        // SAFETY: whole pages inside `bytes`, which the caller promises to be a
        // file mapping: dropping them loses no data.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_aligned_and_writable() {
        let mut buffer = Buffer::<f32>::zeroed(3_000_000).unwrap();
        buffer.touch();
        assert_eq!(buffer.as_ptr() as usize % 64, 0);
        assert!(buffer.iter().all(|value| *value == 0.0));
        buffer[2_999_999] = 1.0;
        assert_eq!(buffer[2_999_999], 1.0);
        assert!(Buffer::<u8>::zeroed(0).unwrap().is_empty());
    }

    #[test]
    fn a_size_beyond_memory_is_an_error() {
        assert!(Buffer::<f32>::zeroed(usize::MAX / 2).is_err());
        assert!(Buffer::<u8>::zeroed(1 << 56).is_err());
    }
}
