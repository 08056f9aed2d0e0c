//! Says in sentences what a page's numbers amount to.
//!
//! Scenario and engine pages open with a sentence on who leads and by how much, made from
//! comparisons alone, with the uncertainty and with what it doesn't show. A case has sentences on
//! what it promises a user: which targets were offered more than they served, and which met the
//! profile's limits on latency.

use crate::fmt;
use crate::fmt::Unit;
use crate::view::answer::{Answer, answers};
use crate::view::{Shown, case_label};
use crate::words::{join, plural};
use schema::plan::{Case, PlannedScenario};
use stats::analysis::{Cell, Comparison, MetricId, Role};
use stats::open_loop::{meets, over_saturated};

/// Maximum number of targets with loads of their own that are named; the rest are counted.
const NAMED: usize = 4;

/// Write the opening sentence of a scenario's page.
pub fn of_scenario(shown: &Shown, scenario: &PlannedScenario) -> String {
    if scenario.has_own_loads() {
        return own_loads(shown, scenario);
    }
    let path = crate::view::paths::scenario_path(&scenario.id);
    match answers(shown)
        .into_iter()
        .find(|answer| answer.path == path)
    {
        Some(answer) if !answer.leaders.is_empty() => lead(shown, &answer),
        Some(answer) => format!("There are no ranks here: {}.", answer.certainty),
        None if shown.text(scenario).is_none() => {
            "There are no ranks here: the scenario has changed since this run.".into()
        }
        None => "There are no ranks here: the scenario names no metric.".into(),
    }
}

/// Write the sentence of a scenario in which each target is offered a share of its own capacity:
/// the end-to-end latency of each target with its load. A leader there would only be the target
/// that was offered the most.
fn own_loads(shown: &Shown, scenario: &PlannedScenario) -> String {
    let Some(case) = shown.headline(scenario) else {
        return "There are no ranks here: the scenario has no case.".into();
    };
    let mut found: Vec<(f64, String)> = shown
        .targets()
        .iter()
        .filter_map(|target| {
            let cell = shown.cell(&scenario.cell_key(case, &target.id))?;
            let e2e = cell.metric(MetricId::E2eNs)?;
            let offered = cell.metric(MetricId::OfferedPerS)?;
            let (value, interval) = fmt::with_interval(Unit::Ns, e2e.value, e2e.ci95);
            let interval = interval.unwrap_or_else(|| "(a single launch)".into());
            let offered = fmt::quantity(Unit::RequestsPerS, offered.value);
            let words = format!("in {value} {interval} at {offered}");
            Some((e2e.value, format!("{} answered {words} offered", target.id)))
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let label = case_label(scenario.axis, case.axis_value(scenario.axis));
    let planned = shown.targets().iter().filter(|t| scenario.runs(&t.id));
    let planned = planned.count() as u64;
    let all = plural(shown.targets().len() as u64, "target", "targets");
    let were = if planned == 1 { "was" } else { "were" };
    let planned = format!("{} of {all} {were} planned", fmt::count(planned));
    if found.is_empty() {
        return format!("At {label} nothing was measured; {planned}.");
    }
    let mut said: Vec<String> = found.iter().take(NAMED).map(|f| f.1.clone()).collect();
    let more = found.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        said.push(format!("{} more stand below", fmt::count(more)));
    }
    format!(
        "At {label} {}. Loads differ by target, so none leads; {planned}.",
        said.join("; ")
    )
}

fn lead(shown: &Shown, answer: &Answer) -> String {
    let (first, others) = match answer.leaders.as_slice() {
        [] => return String::new(),
        [first, others @ ..] => (first, others),
    };
    let mut text = format!(
        "At {} {first} leads with {} {}",
        answer.case,
        a(&answer.metric),
        answer.value
    );
    if !answer.interval.is_empty() {
        text.push_str(&format!(" {}", answer.interval));
    }
    if !others.is_empty() {
        let verb = if others.len() == 1 { "does" } else { "do" };
        text.push_str(&format!(
            ", from which {} {verb} not differ detectably",
            join(others)
        ));
    }
    match answer.lead.contains('×') {
        true => text.push_str(&format!(", {}", answer.lead)),
        false => text.push_str(&format!(" ({})", answer.lead)),
    }
    if answer.baseline.contains('×') {
        text.push_str(&format!(
            "; against the baseline {} that is {}",
            shown.baseline(),
            answer.baseline
        ));
    }
    format!("{text}. It rests on {}.", answer.certainty)
}

/// Put a metric's name into a sentence: `a time to first token of`.
fn a(metric: &str) -> String {
    let metric = metric.to_lowercase();
    let article = match metric.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    };
    format!("{article} {metric} of")
}

