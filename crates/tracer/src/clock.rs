//! Reads `CLOCK_MONOTONIC`, and measures how far another clock is from it. The other clock is a
//! function, so that this is tested without a GPU.

use schema::kernels::ClockSample;

/// Number of readings. Only the narrowest counts: the one during which the thread was not
/// interrupted.
const READINGS: u32 = 32;

/// Read `CLOCK_MONOTONIC` (ns). CUPTI calls this function too, where it accepts a clock of ours.
pub extern "C" fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec, and the clock exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Read `other` between two readings of `ours`, several times, and keep the reading with the
/// smallest error. `None` where `other` can't be read.
pub fn sample(
    mut ours: impl FnMut() -> u64,
    mut other: impl FnMut() -> Option<u64>,
) -> Option<ClockSample> {
    let mut best: Option<ClockSample> = None;
    for _ in 0..READINGS {
        let before_ns = ours();
        let reading_ns = other()?;
        let width_ns = ours().saturating_sub(before_ns);
        let middle_ns = before_ns + width_ns / 2;
        let sample = ClockSample {
            offset_ns: reading_ns.wrapping_sub(middle_ns) as i64,
            error_ns: width_ns.div_ceil(2),
        };
        if best.is_none_or(|best| sample.error_ns < best.error_ns) {
            best = Some(sample);
        }
    }
    best
}

/// Convert a time of the other clock to ours (ns).
pub fn mapped(other_ns: u64, offset_ns: i64) -> u64 {
    other_ns.saturating_add_signed(offset_ns.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_narrowest_reading_counts() {
        let (time, reading) = (Cell::new(1000), Cell::new(0));
        let ours = || time.get();
        let other = || {
            reading.set(reading.get() + 1);
            // The third reading is quick, the others take 100 ns.
            let half = if reading.get() == 3 { 5 } else { 50 };
            time.set(time.get() + half);
            let now = time.get() + 7_000_000;
            time.set(time.get() + half);
            Some(now)
        };
        let found = sample(ours, other).unwrap();
        assert_eq!((found.offset_ns, found.error_ns), (7_000_000, 5));
        assert_eq!(mapped(7_001_234, found.offset_ns), 1234);
    }

    #[test]
    fn a_clock_behind_ours_has_a_negative_offset() {
        let found = sample(|| 5000, || Some(4000)).unwrap();
        assert_eq!((found.offset_ns, found.error_ns), (-1000, 0));
        assert_eq!(mapped(4000, found.offset_ns), 5000);
    }

    #[test]
    fn a_clock_that_cannot_be_read_gives_no_sample() {
        assert_eq!(sample(|| 1, || None), None);
    }
}
