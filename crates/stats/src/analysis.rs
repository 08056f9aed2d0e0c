//! What a run says, cell by cell: the types that the site and `export` read.
//! Everything here is derived from records and can be made again at any time.

use crate::ci::Interval;
use crate::disturbance::Disturbance;
use crate::ratio::PairedRatio;
use crate::usl::Usl;
use crate::witness::Audit;
use schema::key::{CaseKey, CellKey};
use schema::record::Status;

/// The whole of a run, derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Every planned cell, measured or not, in plan order (scenario, then case, then
    /// target). A target that the profile leaves out of a scenario has none there.
    pub cells: Vec<Cell>,
    /// Comparisons of every measured cell with the baseline's same cell and with
    /// the leader's, on the scenario's leading metric; none where each target has a load
    /// of its own.
    pub comparisons: Vec<Comparison>,
    /// How throughput grows with concurrency, by scenario and target, where the plan
    /// varies it from 1 on.
    pub scalings: Vec<Scaling>,
    /// What targets that ran twice say of errors, by metric; none where no target did, or
    /// not in two blocks.
    pub noise: Vec<Noise>,
    /// Limits of the machine that a target was seen beyond: no cell has a share of these.
    pub exceeded: Vec<Exceeded>,
    /// The smallest difference that matters to the verdicts, as a ratio.
    pub matters: f64,
}

/// A limit of the machine, as the run measured it, that cannot be one.
#[derive(Clone, Debug, PartialEq)]
pub struct Exceeded {
    /// The metric that is a share of it.
    pub metric: MetricId,
    /// The target that went furthest beyond.
    pub target: String,
    /// How far (percent of the limit).
    pub percent: f64,
}

impl Analysis {
    /// What targets that ran twice say of a metric's errors.
    pub fn noise(&self, metric: MetricId) -> Option<&Noise> {
        self.noise.iter().find(|noise| noise.metric == metric)
    }

    /// By how much a metric's errors are enlarged; 1 where no target ran twice.
    pub fn inflation(&self, metric: MetricId) -> f64 {
        self.noise(metric).map_or(1.0, |noise| noise.inflation)
    }
}

/// How a target's output throughput grows with the requests in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Scenario id.
    pub scenario: String,
    /// Target id.
    pub target: String,
    /// How many loads were measured.
    pub loads: u32,
    /// The greatest of them.
    pub load: u32,
    /// Throughput at the greatest load over that many times the throughput of one:
    /// 1 is perfectly linear. Mean over invocations.
    pub fraction: f64,
    /// Its 95 % t interval over invocations.
    pub ci95: Option<(f64, f64)>,
    /// The Universal Scalability Law; `None` with fewer than
    /// [`crate::usl::LOADS_MIN`] loads or two invocations.
    pub usl: Option<Usl>,
}

/// What targets that ran twice say of a metric's errors: see [`crate::noise`].
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Metric.
    pub metric: MetricId,
    /// How many times larger the errors of comparisons are than launches show, 1 or more.
    pub inflation: f64,
    /// What it rests on.
    pub pairs: Vec<TwinPair>,
}

impl Noise {
    /// The pairs of one case.
    pub fn of_case(&self, at: &CaseKey) -> impl Iterator<Item = &TwinPair> {
        let pairs = self.pairs.iter();
        pairs.filter(move |pair| pair.case == at.case && pair.scenario == at.scenario)
    }
}

/// A target against itself under its second name, in one case.
#[derive(Clone, Debug, PartialEq)]
pub struct TwinPair {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Geometric mean over blocks of target ÷ twin.
    pub ratio: f64,
    /// Its 95 % t interval, from its own blocks alone.
    pub ci95: Option<(f64, f64)>,
    /// Whether a comparison would call it different from itself.
    pub is_different: bool,
}

