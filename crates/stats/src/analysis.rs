//! The results of analysing a run: the types that the site and `export` read. Everything here is
//! derived from records and can be computed again at any time.
//!
//! The types that derive `Serialize` stand in `results.json` as they are here, but for fields that
//! are skipped or renamed, and their comments describe them on the data page.

use crate::canary::Unfelt;
use crate::ci::Interval;
use crate::disturbance::Disturbance;
pub use crate::metrics::MetricId;
use crate::ratio::PairedRatio;
use crate::usl::Usl;
use crate::witness::Audit;
use schema::key::{CaseKey, CellKey};
use schema::record::Status;
use serde::Serialize;

/// The source of this module, from which the data page's description of `results.json` is read.
pub const SOURCE: &str = include_str!("analysis.rs");

/// Everything that is derived from a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// All planned cells, measured or not, in plan order (scenario, then case, then target). A
    /// target that the profile leaves out of a scenario has no cell there.
    pub cells: Vec<Cell>,
    /// Comparisons of every measured cell with the baseline's and the leader's cell of the same
    /// case, on the scenario's leading metric; none where each target has a load of its own.
    pub comparisons: Vec<Comparison>,
    /// Growth of throughput with concurrency, by scenario and target, where the plan varies it from
    /// 1 on.
    pub scalings: Vec<Scaling>,
    /// Noise by metric, from targets that ran twice (see [`crate::noise`]); empty where no target
    /// did so in two blocks.
    pub noise: Vec<Noise>,
    /// Measured limits of a device that a target exceeded. No cell on that device has a share of
    /// such a limit.
    pub exceeded: Vec<Exceeded>,
    /// Kinds of known work that were sometimes slow although launches took no longer beside it.
    /// They don't count as disturbances.
    pub unfelt: Vec<Unfelt>,
    /// The smallest difference that matters to the verdicts, as a ratio.
    pub matters: f64,
}

/// A limit that a target exceeded: the run measured it too low.
#[derive(Clone, Debug, PartialEq)]
pub struct Exceeded {
    /// Metric that is a share of the limit.
    pub metric: MetricId,
    /// Id of the target that exceeded the limit most.
    pub target: String,
    /// Largest value of the metric (percent of the limit).
    pub percent: f64,
}

impl Analysis {
    /// Find a cell by its key.
    pub fn cell(&self, key: &CellKey) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            cell.target == key.target && cell.case == key.case && cell.scenario == key.scenario
        })
    }

    /// Return the comparison of a cell with the baseline or the leader (`role`).
    pub fn comparison(&self, key: &CellKey, role: Role) -> Option<&Comparison> {
        self.comparisons.iter().find(|c| {
            (c.role == role && c.target == key.target)
                && (c.scenario == key.scenario && c.case == key.case)
        })
    }

    /// Return all comparisons of a case with the baseline or with the leader (`role`).
    pub fn comparisons_of(&self, at: &CaseKey, role: Role) -> impl Iterator<Item = &Comparison> {
        let all = self.comparisons.iter();
        all.filter(move |c| c.scenario == at.scenario && c.case == at.case && c.role == role)
    }

    /// Whether a case has too few launches for any verdict. Then ranks mean nothing and are not
    /// shown.
    pub fn undecided(&self, at: &CaseKey) -> bool {
        let mut verdicts = self
            .comparisons
            .iter()
            .filter(|c| c.scenario == at.scenario && c.case == at.case)
            .peekable();
        verdicts.peek().is_some() && verdicts.all(|c| c.verdict == Verdict::Unknown)
    }

    /// Return the noise of a metric, from targets that ran twice.
    pub fn noise(&self, metric: MetricId) -> Option<&Noise> {
        self.noise.iter().find(|noise| noise.metric == metric)
    }

    /// Return the factor by which a metric's errors are enlarged; 1 where no target ran twice.
    pub fn inflation(&self, metric: MetricId) -> f64 {
        self.noise(metric).map_or(1.0, |noise| noise.inflation)
    }
}

/// The growth of a target's output throughput with the requests in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Scenario id.
    pub scenario: String,
    /// Target id.
    pub target: String,
    /// Greatest load.
    pub load: u32,
    /// Throughput at the greatest load ÷ that many times the throughput of one; 1 is perfectly
    /// linear. Mean over invocations.
    pub fraction: f64,
    /// 95 % t interval of `fraction` over invocations.
    pub ci95: Option<(f64, f64)>,
    /// Fit of the Universal Scalability Law; `None` with fewer than [`crate::usl::LOADS_MIN`] loads
    /// or two invocations.
    pub usl: Option<Usl>,
}

/// What targets that ran twice say of a metric's errors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// Name of the metric.
    pub metric: MetricId,
    /// How many times larger the errors of comparisons are than launches show, 1 or more.
    pub inflation: f64,
    /// Number of pairs with launches of their own, from which `inflation` is computed: where one
    /// scenario measures for another, both have the pair.
    pub measured: usize,
    /// A/A pairs, by case.
    pub pairs: Vec<TwinPair>,
}

