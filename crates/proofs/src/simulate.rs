//! `cargo xtask simulate`: tests the statistics on data whose truth is known, at every profile's
//! sizes. `stats::simulate` does the arithmetic; this module chooses the sizes and writes the
//! tables and the file that the methodology page prints.

mod percentiles;
mod table;

use anyhow::Result;
use base::files::write_whole;
use base::repo::Repo;
use base::{exit_code, interrupt};
use schema::profile::Profile;
use schema::simulation::{Outcome, PowerRow, ShapeRow, Simulation, SimulationRow, UntilRow};
use stats::simulate::{
    DIFFERENCE, LAG1, LOG_STDDEV, SHAPES_DIFFERENCE, Setting, Shape, simulate, simulate_launches,
};
use stats::simulate_percentile::PERCENTILES_ICC;
use stats::simulate_until::{UntilSetting, simulate_until};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The seed of the simulation in the committed file.
pub const SEED: u64 = 20_261_121;
/// Intraclass correlations of the requests of a launch that are simulated.
const ICCS: [f64; 4] = [0.0, 0.1, 0.5, 0.9];
/// Standard deviations of launches (of the logarithm) at which the power is simulated.
const LAUNCH_SPREADS: [f64; 6] = [0.005, 0.01, 0.015, 0.02, 0.03, 0.05];
/// Widths (± percent) until which simulated runs add blocks, each with a standard deviation of
/// launches (of the logarithm) that takes some blocks to reach them.
const UNTIL: [(f64, f64); 4] = [(5.0, 0.02), (5.0, 0.05), (5.0, 0.1), (1.0, 0.01)];
/// Number of cells of such a run, whether each is compared with another cell, and, where A/A pairs
/// run in the same blocks, how much each name's own factor varies, as a part of the width.
const CELLS: [(u32, bool, Option<f64>); 5] = [
    (1, false, None),
    (10, false, None),
    (10, true, None),
    (10, true, Some(0.0)),
    // As much as the smallest difference that matters there.
    (10, true, Some(0.5)),
];
/// Most blocks of such a run.
const BLOCKS_MAX: u32 = 40;
/// The range that the coverage of 95 % intervals must be in.
const COVERAGE: std::ops::RangeInclusive<f64> = 0.93..=0.97;
/// The range for a run of one cell that adds blocks until its interval is narrow enough: it stops
/// where the launches happen to agree. The methodology page states this cost.
const COVERAGE_ALONE: std::ops::RangeInclusive<f64> = 0.90..=0.97;
/// The range where A/A pairs enlarge errors. Their factor is 1 or more, so it only widens
/// intervals.
const COVERAGE_PAIRS: std::ops::RangeInclusive<f64> = 0.93..=1.0;
/// The range where each name has a factor of its own. The median of six pairs estimates the size of
/// these factors only roughly (by itself it would cover a normal error in about 90 %), and a run
/// stops where the estimate happens to be small.
const COVERAGE_NAMED: std::ops::RangeInclusive<f64> = 0.80..=1.0;
/// Largest share of equal targets that may be called different.
const FALSE_POSITIVE_MAX: f64 = 0.05;
/// What a false positive is, in words.
const CALLED_DIFFERENT: &str = "equal targets are called different";

/// What the command line says.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// Experiments a row.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub experiments: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write data/simulation.json, which the methodology page prints.
    #[arg(long, conflicts_with = "experiments")]
    pub write: bool,
}

/// Run the command. Exit status 3 where the statistics break a promise.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    interrupt::at_once()?;
    let result = run(&sizes(&repo.profiles()?), options.experiments);
    let text = serde_json::to_string_pretty(&result)? + "\n";
    if options.write {
        write_whole(&repo.simulation_path(), &text)?;
    }
    let broken = broken(&result);
    let mut tables = table::table(&result);
    for line in &broken {
        tables.push_str(&format!("\nNot kept: {line}"));
    }
    tables.push('\n');
    print!("{}", if options.json { text } else { tables });
    Ok(exit_code(broken.is_empty(), 3))
}

/// Map from (invocations, requests per launch) to the profiles that have cells of that size.
pub type Sizes = BTreeMap<(u32, u32), Vec<String>>;

/// Return the sizes of all profiles, each once.
pub fn sizes(profiles: &[Profile]) -> Sizes {
    let mut sizes = Sizes::new();
    for profile in profiles {
        for scenario in profile.scenarios.values() {
            let of = sizes
                .entry((profile.invocations, scenario.requests))
                .or_default();
            if !of.contains(&profile.id) {
                of.push(profile.id.clone());
            }
        }
    }
    sizes
}