/// Target × scenario × case.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Value on the scenario's axis.
    pub axis_value: u32,
    /// `ok`, or why there are no numbers.
    pub status: Status,
    /// One line, empty where ok.
    pub reason: String,
    /// Distinct [prompt indices](schema::record::RequestRecord::prompt) among the timed
    /// requests of complete cases, over all invocations.
    pub requests: u64,
    /// Invocations with a complete case.
    pub invocations: u32,
    /// Metrics by [`MetricId`], in its order; empty unless ok.
    pub metrics: Vec<Metric>,
    /// Rank on the scenario's leading metric: 1 = best, equal ranks are ties
    /// (no detectable difference, see [`crate::family`]). `None` unless ok, and
    /// where ranks have no meaning: the metric has no better direction, each target has a
    /// load of its own, or there are several cells and one has a single invocation.
    pub rank: Option<u32>,
    /// Complete invocations during which something else disturbed the measurement.
    /// Their samples count all the same: nothing is left out.
    pub disturbances: Vec<Disturbance>,
    /// Complete invocations whose readings don't suffice to tell.
    pub unwatched: u32,
    /// Complete invocations beside which it wasn't measured how fast the machine was.
    pub unseen: u32,
    /// What the audit of committed tokens found of its stamps; `None` where there was none.
    pub audit: Option<Audit>,
}

impl Cell {
    /// One that nothing is known of yet: ok, without metrics, and nothing was disturbed.
    pub fn new(key: CellKey, axis_value: u32) -> Self {
        Self {
            target: key.target,
            scenario: key.scenario,
            case: key.case,
            axis_value,
            status: Status::Ok,
            reason: String::new(),
            requests: 0,
            invocations: 0,
            metrics: Vec::new(),
            rank: None,
            disturbances: Vec::new(),
            unwatched: 0,
            unseen: 0,
            audit: None,
        }
    }

    /// Which cell it is.
    pub fn key(&self) -> CellKey {
        self.case_key().cell(&self.target)
    }

    /// In which case it is.
    pub fn case_key(&self) -> CaseKey {
        CaseKey {
            scenario: self.scenario.clone(),
            case: self.case.clone(),
        }
    }

    /// One of its metrics, where it has it.
    pub fn metric(&self, id: MetricId) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.id == id)
    }
}

/// What is measured. Names end in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // `describe` says what each is.
pub enum MetricId {
    TtftNs,
    ItlNs,
    TpotNs,
    E2eNs,
    OutputTokPerS,
    RequestsPerS,
    ColdStartNs,
    LoadNs,
    PeakRssBytes,
    WeightBytes,
    KvBytes,
    TtftFromSentNs,
    ReportLagNs,
    CpuUtilizationPercent,
    DecodeMbuPercent,
    PrefillMfuPercent,
    CpuPerTokenNs,
    CpuEnergyPerTokenJ,
    GpuUtilizationPercent,
    GpuSmActivePercent,
    GpuTensorActivePercent,
    GpuDramBandwidthPercent,
    GpuMemoryUtilizationPercent,
    GpuTemperatureCelsius,
    GpuSmClockMhz,
    GpuThrottledPercent,
    PeakGpuMemoryBytes,
    GpuEnergyPerTokenJ,
    SamplerCpuPercent,
    GoodputPerS,
    OfferedPerS,
    ShortfallPercent,
    ScheduleLagNs,
    CallNs,
    FirstCallNs,
}

/// A metric of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Which metric it is.
    pub id: MetricId,
    /// Pooled samples (requests, gaps, or invocations: see [`MetricId`]).
    pub n: u64,
    /// The estimate the interval is of: the mean over invocations of the
    /// per-invocation statistic (median of samples for latencies, the value
    /// itself for throughput and memory).
    pub value: f64,
    /// 95 % Student's t interval with k−1 degrees of freedom over the k
    /// per-invocation statistics; `None` with one invocation.
    pub ci95: Option<(f64, f64)>,
    /// Coefficient of variation across invocations, fraction.
    pub cv_invocations: Option<f64>,
    /// Per-invocation statistics, by block: one for each of the cell's
    /// invocations. A metric that one of them lacks is left out of the cell.
    pub by_invocation: Vec<f64>,
    /// Shape within the pooled samples; `None` where n is the invocations.
    pub shape: Option<Shape>,
    /// How the samples of an invocation follow each other; `None` likewise.
    pub course: Option<Course>,
}

