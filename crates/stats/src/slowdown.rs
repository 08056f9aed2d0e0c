//! Estimates how much longer launches took where known work beside them was slow
//! ([`crate::canary`]).
//!
//! The harness does known work for two milliseconds before and after a case that may take a minute.
//! A virtual machine changes its state many times in that minute, and two threads that wait for
//! each other every few microseconds may be slowed by what doesn't slow a long read of memory. So
//! where a kind of work was slow beside many launches, the run itself says whether that mattered.
//!
//! Launches of one cell differ only by the state of the machine. Over all cells that have slow
//! launches and others, the logarithm of a launch's median end-to-end latency is fitted by a
//! constant for each cell and a common effect of the launches beside which the work was slow (the
//! within estimator for panel data: J. M. Wooldridge, "Econometric Analysis of Cross Section and
//! Panel Data", section 10.5). What hits a block hits all of its launches, so the error is that of
//! blocks as clusters, with Student's t at one degree of freedom less than there are blocks (the
//! same, section 10.5.4).

use crate::ci::t_quantile;
use crate::describe::{mean, median};
use schema::key::CellKey;
use schema::launch_log::LaunchLog;
use schema::record::{CaseEnd, RequestRecord};
use std::collections::BTreeMap;

/// Minimum number of slow launches from which an effect can be told.
const SLOW_LAUNCHES_MIN: usize = 10;

/// The effect of slow work on the launches beside which it was slow, on average over cells. Each
/// case of a launch counts as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slowdown {
    /// Number of launches beside which the work was slow, of those in `launches`.
    pub(crate) slow: usize,
    /// Number of launches of the cells that have both slow launches and others.
    pub(crate) launches: usize,
    /// How many times as long the requests of the slow launches took, by their median.
    pub(crate) ratio: f64,
    /// 95 % interval of `ratio`.
    pub(crate) ci95: (f64, f64),
}

/// One case of a launch.
pub(crate) struct Launch {
    /// The cell; a twin has its own.
    pub(crate) cell: CellKey,
    block: u32,
    /// Logarithm of the median end-to-end latency.
    log_latency: f64,
}

impl Launch {
    /// Gather a case's timed requests. `None` without one.
    pub(crate) fn new(log: &LaunchLog, end: &CaseEnd) -> Option<Self> {
        let of_case = |r: &&RequestRecord| r.case == end.case && !r.warmup;
        let latency = |r: &RequestRecord| {
            let ns = r.token_ns.last()?.saturating_sub(r.scheduled_ns);
            Some(ns as f64)
        };
        let timed = log.requests.iter().filter(of_case);
        let latencies: Vec<f64> = timed.filter_map(latency).collect();
        Some(Self {
            cell: log.launch.cell_key(&end.case),
            block: log.launch.invocation,
            log_latency: median(&latencies).filter(|ns| *ns > 0.0)?.ln(),
        })
    }
}

