//! Simulation of `--until`: runs of known truth that go on block by block until every interval is
//! narrow enough.
//!
//! These runs are simpler than real ones in one way: each cell is compared with another of its own,
//! where those of a run share the baseline.

use crate::ci::{CONFIDENCE, Interval, mean_interval};
use crate::compare::verdict;
use crate::noise::inflation;
use crate::random::Random;
use crate::ratio::{PairedRatio, paired_ratio, paired_ratio_at};
use crate::simulate::{PAIRS, Shape, drifted};
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
    /// For compared cells: whether A/A pairs in the same blocks enlarge the errors of ratios, and
    /// then the standard deviation of the logarithm of the factor that each name has of its own in
    /// all blocks.
    pub pairs: Option<f64>,
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
#[derive(Default)]
struct Launches {
    of: Vec<f64>,
    against: Vec<f64>,
    /// The factors that the two have of their own.
    own: (f64, f64),
}

/// A simulated run at its end.
struct Ended {
    cells: Vec<Launches>,
    /// The interval of each cell.
    intervals: Vec<Interval>,
    /// Factor by which the errors of ratios are enlarged.
    inflation: f64,
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
        false_positive: run.compared.then_some(0.0),
        power: run.compared.then_some(0.0),
        ..UntilOutcome::default()
    };
    let one = 1.0 / f64::from(experiments);
    let each = one / f64::from(run.cells);
    for _ in 0..experiments {
        let Ended {
            cells,
            intervals,
            inflation,
        } = go_on(run, &mut random)?;
        let wider = |a: &&Interval, b: &&Interval| {
            a.half_width_percent().total_cmp(&b.half_width_percent())
        };
        let widest = intervals.iter().max_by(wider)?;
        stopped.blocks += one * cells.first()?.of.len() as f64;
        stopped.gave_up += one * f64::from(widest.half_width_percent() > run.percent);
        stopped.coverage_widest += one * f64::from(holds(widest));
        for (interval, cell) in intervals.iter().zip(&cells) {
            stopped.coverage += each * f64::from(holds(interval));
            let is_different = |times: f64| -> Option<bool> {
                let slower: Vec<f64> = cell.of.iter().map(|x| x * times).collect();
                // The rule of `calibrate --verdicts`: half of the difference minus the half-width.
                // The difference is twice the half-width.
                let matters = 1.0 + run.percent / 200.0;
                let found = paired_ratio_at(&slower, &cell.against, CONFIDENCE, inflation)?;
                Some(verdict(found.p, found.ci95, matters).is_difference())
            };
            if let Some(share) = &mut stopped.false_positive {
                *share += each * f64::from(is_different(1.0)?);
            }
            if let Some(power) = &mut stopped.power {
                *power += each * f64::from(is_different(1.0 + 2.0 * run.percent / 100.0)?);
            }
        }
    }
    (experiments > 0).then_some(stopped)
}

/// Simulate one run to its end.
fn go_on(run: &UntilSetting, random: &mut Random) -> Option<Ended> {
    let mut named = |count: usize| -> Vec<Launches> {
        let launches = |_| Launches {
            own: (own_factor(run, random), own_factor(run, random)),
            ..Launches::default()
        };
        (0..count).map(launches).collect()
    };
    let mut cells = named(run.cells as usize);
    let mut pairs = named(run.pairs.map_or(0, |_| PAIRS));
    for blocks in 1_u32.. {
        let block = match run.compared {
            true => drifted(DRIFT, random),
            false => 1.0,
        };
        let mut launch = |own: f64| block * own * (run.spread * random.normal()).exp();
        for cell in cells.iter_mut().chain(&mut pairs) {
            cell.of.push(launch(cell.own.0));
            if run.compared {
                cell.against.push(launch(cell.own.1));
            }
        }
        if blocks < run.invocations {
            continue;
        }
        let inflation = match run.pairs {
            Some(_) => factor(&pairs)?,
            None => 1.0,
        };
        let interval = |cell: &Launches| interval(run, cell, inflation);
        let is_wide = |cell: &Launches| {
            interval(cell).is_some_and(|found| found.half_width_percent() > run.percent)
        };
        if blocks < run.blocks_max && cells.iter().any(is_wide) {
            continue;
        }
        let intervals: Option<Vec<Interval>> = cells.iter().map(interval).collect();
        return Some(Ended {
            intervals: intervals?,
            cells,
            inflation,
        });
    }
    None
}

