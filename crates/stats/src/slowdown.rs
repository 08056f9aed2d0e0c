//! By how much longer launches took beside which known work was slow ([`crate::canary`]).
//!
//! The harness looks for two milliseconds before and after a case that may take a minute. A virtual
//! machine changes its state many times in that minute, and two threads that wait for each other
//! every few microseconds feel what a long read of memory doesn't. So where a kind of work was slow
//! beside many launches, the run itself says whether that mattered.
//!
//! The launches of a cell differ in nothing but the machine. Over all cells, the logarithm of a
//! launch's median end-to-end latency is fitted by a constant for each cell and a common effect of
//! the launches beside which the work was slow (the within estimator for panel data: J. M.
//! Wooldridge, "Econometric Analysis of Cross Section and Panel Data", section 10.5). The interval
//! takes launches as independent.

use crate::ci::t_quantile;
use crate::describe::{mean, median};
use schema::key::CellKey;
use schema::launch_log::LaunchLog;
use schema::record::CaseEnd;
use std::collections::BTreeMap;

/// Minimum number of slow launches from which an effect can be told.
const SLOW_LAUNCHES_MIN: usize = 10;

/// The effect of slow work on the launches beside which it was slow. Launches are counted for each
/// of their cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// Number of launches beside which the work was slow.
    pub slow: usize,
    /// Number of launches beside which it was done.
    pub looked: usize,
    /// How many times as long the requests of the slow launches took.
    pub ratio: f64,
    /// 95 % interval of `ratio`.
    pub ci95: (f64, f64),
}

/// One case of a launch.
pub(crate) struct Launch {
    cell: CellKey,
    /// Logarithm of the median end-to-end latency.
    log: f64,
    is_slow: bool,
}

impl Launch {
    /// Gather a case's timed requests. `None` without one.
    pub(crate) fn new(log: &LaunchLog, end: &CaseEnd, is_slow: bool) -> Option<Self> {
        let timed = log
            .requests
            .iter()
            .filter(|r| r.case == end.case && !r.warmup);
        let latencies: Vec<f64> = timed
            .filter_map(|r| Some(r.token_ns.last()?.saturating_sub(r.scheduled_ns) as f64))
            .collect();
        Some(Self {
            cell: log.launch.cell_key(&end.case),
            log: median(&latencies).filter(|ns| *ns > 0.0)?.ln(),
            is_slow,
        })
    }
}

/// Return the effect of slow work. `None` where too few launches were slow to tell, or where no cell
/// has slow launches and others.
pub(crate) fn slowdown(launches: &[Launch]) -> Option<Slowdown> {
    let mut cells: BTreeMap<&CellKey, Vec<&Launch>> = BTreeMap::new();
    for launch in launches {
        cells.entry(&launch.cell).or_default().push(launch);
    }
    // What each launch has beyond the mean of its cell: slowness, and time.
    let mut beyond: Vec<(f64, f64)> = Vec::new();
    for of_cell in cells.values() {
        let slowness = |launch: &&Launch| f64::from(u8::from(launch.is_slow));
        let slow = mean(&of_cell.iter().map(slowness).collect::<Vec<_>>())?;
        let log = mean(&of_cell.iter().map(|l| l.log).collect::<Vec<_>>())?;
        beyond.extend(of_cell.iter().map(|l| (slowness(l) - slow, l.log - log)));
    }
    let slow = launches.iter().filter(|launch| launch.is_slow).count();
    let squares: f64 = beyond.iter().map(|(x, _)| x * x).sum();
    let degrees = launches.len() as f64 - cells.len() as f64 - 1.0;
    if slow < SLOW_LAUNCHES_MIN || squares == 0.0 {
        return None;
    }
    let effect = beyond.iter().map(|(x, y)| x * y).sum::<f64>() / squares;
    let unexplained: f64 = beyond.iter().map(|(x, y)| (y - effect * x).powi(2)).sum();
    let error = (unexplained / degrees / squares).sqrt();
    let half = t_quantile(0.975, degrees)? * error;
    Some(Slowdown {
        slow,
        looked: launches.len(),
        ratio: effect.exp(),
        ci95: ((effect - half).exp(), (effect + half).exp()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make 20 cells of five launches that vary by up to 1 %. Beside the first launches of each
    /// cell, `slow` in all, the work was slow, and they take `times` as long.
    fn launches(slow: usize, times: f64) -> Vec<Launch> {
        (0..100)
            .map(|i| {
                let (cell, launch) = (i % 20, i / 20);
                let noise = 0.01 * ((i * 37 % 11) as f64 / 5.0 - 1.0);
                let effect = if i < slow { times.ln() } else { 0.0 };
                Launch {
                    cell: CellKey::new(format!("t{cell}"), "s", "c"),
                    log: 10.0 * cell as f64 + noise * f64::from(launch as u32 % 3) + effect,
                    is_slow: i < slow,
                }
            })
            .collect()
    }

    #[test]
    fn the_effect_is_that_within_cells() {
        for times in [0.97, 1.0, 1.2] {
            let found = slowdown(&launches(30, times)).unwrap();
            assert_eq!((found.slow, found.looked), (30, 100));
            let (low, high) = found.ci95;
            assert!((found.ratio / times - 1.0).abs() < 0.005, "{found:?}");
            assert!(low < times && times < high, "{found:?}");
            assert!(high / low < 1.03, "{found:?}");
        }
    }

    #[test]
    fn without_slow_launches_and_others_nothing_is_said() {
        assert_eq!(slowdown(&launches(9, 1.0)), None, "too few");
        assert_eq!(slowdown(&launches(100, 1.0)), None, "all were slow");
        assert_eq!(slowdown(&[]), None);
    }
}
