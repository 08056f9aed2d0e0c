//! The loads that the cost page shows: the best of each target, all of them, the chart of cost
//! against speed for a user, and the cost of the cheapest under other prices and utilisations.

use super::cells::swatch;
use super::cost_prices::{Number, dollars, money, with_interval};
use super::{Shown, case_label};
use crate::chart::forest::{Forest, Group, Outcome, Row};
use crate::chart::frontier::{Direction, Frontier, Point as Mark};
use crate::chart::scale::Kind as AxisKind;
use crate::chart::{Estimate, Figure};
use crate::fmt;
use crate::fmt::Unit;
use crate::words::lower_first;
use schema::registry::Target;
use serde::Serialize;
use stats::cost::{Point, Range, Work, tokens_per_j, tokens_per_part_h, usd_per_m_tokens};

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
    let scenarios = &mut shown.scenarios().iter();
    match scenarios.find(|s| s.id == point.scenario) {
        Some(scenario) => format!(
            "{}, {}",
            shown.title(scenario),
            case_label(scenario.axis, point.axis_value)
        ),
        None => point.case.clone(),
    }
}

/// The best load of each target, most throughput first; `within` the limits on latency, or of all.
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
    let mut points: Vec<&Point> = basis
        .work
        .points
        .iter()
        .filter(|point| targets.iter().any(|target| target.id == point.target))
        .collect();
    points.sort_by(|a, b| b.tok_per_s.value.total_cmp(&a.tok_per_s.value));
    points
        .into_iter()
        .map(|point| PointRow {
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
            frontier: !point.dominated && point.user_tok_per_s.is_some(),
        })
        .collect()
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
    let count = rows.len();
    (count > 0).then(|| {
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
    let of_targets = |point: &&Point| targets.iter().any(|target| target.id == point.target);
    let (mut points, mut missing) = (Vec::new(), Vec::new());
    let mut undominated = Vec::new();
    for point in basis.work.points.iter().filter(of_targets) {
        let name = point.target.clone();
        let Some((user, measure)) = point.user_tok_per_s.zip(basis.measure(point)) else {
            missing.push((name, "no end-to-end latency was measured".into()));
            continue;
        };
        if !point.dominated && !undominated.contains(&name) {
            undominated.push(name.clone());
        }
        points.push(Mark {
            name,
            note: load(shown, point),
            style: shown.style(&point.target),
            x: estimate(user),
            y: estimate(measure),
            rests_on: format!("{} launches", point.by_invocation.len()),
        });
    }
    if points.len() < 2 {
        return None;
    }
    let best = undominated.join(", ");
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