impl Metric {
    /// Its interval around its value; `None` with one invocation.
    pub fn interval(&self) -> Option<Interval> {
        let (low, high) = self.ci95?;
        Some(Interval {
            mean: self.value,
            low,
            high,
        })
    }

    /// Whether the invocations agree: their coefficient of variation is under
    /// [`crate::describe::REPRODUCIBLE_MAX`]. `None` with one invocation.
    pub fn reproducible(&self) -> Option<bool> {
        Some(self.cv_invocations? < crate::describe::REPRODUCIBLE_MAX)
    }
}

/// How the samples of an invocation follow each other, in order of completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Autocorrelation at lag 1: the mean over invocations. `None` where it has no
    /// value in one of them.
    pub lag1: Option<f64>,
    /// Effective sample size: the sum over invocations. `None` likewise.
    pub effective: Option<f64>,
    /// The early part of the invocations ÷ their late part; `None` with too few of
    /// either, see [`crate::stationarity`].
    pub drift: Option<PairedRatio>,
}

/// Description of pooled samples (never a verdict).
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (n−1).
    pub stddev: f64,
    /// Median absolute deviation from the median, unscaled.
    pub mad: f64,
    /// Least.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile; `None` with fewer than 10 requests beyond it. Likewise below.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 95 % intervals of p50, p90, p95 and p99 ([`crate::ci::percentile_interval`]).
    pub intervals: [Option<(f64, f64)>; 4],
    /// Greatest.
    pub max: f64,
    /// At most 160 evenly spaced quantiles, ascending, for an ECDF.
    pub quantiles: Vec<f64>,
}

/// A value with its interval, where that is known.
pub type Bounded = (f64, Option<(f64, f64)>);

impl Shape {
    /// p50, p90, p95 and p99, each with its 95 % interval. A percentile of the tail is given only
    /// where its interval is known.
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

/// One cell against another of the same scenario and case.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// On which metric.
    pub metric: MetricId,
    /// The cell in question.
    pub target: String,
    /// What it is compared with.
    pub against: String,
    /// Whether `against` is the baseline or the leader.
    pub role: Role,
    /// How many times better `target` is than `against` (speed-up: > 1 is better,
    /// whichever direction the metric has): geometric mean over blocks.
    pub ratio: f64,
    /// How many blocks both were measured in.
    pub blocks: usize,
    /// 95 % interval: t on block-paired log ratios, the error enlarged by `inflation`.
    pub ci95: Option<(f64, f64)>,
    /// Two-sided p, likewise, Holm-adjusted within scenario, case and role.
    pub p_holm: Option<f64>,
    /// Cliff's delta of pooled samples, −1…1, positive where target is better.
    pub cliffs_delta: Option<f64>,
    /// By how much the error is enlarged, as A/A pairs say; `None` where no target ran twice.
    pub inflation: Option<f64>,
    /// The smallest difference that matters to the verdict, as a ratio.
    pub matters: f64,
    /// What may be said.
    pub verdict: Verdict,
    /// Blocks in which one of the two was disturbed. They are in the ratio all the same;
    /// pages flag them.
    pub not_comparable: Vec<u32>,
}

impl Comparison {
    /// The ratio within its 95 % interval.
    pub fn interval(&self) -> Option<Interval> {
        let (low, high) = self.ci95?;
        let mean = self.ratio;
        Some(Interval { mean, low, high })
    }
}

/// What a comparison is against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The registry's baseline target.
    Baseline,
    /// The best cell of the same scenario and case.
    Leader,
}

/// What may be said of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better: p_holm < 0.05, and the whole interval is beyond the smallest difference that
    /// matters.
    Better,
    /// Worse, likewise.
    Worse,
    /// Equal but for what doesn't matter: the whole interval lies within the smallest
    /// difference that matters, which is what two one-sided tests at 2.5 % ask (D. J.
    /// Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
    Equal,
    /// Neither a difference nor equality is shown; more blocks would decide.
    Undecided,
    /// Too few invocations to say.
    Unknown,
}

impl Verdict {
    /// Whether it says that two differ.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Whether a difference was looked for and none was found.
    pub fn is_tie(self) -> bool {
        matches!(self, Self::Equal | Self::Undecided)
    }
}
