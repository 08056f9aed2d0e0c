//! The laws fitted along a scenario's axis: how the time to the first token grows with the context,
//! and how throughput grows with concurrency. In charts, a law is drawn over the measured range,
//! never beyond.
//!
//! A table gives each target's share of linear growth, and the scalability law where there are
//! enough loads to fit it.

use crate::chart::lines::{Fit, Series};
use crate::fmt;
use crate::fmt::Unit;
use crate::view::Shown;
use crate::view::cells::swatch;
use schema::plan::PlannedScenario;
use schema::scenario::Axis;
use serde::Serialize;
use stats::analysis::{Cell, MetricId, Scaling};
use stats::ci::Interval;
use stats::power_law::{PowerLaw, of_cells};
use stats::usl::{Coefficients, LOADS_MIN, Usl};

/// Number of steps of a drawn curve.
const POINTS: usize = 24;

/// The law that a metric of a scenario may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// `y = a·xᵖ`.
    Power,
    /// The Universal Scalability Law.
    Scalability,
}

impl Law {
    /// The law to fit to a metric of a scenario, if any.
    pub fn new(scenario: &PlannedScenario, id: MetricId) -> Option<Self> {
        match (scenario.axis, id) {
            (Axis::PromptTokens, MetricId::TtftNs) if scenario.cases.len() > 2 => Some(Law::Power),
            (Axis::Users | Axis::InFlight | Axis::Batch, MetricId::OutputTokPerS) => {
                Some(Law::Scalability)
            }
            _ => None,
        }
    }

    /// Heading of the law's column in the table.
    pub fn label(self) -> &'static str {
        match self {
            Law::Power => "Growth exponent",
            Law::Scalability => "Scalability law: contention σ, coherency κ",
        }
    }

    /// What the reader must know of the law; `any` says whether one was fitted.
    pub fn about(self, any: bool) -> String {
        match (self, any) {
            (Law::Power, true) => "The exponent p of time ∝ contextᵖ is the slope here: 1 is in proportion, 2 is what attention alone would cost.".into(),
            (Law::Scalability, true) => "The law is Gunther’s: X(N) = λN ÷ (1 + σ(N − 1) + κN(N − 1)).".into(),
            (Law::Power, false) => String::new(),
            (Law::Scalability, false) => format!(
                "No scaling law is drawn: a fit takes {LOADS_MIN} loads with 1 among them, and two launches."
            ),
        }
    }
}

/// Fit the law to a target; `None` where it can't be fitted.
pub fn fit(
    shown: &Shown,
    scenario: &PlannedScenario,
    target: &str,
    id: MetricId,
    law: Law,
) -> Option<Fit> {
    match law {
        Law::Power => {
            let law = exponent(shown, scenario, target, id)?;
            let (low, high) = range(scenario);
            Some(Fit {
                curve: vec![(low, law.at(low)), (high, law.at(high))],
                first: law.exponent.mean,
                words: words(law.exponent),
            })
        }
        Law::Scalability => {
            let of = |s: &&Scaling| s.scenario == scenario.id && s.target == target;
            let usl = shown.analysis.scalings.iter().find(of)?.usl?;
            Some(Fit {
                curve: curve(&usl, range(scenario)),
                first: usl.sigma.mean,
                words: format!("σ {}, κ {}", words(usl.sigma), words(usl.kappa)),
            })
        }
    }
}

/// Say between which growth exponents the shown series lie; empty where there are none.
pub fn finding(series: &[Series], law: Law) -> String {
    let fits = series.iter().filter(|series| series.shown);
    let mut fits: Vec<(&str, &Fit)> = fits
        .filter_map(|series| Some((series.name.as_str(), series.fit.as_ref()?)))
        .collect();
    if law != Law::Power {
        return String::new();
    }
    fits.sort_by(|a, b| a.1.first.total_cmp(&b.1.first));
    match fits.as_slice() {
        [(name, fit)] => format!("; growth exponent {} ({name})", fit.words),
        [(least, a), .., (most, b)] => format!(
            "; growth exponents from {} ({least}) to {} ({most})",
            a.words, b.words
        ),
        [] => String::new(),
    }
}

