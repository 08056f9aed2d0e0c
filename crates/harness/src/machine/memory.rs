//! Main memory: how much, how much of it is free, how it is paged, and how fast it is read.
//!
//! Its speed is that of a sum over a buffer far larger than the
//! caches. Reading only, since that is what decoding does to weights; a copy or a
//! triad would measure stores too.

use super::parallel::Measured;
use super::{parallel, put, read};
use serde::Serialize;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::hint::black_box;

/// Main memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What the kernel manages.
    pub total_bytes: Option<u64>,
    /// What can be had without swapping.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// Memory set aside for explicit huge pages.
    pub huge_pages_bytes: Option<u64>,
    /// When the kernel uses huge pages by itself: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
}

impl Memory {
    /// This machine's.
    pub fn read() -> Self {
        let mut memory = parse_meminfo(&read("/proc/meminfo").unwrap_or_default());
        memory.transparent_huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled")
            .as_deref()
            .and_then(chosen)
            .map(str::to_owned);
        memory
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "memory_bytes", self.total_bytes);
        put(facts, "swap_bytes", self.swap_bytes);
        let thp = self.transparent_huge_pages.as_ref();
        put(facts, "transparent_huge_pages", thp);
    }
}

fn parse_meminfo(text: &str) -> Memory {
    let fields: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let mut words = value.split_whitespace();
            let number: u64 = words.next()?.parse().ok()?;
            let unit = if words.next() == Some("kB") { 1024 } else { 1 };
            Some((key, number.checked_mul(unit)?))
        })
        .collect();
    let get = |key| fields.get(key).copied();
    Memory {
        total_bytes: get("MemTotal"),
        available_bytes: get("MemAvailable"),
        swap_bytes: get("SwapTotal"),
        huge_pages_bytes: get("HugePages_Total")
            .zip(get("Hugepagesize"))
            .and_then(|(pages, size)| pages.checked_mul(size)),
        transparent_huge_pages: None,
    }
}

/// The choice in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// Many short ones rather than few long ones: on a machine with neighbours, some
/// go undisturbed.
const REPETITIONS: usize = 30;
/// Elements of one cache line.
const LINE: usize = 8;
/// A single sequential stream doesn't saturate one core's line buffers; four do.
const STREAMS: usize = 4;
/// How far ahead each stream asks, in elements (1 KiB).
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 128;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Far more than the caches hold, and no more than a quarter of what is free.
pub(super) fn buffer_bytes(last_level_cache: Option<u64>, available: Option<u64>) -> usize {
    let wanted = last_level_cache.unwrap_or(32 << 20).saturating_mul(8);
    let most = available.map_or(1 << 30, |bytes| bytes / 4).max(64 << 20);
    wanted.clamp(256 << 20, 4 << 30).min(most) as usize
}

/// Read `bytes` bytes in all, each thread its own share.
pub(super) fn measure(bytes: usize, threads: usize) -> Measured {
    let share = (bytes / threads).next_multiple_of(STREAMS * LINE * 8) / 8;
    let buffers: Vec<Buffer> = (0..threads).map(|_| Buffer::new(share)).collect();
    // The first, uncounted repetition touches the pages, in the thread that reads
    // them later, so that each lies in its thread's memory node.
    let seconds = parallel::time(threads, REPETITIONS, |thread| {
        black_box(sum(buffers[thread].touched()));
    });
    let read = (share * 8 * threads) as f64;
    Measured::new(read, &seconds, threads, kernel())
}

/// Memory of its own, in huge pages where the kernel gives them on request.
struct Buffer {
    start: *mut u64,
    len: usize,
    touched: std::sync::Once,
}

// SAFETY: the memory belongs to this value alone; it is written once, inside the
// `Once`, and only read after.
unsafe impl Sync for Buffer {}

impl Buffer {
    fn new(len: usize) -> Self {
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

    /// The contents, written by the first caller. Zeroes would do for a sum, but an
    /// untouched page is one shared zero page and is never read from memory.
    fn touched(&self) -> &[u64] {
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

fn kernel() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "avx512f, 4 streams, prefetch";
        }
        if is_x86_feature_detected!("avx2") {
            return "avx2, 4 streams, prefetch";
        }
    }
    "portable, 4 streams"
}

fn sum(data: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected.
            return unsafe { sum_avx512(data) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just detected.
            return unsafe { sum_avx2(data) };
        }
    }
    sum_streams(data)
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

/// Inlined into its callers, each of which compiles it for its instructions.
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
    fn meminfo() {
        let memory = parse_meminfo(
            "MemTotal:       24684084 kB\nMemFree:        24075444 kB\nMemAvailable:   24296608 kB\n\
             SwapTotal:             0 kB\nHugePages_Total:       4\nHugepagesize:       2048 kB\n",
        );
        assert_eq!(memory.total_bytes, Some(24_684_084 * 1024));
        assert_eq!(memory.available_bytes, Some(24_296_608 * 1024));
        assert_eq!(memory.swap_bytes, Some(0));
        assert_eq!(memory.huge_pages_bytes, Some(8 << 20));
        assert_eq!(parse_meminfo("nonsense\nMemTotal: x kB"), Memory::default());
    }

    #[test]
    fn the_choice_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always"), None);
    }

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
