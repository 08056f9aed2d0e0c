//! Runs one kernel on several threads at once and times each repetition from the
//! first start to the last end. What the kernel does is its own business.

use std::sync::Barrier;
use std::time::Instant;

/// Seconds of each repetition of `work(thread)` on `threads` threads, after one
/// repetition that doesn't count (page faults, clocks, caches).
pub(super) fn time(threads: usize, repetitions: usize, work: impl Fn(usize) + Sync) -> Vec<f64> {
    let barrier = Barrier::new(threads);
    let spans: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    let mut spans = Vec::with_capacity(repetitions + 1);
                    for _ in 0..=repetitions {
                        barrier.wait();
                        let start = Instant::now();
                        work(thread);
                        spans.push((start, Instant::now()));
                    }
                    spans
                })
            })
            .collect();
        // A kernel that panics is a bug of ours: let it show.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
