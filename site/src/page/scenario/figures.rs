//! The charts of a scenario: a metric along its axis or by target, and the distribution of its samples.

use super::direction;
use super::fits::{self, Law};
use crate::chart::forest::{Forest, Group, Outcome, Row};
use crate::chart::lines::{Lines, Point, Series};
use crate::chart::scale::{Kind, wants_log};
use crate::chart::{Estimate, Figure, ecdf};
use crate::fmt::{self, Unit};
use crate::html::slug;
use crate::view::cells::{NO_INTERVAL, missing, rests_on, why};
use crate::view::primary::primary;
use crate::view::{Shown, case_label};
use crate::words::plural;
use schema::plan::{Case, PlannedScenario};
use stats::analysis::{Cell, Metric, MetricId};
use stats::metrics::Better;

/// Chart a metric along the scenario's axis, or with one row per target where there is a single
/// case; `None` where no cell has the metric.
pub fn along_axis(shown: &Shown, scenario: &PlannedScenario, id: MetricId) -> Option<Figure> {
    let about = id.describe();
    let title = shown.metric_title(scenario, id);
    let figure_id = format!("by-case-{}", about.name);
    let is_measured = |case: &Case| shown.measured(scenario, case, id).next().is_some();
    if !scenario.cases.iter().any(is_measured) {
        return None;
    }
    if let [case] = scenario.cases.as_slice() {
        return Some(one_case(shown, scenario, case, id, figure_id));
    }
    let chosen = primary(shown, scenario);
    let law = Law::new(scenario, id);
    let series: Vec<Series> = shown
        .targets()
        .iter()
        .map(|target| {
            let is_shown = chosen.contains(target.id.as_str());
            let mut series = Series::new(&target.id, shown.style(&target.id), is_shown);
            series.fit = law.and_then(|law| fits::fit(shown, scenario, &target.id, id, law));
            for case in &scenario.cases {
                let cell = shown.cell(&scenario.cell_key(case, &target.id));
                add(&mut series, case.axis_value(scenario.axis), cell, id);
            }
            series.points.sort_by_key(|point| point.x);
            series
        })
        .collect();
    let size = |case: &&Case| case.axis_value(scenario.axis);
    let first = scenario.cases.iter().min_by_key(size)?;
    let last = scenario.cases.iter().max_by_key(size)?;
    let fitted = series.iter().any(|series| series.fit.is_some());
    Some(
        Lines {
            id: figure_id,
            finding: format!(
                "{title}: {}; {}{}",
                best_of(shown, scenario, first, id),
                best_of(shown, scenario, last, id),
                law.map(|law| fits::finding(&series, law))
                    .unwrap_or_default()
            ),
            about: law.map(|law| law.about(fitted)).unwrap_or_default(),
            power_law: law == Some(Law::Power),
            fit_label: law
                .filter(|_| fitted)
                .map(|law| law.label().to_owned())
                .unwrap_or_default(),
            x_label: scenario.axis.label().into(),
            y_label: format!("{}, {}", title.to_lowercase(), direction(about.better)),
            unit: Unit::from_metric(id),
            series,
        }
        .draw(),
    )
}

/// Add a cell's number at `x` to a series, or the reason why it has none.
pub(super) fn add(series: &mut Series, x: u32, cell: Option<&Cell>, id: MetricId) {
    match cell.and_then(|cell| Some((cell, cell.metric(id)?))) {
        Some((cell, metric)) => series.points.push(Point {
            x,
            y: estimate(metric),
            rests_on: rests_on(cell, metric),
        }),
        None => series.missing.push((x, why(cell))),
    }
}

fn one_case(
    shown: &Shown,
    scenario: &PlannedScenario,
    case: &Case,
    id: MetricId,
    figure_id: String,
) -> Figure {
    let title = shown.metric_title(scenario, id);
    let rows: Vec<Row> = shown
        .targets()
        .iter()
        .map(|target| {
            let cell = shown.cell(&scenario.cell_key(case, &target.id));
            let outcome = match cell.and_then(|cell| Some((cell, cell.metric(id)?))) {
                Some((cell, metric)) => Outcome::Measured(estimate(metric), rests_on(cell, metric)),
                None => missing(cell),
            };
            Row {
                label: target.id.clone(),
                style: shown.style(&target.id),
                shown: true,
                outcome,
            }
        })
        .collect();
    let values = rows.iter().filter_map(|row| match &row.outcome {
        Outcome::Measured(estimate, _) => Some(estimate.value),
        Outcome::Missing(_) | Outcome::Untested(_) => None,
    });
    let kind = if wants_log(values, 20.0) {
        Kind::Log
    } else {
        Kind::Linear
    };
    Forest {
        id: figure_id,
        finding: format!("{title}: {}", best_of(shown, scenario, case, id)),
        reading: "Marker: mean over launches; whiskers: its 95 % interval, where there is more than one launch.".into(),
        axis_label: format!("{}, {}", title.to_lowercase(), direction(id.describe().better)),
        unit: Unit::from_metric(id),
        kind,
        reference: None,
        groups: vec![Group {
            heading: case_label(scenario, case),
            band: None,
            rows,
        }],
    }
    .draw()
}

