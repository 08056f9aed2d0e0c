//! The loads that the cost page shows: the best of each target, all of them, the chart of cost
//! against speed for a user, and the cost of the cheapest under other prices and utilisations.

use super::prices::{Number, dollars, with_interval};
use crate::chart::forest::{Forest, Group, Outcome, Row};
use crate::chart::frontier::{Direction, Frontier, Point as Mark, undominated};
use crate::chart::scale::Kind as AxisKind;
use crate::chart::{Estimate, Figure};
use crate::fmt::{self, Unit, money};
use crate::view::cells::swatch;
use crate::view::{Shown, axis_label};
use crate::words::{lower_first, plural};
use schema::registry::Target;
use serde::Serialize;
use stats::analysis::MetricId;
use stats::cost::{Point, Range, Work, saving, tokens_per_j, tokens_per_part_h, usd_per_m_tokens};

/// The utilisation that the page assumes; a reader can change it.
pub const UTILISATION: f64 = 1.0;
/// Factors on the price in the sensitivity table.
const PRICE_FACTORS: [f64; 5] = [0.5, 0.75, 1.0, 1.25, 1.5];
const UTILISATIONS: [f64; 4] = [1.0, 0.5, 0.25, 0.1];

/// The prices and measurements that the page's numbers are computed from.
pub struct Basis {
    /// Price of the machine ($ an hour); `None` where no known price is for it.
    pub usd_per_h: Option<f64>,
    /// The unit of the machine's hours without a price, e.g. `core-hour`.
    pub hour: &'static str,
    /// Number of units of `hour` in an hour of the machine.
    pub parts: u32,
    /// Price of electricity ($ a kilowatt-hour).
    pub usd_per_kwh: Option<f64>,
    /// Prices of an API ($ per million prompt tokens, $ per million output tokens).
    pub api: Option<(f64, f64)>,
    /// The measured loads.
    pub work: Work,
}

impl Basis {
    /// The value of a load in charts: $ per million output tokens, or output tokens a core-hour (or
    /// its like) where there is no price.
    fn measure(&self, point: &Point) -> Option<Range> {
        match self.usd_per_h {
            Some(price) => usd_per_m_tokens(point.tok_per_s, price, UTILISATION),
            None => tokens_per_part_h(point.tok_per_s, self.parts),
        }
    }

    /// The unit of [`Basis::measure`].
    fn unit(&self) -> Unit {
        match self.usd_per_h {
            Some(_) => Unit::Plain,
            None => Unit::Count,
        }
    }
}

/// By how much the tokens of `ours` cost less than those of `base`, as a share. The interval is
/// widened by the run's error factor for throughput.
pub fn saved(shown: &Shown, ours: &Point, base: &Point) -> Option<Range> {
    let inflation = shown.analysis.inflation(MetricId::OutputTokPerS);
    saving(&ours.by_invocation, &base.by_invocation, inflation)
}

/// A row of the table of measured loads.
#[derive(Serialize)]
pub struct PointRow {
    swatch: String,
    target: String,
    load: String,
    per_hour: String,
    cost: Number,
    user: String,
    slo: &'static str,
    frontier: bool,
}

/// The cost with one target under other prices and utilisations.
#[derive(Serialize)]
pub struct Sensitivity {
    target: String,
    heads: Vec<String>,
    rows: Vec<(String, Vec<Number>)>,
}

/// The cost of a million output tokens at a load.
pub fn cost(basis: &Basis, point: &Point) -> Number {
    let price = basis.usd_per_h;
    let usd = price.and_then(|price| usd_per_m_tokens(point.tok_per_s, price, UTILISATION));
    Number::new("cost", point.tok_per_s, usd.map(dollars))
}

/// The output tokens of one hour of a CPU, GPU or machine, as [`Basis::hour`] says.
pub fn per_hour(basis: &Basis, point: &Point) -> String {
    tokens_per_part_h(point.tok_per_s, basis.parts).map_or(fmt::NONE.into(), tokens)
}

/// The output tokens from a joule; `None` where no energy was read.
pub fn per_joule(point: &Point) -> Option<String> {
    point.j_per_token.and_then(tokens_per_j).map(tokens)
}

fn tokens(count: Range) -> String {
    with_interval(Unit::Count, count)
}