/// Return the effect of slow work; each launch is paired with whether the work was slow beside it.
/// `None` where too few were slow to tell, or where all are of one block.
pub(crate) fn slowdown(launches: &[(&Launch, bool)]) -> Option<Slowdown> {
    let mut cells: BTreeMap<&CellKey, Vec<(&Launch, f64)>> = BTreeMap::new();
    for &(launch, is_slow) in launches {
        let slowness = f64::from(u8::from(is_slow));
        cells
            .entry(&launch.cell)
            .or_default()
            .push((launch, slowness));
    }
    // A cell whose launches are all slow, or all not, says nothing.
    cells.retain(|_, of_cell| of_cell.iter().any(|of| of.1 != of_cell[0].1));
    // How far each launch is from the mean of its cell, in slowness and in log latency, and its
    // block.
    let mut beyond: Vec<(f64, f64, u32)> = Vec::new();
    let mut slow = 0;
    for of_cell in cells.values() {
        let values = of_cell.iter().map(|(launch, x)| (*x, launch.log_latency));
        let (slowness, logs): (Vec<f64>, Vec<f64>) = values.unzip();
        let (slowness, log) = (mean(&slowness)?, mean(&logs)?);
        slow += of_cell.iter().filter(|of| of.1 > 0.0).count();
        let each = of_cell.iter();
        beyond.extend(each.map(|(l, x)| (x - slowness, l.log_latency - log, l.block)));
    }
    if slow < SLOW_LAUNCHES_MIN {
        return None;
    }
    let squares: f64 = beyond.iter().map(|(x, ..)| x * x).sum();
    let effect = beyond.iter().map(|(x, y, _)| x * y).sum::<f64>() / squares;
    let mut blocks: BTreeMap<u32, f64> = BTreeMap::new();
    for (x, y, block) in &beyond {
        *blocks.entry(*block).or_default() += x * (y - effect * x);
    }
    let n = blocks.len() as f64;
    let spread: f64 = blocks.values().map(|score| score * score).sum();
    let error = (n / (n - 1.0) * spread).sqrt() / squares;
    let half = t_quantile(0.975, n - 1.0)? * error;
    Some(Slowdown {
        slow,
        launches: beyond.len(),
        ratio: effect.exp(),
        ci95: ((effect - half).exp(), (effect + half).exp()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make `cells` cells of five launches that vary by up to 1 %; those that are slow take `times`
    /// as long. `is_slow` gets a cell and a block.
    fn found(cells: u32, times: f64, is_slow: fn(u32, u32) -> bool) -> Option<Slowdown> {
        let launch = |i: u32| {
            let (cell, block) = (i / 5, i % 5);
            let is_slow = is_slow(cell, block);
            let effect = if is_slow { times.ln() } else { 0.0 };
            let noise = 0.01 * (f64::from(i * 37 % 11) / 5.0 - 1.0);
            let launch = Launch {
                cell: CellKey::new(format!("t{cell}"), "s", "c"),
                block,
                log_latency: 10.0 * f64::from(cell) + noise + effect,
            };
            (launch, is_slow)
        };
        let launches: Vec<(Launch, bool)> = (0..5 * cells).map(launch).collect();
        let launches: Vec<(&Launch, bool)> = launches.iter().map(|(l, slow)| (l, *slow)).collect();
        slowdown(&launches)
    }

    #[test]
    fn the_effect_is_that_within_cells() {
        for times in [0.97, 1.0, 1.2] {
            let found = found(20, times, |cell, block| (cell + block).is_multiple_of(3)).unwrap();
            assert_eq!((found.slow, found.launches), (33, 100));
            let (low, high) = found.ci95;
            assert!((found.ratio / times - 1.0).abs() < 0.005, "{found:?}");
            assert!(low < times && times < high, "{found:?}");
            assert!(high / low < 1.03, "{found:?}");
        }
    }

    #[test]
    fn blocks_that_differ_widen_the_interval() {
        // In two of the blocks slow launches take 10 % longer, in the others they don't.
        let launch = |cell: u32, block: u32, is_slow: bool| Launch {
            cell: CellKey::new(format!("t{cell}"), "s", "c"),
            block,
            log_latency: if is_slow && block < 2 { 0.1 } else { 0.0 },
        };
        let all: Vec<(Launch, bool)> = (0..100)
            .map(|i| (i / 5, i % 5, (i / 5 + i % 5) % 2 == 0))
            .map(|(cell, block, is_slow)| (launch(cell, block, is_slow), is_slow))
            .collect();
        let all: Vec<(&Launch, bool)> = all.iter().map(|(l, slow)| (l, *slow)).collect();
        let found = slowdown(&all).unwrap();
        assert!((found.ratio.ln() - 0.04).abs() < 0.01, "{found:?}");
        assert!(found.ci95.0 < 1.0 && found.ci95.1 > 1.08, "{found:?}");
    }

    #[test]
    fn without_slow_launches_and_others_nothing_is_said() {
        assert_eq!(found(9, 1.0, |_, block| block == 0), None, "too few");
        assert_eq!(found(20, 1.0, |_, _| true), None, "all were slow");
        // Only one cell has both.
        assert_eq!(found(20, 1.0, |cell, block| cell > 0 || block == 0), None);
        assert_eq!(found(0, 1.0, |_, _| true), None);
    }
}
