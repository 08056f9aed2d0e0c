//! Writes the opening sentence on a scenario: who leads and by how much, made from comparisons
//! alone, with the uncertainty and with what it doesn't show.

use crate::fmt::{self, Unit};
use crate::view::answer::{Answer, answer};
use crate::view::{Shown, case_label};
use crate::words::{join, plural};
use schema::plan::PlannedScenario;
use stats::analysis::MetricId;

/// Maximum number of targets with loads of their own that are named; the rest are counted.
const NAMED: usize = 4;

/// Write the opening sentence of a scenario's page.
pub fn of_scenario(shown: &Shown, scenario: &PlannedScenario) -> String {
    if scenario.has_own_loads() {
        return own_loads(shown, scenario);
    }
    match answer(shown, scenario) {
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
        .measured(scenario, case, MetricId::E2eNs)
        .filter_map(|(cell, e2e)| {
            let offered = cell.metric(MetricId::OfferedPerS)?;
            let (value, interval) = fmt::metric(e2e);
            let interval = interval.unwrap_or_else(|| "(a single launch)".into());
            let offered = fmt::quantity(Unit::RequestsPerS, offered.value);
            let words = format!("in {value} {interval} at {offered}");
            Some((
                e2e.value,
                format!("{} answered {words} offered", cell.target),
            ))
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let label = case_label(scenario, case);
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
    let [first, others @ ..] = answer.leaders.as_slice() else {
        return String::new();
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
    text.push_str(". ");
    if !answer.best_of_others.is_empty() {
        text.push_str(&format!(
            "Its engine is this project’s own and can’t be deployed; of the others the best is {}. ",
            answer.best_of_others
        ));
    }
    text + &answer.rests_on
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