/// Name a load: scenario and case.
pub fn load(shown: &Shown, point: &Point) -> String {
    match shown.scenario(&point.scenario) {
        Some(scenario) => format!(
            "{}, {}",
            shown.title(scenario),
            axis_label(scenario.axis, point.axis_value)
        ),
        None => point.case.clone(),
    }
}

/// Return the best load of each target, most throughput first; if `within`, only among loads that
/// keep the limits on latency.
pub fn ranked<'a>(work: &'a Work, targets: &[&Target], within: bool) -> Vec<&'a Point> {
    let mut best: Vec<&Point> = targets
        .iter()
        .filter_map(|target| work.best(&target.id, within))
        .filter(|point| point.tok_per_s.value > 0.0 && point.tok_per_s.value.is_finite())
        .collect();
    best.sort_by(|a, b| b.tok_per_s.value.total_cmp(&a.tok_per_s.value));
    best
}

/// Make a row for each load, the cheapest first.
pub fn points(shown: &Shown, basis: &Basis, targets: &[&Target]) -> Vec<PointRow> {
    let mut points = of_targets(&basis.work, targets);
    points.sort_by(|a, b| b.tok_per_s.value.total_cmp(&a.tok_per_s.value));
    let front = on_frontier(&points);
    points
        .into_iter()
        .zip(front)
        .map(|(point, frontier)| PointRow {
            swatch: swatch(shown, &point.target),
            target: point.target.clone(),
            load: load(shown, point),
            per_hour: per_hour(basis, point),
            cost: cost(basis, point),
            user: point
                .user_tok_per_s
                .map_or(fmt::NONE.into(), |user| with_interval(Unit::TokPerS, user)),
            slo: match point.meets_slo {
                Some(true) => "kept",
                Some(false) => "broken",
                None => "can’t be said",
            },
            frontier,
        })
        .collect()
}

/// The loads of these targets, in plan order.
fn of_targets<'a>(work: &'a Work, targets: &[&Target]) -> Vec<&'a Point> {
    let is_shown = |point: &&Point| targets.iter().any(|target| target.id == point.target);
    work.points.iter().filter(is_shown).collect()
}

/// Return for each load whether no other load is at least as good in both throughput and speed for
/// a user, and better in one. Only the estimates are compared, not their intervals. A load whose
/// speed for a user isn't known is never on the frontier.
fn on_frontier(points: &[&Point]) -> Vec<bool> {
    let values: Vec<(f64, f64)> = points
        .iter()
        .map(|point| {
            let user = point.user_tok_per_s.map_or(f64::NAN, |user| user.value);
            (user, point.tok_per_s.value)
        })
        .collect();
    undominated(&values, true, true)
}

/// Compute the cost of a load at other prices and utilisations.
pub fn sensitivity(usd_per_h: f64, point: &Point) -> Sensitivity {
    Sensitivity {
        target: point.target.clone(),
        heads: UTILISATIONS
            .map(|share| format!("{} % busy", share * 100.0))
            .to_vec(),
        rows: PRICE_FACTORS
            .map(|factor| {
                let change = match (factor - 1.0) * 100.0 {
                    0.0 => "the price above".to_owned(),
                    percent if percent < 0.0 => format!("−{} %", -percent),
                    percent => format!("+{percent} %"),
                };
                let cells = UTILISATIONS.map(|share| {
                    let usd = usd_per_m_tokens(point.tok_per_s, usd_per_h * factor, share);
                    Number {
                        price_factor: factor.to_string(),
                        utilisation: share.to_string(),
                        ..Number::new("what-if", point.tok_per_s, usd.map(dollars))
                    }
                });
                (change, cells.to_vec())
            })
            .to_vec(),
    }
}

