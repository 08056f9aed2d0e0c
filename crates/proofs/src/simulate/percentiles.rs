//! The intervals of percentiles on data of known truth: which are simulated, and what they promise.

use schema::simulation::PercentileRow;
use stats::percentile::printable;
use stats::simulate::Setting;
use stats::simulate_percentile::{PERCENTILES_ICC, simulate_percentile};

/// Shares of slow launches.
const SLOW: [f64; 3] = [0.0, 0.1, 0.25];
/// The percentiles.
const PERCENTILES: [u8; 2] = [50, 90];
/// Smallest coverage of the intervals of medians where no launch is slow. Their error is never
/// taken for smaller than that of independent samples, so they may cover more than 95 %.
const MEDIAN_COVERAGE_MIN: f64 = 0.93;
/// Smallest coverage of the intervals of a tail's percentiles. The widest intervals, which hold the
/// truth most often, are not given, because no sample bounds them: without the widest third, a t
/// interval of five launches covers about 93 %.
const TAIL_COVERAGE_MIN: f64 = 0.90;

/// Simulate the percentiles that a page may print, at every size (invocations, requests per
/// launch).
pub(super) fn simulate<'a>(
    sizes: impl Iterator<Item = &'a (u32, u32)>,
    experiments: u32,
    seed: u64,
) -> Vec<PercentileRow> {
    let mut rows = Vec::new();
    for &(invocations, requests) in sizes {
        let setting = Setting {
            invocations,
            requests,
            icc: PERCENTILES_ICC,
        };
        for (slow, percentile) in SLOW.into_iter().flat_map(|s| PERCENTILES.map(|p| (s, p))) {
            if printable(percentile, u64::from(invocations) * u64::from(requests)) {
                rows.push(PercentileRow {
                    invocations,
                    requests,
                    slow,
                    percentile,
                    found: simulate_percentile(&setting, slow, percentile, experiments, seed),
                });
            }
        }
    }
    rows
}

/// Describe each promise that is broken. Where launches are slow there is none.
pub(super) fn broken(rows: &[PercentileRow]) -> Vec<String> {
    let mut broken = Vec::new();
    for row in rows.iter().filter(|row| row.slow == 0.0) {
        let least = match row.percentile {
            50 => MEDIAN_COVERAGE_MIN,
            _ => TAIL_COVERAGE_MIN,
        };
        let Some(found) = row.found else { continue };
        if found.coverage < least {
            broken.push(format!(
                "{} launches of {} requests: the interval of p{} covers {:.1} %",
                row.invocations,
                row.requests,
                row.percentile,
                100.0 * found.coverage
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::simulation::PercentileOutcome;

    #[test]
    fn sizes_have_the_percentiles_that_a_page_prints() {
        let of = |size: (u32, u32)| -> Vec<u8> {
            let rows = simulate([size].iter(), 2, 1);
            rows.iter().map(|row| row.percentile).collect()
        };
        assert_eq!(of((1, 10)), Vec::<u8>::new());
        assert_eq!(of((3, 10)), [50, 50, 50]);
        assert_eq!(of((5, 20)), [50, 90, 50, 90, 50, 90]);
    }

    #[test]
    fn an_interval_that_covers_too_little_is_named() {
        let row = |slow, percentile, coverage| PercentileRow {
            invocations: 5,
            requests: 20,
            slow,
            percentile,
            found: Some(PercentileOutcome {
                coverage,
                ..PercentileOutcome::default()
            }),
        };
        let rows = [row(0.0, 50, 0.92), row(0.0, 90, 0.92), row(0.25, 90, 0.1)];
        let named = "5 launches of 20 requests: the interval of p50 covers 92.0 %";
        assert_eq!(broken(&rows), [named]);
    }
}
