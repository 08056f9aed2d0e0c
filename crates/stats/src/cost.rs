//! The cost of a token: throughput and a price by the hour give dollars, with the interval carried
//! through. Prices are given; the caller decides whether one applies to the machine that was
//! measured.
//!
//! A price is exact here, so the interval is the throughput's alone. Idle time of a machine isn't
//! measured: the reader states it as `utilisation`.

use crate::analysis::{Analysis, Cell, Metric, MetricId};
use crate::ci::CONFIDENCE;
use crate::open_loop::meets;
use crate::ratio::paired_ratio_at;
use schema::key::CellKey;
use schema::plan::{Plan, PlannedScenario};
use schema::profile::Slo;
use schema::record::Status;
use schema::scenario::LoadShape;
use std::collections::{BTreeMap, BTreeSet};

/// Seconds in an hour.
const HOUR_S: f64 = 3600.0;
/// Number of tokens that prices are for.
const MILLION: f64 = 1e6;
/// Joules in a kilowatt-hour.
const KWH_J: f64 = 3.6e6;

/// An estimate, and its 95 % interval where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Estimate.
    pub value: f64,
    /// 95 % interval of the estimate.
    pub ci95: Option<(f64, f64)>,
}

impl Range {
    fn from_metric(metric: &Metric) -> Self {
        Self {
            value: metric.value,
            ci95: metric.ci95,
        }
    }

    /// Multiply by a positive constant; `None` where the result isn't finite.
    pub fn times(self, factor: f64) -> Option<Self> {
        finite(Self {
            value: self.value * factor,
            ci95: self.ci95.map(|(low, high)| (low * factor, high * factor)),
        })
    }

    /// Divide a positive constant by the range; the bounds change places. Where the interval
    /// reaches 0 or below, there is no upper bound and so no interval. `None` where the value isn't
    /// positive.
    pub fn under(self, constant: f64) -> Option<Self> {
        if self.value <= 0.0 {
            return None;
        }
        let ci95 = self.ci95.filter(|(low, _)| *low > 0.0);
        finite(Self {
            value: constant / self.value,
            ci95: ci95.map(|(low, high)| (constant / high, constant / low)),
        })
    }
}

fn finite(range: Range) -> Option<Range> {
    let bounds = range
        .ci95
        .map_or([range.value; 2], |(low, high)| [low, high]);
    (range.value.is_finite() && bounds.iter().all(|b| b.is_finite())).then_some(range)
}

/// Return the cost of a million output tokens ($) on a machine at `usd_per_h` that is at work for a
/// share `utilisation` (0…1] of the time.
pub fn usd_per_m_tokens(tok_per_s: Range, usd_per_h: f64, utilisation: f64) -> Option<Range> {
    tok_per_s.under(usd_per_h * MILLION / (HOUR_S * utilisation))
}

/// Return the output tokens in an hour of one of the `parts` of a machine, such as its cores: all
/// of them count, whether they were at work or not.
pub fn tokens_per_part_h(tok_per_s: Range, parts: u32) -> Option<Range> {
    tok_per_s.times(HOUR_S / f64::from(parts))
}

/// Return the output tokens per joule.
pub fn tokens_per_j(j_per_token: Range) -> Option<Range> {
    j_per_token.under(1.0)
}

/// Return the requests that a machine serves in an hour, at work for a share `utilisation` of the
/// time.
pub fn requests_per_h(requests_per_s: Range, utilisation: f64) -> Option<Range> {
    requests_per_s.times(HOUR_S * utilisation)
}

/// Return the cost of electricity for a million output tokens ($).
pub fn energy_usd_per_m_tokens(j_per_token: Range, usd_per_kwh: f64) -> Option<Range> {
    j_per_token.times(MILLION / KWH_J * usd_per_kwh)
}

/// Return the price that an API charges for a request of this size ($).
pub fn api_usd_per_request(
    prompt_tokens: u32,
    new_tokens: u32,
    usd_per_m_input: f64,
    usd_per_m_output: f64,
) -> f64 {
    (f64::from(prompt_tokens) * usd_per_m_input + f64::from(new_tokens) * usd_per_m_output)
        / MILLION
}

/// Return the share of the time that a machine must be at work so that a request costs as much as
/// an API charges; over 1 the API is cheaper however busy the machine is.
pub fn break_even_utilisation(
    requests_per_s: Range,
    usd_per_h: f64,
    api_usd_per_request: f64,
) -> Option<Range> {
    requests_per_s.under(usd_per_h / (HOUR_S * api_usd_per_request))
}

/// Return the saving against a baseline on the same machine, as a share of the baseline's cost: 1 −
/// the baseline's throughput ÷ ours, with the interval of block-paired ratios, whose standard error
/// is `inflation` times as large (see [`crate::noise`]). The price cancels out. Negative where ours
/// costs more.
pub fn saving(ours: &[f64], baseline: &[f64], inflation: f64) -> Option<Range> {
    let ratio = paired_ratio_at(ours, baseline, CONFIDENCE, inflation)?;
    finite(Range {
        value: 1.0 - 1.0 / ratio.ratio,
        ci95: ratio
            .ci95
            .map(|(low, high)| (1.0 - 1.0 / low, 1.0 - 1.0 / high)),
    })
}