/// Fit a target's growth exponent over the cases that it has; `None` where they don't all have the
/// same launches.
pub fn exponent(
    shown: &Shown,
    scenario: &PlannedScenario,
    target: &str,
    id: MetricId,
) -> Option<PowerLaw> {
    let cells: Vec<&Cell> = scenario
        .cases
        .iter()
        .filter_map(|case| shown.cell(&scenario.cell_key(case, target)))
        .collect();
    Some(of_cells(&cells, id)?.law)
}

fn range(scenario: &PlannedScenario) -> (f64, f64) {
    let values = || {
        let cases = scenario.cases.iter();
        cases.map(|case| f64::from(case.axis_value(scenario.axis)))
    };
    (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    )
}

fn curve(usl: &Usl, (low, high): (f64, f64)) -> Vec<(f64, f64)> {
    let law = Coefficients {
        lambda: usl.lambda.mean,
        sigma: usl.sigma.mean,
        kappa: usl.kappa.mean,
    };
    (0..=POINTS)
        .map(|i| {
            let load = low * (high / low).powf(i as f64 / POINTS as f64);
            (load, law.throughput(load))
        })
        .collect()
}

fn words(interval: Interval) -> String {
    let ci = Some((interval.low, interval.high));
    fmt::joined(fmt::with_interval(fmt::Unit::Plain, interval.mean, ci))
}

/// The table of how throughput scales with concurrency.
#[derive(Serialize)]
pub struct ScalingTable {
    note: String,
    /// Whether any row has a scalability law.
    fitted: bool,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    swatch: String,
    target: String,
    load: u32,
    fraction: String,
    interval: String,
    sigma: String,
    kappa: String,
}

/// Make the table of a scenario; `None` where its concurrency doesn't vary from 1 on.
pub fn scaling_table(shown: &Shown, scenario: &PlannedScenario) -> Option<ScalingTable> {
    let of = |scaling: &&Scaling| scaling.scenario == scenario.id;
    let mut found: Vec<&Scaling> = shown.analysis.scalings.iter().filter(of).collect();
    found.sort_by(|a, b| b.fraction.total_cmp(&a.fraction));
    if found.is_empty() {
        return None;
    }
    let fitted = found.iter().any(|scaling| scaling.usl.is_some());
    Some(ScalingTable {
        fitted,
        note: match fitted {
            true => "σ (contention) and κ (coherency) are those of the Universal Scalability Law, \
                     X(N) = λN ÷ (1 + σ(N − 1) + κN(N − 1)), fitted to each launch; the intervals \
                     are over launches."
                .into(),
            false => format!(
                "No scalability law is fitted: that takes {LOADS_MIN} loads with 1 among them, \
                 and two launches."
            ),
        },
        rows: found.iter().map(|scaling| row(shown, scaling)).collect(),
    })
}

fn row(shown: &Shown, scaling: &Scaling) -> Row {
    let percent = |fraction: f64| 100.0 * fraction;
    let (fraction, interval) = fmt::with_interval(
        Unit::Percent,
        percent(scaling.fraction),
        scaling
            .ci95
            .map(|(low, high)| (percent(low), percent(high))),
    );
    let coefficient = |of: fn(&stats::usl::Usl) -> Interval| match &scaling.usl {
        None => fmt::NONE.into(),
        Some(usl) => {
            let i = of(usl);
            format!("{:.2e} [{:.2e}, {:.2e}]", i.mean, i.low, i.high)
        }
    };
    Row {
        swatch: swatch(shown, &scaling.target),
        target: scaling.target.clone(),
        load: scaling.load,
        fraction,
        interval: interval.unwrap_or_else(|| fmt::NONE.into()),
        sigma: coefficient(|usl| usl.sigma),
        kappa: coefficient(|usl| usl.kappa),
    }
}
