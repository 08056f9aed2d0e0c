//! The tables of a case: every reported metric of every target, and the verdicts on their
//! differences.

use super::counts;
use crate::fmt::{self, Unit};
use crate::view::cells::{self, flag, pair_flag, swatch, verdict};
use crate::view::paths::reason_path;
use crate::view::{Shown, batches, noise, pilot};
use crate::words::by_key;
use schema::key::CaseKey;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use serde::Serialize;
use stats::analysis::{Bounded, Cell, Comparison, Metric, MetricId, Role, Shape};
use stats::metrics::Better;
use stats::stationarity::is_flagged;
use std::collections::BTreeSet;

/// The rows of one metric, one per measured target, best value first.
#[derive(Serialize)]
pub struct MetricRows {
    title: String,
    id: &'static str,
    /// What `n` counts.
    counts: &'static str,
    /// The suffix on the metric's error factor, ` · intervals widened × 1.2`, or empty.
    noise: String,
    rows: Vec<MetricRow>,
}

/// A row: one target's numbers on one metric; where there is none, a dash is printed.
#[derive(Serialize)]
struct MetricRow {
    swatch: String,
    target: String,
    value: String,
    interval: String,
    n: String,
    invocations: u32,
    /// Percentiles and MAD as [`leave_out_empty_tail`] heads them, each with its interval.
    shape: Vec<(String, Option<String>)>,
    /// Coefficient of variation across launches.
    cv: String,
    /// Whether that coefficient is over the limit.
    unsteady: bool,
    by_invocation: String,
    /// How many launches were disturbed, in words, in the target's first row of all metrics; empty
    /// for none, and in its other rows.
    disturbed: String,
    /// Autocorrelation at lag 1 within a launch.
    lag1: Option<String>,
    /// The effective sample size.
    effective: Option<String>,
    /// Ratio of early to late samples of a launch.
    drift: Option<String>,
    /// Whether that ratio is flagged as a drift.
    drifts: bool,
    /// Whether the interval reaches below 0 although no value can.
    below_zero: bool,
    /// Whether a range of launches stands in place of the interval.
    has_range: bool,
}

/// A target without numbers in a case.
#[derive(Serialize)]
pub struct FailedRow {
    swatch: String,
    target: String,
    status: &'static str,
    /// Whether the target was not asked ([`cells::is_untested`]).
    untested: bool,
    reason: String,
    /// Path and fragment of the full reason.
    path: String,
}

/// A row: one target compared with the baseline or the leader.
#[derive(Serialize)]
struct ComparisonRow {
    target: String,
    ratio: String,
    interval: String,
    /// The p value, Holm-adjusted.
    p: String,
    /// Cliff's delta with its size in words.
    delta: String,
    verdict: String,
    tone: &'static str,
    /// Which blocks were disturbed, in words; empty for none.
    disturbed: String,
}

/// All comparisons of a case with the same target, best ratio first.
#[derive(Serialize)]
pub struct ComparisonGroup {
    role: &'static str,
    against: String,
    rows: Vec<ComparisonRow>,
}

/// Make the rows of every reported metric of a case that any target has.
pub fn metrics(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> Vec<MetricRows> {
    let mut all = Vec::new();
    let mut flagged = BTreeSet::new();
    for id in shown.metrics(scenario) {
        let mut measured: Vec<(&Cell, &Metric)> = shown.measured(scenario, case, id).collect();
        if measured.is_empty() {
            continue;
        }
        let about = id.describe();
        measured.sort_by(|(_, a), (_, b)| match about.better {
            Better::Lower => a.value.total_cmp(&b.value),
            Better::Higher => b.value.total_cmp(&a.value),
            Better::Neither => std::cmp::Ordering::Equal,
        });
        all.push(MetricRows {
            title: shown.metric_title(scenario, id).into(),
            id: about.name,
            counts: counts(about.sample),
            noise: noise::suffix(shown.analysis.inflation(id)),
            rows: measured
                .into_iter()
                .map(|(cell, metric)| {
                    let is_first = flagged.insert(&cell.target);
                    metric_row(shown, cell, metric, id, is_first)
                })
                .collect(),
        });
    }
    all
}

/// Make a row; `is_first`: of the cell's rows, the one that flags disturbed launches.
fn metric_row(
    shown: &Shown,
    cell: &Cell,
    metric: &Metric,
    id: MetricId,
    is_first: bool,
) -> MetricRow {
    let unit = Unit::from_metric(id);
    let (value, interval) = fmt::metric(metric);
    let shape = match &metric.shape {
        Some(shape) => percentiles(unit, shape),
        None => vec![(fmt::NONE.into(), None); 5],
    };
    let has_range = fmt::lacks_interval(metric);
    let reaches_below = metric.ci95.is_some_and(|(low, _)| low < 0.0);
    let course = metric.course.as_ref();
    let drift = course.and_then(|course| course.drift.as_ref());
    let effective = course.and_then(|course| course.effective);
    let by_invocation: Vec<String> = metric
        .by_invocation
        .iter()
        .map(|&value| fmt::quantity(unit, value))
        .collect();
    MetricRow {
        swatch: swatch(shown, &cell.target),
        target: cell.target.clone(),
        value,
        interval: interval.unwrap_or_else(|| fmt::NONE.into()),
        n: fmt::count(metric.n),
        invocations: cell.invocations,
        shape,
        cv: metric.cv_invocations.map_or(fmt::NONE.into(), fmt::percent),
        unsteady: metric.reproducible() == Some(false),
        lag1: course.and_then(|c| c.lag1).map(fmt::delta),
        effective: effective.map(|n| fmt::count(n.round() as u64)),
        drift: drift.map(|d| fmt::ratio(d.ratio, None).0),
        drifts: drift.is_some_and(is_flagged),
        below_zero: unit.is_never_negative() && reaches_below && !has_range,
        has_range,
        by_invocation: by_invocation.join(", "),
        disturbed: match is_first {
            true => flag(cell),
            false => String::new(),
        },
    }
}

/// Format p50, p90, p95, p99 and MAD.
fn percentiles(unit: Unit, shape: &Shape) -> Vec<(String, Option<String>)> {
    let printed = |(value, ci): Bounded| fmt::with_interval(unit, value, ci);
    let all = shape.percentiles().into_iter();
    all.chain([Some((shape.mad, None))])
        .map(|found| found.map_or((fmt::NONE.into(), None), printed))
        .collect()
}

/// Remove from all rows the percentiles of the tail that no row has; return the headings of what is
/// left.
pub fn leave_out_empty_tail(metrics: &mut [MetricRows]) -> Vec<&'static str> {
    let mut heads = vec!["p50", "p90", "p95", "p99", "MAD"];
    for column in [3, 2] {
        let mut rows = metrics.iter().flat_map(|metric| &metric.rows);
        if rows.any(|row| row.shape[column].0 != fmt::NONE) {
            continue;
        }
        heads.remove(column);
        for row in metrics.iter_mut().flat_map(|metric| &mut metric.rows) {
            row.shape.remove(column);
        }
    }
    heads
}