impl Noise {
    /// Return the pairs of one case.
    pub fn of_case(&self, at: &CaseKey) -> impl Iterator<Item = &TwinPair> {
        let pairs = self.pairs.iter();
        pairs.filter(move |pair| pair.case == at.case && pair.scenario == at.scenario)
    }
}

/// An A/A pair: a target compared with itself under its second name, in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwinPair {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Geometric mean over blocks of target ÷ twin.
    pub ratio: f64,
    /// 95 % t interval of the ratio, with the error that the pair's own blocks show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Whether a comparison would call the target different from itself.
    #[serde(rename = "different")]
    pub is_different: bool,
}

/// A cell: one target at one case of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Value of the case on the scenario's axis.
    pub axis_value: u32,
    /// `ok`, or the status that says why there are no numbers.
    pub status: Status,
    /// Reason in one line; empty where the status is `ok`.
    pub reason: String,
    /// Number of distinct [prompt indices](schema::record::RequestRecord::prompt) among the timed
    /// requests of complete cases, over all invocations.
    pub requests: u64,
    /// Number of invocations with a complete case.
    pub invocations: u32,
    /// Numbers of these invocations, in the order of [`Metric::by_invocation`].
    pub blocks: Vec<u32>,
    /// Metrics in the order of [`MetricId`]; empty unless the status is `ok`.
    pub metrics: Vec<Metric>,
    /// Rank on the scenario's leading metric: 1 = best, equal ranks are ties (no detectable
    /// difference, see [`crate::family`]). `None` unless the status is `ok`, and where ranks have
    /// no meaning: the metric has no better direction, each target has a load of its own, or there
    /// are several cells and one has a single invocation.
    pub rank: Option<u32>,
    /// Complete invocations during which something else disturbed the measurement.
    /// Their samples count all the same: nothing is left out.
    pub disturbances: Vec<Disturbance>,
    /// Number of complete invocations with too few readings to tell whether they were disturbed.
    pub unwatched: u32,
    /// Number of complete invocations beside which the machine's speed was not measured.
    pub unseen: u32,
    /// Audit of the stamps against committed tokens; `None` where there was none.
    pub audit: Option<Audit>,
}

impl Cell {
    /// Create a cell with status `ok`, without metrics or disturbances.
    pub fn new(key: CellKey, axis_value: u32) -> Self {
        Self {
            target: key.target,
            scenario: key.scenario,
            case: key.case,
            axis_value,
            status: Status::Ok,
            ..Self::default()
        }
    }

    /// Return the key of the cell.
    pub fn key(&self) -> CellKey {
        self.case_key().cell(&self.target)
    }

    /// Return the key of its case.
    pub fn case_key(&self) -> CaseKey {
        CaseKey::new(&self.scenario, &self.case)
    }

    /// Return one of its metrics; `None` where the cell doesn't have it.
    pub fn metric(&self, id: MetricId) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.id == id)
    }
}

/// The values of one metric of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Id of the metric.
    pub id: MetricId,
    /// Number of pooled samples (requests, gaps, or invocations: see [`MetricId::describe`]).
    pub n: u64,
    /// The estimate that the interval is of: the mean over invocations of the per-invocation
    /// statistic (median of samples for latencies, the value itself for throughput and memory).
    pub value: f64,
    /// 95 % Student's t interval with k−1 degrees of freedom over the k
    /// per-invocation statistics; `None` with one invocation.
    pub ci95: Option<(f64, f64)>,
    /// Coefficient of variation across invocations, a fraction.
    pub cv_invocations: Option<f64>,
    /// Per-invocation statistics, by block: one for each of the cell's invocations. A metric that
    /// an invocation lacks is left out of the cell.
    pub by_invocation: Vec<f64>,
    /// Distribution of the pooled samples; `None` where a sample is an invocation.
    pub shape: Option<Shape>,
    /// Course of the samples within invocations; `None` where a sample is an invocation.
    pub course: Option<Course>,
}

impl Metric {
    /// Create a metric with one value for each invocation, without an interval or a distribution.
    pub fn of(id: MetricId, value: f64, by_invocation: Vec<f64>) -> Self {
        Self {
            id,
            n: by_invocation.len() as u64,
            value,
            ci95: None,
            cv_invocations: None,
            by_invocation,
            shape: None,
            course: None,
        }
    }

    /// Return the value with its interval; `None` with one invocation.
    pub fn interval(&self) -> Option<Interval> {
        Interval::of(self.value, self.ci95)
    }

