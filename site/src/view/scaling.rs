//! How throughput grows with concurrency, target by target: the share of linear
//! growth, and the scalability law where there are loads enough to fit it.

use super::Shown;
use super::cells::swatch;
use crate::fmt::{self, Unit};
use schema::plan::PlannedScenario;
use serde::Serialize;
use stats::analysis::Scaling;
use stats::ci::Interval;
use stats::usl::LOADS_MIN;

/// The table.
#[derive(Serialize)]
pub struct ScalingTable {
    note: String,
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

/// The table of a scenario; `None` where its concurrency doesn't vary from 1 on.
pub fn table(shown: &Shown, scenario: &PlannedScenario) -> Option<ScalingTable> {
    let of = |scaling: &&Scaling| scaling.scenario == scenario.id;
    let mut found: Vec<&Scaling> = shown.analysis.scalings.iter().filter(of).collect();
    found.sort_by(|a, b| b.fraction.total_cmp(&a.fraction));
    if found.is_empty() {
        return None;
    }
    let fitted = found.iter().any(|scaling| scaling.usl.is_some());
    Some(ScalingTable {
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