/// Whether any interval of a case reaches below 0 although no value can.
pub fn below_zero(metrics: &[MetricRows]) -> bool {
    let mut rows = metrics.iter().flat_map(|metric| &metric.rows);
    rows.any(|row| row.below_zero)
}

/// Whether a range of launches stands in place of any interval of a case.
pub fn has_range(metrics: &[MetricRows]) -> bool {
    let mut rows = metrics.iter().flat_map(|metric| &metric.rows);
    rows.any(|row| row.has_range)
}

/// List the targets whose samples drift, each with the metrics: `a (TTFT, ITL); b (ITL)`; empty
/// where none do.
pub fn drifting(metrics: &[MetricRows]) -> String {
    let flagged = metrics.iter().flat_map(|metric| {
        let rows = metric.rows.iter().filter(|row| row.drifts);
        rows.map(move |row| (row.target.as_str(), metric.title.to_lowercase()))
    });
    let words = |(target, titles): (&str, Vec<String>)| format!("{target} ({})", titles.join(", "));
    let targets = by_key(flagged).into_iter().map(words);
    targets.collect::<Vec<_>>().join("; ")
}

/// List the targets that had fewer requests in a batch than were in flight, with how many: `a 3.2,
/// b 1`; empty where none.
pub fn small_batches(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> String {
    let cells = shown.cells_of(scenario, case);
    let small = cells.filter_map(|cell| {
        let requests = batches::smaller(cell, case)?;
        Some(format!("{} {requests}", cell.target))
    });
    small.collect::<Vec<_>>().join(", ")
}

/// Say what requests took in the pilot, of the targets that a case had no time for; empty where
/// none is known.
pub fn by_pilot(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> String {
    let cells = shown.cells_of(scenario, case);
    let over = cells.filter(|cell| cell.status == Status::OverBudget);
    let found = over.filter_map(|cell| {
        let took = pilot::took(shown, case, &cell.target)?;
        Some(format!("{} {took}", cell.target))
    });
    let found: Vec<String> = found.collect();
    match found.is_empty() {
        true => String::new(),
        false => format!(
            "Targets that there was no time for, with what the pilot took, once: {}. That is an estimate.",
            found.join("; ")
        ),
    }
}

/// Make a row for each target of a case without numbers.
pub fn failures(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> Vec<FailedRow> {
    shown
        .cells_of(scenario, case)
        .filter(|cell| cell.status != Status::Ok)
        .map(|cell| FailedRow {
            swatch: swatch(shown, &cell.target),
            target: cell.target.clone(),
            status: cells::words_of(cell),
            untested: cells::is_untested(cell),
            reason: cell.reason.clone(),
            path: reason_path(&cell.key()),
        })
        .collect()
}

/// Make the comparisons of a case: against the baseline, then against the leader.
pub fn comparisons(shown: &Shown, at: &CaseKey) -> Vec<ComparisonGroup> {
    let roles = [
        (Role::Baseline, "the baseline"),
        (Role::Leader, "the leader"),
    ];
    let groups = roles.into_iter().filter_map(|(role, words)| {
        let mut found: Vec<&Comparison> = shown.analysis.comparisons_of(at, role).collect();
        found.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        Some(ComparisonGroup {
            role: words,
            against: found.first()?.against.clone(),
            rows: found.into_iter().map(comparison_row).collect(),
        })
    });
    groups.collect()
}

fn comparison_row(c: &Comparison) -> ComparisonRow {
    let (ratio, interval) = fmt::ratio(c.ratio, c.ci95);
    let (verdict, tone) = verdict(c);
    let delta = |d: f64| format!("{} {}", fmt::delta(d), effect_size(d));
    ComparisonRow {
        target: c.target.clone(),
        ratio,
        interval: interval.unwrap_or_else(|| fmt::NONE.into()),
        p: c.p_holm.map_or(fmt::NONE.into(), fmt::p_value),
        delta: c.cliffs_delta.map_or(fmt::NONE.into(), delta),
        verdict,
        tone,
        disturbed: pair_flag(&c.not_comparable),
    }
}

/// The usual name of an effect of this size, by |Cliff's delta| (Romano et al. 2006).
fn effect_size(delta: f64) -> &'static str {
    match delta.abs() {
        d if d < 0.147 => "negligible",
        d if d < 0.33 => "small",
        d if d < 0.474 => "medium",
        _ => "large",
    }
}