/// Simulate every size at every intraclass correlation.
pub fn run(sizes: &Sizes, experiments: u32) -> Simulation {
    let mut rows = Vec::new();
    for (&(invocations, requests), profiles) in sizes {
        for icc in ICCS {
            let setting = Setting {
                invocations,
                requests,
                icc,
            };
            rows.push(SimulationRow {
                profiles: profiles.clone(),
                invocations,
                requests,
                icc,
                found: simulate(&setting, experiments, SEED),
            });
        }
    }
    let mut invocations: Vec<u32> = sizes.keys().map(|size| size.0).collect();
    invocations.dedup();
    let mut power = Vec::new();
    let mut shapes = Vec::new();
    let mut until = Vec::new();
    for invocations in invocations {
        let simulate = |shape, difference| {
            simulate_launches(invocations, shape, difference, experiments, SEED)
        };
        for spread in LAUNCH_SPREADS {
            if let Some(found) = simulate(Shape::Spread(spread), DIFFERENCE) {
                power.push(PowerRow {
                    invocations,
                    launch_log_stddev: spread,
                    found,
                });
            }
        }
        for ((cells, compared, own), (percent, spread)) in
            CELLS.into_iter().flat_map(|n| UNTIL.map(|of| (n, of)))
        {
            let pairs = own.map(|own| own * percent / 100.0);
            let run = UntilSetting {
                cells,
                compared,
                pairs,
                invocations,
                blocks_max: BLOCKS_MAX,
                percent,
                spread,
            };
            if let Some(found) = simulate_until(&run, experiments, SEED) {
                until.push(UntilRow {
                    cells,
                    compared,
                    pairs,
                    invocations,
                    percent,
                    launch_log_stddev: spread,
                    found,
                });
            }
        }
        for shape in Shape::AWKWARD {
            if let Some(found) = simulate(shape, SHAPES_DIFFERENCE) {
                shapes.push(ShapeRow {
                    invocations,
                    shape: shape.words(),
                    found,
                });
            }
        }
    }
    Simulation {
        experiments,
        seed: SEED,
        log_stddev: LOG_STDDEV,
        lag1: LAG1,
        difference: DIFFERENCE,
        rows,
        power,
        shapes_difference: SHAPES_DIFFERENCE,
        shapes,
        until,
        percentiles_icc: PERCENTILES_ICC,
        percentiles: percentiles::simulate(sizes.keys(), experiments, SEED),
    }
}

/// Describe each promise that the statistics break.
pub fn broken(result: &Simulation) -> Vec<String> {
    let mut broken = Vec::new();
    for row in &result.rows {
        let Some(found) = row.found else { continue };
        let place = format!(
            "{} launches of {} requests, intraclass correlation {}",
            row.invocations, row.requests, row.icc
        );
        if !COVERAGE.contains(&found.coverage) {
            broken.push(format!(
                "{place}: the 95 % interval covers {:.1} %",
                100.0 * found.coverage
            ));
        }
        broken.extend(false_verdicts(&place, &found));
    }
    for row in &result.until {
        let promised = match (row.cells, row.pairs) {
            (1, _) => COVERAGE_ALONE,
            (_, None) => COVERAGE,
            (_, Some(own)) if own > 0.0 => COVERAGE_NAMED,
            (_, Some(_)) => COVERAGE_PAIRS,
        };
        let pairs = row.pairs.map(|own| {
            let own = 100.0 * own;
            format!(" with A/A pairs and names that differ by {own:.1} %,")
        });
        let place = format!(
            "{} cells{}{} from {} blocks until ±{} %, launches that vary by {} %",
            row.cells,
            if row.compared { ", compared," } else { "" },
            pairs.unwrap_or_default(),
            row.invocations,
            row.percent,
            100.0 * row.launch_log_stddev,
        );
        if !promised.contains(&row.found.coverage) {
            let covered = 100.0 * row.found.coverage;
            broken.push(format!("{place}: the 95 % intervals cover {covered:.1} %"));
        }
        let wrong = row.found.false_positive.unwrap_or(0.0);
        if wrong > FALSE_POSITIVE_MAX {
            let wrong = 100.0 * wrong;
            broken.push(format!("{place}: {wrong:.1} % of {CALLED_DIFFERENT}"));
        }
    }
    broken.extend(percentiles::broken(&result.percentiles));
    // Irregular launches spoil the intervals of means, as the methodology page says, but verdicts
    // must hold.
    for row in &result.shapes {
        let place = format!("{} launches, {}", row.invocations, row.shape);
        broken.extend(false_verdicts(&place, &row.found));
    }
    broken
}

