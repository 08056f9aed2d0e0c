//! A persistent pool of threads that runs one indexed job at a time.
//!
//! A decode step of a small model has about a hundred parallel phases of a few microseconds to a
//! millisecond, so waking a thread through the kernel for each phase would cost more than the
//! work. Workers therefore spin for a moment between jobs, and park after [`SPIN_NS`]: the harness
//! and its telemetry share the cores, and an idle engine must not occupy them.
//!
//! Items are claimed one by one from a counter, so that a worker which the system has preempted
//! doesn't delay the others. Which worker runs an item never changes a result.
//!
//! It deliberately has no futures, no nesting and no work stealing.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker spins for the next job before it parks.
const SPIN_NS: u64 = 60_000;

/// The function of a job, called with `(worker, item)`, `worker < threads`, `item < items`.
type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Keeps values that different threads write in different cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

/// A job as the workers see it. The lifetime of its task is erased; [`Pool::run`] ensures that it
/// is valid.
#[derive(Clone, Copy)]
struct Job {
    task: *const Task<'static>,
    items: usize,
}

#[derive(Default)]
struct Shared {
    /// Number of jobs so far; waiting workers look for a change.
    epoch: Padded<AtomicU64>,
    /// Whether workers may enter `job`.
    open: Padded<AtomicBool>,
    /// Number of workers that are using `job`.
    active: Padded<AtomicUsize>,
    /// The next unclaimed item.
    next: Padded<AtomicUsize>,
    job: UnsafeCell<Option<Job>>,
    panic: std::sync::Mutex<Option<Box<dyn Any + Send>>>,
    parked: Vec<Padded<AtomicBool>>,
    exit: AtomicBool,
}

// SAFETY: `job` is written by the owner of the pool only while `open` is false
// and `active` is 0, and read by workers only between raising `active`, seeing
// `open`, and lowering `active` again (all sequentially consistent). The task
// behind the pointer is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it is bound to a thread.
unsafe impl Send for Shared {}

/// A pool of the calling thread and `threads − 1` workers.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: Cell<bool>,
    /// Makes the pool `!Sync`, since only one thread may submit jobs.
    _not_sync: PhantomData<*const ()>,
}

// SAFETY: a pool may move between threads; it only must not be shared by them.
unsafe impl Send for Pool {}

impl Pool {
    /// Create a pool that computes on `threads` threads, the caller's included.
    ///
    /// # Errors
    /// Fails if the system can't start a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let count = threads.saturating_sub(1);
        let shared = Arc::new(Shared {
            parked: (0..count).map(|_| Padded::default()).collect(),
            ..Shared::default()
        });
        // Created before the workers, so that dropping it on an error stops them.
        let mut pool = Self {
            shared,
            workers: Vec::with_capacity(count),
            busy: Cell::new(false),
            _not_sync: PhantomData,
        };
        for index in 0..count {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("lmrs-{}", index + 1))
                .spawn(move || worker(&shared, index))?;
            pool.workers.push(thread);
        }
        Ok(pool)
    }

    /// Return the number of threads that compute, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Call `task(worker, item)` once for every `item < items`, on all threads;
    /// return when all are done. No two calls that run at once have the same
    /// `worker`.
    ///
    /// # Panics
    /// If a task panics, or if called from inside a task.
    pub fn run(&self, items: usize, task: impl Fn(usize, usize) + Sync) {
        if self.workers.is_empty() || items <= 1 {
            for item in 0..items {
                task(0, item);
            }
            return;
        }
        assert!(
            !self.busy.replace(true),
            "Pool::run called from inside a task"
        );
        let task: &Task<'_> = &task;
        // SAFETY: only the lifetime changes. `Join` below does not let this
        // function end, not even by a panic, before every worker has left the job.
        let task: *const Task<'static> =
            unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        let shared = &*self.shared;
        // SAFETY: no job is open and no worker is active (see `Join`).
        unsafe { *shared.job.get() = Some(Job { task, items }) };
        shared.next.0.store(0, Relaxed);
        shared.open.0.store(true, SeqCst);
        shared.epoch.0.fetch_add(1, SeqCst);
        for (parked, thread) in shared.parked.iter().zip(&self.workers) {
            if parked.0.load(SeqCst) {
                thread.thread().unpark();
            }
        }
        let join = Join { pool: self };
        // SAFETY: the task outlives `join`.
        claim(shared, unsafe { &*task }, items, 0);
        drop(join);
        let panic = shared
            .panic
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// Closes the job and waits until every worker has left it.
struct Join<'a> {
    pool: &'a Pool,
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        let shared = &*self.pool.shared;
        shared.open.0.store(false, SeqCst);
        let mut turns = 0u32;
        while shared.active.0.load(SeqCst) != 0 {
            turns += 1;
            // If cores are shared, the worker that is waited for may not be running.
            if turns < 1_000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        self.pool.busy.set(false);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.exit.store(true, SeqCst);
        self.shared.epoch.0.fetch_add(1, SeqCst);
        for thread in self.workers.drain(..) {
            thread.thread().unpark();
            // A worker catches its tasks' panics, so no panic is lost here.
            let _ = thread.join();
        }
    }
}