/// Write the opening sentence of an engine's page: its best target in every scenario against the
/// baseline, and how many scenarios it leads, alone or tied.
pub fn of_engine(shown: &Shown, engine: &str) -> String {
    let targets = || shown.targets().iter().filter(|t| t.engine == engine);
    let mut best: Vec<(&str, &Comparison)> = Vec::new();
    let (mut led, mut ranked) = (0, 0);
    for scenario in shown.scenarios().iter().filter(|s| !s.has_own_loads()) {
        let (Some(case), Some(id)) = (shown.headline(scenario), shown.leading(scenario)) else {
            continue;
        };
        if shown.undecided(&scenario.case_key(case)) {
            continue;
        }
        let cells = targets().filter_map(|t| shown.cell(&scenario.cell_key(case, &t.id)));
        let cells: Vec<_> = cells.filter(|cell| cell.metric(id).is_some()).collect();
        if cells.is_empty() {
            continue;
        }
        ranked += 1;
        led += u64::from(cells.iter().any(|cell| cell.rank == Some(1)));
        let of = |cell: &&stats::analysis::Cell| {
            shown.comparison(&scenario.cell_key(case, &cell.target), Role::Baseline)
        };
        let finite = cells.iter().filter_map(of).filter(|c| c.ratio.is_finite());
        let found = finite.max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        best.extend(found.map(|c| (shown.title(scenario), c)));
    }
    if ranked == 0 {
        return "Nothing of it can be ranked in this run.".into();
    }
    let leads = match led {
        0 => format!(
            "In the run on this page it leads none of {}",
            plural(ranked, "scenario", "scenarios")
        ),
        led => format!(
            "In the run on this page it leads {} of {}, alone or tied",
            led,
            plural(ranked, "scenario", "scenarios")
        ),
    };
    best.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let words = |(title, c): &(&str, &Comparison)| {
        let ratio = fmt::joined(fmt::ratio(c.ratio, c.ci95));
        let tie = match c.verdict.is_tie() {
            true => ", no detectable difference",
            false => "",
        };
        format!("{ratio} ({} in {}{tie})", c.target, title.to_lowercase())
    };
    match best.as_slice() {
        [] => format!(
            "{leads}; it is what the others are compared with, or the baseline was not measured."
        ),
        [one] => format!(
            "{leads}; its best target is {} as good as the baseline {}.",
            words(one),
            shown.baseline()
        ),
        [least, .., most] => format!(
            "{leads}. Scenario by scenario, its best target is between {} and {} as good as the baseline {}.",
            words(least),
            words(most),
            shown.baseline()
        ),
    }
}

/// Write the sentences of a case in plan order: which targets were over-saturated, and which met
/// the limits on latency.
pub fn promises(shown: &Shown, scenario: &PlannedScenario, case: &Case) -> Vec<String> {
    let targets = shown.targets().iter();
    let cells: Vec<&Cell> = targets
        .filter_map(|target| shown.cell(&scenario.cell_key(case, &target.id)))
        .collect();
    let saturated = cells.iter().filter_map(|cell| saturation(cell));
    saturated.chain(objective(shown, &cells)).collect()
}

fn saturation(cell: &Cell) -> Option<String> {
    let value = |id| cell.metric(id).map(|m| (m.value, m.ci95));
    let (shortfall, ci95) = value(MetricId::ShortfallPercent)?;
    let (offered, _) = value(MetricId::OfferedPerS)?;
    over_saturated(cell)?.then(|| {
        let shortfall = fmt::joined(fmt::with_interval(Unit::Percent, shortfall, ci95));
        format!(
            "Over-saturated: {} was offered {} and left {shortfall} of it for later, so its queue grew and its latencies depend on how long the case lasted.",
            cell.target,
            fmt::quantity(Unit::RequestsPerS, offered)
        )
    })
}

/// Say which targets met the profile's limits on latency; `None` where there are no limits, or the
/// metric was not asked for.
fn objective(shown: &Shown, cells: &[&Cell]) -> Option<String> {
    let slo = shown.run.header.plan.slo?;
    let asked = |cell: &&&Cell| cell.metric(MetricId::GoodputPerS).is_some();
    let names = |wanted: Option<bool>| -> Vec<&str> {
        let cells = cells
            .iter()
            .filter(asked)
            .filter(|cell| meets(cell, &slo) == wanted);
        cells.map(|cell| cell.target.as_str()).collect()
    };
    let groups = [
        ("met by", names(Some(true))),
        ("not met by", names(Some(false))),
        ("undecided, with fewer than 100 requests, for", names(None)),
    ];
    let said: Vec<String> = groups
        .iter()
        .filter(|(_, targets)| !targets.is_empty())
        .map(|(what, targets)| format!("{what} {}", targets.join(", ")))
        .collect();
    (!said.is_empty()).then(|| {
        format!(
            "Limits at the 90th percentile, {} ms to the first token and {} ms between tokens: {}.",
            slo.ttft_p90_ms,
            slo.itl_p90_ms,
            said.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::key::CellKey;
    use stats::analysis::Metric;

    fn cell(shortfall_ci95: Option<(f64, f64)>) -> Cell {
        let metric = |id, value, ci95| Metric {
            ci95,
            ..Metric::of(id, value, vec![value; 5])
        };
        Cell {
            requests: 100,
            invocations: 5,
            metrics: vec![
                metric(MetricId::OfferedPerS, 12.5, None),
                metric(MetricId::ShortfallPercent, 9.0, shortfall_ci95),
            ],
            ..Cell::new(CellKey::new("x.cpu.f32", "open_loop", "r110"), 110)
        }
    }

    #[test]
    fn over_saturation_is_said_with_its_size_and_only_where_it_is_sure() {
        let said = saturation(&cell(Some((7.0, 11.0)))).unwrap();
        assert!(said.contains("x.cpu.f32 was offered 12.5 req/s"), "{said}");
        assert!(said.contains("9.00 % [7.00, 11.00]"), "{said}");
        assert_eq!(saturation(&cell(Some((-2.0, 20.0)))), None);
        assert_eq!(saturation(&cell(None)), None);
    }
}
