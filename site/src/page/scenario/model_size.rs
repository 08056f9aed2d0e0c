//! The chart of memory against the model's size: the peak of the same case in runs of several
//! models on one machine.

use super::figures::add;
use crate::chart::Figure;
use crate::chart::lines::{Lines, Series};
use crate::fmt::Unit;
use crate::view::place::{machine, parameters, representative_runs};
use crate::view::{Shown, case_label};
use schema::plan::{Case, PlannedScenario};
use stats::analysis::MetricId;

const PEAK: MetricId = MetricId::PeakRssBytes;

/// Chart the peak memory of a scenario that reports weights, for all models that were measured on
/// the machine of `newest`; `None` with fewer than two models.
pub fn memory(newest: &Shown, all: &[Shown], scenario: &PlannedScenario) -> Option<Figure> {
    if !newest.metrics(scenario).contains(&MetricId::WeightBytes) {
        return None;
    }
    let runs = of_several_sizes(newest, all);
    let (first, rest) = runs.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let (at, case) = common(first.1, rest)?;
    let series = newest.targets().iter().map(|target| {
        let mut of = Series::new(&target.id, newest.style(&target.id), true);
        for (millions, run) in &runs {
            let cell = run.cell(&at.cell_key(case, &target.id));
            add(&mut of, *millions, cell, PEAK);
        }
        of
    });
    let series: Vec<Series> = series.filter(|of| of.points.len() > 1).collect();
    // Compare slopes, not intercepts: the intercept is the runtime's memory.
    let least_grown = series
        .iter()
        .filter_map(|of| {
            let (small, large) = (of.points.first()?, of.points.last()?);
            let growth = large.y.value - small.y.value;
            let per = growth / (f64::from(large.x) - f64::from(small.x)) / 1e6;
            per.is_finite().then_some((per, of.name.clone()))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let label = case_label(at, case);
    let models = runs.iter().map(|(_, run)| {
        let header = &run.run.header;
        format!("{} (run {})", header.plan.model, header.id)
    });
    let models: Vec<String> = models.collect();
    Some(
        Lines {
            id: "model-size".into(),
            finding: format!(
                "Peak memory against the model’s size, {} at {label}: least growth with {}, {:.2} bytes a parameter",
                newest.title(at),
                least_grown.1,
                least_grown.0
            ),
            about: format!(
                "One machine, one case, several models: {}. A peak counts mapped weights as far as they were touched, and the runtime, which does not grow with the model.",
                models.join(", ")
            ),
            x_label: "parameters, millions".into(),
            y_label: PEAK.describe().title.to_lowercase(),
            unit: Unit::Bytes,
            power_law: true,
            fit_label: String::new(),
            series,
        }
        .draw(),
    )
}

/// The first run of each model on the machine of `newest`, with the model's parameters in millions,
/// ascending.
fn of_several_sizes<'s, 'a>(
    newest: &'s Shown<'a>,
    all: &'s [Shown<'a>],
) -> Vec<(u32, &'s Shown<'a>)> {
    let here = machine(newest.run);
    let mut runs: Vec<(u32, &Shown)> = Vec::new();
    let all = representative_runs(all).into_iter();
    for run in all.filter(|run| machine(run.run) == here) {
        let Some(parameters) = parameters(run) else {
            continue;
        };
        let millions = u32::try_from((parameters + 500_000) / 1_000_000).unwrap_or(u32::MAX);
        if !runs.iter().any(|(known, _)| *known == millions) {
            runs.push((millions.max(1), run));
        }
    }
    runs.sort_by_key(|(millions, _)| *millions);
    runs
}

/// The first case that all runs planned with the same work; the number of samples may differ.
fn common<'a>(
    first: &Shown<'a>,
    rest: &[(u32, &Shown)],
) -> Option<(&'a PlannedScenario, &'a Case)> {
    // Look first at the scenario that is ranked by peak memory: elsewhere a process may serve
    // several scenarios, and its peak leaves loading out.
    let (own, others): (Vec<_>, Vec<_>) = first
        .scenarios()
        .iter()
        .partition(|scenario| first.leading(scenario) == Some(PEAK));
    let mut cases = own
        .into_iter()
        .chain(others)
        .flat_map(|scenario| scenario.cases.iter().map(move |c| (scenario, c)));
    cases.find(|(scenario, case)| rest.iter().all(|(_, run)| plans(run, scenario, case)))
}

fn plans(run: &Shown, scenario: &PlannedScenario, case: &Case) -> bool {
    let mut same = run.scenarios().iter();
    let same = same.find(|s| s.id == scenario.id && s.version == scenario.version);
    let alike = |other: &Case| {
        let work = |c: &Case| (c.prompt_tokens, c.new_tokens, c.concurrency);
        other.id == case.id && work(other) == work(case)
    };
    same.is_some_and(|s| s.cases.iter().any(alike))
}