    /// Whether the invocations agree: their coefficient of variation is under
    /// [`crate::describe::REPRODUCIBLE_MAX`]. `None` with one invocation.
    pub fn reproducible(&self) -> Option<bool> {
        Some(self.cv_invocations? < crate::describe::REPRODUCIBLE_MAX)
    }
}

/// The course of the samples within invocations, in order of completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Autocorrelation at lag 1: the mean over invocations. `None` where an invocation has no
    /// value.
    pub lag1: Option<f64>,
    /// Effective sample size: the sum over invocations. `None` where an invocation has no value.
    pub effective: Option<f64>,
    /// Early part of the invocations ÷ their late part; `None` with too few samples or invocations,
    /// see [`crate::stationarity`].
    pub drift: Option<PairedRatio>,
}

/// The distribution of pooled samples. No verdict rests on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Median absolute deviation from the median, unscaled.
    pub mad: f64,
    /// Minimum.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile; `None` with fewer than 10 requests beyond it.
    pub p90: Option<f64>,
    /// 95th percentile; `None` with fewer than 10 requests beyond it.
    pub p95: Option<f64>,
    /// 99th percentile; `None` with fewer than 10 requests beyond it.
    pub p99: Option<f64>,
    /// 95 % intervals of p50, p90, p95 and p99 ([`crate::ci::percentile_interval`]).
    pub intervals: [Option<(f64, f64)>; 4],
    /// Maximum.
    pub max: f64,
    /// At most 160 evenly spaced quantiles, ascending, for an ECDF.
    pub quantiles: Vec<f64>,
}

/// A value, and its 95 % interval where that is known.
pub type Bounded = (f64, Option<(f64, f64)>);

impl Shape {
    /// Return p50, p90, p95 and p99, each with its 95 % interval. A percentile of the tail is
    /// `None` where its interval is unknown.
    pub fn percentiles(&self) -> [Option<Bounded>; 4] {
        let [p50, p90, p95, p99] = self.intervals;
        let tail = |value: Option<f64>, ci: Option<(f64, f64)>| Some((value?, Some(ci?)));
        [
            Some((self.p50, p50)),
            tail(self.p90, p90),
            tail(self.p95, p95),
            tail(self.p99, p99),
        ]
    }
}

/// A target against another in a case, on the scenario's leading metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Name of the metric.
    pub metric: MetricId,
    /// Id of the target in question.
    pub target: String,
    /// Id of the target that it is compared with.
    pub against: String,
    /// Whether `against` is the baseline or the leader.
    pub role: Role,
    /// How many times better `target` is than `against` (speed-up: > 1 is better,
    /// whichever direction the metric has): geometric mean over blocks.
    pub ratio: f64,
    /// Number of blocks in which both were measured.
    #[serde(skip)]
    pub blocks: usize,
    /// 95 % interval of the ratio: t on block-paired log ratios, the error enlarged by the metric's
    /// `inflation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Two-sided p of the same t-test, Holm-adjusted within scenario, case and role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_holm: Option<f64>,
    /// Cliff's delta of pooled samples, −1…1, positive where `target` is better.
    #[serde(skip)]
    pub cliffs_delta: Option<f64>,
    /// Factor by which A/A pairs require the error to be enlarged; `None` where no target ran
    /// twice.
    #[serde(skip)]
    pub inflation: Option<f64>,
    /// The smallest difference that matters to the verdict, as a ratio.
    #[serde(skip)]
    pub matters: f64,
    /// Verdict on `target`.
    pub verdict: Verdict,
    /// Blocks in which one of the two was disturbed. They count in the ratio all the same; pages
    /// flag them.
    #[serde(skip)]
    pub not_comparable: Vec<u32>,
}

impl Comparison {
    /// Return the ratio with its 95 % interval; `None` without one.
    pub fn interval(&self) -> Option<Interval> {
        Interval::of(self.ratio, self.ci95)
    }
}

/// The role of the cell that another is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The cell of the registry's baseline target.
    Baseline,
    /// The best cell of the same scenario and case.
    Leader,
}

/// The conclusion of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better: p_holm < 0.05, and the whole interval is beyond the smallest difference that
    /// matters.
    Better,
    /// Worse: the same conditions in the other direction.
    Worse,
    /// Equal for practical purposes: the whole interval lies within the smallest difference that
    /// matters, which is the condition of two one-sided tests at 2.5 % (D. J. Schuirmann, Journal
    /// of Pharmacokinetics and Biopharmaceutics 15, 1987).
    Equal,
    /// Neither a difference nor equality is shown; more blocks would decide.
    Undecided,
    /// No conclusion: there are too few invocations, or the two numbers don't answer the same
    /// question.
    #[serde(rename = "too_few_invocations")]
    Unknown,
}

impl Verdict {
    /// Whether the verdict is that the two differ.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Whether a difference was looked for and none was found.
    pub fn is_tie(self) -> bool {
        matches!(self, Self::Equal | Self::Undecided)
    }
}
