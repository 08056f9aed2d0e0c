//! The sentence that opens a scenario's and an engine's page: where they stand, made
//! from comparisons alone, with the uncertainty and what it doesn't show.

use super::answer::{Answer, answers};
use super::{Shown, case_label};
use crate::fmt::{self, Unit};
use crate::words::{join, plural};
use schema::plan::PlannedScenario;
use stats::analysis::{Comparison, MetricId, Role, Verdict};

/// Targets named with their own loads; the rest are counted.
const NAMED: usize = 4;

/// A scenario's.
pub fn of_scenario(shown: &Shown, scenario: &PlannedScenario) -> String {
    if scenario.has_own_loads() {
        return own_loads(shown, scenario);
    }
    let path = super::paths::scenario_path(&scenario.id);
    match answers(shown)
        .into_iter()
        .find(|answer| answer.path == path)
    {
        Some(answer) if !answer.leaders.is_empty() => lead(shown, &answer),
        Some(answer) => format!("Nobody is ranked here: {}.", answer.certainty),
        None => "Nobody is ranked here: the scenario names no metric.".into(),
    }
}

/// Where each target is offered a share of its own capacity: how long a user waited for
/// the whole answer, with the load beside it. A leader there would be whoever was asked
/// for more.
fn own_loads(shown: &Shown, scenario: &PlannedScenario) -> String {
    let Some(case) = shown.headline(scenario) else {
        return "Nobody is ranked here: the scenario has no case.".into();
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
        "At {label} {}. Loads differ by target, so nobody leads; {planned}.",
        said.join("; ")
    )
}

fn lead(shown: &Shown, answer: &Answer) -> String {
    let (who, verb) = match answer.leaders.as_slice() {
        [one] => (one.clone(), "leads"),
        many => (join(many), "tie for the lead"),
    };
    let mut text = format!(
        "At {} {who} {verb} with {} {}",
        answer.case,
        a(&answer.metric),
        answer.value
    );
    if !answer.interval.is_empty() {
        text.push_str(&format!(" {}", answer.interval));
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

/// `a time to first token of`.
fn a(metric: &str) -> String {
    let metric = metric.to_lowercase();
    let article = match metric.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    };
    format!("{article} {metric} of")
}

/// An engine's: its best target of every scenario against the baseline, and how many
/// scenarios it leads, alone or tied.
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
            "It leads none of {}",
            plural(ranked, "scenario", "scenarios")
        ),
        led => format!(
            "It leads {} of {}, alone or tied",
            led,
            plural(ranked, "scenario", "scenarios")
        ),
    };
    best.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let words = |(title, c): &(&str, &Comparison)| {
        let (ratio, interval) = fmt::ratio(c.ratio, c.ci95);
        let tie = match c.verdict {
            Verdict::Tie => ", no detectable difference",
            _ => "",
        };
        let interval = interval.unwrap_or_default();
        format!(
            "{ratio} {interval} ({} in {}{tie})",
            c.target,
            title.to_lowercase()
        )
    };
    match best.as_slice() {
        [] => format!(
            "{leads}; it is what the others are compared with, or the baseline was not measured."
        ),
        [one] => format!(
            "{leads}; against the baseline {} its best target is {} better.",
            shown.baseline(),
            words(one)
        ),
        [least, .., most] => format!(
            "{leads}. Scenario by scenario, its best target is between {} and {} as good as the baseline {}.",
            words(least),
            words(most),
            shown.baseline()
        ),
    }
}
