//! `data/simulation.json`: how the statistics perform on data whose truth is known, as found by
//! `cargo xtask simulate --write`. The methodology page prints it.

use serde::{Deserialize, Serialize};

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// Number of synthetic experiments behind every row.
    pub experiments: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Standard deviation of a sample's logarithm, between and within launches together.
    pub log_stddev: f64,
    /// Autocorrelation at lag 1 of the samples of a launch.
    pub lag1: f64,
    /// True difference whose discovery is counted, a fraction.
    pub difference: f64,
    /// Rows, one for every size of experiment and intraclass correlation.
    pub rows: Vec<SimulationRow>,
    /// Rows on power, one for every number of invocations and variation between them.
    pub power: Vec<PowerRow>,
    /// True difference whose discovery is counted in `shapes`, a fraction.
    pub shapes_difference: f64,
    /// Rows on disturbances, one for every number of invocations and kind of disturbance.
    pub shapes: Vec<ShapeRow>,
    /// Rows on runs that add blocks, one for every width they go on for, and variation between
    /// launches.
    pub until: Vec<UntilRow>,
    /// Share of the variance that lies between launches in `percentiles`.
    #[serde(default)]
    pub percentiles_icc: f64,
    /// Rows on the intervals of percentiles, for every size of experiment, share of slow launches
    /// and percentile that a page may print.
    #[serde(default)]
    pub percentiles: Vec<PercentileRow>,
}

/// Results for the interval of a percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PercentileRow {
    /// Number of launches per target.
    pub invocations: u32,
    /// Number of samples per launch.
    pub requests: u32,
    /// Share of the launches that take 1.7 times as long, 0…1.
    pub slow: f64,
    /// The percentile, 50 for the median.
    pub percentile: u8,
    /// Outcomes; absent where no experiment has an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<PercentileOutcome>,
}

/// Outcomes for the interval of a percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PercentileOutcome {
    /// Share of the experiments that have an interval, 0…1.
    pub given: f64,
    /// Share of those whose 95 % interval holds the truth, 0…1.
    pub coverage: f64,
    /// Median of half the width of these intervals, in percent of the percentile.
    pub half_width_percent: f64,
}

/// Results for one size of experiment at one intraclass correlation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationRow {
    /// Profiles that have cells of this size.
    pub profiles: Vec<String>,
    /// Number of launches per target.
    pub invocations: u32,
    /// Number of samples per launch.
    pub requests: u32,
    /// Share of the variance that lies between launches.
    pub icc: f64,
    /// Outcomes; absent where one launch gives neither interval nor verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Outcome>,
}

/// Shares of the experiments with each outcome, 0…1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Share whose 95 % interval held the truth.
    pub coverage: f64,
    /// Share in which the test alone called two equal targets different.
    pub false_positive_test: f64,
    /// Share in which the verdict called two equal targets different: with the error enlarged as
    /// A/A pairs require, and the interval beyond the smallest difference that matters.
    pub false_positive: f64,
    /// Share in which the test alone found the true difference.
    pub power_test: f64,
    /// Share in which the verdict found the true difference.
    pub power: f64,
    /// Share in which two equal targets were called equal within 5 %.
    pub equal: f64,
    /// Share in which two targets that are 5 % apart were called equal within 5 %.
    pub false_equal: f64,
}

/// Results for runs that add blocks until all cells are narrow enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UntilRow {
    /// Number of cells that must all be narrow enough.
    pub cells: u32,
    /// Whether each cell is compared with another that ran in the same blocks; then the interval is
    /// that of the ratio.
    #[serde(default)]
    pub compared: bool,
    /// For compared cells, where A/A pairs in the same blocks enlarge the errors of ratios: the
    /// standard deviation of the logarithm of the factor that each name has of its own in all
    /// blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<f64>,
    /// Number of blocks before the first look.
    pub invocations: u32,
    /// Half the width that is narrow enough, in percent of the value.
    pub percent: f64,
    /// Standard deviation of the logarithm of a launch's statistic.
    pub launch_log_stddev: f64,
    /// Outcomes of the runs.
    pub found: UntilOutcome,
}

/// Outcomes of runs that add blocks: where they ended, and how often their intervals held the
/// truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UntilOutcome {
    /// Mean number of blocks at the end.
    pub blocks: f64,
    /// Share of the runs that ended because more blocks were not allowed, 0…1.
    pub gave_up: f64,
    /// Share of all intervals that held the truth, 0…1.
    pub coverage: f64,
    /// Share of intervals that held the truth among the cells that were the widest at the end, 0…1.
    pub coverage_widest: f64,
    /// For compared cells: share of the equal ones that were called different, 0…1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub false_positive: Option<f64>,
    /// For compared cells: share of the true differences of twice `percent` that were found, 0…1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
}

/// Results for launches that are not what the test assumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeRow {
    /// Number of launches per target.
    pub invocations: u32,
    /// Description of what is wrong with the launches.
    pub shape: String,
    /// Outcomes.
    pub found: Outcome,
}

/// Results on power: how often a true difference is found, by how much the launches of a target
/// vary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerRow {
    /// Number of launches per target.
    pub invocations: u32,
    /// Standard deviation of the logarithm of a launch's statistic. For small values it equals the
    /// coefficient of variation that stands beside every cell.
    pub launch_log_stddev: f64,
    /// Outcomes.
    pub found: Outcome,
}
