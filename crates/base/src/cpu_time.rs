//! CPU time of processes and threads, in nanoseconds.

/// CPU time of the calling thread (ns).
pub fn of_thread() -> Option<u64> {
    of_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process (ns).
pub fn of_process() -> Option<u64> {
    of_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Read a CPU-time clock (ns). `None` where its process or thread has ended.
pub fn of_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec; an unknown clock is an error.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    (!failed).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
