//! The one clock of a run, `CLOCK_MONOTONIC`. All processes of a host share it, so the harness's
//! send times and an engine's token times can be compared directly.

/// Return the time on `CLOCK_MONOTONIC` in nanoseconds.
///
/// ```
/// use protocol::clock::now_ns;
///
/// let start_ns = now_ns();
/// let took_ns = now_ns() - start_ns; // never negative: the clock doesn't run backwards
/// assert!(took_ns < 60_000_000_000);
/// ```
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec, and CLOCK_MONOTONIC exists
    // on every system we build for, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::now_ns;

    #[test]
    fn never_runs_backwards() {
        let stamps: Vec<u64> = (0..1000).map(|_| now_ns()).collect();
        assert!(stamps.is_sorted());
    }
}
