//! Chooses the targets that a chart shows before the reader asks for more: the baseline, and the
//! best of each engine. Two dozen lines at once would show nothing; every target is in the table
//! behind each chart, and can be switched on.

use crate::chart::style::Style;
use crate::view::Shown;
use crate::view::cells::chip;
use schema::plan::{Case, PlannedScenario};
use schema::registry::Target;
use serde::Serialize;
use stats::metrics::Better;
use std::collections::BTreeSet;

/// An engine in a page's legend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LegendEntry {
    /// Number of the engine in the run, by which charts and tables refer to it.
    pub number: usize,
    /// Id of the engine.
    pub id: String,
    /// The engine's marker, an SVG element.
    pub chip: String,
}

/// Make the legend of the run's engines, in plan order.
pub fn legend(shown: &Shown) -> Vec<LegendEntry> {
    let mut entries: Vec<LegendEntry> = Vec::new();
    for target in shown.targets() {
        let style = shown.style(&target.id);
        if entries.iter().all(|entry| entry.number != style.engine) {
            entries.push(LegendEntry {
                number: style.engine,
                id: target.engine.clone(),
                chip: chip(Style { target: 0, ..style }),
            });
        }
    }
    entries
}

/// Choose the targets to show of a scenario: the baseline, and of each engine the one with the best
/// value of the leading metric at the headline case, or at the first case at which the engine has a
/// value.
pub fn primary<'a>(shown: &Shown<'a>, scenario: &'a PlannedScenario) -> BTreeSet<&'a str> {
    let mut chosen = BTreeSet::from([shown.baseline()]);
    let engines: BTreeSet<&str> = shown.targets().iter().map(|t| t.engine.as_str()).collect();
    let cases = shown.headline(scenario).into_iter().chain(&scenario.cases);
    let cases: Vec<&Case> = cases.collect();
    for engine in engines {
        let targets = || shown.targets_of(engine);
        let best = cases
            .iter()
            .find_map(|case| best(shown, scenario, case, targets()));
        chosen.extend(best.or_else(|| targets().next()).map(|t| t.id.as_str()));
    }
    chosen
}

fn best<'a>(
    shown: &Shown<'a>,
    scenario: &PlannedScenario,
    case: &Case,
    targets: impl Iterator<Item = &'a Target>,
) -> Option<&'a Target> {
    let id = shown.leading(scenario)?;
    let sign = match id.describe().better {
        Better::Higher => -1.0,
        Better::Lower | Better::Neither => 1.0,
    };
    targets
        .filter_map(|target| {
            let cell = shown.cell(&scenario.cell_key(case, &target.id))?;
            let value = cell.metric(id)?.value;
            value.is_finite().then_some((target, sign * value))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(target, _)| target)
}
