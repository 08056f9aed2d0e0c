//! Numbers and marks as the dashboard writes them. Pure.

use super::event::Mark;

/// A sign for each mark, so that colour isn't needed.
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

/// A duration (ns) as minutes and seconds, with hours where there are any.
pub fn clock(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    let (hours, minutes, s) = (s / 3600, s / 60 % 60, s % 60);
    match hours {
        0 => format!("{minutes}:{s:02}"),
        _ => format!("{hours}:{minutes:02}:{s:02}"),
    }
}

/// A number with three significant digits, or all of its integer part.
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

/// Bytes in MiB or GiB.
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
    fn durations_and_bytes() {
        assert_eq!(clock(59_999_999_999), "0:59");
        assert_eq!(clock(3_723_000_000_000), "1:02:03");
        assert_eq!(mib(300 << 20), "300 MiB");
        assert_eq!(mib(3 << 29), "1.5 GiB");
    }
}
