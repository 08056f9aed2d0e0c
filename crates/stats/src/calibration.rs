//! The harness's own error: reported latencies compared with those that an engine of known timing
//! really emitted, and the limits that the error must keep.

use crate::percentile::{percentile_of_sorted, sorted};
use schema::calibration::{Calibration, LatencyError, ScheduleLag};

/// Largest error of a median that is allowed, as a fraction.
pub const P50_ERROR_MAX: f64 = 0.005;
/// Largest error of a 99th percentile that is allowed, as a fraction; if [`P99_ERROR_NS_MAX`] is
/// more, that much is allowed.
pub const P99_ERROR_MAX: f64 = 0.02;
/// Error of a 99th percentile that is always allowed (ns).
pub const P99_ERROR_NS_MAX: f64 = 50_000.0;
/// Limit on the 99th percentile of the schedule lag (ns).
pub const LAG_NS_P99_MAX: f64 = 1_000_000.0;

/// Compute the error of latencies from pairs (reported, emitted) in ns; `None` without pairs, where
/// a value is not finite, or where the emitted median is 0.
pub fn latency_error(pairs: &[(f64, f64)]) -> Option<LatencyError> {
    let reported = sorted(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>())?;
    let emitted = sorted(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>())?;
    let errors: Vec<f64> = pairs.iter().map(|(r, e)| (r - e).abs()).collect();
    let errors = sorted(&errors)?;
    let of = |ascending: &[f64], p| percentile_of_sorted(ascending, p);
    let (p50, p99) = (of(&emitted, 50.0)?, of(&emitted, 99.0)?);
    (p50 > 0.0).then_some(LatencyError {
        emitted_ns_p50: p50,
        p50_error: (of(&reported, 50.0)? - p50).abs() / p50,
        emitted_ns_p99: p99,
        p99_error_ns: (of(&reported, 99.0)? - p99).abs(),
        sample_error_ns_p99: of(&errors, 99.0)?,
    })
}

/// Describe the lags (ns) of requests that were sent in an open loop at a rate; `None` without any.
pub fn schedule_lag(rate_per_s: f64, lags_ns: &[f64]) -> Option<ScheduleLag> {
    let ascending = sorted(lags_ns)?;
    Some(ScheduleLag {
        rate_per_s,
        requests: ascending.len() as u64,
        lag_ns_p50: percentile_of_sorted(&ascending, 50.0)?,
        lag_ns_p99: percentile_of_sorted(&ascending, 99.0)?,
        lag_ns_max: *ascending.last()?,
    })
}

/// Return a message for each limit that a calibration does not keep.
pub fn failures(calibration: &Calibration) -> Vec<String> {
    let mut failures = Vec::new();
    for level in &calibration.levels {
        for (what, error) in [("TTFT", &level.ttft), ("ITL", &level.itl)] {
            let place = format!("{what} at {} in flight", level.concurrency);
            if error.p50_error > P50_ERROR_MAX {
                failures.push(format!(
                    "{place}: the median is off by {:.2} %, over {:.1} %",
                    100.0 * error.p50_error,
                    100.0 * P50_ERROR_MAX
                ));
            }
            let limit_ns = P99_ERROR_NS_MAX.max(P99_ERROR_MAX * error.emitted_ns_p99);
            for (of, error_ns) in [
                ("p99 is off by", error.p99_error_ns),
                ("p99 of the samples' errors is", error.sample_error_ns_p99),
            ] {
                if error_ns > limit_ns {
                    failures.push(format!(
                        "{place}: the {of} {:.0} µs, over {:.0} µs",
                        error_ns / 1e3,
                        limit_ns / 1e3
                    ));
                }
            }
        }
    }
    let lag_ns = calibration.schedule.lag_ns_p99;
    if lag_ns >= LAG_NS_P99_MAX {
        failures.push(format!(
            "the schedule lag at {:.0} requests/s has p99 {:.2} ms, not under {:.0} ms",
            calibration.schedule.rate_per_s,
            lag_ns / 1e6,
            LAG_NS_P99_MAX / 1e6
        ));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::calibration::Level;

    /// Compute the error of a thousand pairs at 1 ms … 2 ms, each reported `off_ns` late.
    fn error(off_ns: impl Fn(usize) -> f64) -> LatencyError {
        let pairs: Vec<(f64, f64)> = (0..1000)
            .map(|i| {
                let emitted = 1e6 + 1e3 * i as f64;
                (emitted + off_ns(i), emitted)
            })
            .collect();
        latency_error(&pairs).unwrap()
    }

    fn calibration(ttft: LatencyError, lag_ns: f64) -> Calibration {
        Calibration {
            instrument: "x".into(),
            levels: vec![Level {
                concurrency: 10,
                itl: error(|_| 0.0),
                ttft,
                ..Level::default()
            }],
            schedule: schedule_lag(1000.0, &[lag_ns; 100]).unwrap(),
            failures: vec![],
        }
    }

    #[test]
    fn errors_by_hand() {
        let late = error(|_| 3000.0);
        // The median of 1.000 … 1.999 ms is 1.4995 ms; type 7's p99 is 1.98901 ms.
        assert_eq!(late.emitted_ns_p50, 1_499_500.0);
        assert!((late.emitted_ns_p99 - 1_989_010.0).abs() < 1e-6);
        assert!((late.p50_error - 3000.0 / 1_499_500.0).abs() < 1e-12);
        assert!((late.p99_error_ns - 3000.0).abs() < 1e-6);
        assert_eq!(late.sample_error_ns_p99, 3000.0);
        assert_eq!(latency_error(&[]), None);
        assert_eq!(latency_error(&[(1.0, f64::NAN)]), None);
    }

    #[test]
    fn limits_are_told_apart() {
        let fails = |ttft, lag_ns| failures(&calibration(ttft, lag_ns));
        assert!(fails(error(|_| 7000.0), 999_999.0).is_empty());
        assert!(fails(error(|_| 8000.0), 0.0)[0].contains("the median is off by 0.53 %"));
        // Errors of either sign leave the percentiles alone, but not the samples.
        let both_ways = error(|i| if i % 2 == 0 { 6e4 } else { -6e4 });
        let said = fails(both_ways, 0.0);
        assert!(
            said.iter().any(|line| line.contains("samples' errors")),
            "{said:?}"
        );
        assert!(fails(error(|_| 0.0), 1e6)[0].contains("schedule lag"));
    }
}
