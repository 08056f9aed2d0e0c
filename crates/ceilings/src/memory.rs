//! Measures how fast main memory is read: a sum over a buffer far larger than the caches. Memory is
//! only read, since that is what decoding does to weights; a copy or a triad would measure stores
//! too.

use crate::parallel::{self, Measured};
use std::alloc::Layout;
use std::hint::black_box;

/// Number of repetitions: many short ones rather than few long ones, because some of them go
/// undisturbed on a machine with neighbours.
const REPETITIONS: usize = 30;
/// Elements of one cache line of 64 bytes.
const LINE: usize = 8;
/// Number of sequential streams: one doesn't saturate a core's line buffers, four do.
const STREAMS: usize = 4;
/// How far ahead each stream prefetches, in elements (1 KiB).
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 128;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The size of the buffer (bytes): far more than the caches hold, and no more than a quarter of
/// what is free.
pub(crate) fn buffer_bytes(last_level_cache: Option<u64>, available: Option<u64>) -> usize {
    let wanted = last_level_cache.unwrap_or(32 << 20).saturating_mul(8);
    let most = available.map_or(1 << 30, |bytes| bytes / 4).max(64 << 20);
    wanted.clamp(256 << 20, 4 << 30).min(most) as usize
}

/// Measure the rate of reading `bytes` bytes in all, of which each thread reads its own share.
pub(crate) fn measure(bytes: usize, threads: usize) -> Measured {
    let share = (bytes / threads).next_multiple_of(STREAMS * LINE * 8) / 8;
    let buffers: Vec<Buffer> = (0..threads).map(|_| Buffer::new(share)).collect();
    // The first, uncounted repetition touches the pages in the thread that reads them later, so
    // that each lies in the NUMA node of its thread.
    let seconds = parallel::time(threads, REPETITIONS, |thread| {
        black_box(sum(buffers[thread].touched()));
    });
    let read = (share * 8 * threads) as f64;
    let (kernel, _) = kernel();
    Measured::new(read, &seconds, threads, kernel)
}

/// An allocated buffer, in huge pages where the kernel gives them on request.
pub(crate) struct Buffer {
    start: *mut u64,
    len: usize,
    touched: std::sync::Once,
}

// SAFETY: the memory belongs to this value alone; it is written once, inside the
// `Once`, and only read after.
unsafe impl Sync for Buffer {}
// SAFETY: as above; nothing of it belongs to a thread.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty, as `len` is at least one line a stream.
        let start = unsafe { std::alloc::alloc(layout) }.cast::<u64>();
        if start.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the range is this allocation; the call is a hint and may fail.
        unsafe {
            libc::madvise(start.cast(), len * 8, libc::MADV_HUGEPAGE);
        }
        Self {
            start,
            len,
            touched: std::sync::Once::new(),
        }
    }

    fn layout(len: usize) -> Layout {
        let layout = Layout::from_size_align(len * 8, HUGE_PAGE_BYTES);
        layout.expect("a buffer of a few gigabytes at most")
    }

    /// The contents, which the first caller writes. Zeroes would do for a sum, but untouched pages
    /// share one page of zeroes and are never read from memory.
    pub(crate) fn touched(&self) -> &[u64] {
        self.touched.call_once(|| {
            for i in 0..self.len {
                // SAFETY: `i` is inside the allocation, and `Once` keeps others out.
                unsafe { self.start.add(i).write(i as u64) };
            }
        });
        // SAFETY: all `len` elements were written above.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout.
        unsafe { std::alloc::dealloc(self.start.cast(), Self::layout(self.len)) };
    }
}

/// The kernel for this CPU: its name, and the function that sums.
fn kernel() -> (&'static str, fn(&[u64]) -> u64) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected.
            let sum = |data: &[u64]| unsafe { sum_avx512(data) };
            return ("avx512f, 4 streams, prefetch", sum);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just detected.
            let sum = |data: &[u64]| unsafe { sum_avx2(data) };
            return ("avx2, 4 streams, prefetch", sum);
        }
    }
    ("portable, 4 streams", sum_streams)
}

/// The sum of all elements, read in whole cache lines.
pub(crate) fn sum(data: &[u64]) -> u64 {
    let (_, sum) = kernel();
    sum(data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(data: &[u64]) -> u64 {
    sum_streams(data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(data: &[u64]) -> u64 {
    sum_streams(data)
}

/// Sum in several streams. The function is inlined into its callers, each of which compiles it for
/// its own instructions.
#[inline(always)]
fn sum_streams(data: &[u64]) -> u64 {
    let quarter = data.len() / STREAMS;
    let streams: [&[u64]; STREAMS] = std::array::from_fn(|s| &data[s * quarter..][..quarter]);
    let mut sums = [[0_u64; LINE]; STREAMS];
    for i in (0..quarter).step_by(LINE) {
        for (sum, stream) in sums.iter_mut().zip(streams) {
            prefetch(stream, i);
            let line: &[u64; LINE] = stream[i..i + LINE].try_into().expect("whole lines");
            for (sum, value) in sum.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*value);
            }
        }
    }
    sums.as_flattened()
        .iter()
        .fold(0, |all, sum| all.wrapping_add(*sum))
}

#[inline(always)]
fn prefetch(stream: &[u64], i: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let ahead = stream.as_ptr().wrapping_add(i + AHEAD);
        // SAFETY: a prefetch is a hint; it may point anywhere and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (stream, i);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_larger_than_caches_and_smaller_than_memory() {
        assert_eq!(buffer_bytes(Some(32 << 20), Some(24 << 30)), 256 << 20);
        assert_eq!(buffer_bytes(Some(256 << 20), Some(64 << 30)), 2 << 30);
        assert_eq!(buffer_bytes(Some(4 << 30), Some(1 << 40)), 4 << 30);
        assert_eq!(buffer_bytes(None, Some(512 << 20)), 128 << 20);
        assert_eq!(buffer_bytes(None, None), 256 << 20);
    }

    #[test]
    fn every_element_is_read_once() {
        let buffer = Buffer::new(STREAMS * LINE * 100);
        let n = buffer.len as u64;
        assert_eq!(sum(buffer.touched()), n * (n - 1) / 2);
        assert_eq!(sum_streams(buffer.touched()), n * (n - 1) / 2);
    }

    #[test]
    fn a_rate_comes_out() {
        let measured = measure(1 << 20, 2);
        assert_eq!((measured.threads, measured.repetitions), (2, REPETITIONS));
        assert!(measured.best >= measured.median && measured.median > 0.0);
    }
}
