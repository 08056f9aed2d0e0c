//! Runs one kernel on several threads at once and times each repetition from the first start to the
//! last end.

use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Number of independent chains of a kernel: a latency of 4 or 5 cycles × 2 units needs 8 or 10; a
/// few more hide the loop, and registers are left.
pub(crate) const CHAINS: usize = 12;
/// Repetitions of a peak's measurement.
const REPETITIONS: usize = 200;
/// Steps of a repetition: 1 to 3 ms of work, so that some repetitions go undisturbed.
pub(crate) const STEPS: usize = 1 << 19;

/// A kernel of multiply-adds in registers: its name, the number of lanes of its vectors, and the
/// function that runs a number of steps of every chain and returns the sum of all lanes.
pub(crate) type Kernel<T> = (&'static str, usize, fn(usize) -> T);

/// Measure a kernel's rate (operations per second). Each thread runs the same chains, and every
/// multiply-add counts as two operations.
pub(crate) fn peak<T>((name, lanes, run): Kernel<T>, threads: usize, steps: usize) -> Measured {
    let seconds = time(threads, REPETITIONS, |_| {
        black_box(run(black_box(steps)));
    });
    let operations = (2 * CHAINS * lanes * steps * threads) as f64;
    Measured::new(operations, &seconds, threads, name)
}

/// Run `work(thread)` on `threads` threads, and return how long each repetition took (s). One more
/// repetition before them doesn't count (page faults, clocks, caches).
pub(crate) fn time(threads: usize, repetitions: usize, work: impl Fn(usize) + Sync) -> Vec<f64> {
    let arrived = AtomicUsize::new(0);
    let spans: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (arrived, work) = (&arrived, &work);
                scope.spawn(move || {
                    pin(thread);
                    let mut spans = Vec::with_capacity(repetitions + 1);
                    for repetition in 1..=repetitions + 1 {
                        meet(arrived, repetition * threads);
                        let start = Instant::now();
                        work(thread);
                        spans.push((start, Instant::now()));
                    }
                    spans
                })
            })
            .collect();
        // A kernel that panics is a bug of ours: pass the panic on.
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    (1..=repetitions)
        .filter_map(|i| {
            let start = spans.iter().map(|thread| thread[i].0).min()?;
            let end = spans.iter().map(|thread| thread[i].1).max()?;
            Some(end.duration_since(start).as_secs_f64())
        })
        .collect()
}

/// Count this thread's arrival, and wait until `all` have arrived. It waits in a busy loop, because
/// a sleeping thread would wake late compared with how short the work is.
fn meet(arrived: &AtomicUsize, all: usize) {
    /// Number of looks after which the thread yields its CPU to another one.
    const LOOKS: u32 = 1 << 14;
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut looks = 0_u32;
    while arrived.load(Ordering::Acquire) < all {
        looks += 1;
        match looks.is_multiple_of(LOOKS) {
            true => std::thread::yield_now(),
            false => std::hint::spin_loop(),
        }
    }
}

/// Pin the calling thread, number `thread` of several, to a CPU of its own: two threads that a
/// scheduler puts on one CPU take turns for as long as a millisecond of work lasts. It has no
/// effect where the system can't pin threads.
pub(crate) fn pin(thread: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the sets are valid for as long as the calls last, and these write no more than their
    // size; CPU numbers come from the set itself, so they lie within it.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) != 0 {
            return;
        }
        let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &allowed))
            .collect();
        let Some(&cpu) = cpus.get(thread % cpus.len().max(1)) else {
            return;
        };
        let mut own: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut own);
        libc::sched_setaffinity(0, size_of_val(&own), &own);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = thread;
}

/// The median: the number in the middle, or the mean of the two in the middle; `None` where there
/// are no numbers.
pub(crate) fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    let low = sorted[(sorted.len() - 1) / 2];
    Some((low + high) / 2.0)
}

/// A measured rate, in units of work per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The rate of the best repetition, which interrupts and neighbours disturbed least.
    pub best: f64,
    /// The median rate, which shows how far the best one is from the usual.
    pub median: f64,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Number of threads that worked at once.
    pub threads: usize,
    /// Name of the kernel: the instructions used.
    pub kernel: String,
}

impl Measured {
    /// Compute the rates from the seconds that each repetition of `work` units took.
    pub(crate) fn new(work: f64, seconds: &[f64], threads: usize, kernel: &str) -> Self {
        let mut rates: Vec<f64> = seconds.iter().map(|s| work / s.max(1e-9)).collect();
        rates.sort_by(f64::total_cmp);
        Self {
            best: rates.last().copied().unwrap_or(f64::NAN),
            median: median(&rates).unwrap_or(f64::NAN),
            repetitions: rates.len(),
            threads,
            kernel: kernel.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_every_repetition_and_the_first_is_not_counted() {
        let calls = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let seconds = time(2, 3, |thread| {
            calls[thread].fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(seconds.len(), 3);
        assert!(calls.iter().all(|n| n.load(Ordering::Relaxed) == 4));
    }
}