/// Chart the cost of the best loads; `finding` is the page's sentence.
pub fn chart(
    shown: &Shown,
    basis: &Basis,
    targets: &[&Target],
    within: bool,
    finding: &str,
) -> Option<Figure> {
    let hour = basis.hour;
    let (marker, axis_label) = match basis.usd_per_h.map(money) {
        Some(price) => (
            format!(
                "dollars for a million output tokens at {price} an hour and a machine that is \
                 always busy; whiskers: 95 % interval. Left is cheaper. The axis is logarithmic, and \
                 another price moves all markers alike."
            ),
            format!("$ per million output tokens at {price} an hour"),
        ),
        None => (
            format!(
                "output tokens a {hour} of a machine that is always busy; whiskers: 95 % interval. \
                 Right is better. The axis is logarithmic."
            ),
            format!("output tokens a {hour}"),
        ),
    };
    let rows: Vec<Row> = ranked(&basis.work, targets, within)
        .into_iter()
        .filter_map(|point| {
            let estimate = estimate(basis.measure(point)?);
            Some(Row {
                label: point.target.clone(),
                style: shown.style(&point.target),
                shown: true,
                outcome: Outcome::Measured(estimate, lower_first(&load(shown, point))),
            })
        })
        .collect();
    (!rows.is_empty()).then(|| {
        Forest {
            id: "cost".into(),
            finding: finding.trim_end_matches('.').to_owned(),
            reading: format!("Marker: {marker}"),
            axis_label,
            unit: basis.unit(),
            kind: AxisKind::Log,
            reference: None,
            groups: vec![Group {
                heading: match within {
                    true => "Best load within the limits".into(),
                    false => "Best load".into(),
                },
                band: None,
                rows,
            }],
        }
        .draw()
    })
}

/// Chart cost against speed for a user, for all loads whose speed is known; `None` with fewer than
/// two, which leave no choice.
pub fn frontier(shown: &Shown, basis: &Basis, targets: &[&Target]) -> Option<Figure> {
    let (mut points, mut missing) = (Vec::new(), Vec::new());
    let mut unbeaten = Vec::new();
    let loads = of_targets(&basis.work, targets);
    let front = on_frontier(&loads);
    for (point, is_on_front) in loads.into_iter().zip(front) {
        let name = point.target.clone();
        let Some((user, measure)) = point.user_tok_per_s.zip(basis.measure(point)) else {
            missing.push((name, "no end-to-end latency was measured".into()));
            continue;
        };
        if is_on_front && !unbeaten.contains(&name) {
            unbeaten.push(name.clone());
        }
        points.push(Mark {
            name,
            note: load(shown, point),
            style: shown.style(&point.target),
            x: estimate(user),
            y: estimate(measure),
            rests_on: plural(point.by_invocation.len() as u64, "launch", "launches"),
        });
    }
    if points.len() < 2 {
        return None;
    }
    let best = unbeaten.join(", ");
    let (finding, about, label) = match basis.usd_per_h.map(money) {
        Some(price) => (
            format!(
                "By the estimates, no other target is both cheaper and faster for a user than {best}"
            ),
            format!(
                "Each mark is one target at one load, at {price} an hour and a machine that is \
                 always busy. Another price moves all marks alike."
            ),
            "$ per million output tokens".to_owned(),
        ),
        None => (
            format!(
                "By the estimates, no other target both gives more tokens a {} and is faster for a \
                 user than {best}",
                basis.hour
            ),
            "Each mark is one target at one load, on a machine that is always busy.".into(),
            format!("output tokens a {}", basis.hour),
        ),
    };
    let figure = Frontier {
        id: "frontier".into(),
        finding,
        about,
        x: Direction {
            label: "output tokens per second for each user, the wait included".into(),
            unit: Unit::TokPerS,
            more_is_better: true,
        },
        y: Direction {
            label,
            unit: basis.unit(),
            more_is_better: basis.usd_per_h.is_none(),
        },
        points,
        missing,
    };
    Some(figure.draw())
}

fn estimate(range: Range) -> Estimate {
    Estimate::new(range.value, range.ci95)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_page_shows_beats_a_load() {
        let load = |target: &str, tok_per_s: f64, user: Option<f64>| {
            let range = |value| Range { value, ci95: None };
            Point {
                target: target.into(),
                scenario: "sustained".into(),
                case: "c4".into(),
                axis_value: 4,
                tok_per_s: range(tok_per_s),
                requests_per_s: range(1.0),
                user_tok_per_s: user.map(range),
                j_per_token: None,
                meets_slo: None,
                by_invocation: vec![tok_per_s],
            }
        };
        let work = Work {
            points: vec![
                load("cpu", 10.0, Some(2.0)),
                load("gpu", 99.0, Some(9.0)),
                load("cpu", 5.0, Some(1.0)),
                load("cpu", 20.0, None),
            ],
            ..Work::default()
        };
        let cpu = Target {
            id: "cpu".into(),
            ..Target::default()
        };
        let shown = of_targets(&work, &[&cpu]);
        assert_eq!(on_frontier(&shown), [true, false, false]);
    }
}