/// Draw the factor that a name has of its own; 1 in runs where names have none.
fn own_factor(run: &UntilSetting, random: &mut Random) -> f64 {
    match run.pairs {
        Some(spread) if spread > 0.0 => (spread * random.normal()).exp(),
        _ => 1.0,
    }
}

/// Return the factor by which A/A pairs require errors to be enlarged.
fn factor(pairs: &[Launches]) -> Option<f64> {
    let ratio = |pair: &Launches| paired_ratio(&pair.of, &pair.against);
    let ratios: Option<Vec<PairedRatio>> = pairs.iter().map(ratio).collect();
    inflation(&ratios?)
}

fn interval(run: &UntilSetting, cell: &Launches, inflation: f64) -> Option<Interval> {
    match run.compared {
        true => paired_ratio_at(&cell.of, &cell.against, CONFIDENCE, inflation)?.interval(),
        false => mean_interval(&cell.of),
    }
}

fn key(run: &UntilSetting) -> u64 {
    (run.percent * 1e3) as u64
        ^ ((run.spread * 1e4) as u64) << 20
        ^ run.pairs.map_or(0, |own| ((own * 1e4) as u64) << 32)
        ^ u64::from(run.invocations) << 40
        ^ u64::from(run.cells) << 48
        ^ u64::from(run.pairs.is_some()) << 62
        ^ u64::from(run.compared) << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(compared: bool, percent: f64) -> UntilOutcome {
        run_with(compared, None, percent)
    }

    fn run_with(compared: bool, pairs: Option<f64>, percent: f64) -> UntilOutcome {
        let run = UntilSetting {
            cells: 3,
            compared,
            pairs,
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
        assert_eq!((narrow.power, narrow.false_positive), (None, None));
    }

    #[test]
    fn pairs_cost_blocks_and_tell_of_what_all_blocks_share() {
        let (without, with) = (run(true, 1.0), run_with(true, Some(0.0), 1.0));
        assert!(with.blocks > without.blocks + 1.0, "{without:?} {with:?}");
        assert!(with.coverage > 0.93, "{with:?}");
        // Names differ by 2 % in all blocks, so few of the runs end before the maximum number of
        // blocks.
        let named = run_with(true, Some(0.02), 1.0);
        assert!(named.gave_up > 0.5, "{named:?}");
        assert!(named.power < with.power, "{named:?} {with:?}");
    }

    #[test]
    fn equal_cells_are_seldom_called_different() {
        let share = |pairs| run_with(true, pairs, 5.0).false_positive.unwrap();
        assert!(share(None) <= 0.05 && share(Some(0.0)) <= 0.05);
        // Names differ by the smallest difference that matters. The standard error of 200 runs of
        // three cells, which share the factor, is about 1.3 points.
        assert!(share(Some(0.025)) <= 0.09, "{}", share(Some(0.025)));
    }

    #[test]
    fn what_befalls_whole_blocks_costs_ratios_nothing() {
        let found = run(true, 1.0);
        // A ratio has twice the variance of one cell, and blocks that differ ten times as much add
        // nothing.
        assert!((20.0..50.0).contains(&found.blocks), "{found:?}");
        assert!(found.gave_up < 0.01, "{found:?}");
        assert!((0.92..0.98).contains(&found.coverage), "{found:?}");
        // The difference is twice the half-width, and four times the smallest difference that
        // matters.
        assert!(found.power.unwrap() > 0.75, "{found:?}");
    }

    #[test]
    fn no_more_blocks_than_are_allowed() {
        let found = run(true, 0.1);
        assert!((found.blocks - 100.0).abs() < 1e-6, "{found:?}");
        assert!((found.gave_up - 1.0).abs() < 1e-6, "{found:?}");
    }
}