/// The results of a target at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Value on the scenario's axis.
    pub axis_value: u32,
    /// Output throughput (tokens/s).
    pub tok_per_s: Range,
    /// Request throughput (requests/s).
    pub requests_per_s: Range,
    /// Output speed for one user (tokens/s): the tokens of an answer ÷ its end-to-end latency, so
    /// that the wait in a queue and the prefill count.
    pub user_tok_per_s: Option<Range>,
    /// Energy per output token (J), of processors and GPU together; `None` where no counter was
    /// readable.
    pub j_per_token: Option<Range>,
    /// Whether the latency limits are kept; `None` without limits or with too few requests.
    pub meets_slo: Option<bool>,
    /// Output throughput by block (tokens/s).
    pub by_invocation: Vec<f64>,
}

/// The most common work, by prompt and output length, at all loads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Points of every measured cell of this work, in plan order.
    pub points: Vec<Point>,
}

impl Work {
    /// Return the load at which a target's throughput is highest; with `within_slo`, among the
    /// loads that keep the limits. The best of several loads is chosen by the same data that it is
    /// shown with, which flatters every target alike.
    pub fn best(&self, target: &str, within_slo: bool) -> Option<&Point> {
        self.points
            .iter()
            .filter(|p| p.target == target && (!within_slo || p.meets_slo == Some(true)))
            .max_by(|a, b| a.tok_per_s.value.total_cmp(&b.tok_per_s.value))
    }
}

/// Collect the loads that cost is computed at: cells of equal prompt and output length, since a
/// token after a long prompt is more work. Of several lengths the one with the most cells counts,
/// the longer prompt where equal. Left out are serial cells (one user is served) and batches that
/// wait for each other, because a service doesn't run like that, and prompts of mixed lengths,
/// which have no single price. A cell that several of these scenarios show counts once: in the one
/// that measured it, or else in the first that shows it.
pub fn work(plan: &Plan, analysis: &Analysis, slo: Option<&Slo>) -> Work {
    let served = |s: &&PlannedScenario| s.load == LoadShape::ClosedLoop || s.load.is_open();
    let mut sizes: BTreeMap<(u32, u32), Vec<Point>> = BTreeMap::new();
    let mut known: BTreeSet<CellKey> = BTreeSet::new();
    for scenario in plan.scenarios.iter().filter(served) {
        for case in scenario.cases.iter().filter(|c| !c.has_mixed_lengths()) {
            let (measuring, measured) = plan.measured(scenario, case);
            if measuring.id != scenario.id && served(&measuring) {
                continue;
            }
            let at = measuring.case_key(measured);
            let cells = analysis.cells.iter().filter(|cell| {
                cell.scenario == scenario.id && cell.case == case.id && cell.status == Status::Ok
            });
            let cells = cells.filter(|cell| known.insert(at.cell(&cell.target)));
            let size = sizes.entry((case.prompt_tokens, case.new_tokens));
            size.or_default()
                .extend(cells.filter_map(|c| point(c, case.new_tokens, slo)));
        }
    }
    let Some(((prompt_tokens, new_tokens), points)) = sizes
        .into_iter()
        .max_by_key(|((prompt, _), points)| (points.len(), *prompt))
    else {
        return Work::default();
    };
    Work {
        prompt_tokens,
        new_tokens,
        points,
    }
}

fn point(cell: &Cell, new_tokens: u32, slo: Option<&Slo>) -> Option<Point> {
    let metric = |id| cell.metric(id);
    let throughput = metric(MetricId::OutputTokPerS)?;
    let energy = |id| metric(id).map(Range::from_metric);
    Some(Point {
        target: cell.target.clone(),
        scenario: cell.scenario.clone(),
        case: cell.case.clone(),
        axis_value: cell.axis_value,
        tok_per_s: Range::from_metric(throughput),
        requests_per_s: Range::from_metric(metric(MetricId::RequestsPerS)?),
        user_tok_per_s: metric(MetricId::E2eNs)
            .and_then(|e2e| Range::from_metric(e2e).under(1e9 * f64::from(new_tokens))),
        j_per_token: sum(
            energy(MetricId::CpuEnergyPerTokenJ),
            energy(MetricId::GpuEnergyPerTokenJ),
        ),
        meets_slo: slo.and_then(|slo| meets(cell, slo)),
        by_invocation: throughput.by_invocation.clone(),
    })
}

/// Add two energies of one machine. The bounds are added too; the interval is then at most too
/// wide.
fn sum(a: Option<Range>, b: Option<Range>) -> Option<Range> {
    match (a, b) {
        (Some(a), Some(b)) => finite(Range {
            value: a.value + b.value,
            ci95: a.ci95.zip(b.ci95).map(|(a, b)| (a.0 + b.0, a.1 + b.1)),
        }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
