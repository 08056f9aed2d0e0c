//! Known work of one to two milliseconds, done beside what is measured while the engine is stopped:
//! the time it takes tells how fast the machine is at that moment.
//!
//! In a virtual machine the clock frequency can't be read, and `steal` stays zero where a neighbour
//! shares a core, a cache or the memory. Such a neighbour slows down one of four kinds of work:
//! products on one core, products on all cores at once (two of them may be two threads of one),
//! moving a cache line to and fro between two cores, and reading memory that no cache holds.

use crate::memory::{self, Buffer};
use crate::{int8, parallel};
use schema::record::CanaryReading;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Repetitions of each kind of work, after one that doesn't count. The median is kept, so that a
/// single interrupt has no effect.
const REPETITIONS: usize = 3;
/// Steps of products in a repetition, about 50 µs.
const STEPS: usize = 1 << 14;
/// Memory read in a repetition (bytes), about 60 µs.
const READ_BYTES: usize = 1 << 20;
/// Size of a page of memory (bytes).
const PAGE_BYTES: usize = 4096;
/// Size of the buffer that is read (bytes): more than the caches of a desktop hold.
const BUFFER_BYTES: usize = 128 << 20;
/// How often a cache line goes to and fro in a repetition.
const BOUNCES: u32 = 200;
/// Longest time for all repetitions of moving the cache line. Two threads take longer only where
/// one of them isn't running.
const BOUNCES_MAX: Duration = Duration::from_millis(2);
/// How often a thread reads the cache line between two reads of the clock.
const LOOKS: u32 = 1 << 10;
/// Least time between two looks. Machines change more slowly than turns follow each other, and at
/// this interval looks take only a hundredth of the time.
const DUE: Duration = Duration::from_millis(200);

/// The known work with its buffer, and when it was last done.
pub struct Canary {
    threads: usize,
    memory: Buffer,
    /// Number of repetitions begun, by which the next one chooses its part of `READ_BYTES`.
    at: AtomicUsize,
    /// When the work was last done.
    done: Mutex<Option<Instant>>,
}

impl Canary {
    /// Create a canary for engines of this many threads. Its buffer takes 128 MB, or a sixteenth of
    /// the memory that is `available` (bytes) where that is less.
    pub fn new(threads: u32, available: Option<u64>) -> Self {
        let bytes = available.map_or(BUFFER_BYTES, |bytes| (bytes / 16) as usize);
        let parts = (bytes.min(BUFFER_BYTES) / READ_BYTES).max(1);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: (threads.max(1) as usize).min(cpus),
            memory: Buffer::new(parts * READ_BYTES / size_of::<u64>()),
            at: AtomicUsize::new(0),
            done: Mutex::new(None),
        }
    }

    /// Whether the last look is so long ago that the machine may have changed since.
    pub fn is_due(&self) -> bool {
        self.done().is_none_or(|done| done.elapsed() >= DUE)
    }

    /// Do each kind of work, and return how long a repetition of it takes.
    pub fn look(&self) -> CanaryReading {
        let products = |threads| {
            nanoseconds(&parallel::time(threads, REPETITIONS, |_| {
                int8::work(STEPS);
            }))
        };
        let several = self.threads > 1;
        let reading = CanaryReading {
            one_core_ns: products(1),
            all_cores_ns: several.then(|| products(self.threads)).flatten(),
            cache_line_ns: several.then(bounce).flatten(),
            memory_ns: self.read_memory(),
        };
        *self.done() = Some(Instant::now());
        reading
    }

    fn done(&self) -> MutexGuard<'_, Option<Instant>> {
        // An `Instant` is never half written.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read the next parts of the buffer. Each of their pages is touched beforehand: a hypervisor
    /// may have taken away pages that nobody used for minutes, and getting them back took 40 times
    /// as long as reading them.
    fn read_memory(&self) -> Option<u32> {
        let at = self.at.load(Ordering::Relaxed);
        for number in at..=at + REPETITIONS {
            let words = self.part(number).iter();
            for word in words.step_by(PAGE_BYTES / size_of::<u64>()) {
                black_box(*word);
            }
        }
        nanoseconds(&parallel::time(1, REPETITIONS, |_| self.read()))
    }

    fn read(&self) {
        let number = self.at.fetch_add(1, Ordering::Relaxed);
        black_box(memory::sum(self.part(number)));
    }

    /// The part of the buffer that repetition `number` reads.
    fn part(&self, number: usize) -> &[u64] {
        let len = READ_BYTES / size_of::<u64>();
        let all = self.memory.touched();
        &all[number % (all.len() / len) * len..][..len]
    }
}

/// The median of durations in seconds, in nanoseconds.
fn nanoseconds(seconds: &[f64]) -> Option<u32> {
    parallel::median(seconds).map(|seconds| (seconds * 1e9) as u32)
}

/// Measure how long one way of a cache line takes between two threads that write it in turns (ns).
/// `None` where they don't run at the same time.
fn bounce() -> Option<u32> {
    let line = AtomicU32::new(0);
    let began = Instant::now();
    // One thread increments the even numbers, the other the odd ones.
    let raise = |number: u32| {
        let mut looks = 0_u32;
        while line.load(Ordering::Acquire) != number {
            looks += 1;
            if looks.is_multiple_of(LOOKS) && began.elapsed() > BOUNCES_MAX {
                return None;
            }
            std::hint::spin_loop();
        }
        line.store(number + 1, Ordering::Release);
        Some(())
    };
    let numbers = |repetition: u32| {
        let first = repetition * 2 * BOUNCES;
        first..first + 2 * BOUNCES
    };
    let last = numbers(REPETITIONS as u32).end;
    let other_side = || {
        parallel::pin(1);
        (1..last).step_by(2).try_for_each(raise)
    };
    let this_side = || {
        parallel::pin(0);
        let repetition = |repetition| {
            let start = Instant::now();
            numbers(repetition).step_by(2).try_for_each(raise)?;
            Some(start.elapsed().as_secs_f64() / f64::from(2 * BOUNCES))
        };
        let seconds: Option<Vec<f64>> = (0..=REPETITIONS as u32).map(repetition).collect();
        nanoseconds(&seconds?[1..]) // the first waited until the other side was there
    };
    // Both run in new threads, because each is pinned to one CPU.
    std::thread::scope(|scope| {
        let (other, this) = (scope.spawn(other_side), scope.spawn(this_side));
        other.join().ok().flatten()?;
        this.join().ok().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_takes_its_time() {
        let reading = Canary::new(2, None).look();
        let took = |ns: Option<u32>| ns.is_some_and(|ns| ns > 0);
        assert!(
            took(reading.one_core_ns) && took(reading.memory_ns),
            "{reading:?}"
        );
        let alone = Canary::new(1, None).look();
        assert_eq!((alone.all_cores_ns, alone.cache_line_ns), (None, None));
    }

    #[test]
    fn memory_is_read_part_after_part_and_round() {
        let canary = Canary::new(1, None);
        let parts = canary.memory.touched().len() / (READ_BYTES / size_of::<u64>());
        let start = |number: usize| canary.part(number).as_ptr();
        assert_ne!(start(0), start(1));
        assert_eq!(start(0), start(parts));
        canary.read_memory();
        // As many as were touched.
        assert_eq!(canary.at.load(Ordering::Relaxed), REPETITIONS + 1);
    }

    #[test]
    fn the_middle_of_three_is_kept() {
        assert_eq!(nanoseconds(&[3e-6, 1e-3, 2e-6]), Some(3000));
        assert_eq!(nanoseconds(&[]), None);
    }
}