/// Chart the distribution of a metric's samples in one case; `None` where no target has any.
pub fn distribution(
    shown: &Shown,
    scenario: &PlannedScenario,
    case: &Case,
    id: MetricId,
) -> Option<Figure> {
    let about = id.describe();
    let chosen = primary(shown, scenario);
    let series: Vec<ecdf::Series> = shown
        .measured(scenario, case, id)
        .filter_map(|(cell, metric)| {
            let shape = metric
                .shape
                .as_ref()
                .filter(|shape| shape.quantiles.len() >= 2)?;
            let [p50, p90, _, p99] = shape.percentiles();
            Some(ecdf::Series {
                name: cell.target.clone(),
                style: shown.style(&cell.target),
                shown: chosen.contains(cell.target.as_str()),
                n: metric.n,
                quantiles: shape.quantiles.clone(),
                marks: [(50, p50), (90, p90), (99, p99)]
                    .into_iter()
                    .filter_map(|(p, found)| Some((p, found?.0)))
                    .collect(),
            })
        })
        .collect();
    let best = series
        .iter()
        .filter_map(|s| Some((s, *s.quantiles.get(s.quantiles.len() / 2)?)))
        .filter(|(_, median)| median.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let label = case_label(scenario, case);
    Some(
        ecdf::Ecdf {
            id: format!("ecdf-{}-{}", about.name, slug(&case.id)),
            finding: format!(
                "{} at {label}: half of {}’s samples are at or below {}",
                about.title,
                best.0.name,
                fmt::quantity(Unit::from_metric(id), best.1)
            ),
            x_label: about.title.to_lowercase(),
            unit: Unit::from_metric(id),
            series,
        }
        .draw(),
    )
}

/// Name the best target of a case and how many are tied with it, exactly or by rank on the leading
/// metric: `at 8 users, the lowest is candle.cpu.f32’s 12.3 ms [11.9, 12.8]`.
fn best_of(shown: &Shown, scenario: &PlannedScenario, case: &Case, id: MetricId) -> String {
    let label = case_label(scenario, case);
    let higher = id.describe().better == Better::Higher;
    let measured = || {
        let all = shown.measured(scenario, case, id);
        all.filter(|(_, metric)| metric.value.is_finite())
    };
    let order = |a: &(&Cell, &Metric), b: &(&Cell, &Metric)| {
        let order = a.1.value.total_cmp(&b.1.value);
        if higher { order.reverse() } else { order }
    };
    let words = |metric: &Metric| {
        let (value, interval) = fmt::metric(metric);
        format!("{value} {}", interval.unwrap_or_else(|| NO_INTERVAL.into()))
    };
    let (Some((cell, best)), Some((last, worst))) =
        (measured().min_by(order), measured().max_by(order))
    else {
        return format!("at {label}, nothing was measured");
    };
    let value = words(best);
    if measured().count() == 1 {
        return format!("at {label} only {} was measured: {value}", cell.target);
    }
    // Loads differ, so the target with the best value need not be the better one.
    if scenario.has_own_loads() {
        return format!(
            "at {label} from {}’s {value} to {}’s {}, each at a load of its own",
            cell.target,
            last.target,
            words(worst)
        );
    }
    let leading = shown.leading(scenario) == Some(id);
    let tied = measured()
        .filter(|(other, metric)| {
            let ranked = leading && other.rank.is_some() && other.rank == cell.rank;
            other.target != cell.target && (ranked || metric.value == best.value)
        })
        .count();
    let tied = match tied {
        0 => String::new(),
        n => format!(", tied with {}", plural(n as u64, "other", "others")),
    };
    format!(
        "at {label}, the {} is {}’s {value}{tied}",
        if higher { "highest" } else { "lowest" },
        cell.target,
    )
}

fn estimate(metric: &Metric) -> Estimate {
    Estimate::new(metric.value, metric.ci95)
}
