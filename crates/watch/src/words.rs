//! Formats numbers and marks for the dashboard. Pure.

use super::event::Mark;

/// The sign for each mark, so that colour isn't needed.
pub fn mark_sign(mark: Mark) -> char {
    match mark {
        Mark::Waiting => '·',
        Mark::Running => '▶',
        Mark::Done => '✓',
        Mark::Failed => '✗',
        Mark::Refused => '–',
        Mark::Skipped => '»',
    }
}

/// Format a duration (ns) as minutes and seconds, with hours where there are any.
pub fn clock(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    let (hours, minutes, s) = (s / 3600, s / 60 % 60, s % 60);
    match hours {
        0 => format!("{minutes}:{s:02}"),
        _ => format!("{hours}:{minutes:02}:{s:02}"),
    }
}

/// Say in words how long this stage still takes and, where other stages follow, how long all of
/// them take together (ns).
pub fn eta(stage_ns: Option<u64>, later_ns: u64) -> String {
    match (stage_ns, later_ns) {
        (None, _) => "ETA after the first launch".into(),
        (Some(stage_ns), 0) => format!("ETA {}", clock(stage_ns)),
        (Some(stage_ns), later_ns) => {
            let (all, stage) = (clock(stage_ns + later_ns), clock(stage_ns));
            format!("ETA {all}, this stage {stage}")
        }
    }
}

/// Format a number with three significant digits, or all of its integer part.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        () if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        () if size >= 10.0 => format!("{value:.1}"),
        () if size >= 1.0 => format!("{value:.2}"),
        () if size >= 0.001 => {
            let places = 2 - size.log10().floor() as i32;
            format!("{value:.*}", places.unsigned_abs() as usize)
        }
        () => format!("{value:.2e}"),
    }
}

/// Format bytes in MiB or GiB.
pub fn mib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match mib < 1024.0 {
        true => format!("{mib:.0} MiB"),
        false => format!("{:.1} GiB", mib / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (123_456.7, "123457"),
            (99.94, "99.9"),
            (2.346, "2.35"),
            (0.25, "0.250"),
            (0.0123456, "0.0123"),
            (1.5e-7, "1.50e-7"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn the_time_that_is_left_is_said_as_a_clock_has_it() {
        let s = 1_000_000_000;
        assert_eq!(eta(None, s), "ETA after the first launch");
        assert_eq!(eta(Some(90 * s), 0), "ETA 1:30");
        assert_eq!(eta(Some(90 * s), 30 * s), "ETA 2:00, this stage 1:30");
    }

    #[test]
    fn durations_and_bytes() {
        assert_eq!(clock(59_999_999_999), "0:59");
        assert_eq!(clock(3_723_000_000_000), "1:02:03");
        assert_eq!(mib(300 << 20), "300 MiB");
        assert_eq!(mib(3 << 29), "1.5 GiB");
    }
}
