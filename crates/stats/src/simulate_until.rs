//! Simulation of `--until`: runs of known truth that go on block by block until every interval is
//! narrow enough.
//!
//! These runs are simpler than real ones in two ways: no A/A pairs enlarge their errors, and each
//! cell is compared with another of its own, where those of a run share the baseline.

use crate::ci::{Interval, mean_interval};
use crate::compare::verdict;
use crate::random::Random;
use crate::ratio::paired_ratio;
use crate::simulate::{Shape, drifted};
use schema::simulation::UntilOutcome;

/// Fraction by which blocks differ, for all cells alike.
const DRIFT: f64 = 0.2;

/// A simulated run that adds blocks until its intervals are narrow enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UntilSetting {
    /// Number of cells that must all be narrow enough.
    pub cells: u32,
    /// Whether each cell is compared with another that ran in the same blocks, which differ by up
    /// to 20 %; then the interval is of the ratio, else of the mean.
    pub compared: bool,
    /// Number of blocks before the first look.
    pub invocations: u32,
    /// Maximum number of blocks.
    pub blocks_max: u32,
    /// Half the width that is narrow enough, in percent of the value.
    pub percent: f64,
    /// Standard deviation of the logarithm of a launch's statistic.
    pub spread: f64,
}

/// Launches of a cell, by block, and of the cell that it is compared with.
#[derive(Clone, Default)]
struct Launches {
    of: Vec<f64>,
    against: Vec<f64>,
}

/// Simulate `experiments` of such runs; launches are log-normal. `None` where the first blocks give
/// no interval.
pub fn simulate_until(run: &UntilSetting, experiments: u32, seed: u64) -> Option<UntilOutcome> {
    let mut random = Random::new(seed ^ key(run));
    let truth = match run.compared {
        true => 1.0,
        false => Shape::Spread(run.spread).truth(),
    };
    let holds = |interval: &Interval| interval.low <= truth && truth <= interval.high;
    let mut stopped = UntilOutcome {
        blocks: 0.0,
        gave_up: 0.0,
        coverage: 0.0,
        coverage_widest: 0.0,
        power: run.compared.then_some(0.0),
    };
    let one = 1.0 / f64::from(experiments);
    let each = one / f64::from(run.cells);
    for _ in 0..experiments {
        let (cells, intervals) = go_on(run, &mut random)?;
        let wider = |a: &&Interval, b: &&Interval| {
            a.half_width_percent().total_cmp(&b.half_width_percent())
        };
        let widest = intervals.iter().max_by(wider)?;
        stopped.blocks += one * cells.first()?.of.len() as f64;
        stopped.gave_up += one * f64::from(widest.half_width_percent() > run.percent);
        stopped.coverage_widest += one * f64::from(holds(widest));
        for (interval, cell) in intervals.iter().zip(&cells) {
            stopped.coverage += each * f64::from(holds(interval));
            if let Some(power) = &mut stopped.power {
                let apart = 1.0 + 2.0 * run.percent / 100.0;
                let slower: Vec<f64> = cell.of.iter().map(|x| x * apart).collect();
                // The rule of `calibrate --verdicts`: half of what the half-width leaves of the
                // difference.
                let matters = 1.0 + run.percent / 200.0;
                let found = paired_ratio(&slower, &cell.against)?;
                let is_found = verdict(found.p, found.ci95, matters).is_difference();
                *power += each * f64::from(is_found);
            }
        }
    }
    (experiments > 0).then_some(stopped)
}

/// Simulate one run to its end; return its cells, and their intervals.
fn go_on(run: &UntilSetting, random: &mut Random) -> Option<(Vec<Launches>, Vec<Interval>)> {
    let mut cells = vec![Launches::default(); run.cells as usize];
    for blocks in 1_u32.. {
        let block = match run.compared {
            true => drifted(DRIFT, random),
            false => 1.0,
        };
        let mut launch = || block * (run.spread * random.normal()).exp();
        for cell in &mut cells {
            cell.of.push(launch());
            if run.compared {
                cell.against.push(launch());
            }
        }
        if blocks < run.invocations {
            continue;
        }
        let intervals: Option<Vec<Interval>> = cells.iter().map(|c| interval(run, c)).collect();
        let intervals = intervals?;
        let is_narrow = |interval: &Interval| interval.half_width_percent() <= run.percent;
        if intervals.iter().all(is_narrow) || blocks >= run.blocks_max {
            return Some((cells, intervals));
        }
    }
    None
}

fn interval(run: &UntilSetting, cell: &Launches) -> Option<Interval> {
    match run.compared {
        true => paired_ratio(&cell.of, &cell.against)?.interval(),
        false => mean_interval(&cell.of),
    }
}

fn key(run: &UntilSetting) -> u64 {
    (run.percent * 1e3) as u64
        ^ ((run.spread * 1e4) as u64) << 20
        ^ u64::from(run.invocations) << 40
        ^ u64::from(run.cells) << 48
        ^ u64::from(run.compared) << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(compared: bool, percent: f64) -> UntilOutcome {
        let run = UntilSetting {
            cells: 3,
            compared,
            invocations: 5,
            blocks_max: 100,
            percent,
            spread: 0.02,
        };
        simulate_until(&run, 200, 1).expect("five blocks give intervals")
    }

    #[test]
    fn a_narrower_width_takes_more_blocks() {
        let (wide, narrow) = (run(false, 5.0), run(false, 1.0));
        assert!(wide.blocks < 6.0, "{wide:?}");
        // (1.96 · 2 % ÷ 1 %)² = 15 for one of average spread.
        assert!(narrow.blocks > 12.0 && narrow.gave_up < 0.01, "{narrow:?}");
        assert_eq!(narrow.power, None);
    }

    #[test]
    fn what_befalls_whole_blocks_costs_ratios_nothing() {
        let found = run(true, 1.0);
        // A ratio has twice the variance of one cell, and blocks that differ ten times as much add
        // nothing.
        assert!((20.0..50.0).contains(&found.blocks), "{found:?}");
        assert!(found.gave_up < 0.01, "{found:?}");
        assert!((0.92..0.98).contains(&found.coverage), "{found:?}");
        // Twice the half-width apart, of which all but a quarter is beyond what matters.
        assert!(found.power.unwrap() > 0.75, "{found:?}");
    }

    #[test]
    fn no_more_blocks_than_are_allowed() {
        let found = run(true, 0.1);
        assert!((found.blocks - 100.0).abs() < 1e-6, "{found:?}");
        assert!((found.gave_up - 1.0).abs() < 1e-6, "{found:?}");
    }
}