fn false_verdicts(place: &str, found: &Outcome) -> Vec<String> {
    let said = [
        (found.false_positive, CALLED_DIFFERENT),
        (
            found.false_equal,
            "targets 5 % apart are called equal within 5 %",
        ),
    ];
    let broken = said.iter().filter(|(share, _)| *share > FALSE_POSITIVE_MAX);
    broken
        .map(|(share, what)| format!("{place}: {:.1} % of {what}", 100.0 * share))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::error::read_json;
    use schema::simulation::PercentileRow;

    /// What to do where the file differs.
    const AGAIN: &str = "run `cargo xtask simulate --write`";

    #[test]
    fn the_committed_file_is_of_todays_profiles_and_statistics() {
        let repo = Repo::find().unwrap();
        let file: Simulation = read_json(&repo.simulation_path()).unwrap();
        let today = sizes(&repo.profiles().unwrap());
        assert_eq!((file.experiments, file.seed), (2000, SEED), "{AGAIN}");
        assert_eq!(
            (file.log_stddev, file.lag1, file.difference),
            (LOG_STDDEV, LAG1, DIFFERENCE),
            "{AGAIN}"
        );
        assert_eq!(file.shapes_difference, SHAPES_DIFFERENCE, "{AGAIN}");
        let expected = today
            .iter()
            .flat_map(|(size, of)| ICCS.map(|icc| (*size, icc, of)));
        let found = file
            .rows
            .iter()
            .map(|row| ((row.invocations, row.requests), row.icc, &row.profiles));
        assert!(expected.eq(found), "{AGAIN}");
        // Simulate the smallest size in full, and the power at its number of launches.
        let smallest = today.iter().find(|(size, _)| size.0 > 1).unwrap();
        let small = Sizes::from([(*smallest.0, smallest.1.clone())]);
        let rerun = run(&small, file.experiments);
        let key = |row: &SimulationRow| SimulationRow {
            found: None,
            ..row.clone()
        };
        has_all(&file.rows, &rerun.rows, key, |row| {
            shares(row.found.unwrap())
        });
        let key = |row: &PowerRow| (row.invocations, row.launch_log_stddev);
        has_all(&file.power, &rerun.power, key, |row| shares(row.found));
        let key = |row: &ShapeRow| (row.invocations, row.shape.clone());
        has_all(&file.shapes, &rerun.shapes, key, |row| shares(row.found));
        let any = file.until[0].found;
        let key = |row: &UntilRow| UntilRow {
            found: any,
            ..row.clone()
        };
        has_all(&file.until, &rerun.until, key, |row| {
            let of = row.found;
            let [wrong, power] = [of.false_positive, of.power].map(|of| of.unwrap_or(0.0));
            let blocks = of.blocks / f64::from(BLOCKS_MAX);
            let (all, widest) = (of.coverage, of.coverage_widest);
            [blocks, of.gave_up, all, widest, wrong, power]
        });
        assert_eq!(file.percentiles_icc, PERCENTILES_ICC, "{AGAIN}");
        let rerun = percentiles::simulate(today.keys(), file.experiments, SEED);
        let key = |row: &PercentileRow| (row.invocations, row.requests, row.slow, row.percentile);
        let listed = file.percentiles.iter().map(key);
        assert!(rerun.iter().map(key).eq(listed), "{AGAIN}");
        has_all(&file.percentiles, &rerun, key, |row| {
            // As shares of all experiments. Where nothing was found, nothing else is near.
            row.found.map_or([-1.0; 3], |of| {
                let half_width = of.half_width_percent / 100.0;
                [of.given, of.given * of.coverage, half_width]
            })
        });
    }

    #[test]
    fn a_run_that_goes_on_may_not_call_equal_targets_different() {
        let repo = Repo::find().unwrap();
        let mut file: Simulation = read_json(&repo.simulation_path()).unwrap();
        file.rows.clear();
        file.shapes.clear();
        file.until.retain(|row| row.compared);
        file.until.truncate(1);
        file.until[0].found.false_positive = Some(0.06);
        file.percentiles.clear();
        let broken = broken(&file);
        assert_eq!(broken.len(), 1, "{broken:?}");
        assert!(broken[0].ends_with("6.0 % of equal targets are called different"));
    }

    fn shares(of: Outcome) -> [f64; 7] {
        [
            of.coverage,
            of.false_positive_test,
            of.false_positive,
            of.power_test,
            of.power,
            of.equal,
            of.false_equal,
        ]
    }

    /// Check that the file has each row of a rerun, with nearly the same shares. Another math
    /// library may give a logarithm with another last bit, which changes an experiment that was a
    /// borderline case.
    fn has_all<Row: std::fmt::Debug, Key: PartialEq, const SHARES: usize>(
        file: &[Row],
        rerun: &[Row],
        key: impl Fn(&Row) -> Key,
        shares: impl Fn(&Row) -> [f64; SHARES],
    ) {
        for row in rerun {
            let old = file.iter().find(|old| key(old) == key(row)).expect(AGAIN);
            let mut pairs = shares(row).into_iter().zip(shares(old));
            let near = pairs.all(|(a, b)| (a - b).abs() <= 0.002);
            assert!(near, "{row:?} {old:?}: {AGAIN}");
        }
    }

    #[test]
    fn the_statistics_keep_what_they_promise() {
        let repo = Repo::find().unwrap();
        let file: Simulation = read_json(&repo.simulation_path()).unwrap();
        assert_eq!(broken(&file), Vec::<String>::new());
    }

    #[test]
    fn sizes_are_listed_once_with_their_profiles() {
        let sizes = sizes(&Repo::find().unwrap().profiles().unwrap());
        let of = &sizes[&(5, 20)];
        assert!(of.contains(&"cpu-full".to_owned()) && of.contains(&"gpu".to_owned()));
    }
}
