//! `data/simulation.json`: what the statistics do on data whose truth is known, as
//! `cargo xtask simulate --write` found. The methodology page prints it.

use crate::error::{DataError, read_json};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// Synthetic experiments behind every row.
    pub experiments: u32,
    /// Seed.
    pub seed: u64,
    /// Standard deviation of a sample's logarithm, between and within launches together.
    pub log_stddev: f64,
    /// Autocorrelation at lag 1 of the samples of a launch.
    pub lag1: f64,
    /// The true difference whose discovery is counted, a fraction.
    pub difference: f64,
    /// A row for every size of experiment and intraclass correlation.
    pub rows: Vec<SimulationRow>,
    /// A row for every number of invocations and variation between them.
    pub power: Vec<PowerRow>,
    /// The true difference whose discovery is counted in `shapes`, a fraction.
    pub shapes_difference: f64,
    /// A row for every number of invocations and kind of disturbance.
    pub shapes: Vec<ShapeRow>,
    /// A row for every width that runs go on for, and variation between launches.
    pub until: Vec<UntilRow>,
}

/// One size of experiment at one intraclass correlation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationRow {
    /// Profiles that have cells of this size.
    pub profiles: Vec<String>,
    /// Launches per target.
    pub invocations: u32,
    /// Samples per launch.
    pub requests: u32,
    /// Share of the variance that lies between launches.
    pub icc: f64,
    /// What was found; absent where one launch gives neither interval nor verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// Shares of the experiments, 0…1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The 95 % interval held the truth.
    pub coverage: f64,
    /// Two equal targets were called different by the test alone.
    pub false_positive_test: f64,
    /// Likewise by the verdict: the error enlarged as A/A pairs say, and the interval beyond
    /// the smallest difference that matters.
    pub false_positive: f64,
    /// The true difference was found by the test alone.
    pub power_test: f64,
    /// Likewise by the verdict.
    pub power: f64,
    /// Two equal targets were called equal within 5 %.
    pub equal: f64,
    /// Two targets that are 5 % apart were called equal within 5 %.
    pub false_equal: f64,
}

/// How intervals fare where blocks are added until all cells of a run are narrow enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UntilRow {
    /// Cells that must all be narrow enough.
    pub cells: u32,
    /// Each is held against another that ran in the same blocks, and the interval is of the ratio.
    #[serde(default)]
    pub compared: bool,
    /// Blocks before the first look.
    pub invocations: u32,
    /// Half the width that is narrow enough, in percent of the value.
    pub percent: f64,
    /// Standard deviation of the logarithm of a launch's statistic.
    pub launch_log_stddev: f64,
    /// What was found.
    pub found: Stopped,
}

/// Where runs ended, and what their intervals held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// Blocks at the end, in the mean.
    pub blocks: f64,
    /// Share of the runs that ended because more blocks were not allowed, 0…1.
    pub gave_up: f64,
    /// Share of all intervals that held the truth.
    pub coverage: f64,
    /// The same of the cell that was the widest at the end.
    pub coverage_widest: f64,
    /// Of compared cells: share of those twice as far apart as the width wanted that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
}

/// How the verdict fares where launches are not what the test assumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeRow {
    /// Launches per target.
    pub invocations: u32,
    /// What is the matter with the launches, in words.
    pub shape: String,
    /// What was found.
    pub found: Found,
}

/// How sure a true difference is found, by how much the launches of a target vary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerRow {
    /// Launches per target.
    pub invocations: u32,
    /// Standard deviation of the logarithm of a launch's statistic; for small values
    /// the coefficient of variation that stands beside every cell.
    pub launch_log_stddev: f64,
    /// What was found.
    pub found: Found,
}

impl Simulation {
    /// Load the file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_json(path)
    }
}