/// Run unclaimed items until there are none left.
fn claim(shared: &Shared, task: &Task<'_>, items: usize, worker: usize) {
    loop {
        let item = shared.next.0.fetch_add(1, Relaxed);
        if item >= items {
            break;
        }
        task(worker, item);
    }
}

fn worker(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        seen = wait(shared, index, seen);
        if shared.exit.load(SeqCst) {
            return;
        }
        shared.active.0.fetch_add(1, SeqCst);
        if shared.open.0.load(SeqCst) {
            // SAFETY: `active` was raised before `open` was seen, so the owner
            // neither rewrites the job nor ends the task's life before it is
            // lowered again.
            let job = unsafe { *shared.job.get() };
            if let Some(job) = job {
                // SAFETY: as above.
                let task = unsafe { &*job.task };
                let run = || claim(shared, task, job.items, index + 1);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                    *shared.panic.lock().unwrap_or_else(|e| e.into_inner()) = Some(panic);
                }
            }
        }
        shared.active.0.fetch_sub(1, SeqCst);
    }
}

/// Wait for an epoch other than `seen`: spin first, then park.
fn wait(shared: &Shared, index: usize, seen: u64) -> u64 {
    let start = Instant::now();
    loop {
        // Reading the clock costs more than reading the epoch, so the clock is read rarely.
        for _ in 0..64 {
            let epoch = shared.epoch.0.load(SeqCst);
            if epoch != seen {
                return epoch;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > Duration::from_nanos(SPIN_NS) {
            break;
        }
    }
    let parked = &shared.parked[index].0;
    loop {
        // Set before the last look at the epoch: the owner publishes the epoch before it reads the
        // flag, so one of the two sees the other's change.
        parked.store(true, SeqCst);
        let epoch = shared.epoch.0.load(SeqCst);
        if epoch != seen {
            parked.store(false, SeqCst);
            return epoch;
        }
        std::thread::park();
    }
}

/// A slice whose disjoint parts several tasks write at once.
pub struct SharedMut<'a, T> {
    start: *mut T,
    len: usize,
    _life: PhantomData<&'a mut [T]>,
}

// SAFETY: it hands out parts only through `part`, whose caller promises that
// they are disjoint.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}
// SAFETY: as for a `&mut [T]`.
unsafe impl<T: Send> Send for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    /// Share `slice` for as long as the value lives.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            _life: PhantomData,
        }
    }

    /// Return the elements `from .. from + len`.
    ///
    /// # Safety
    /// No other live part may overlap this one.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, from: usize, len: usize) -> &mut [T] {
        assert!(
            from <= self.len && len <= self.len - from,
            "part out of bounds"
        );
        // SAFETY: in bounds, and disjoint from every other part by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }

    /// Return a pointer to the first element, for kernels that write scattered rows.
    pub fn as_ptr(&self) -> *mut T {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_runs_once_on_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads).unwrap();
            for items in [0, 1, 2, 7, 100] {
                let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                pool.run(items, |worker, item| {
                    assert!(worker < threads);
                    counts[item].fetch_add(1, SeqCst);
                });
                assert!(counts.iter().all(|count| count.load(SeqCst) == 1));
            }
        }
    }

    #[test]
    fn many_short_jobs_in_a_row_lose_nothing() {
        let pool = Pool::new(4).unwrap();
        let sum = AtomicUsize::new(0);
        for _ in 0..5_000 {
            pool.run(5, |_, item| {
                sum.fetch_add(item, Relaxed);
            });
        }
        assert_eq!(sum.into_inner(), 50_000);
    }

    #[test]
    fn parked_workers_wake_up() {
        let pool = Pool::new(3).unwrap();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
            let sum = AtomicUsize::new(0);
            pool.run(64, |_, item| {
                sum.fetch_add(item, Relaxed);
            });
            assert_eq!(sum.into_inner(), 2016);
        }
    }

    #[test]
    fn a_panicking_task_reaches_the_caller_and_leaves_the_pool_usable() {
        let pool = Pool::new(2).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(10, |_, item| assert!(item != 5, "item five"));
        }));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, |_, item| {
            sum.fetch_add(item, Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
    }
}
