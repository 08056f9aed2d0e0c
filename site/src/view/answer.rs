//! The answer of the index and of the scenarios' pages: which target leads each scenario, by how
//! much and how surely. It is made from comparisons only; where those allow no statement, it says so.

use crate::fmt;
use crate::view::paths::scenario_path;
use crate::view::{Shown, case_label};
use crate::words::plural;
use schema::key::CaseKey;
use schema::plan::{Case, PlannedScenario};
use serde::Serialize;
use stats::analysis::{MetricId, Role, Verdict};
use stats::metrics::Better;
use std::collections::BTreeSet;

/// The answer for one scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Answer {
    /// Title of the scenario.
    pub title: String,
    /// Path of the scenario's page.
    pub path: String,
    /// Label of the case that the answer is about.
    pub case: String,
    /// Name of the leading metric.
    pub metric: String,
    /// Ids of the targets that lead: one, or all that tie; empty where nothing may be said.
    pub leaders: Vec<String>,
    /// The first leader's value, e.g. `12.3 ms`.
    pub value: String,
    /// The value's 95 % interval, or empty.
    pub interval: String,
    /// The target with the best end-to-end latency and that of the first leader; empty where the
    /// leaders have the best, or where it isn't the first token that decides.
    pub whole_answer: String,
    /// The best of the targets that others maintain with its value, where this project's own engine
    /// leads alone; else empty.
    pub best_of_others: String,
    /// The first leader's ratio to the best target that is detectably worse, in words.
    pub lead: String,
    /// The first leader's ratio to the baseline, in words.
    pub baseline: String,
    /// The best target of the baseline's precision, in words; empty where the leader has that
    /// precision.
    pub same_precision: String,
    /// What the statement rests on: p and launches.
    pub certainty: String,
    /// The same as a sentence, with the number of targets that are detectably worse.
    pub rests_on: String,
    /// `1 pair disturbed`, counting the pairs that the answer rests on; empty where none was.
    pub disturbed: String,
}

/// The answers in plan order: one for each scenario in which all targets have the same load.
pub fn answers(shown: &Shown) -> Vec<Answer> {
    shown
        .scenarios()
        .iter()
        .filter(|scenario| !scenario.has_own_loads())
        .filter_map(|scenario| answer(shown, scenario))
        .collect()
}

/// The answer for a scenario at its headline case; `None` where it has no case or names no metric.
pub fn answer(shown: &Shown, scenario: &PlannedScenario) -> Option<Answer> {
    let case = shown.headline(scenario)?;
    let id = shown.leading(scenario)?;
    let at = scenario.case_key(case);
    let mut answer = Answer {
        title: shown.title(scenario).into(),
        path: scenario_path(&scenario.id),
        case: case_label(scenario, case),
        metric: id.describe().title.into(),
        value: fmt::NONE.into(),
        certainty: "nothing was measured".into(),
        ..Answer::default()
    };
    let cells = || shown.measured(scenario, case, id).map(|(cell, _)| cell);
    let measured = cells().count();
    if measured == 0 {
        return Some(answer);
    }
    if shown.analysis.undecided(&at) {
        answer.certainty = "too few launches to rank".into();
        return Some(answer);
    }
    let against = |target: &str, role| shown.analysis.comparison(&at.cell(target), role);
    // Among leaders that tie, the one that comparisons are against comes first.
    let best = shown.analysis.comparisons_of(&at, Role::Leader).next();
    let best = best.map(|c| c.against.as_str());
    let mut leaders: Vec<_> = cells().filter(|cell| cell.rank == Some(1)).collect();
    leaders.sort_by_key(|cell| Some(cell.target.as_str()) != best);
    let first = *leaders.first()?;
    answer.leaders = leaders.iter().map(|cell| cell.target.clone()).collect();
    if let Some(metric) = first.metric(id) {
        let (value, interval) = fmt::metric(metric);
        answer.value = value;
        answer.interval = interval.unwrap_or_default();
    }
    if leaders.iter().all(|cell| shown.is_ours(&cell.target)) {
        answer.best_of_others = best_of_others(shown, scenario, case, id).unwrap_or_default();
    }
    answer.lead = match cells()
        .filter_map(|cell| against(&cell.target, Role::Leader))
        .filter(|c| c.verdict == Verdict::Worse && c.ratio > 0.0)
        .max_by(|a, b| a.ratio.total_cmp(&b.ratio))
    {
        Some(next) => {
            let turned = next.ci95.map(|(low, high)| (1.0 / high, 1.0 / low));
            let ratio = fmt::joined(fmt::ratio(1.0 / next.ratio, turned));
            format!("{ratio} over {}", next.target)
        }
        None if measured == 1 => "the only one measured".into(),
        None => "no detectable difference to any other".into(),
    };
    answer.baseline = match against(&first.target, Role::Baseline) {
        _ if first.target == shown.baseline() => "is the baseline".into(),
        Some(c) => fmt::joined(fmt::ratio(c.ratio, c.ci95)),
        None => "baseline not measured".into(),
    };
    answer.whole_answer = whole_answer(shown, scenario, case, &answer.leaders).unwrap_or_default();
    answer.same_precision = same_precision(shown, &at, &first.target).unwrap_or_default();
    answer.certainty = certainty(shown, &at, first.invocations);
    answer.rests_on = rests_on(shown, &at, first.invocations);
    answer.disturbed = disturbed(shown, &at, &first.target);
    Some(answer)
}

/// The target with the best mean of those that others maintain, with its value.
fn best_of_others(
    shown: &Shown,
    scenario: &PlannedScenario,
    case: &Case,
    id: MetricId,
) -> Option<String> {
    let all = shown.measured(scenario, case, id);
    let others = all.filter(|(cell, _)| !shown.is_ours(&cell.target));
    let is_higher_better = id.describe().better == Better::Higher;
    let (best, metric) = others.max_by(|(_, a), (_, b)| match is_higher_better {
        true => a.value.total_cmp(&b.value),
        false => b.value.total_cmp(&a.value),
    })?;
    Some(format!(
        "{} with {}",
        best.target,
        fmt::joined(fmt::metric(metric))
    ))
}

/// Compare the target with the best end-to-end latency with the first of `leaders`, in words;
/// `None` if a leader has the best, or if the scenario isn't ranked by the time to the first token.
fn whole_answer(
    shown: &Shown,
    scenario: &PlannedScenario,
    case: &Case,
    leaders: &[String],
) -> Option<String> {
    if shown.leading(scenario)? != MetricId::TtftNs {
        return None;
    }
    let id = MetricId::E2eNs;
    let all = || shown.measured(scenario, case, id);
    let (best, least) = all().min_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    if leaders.contains(&best.target) {
        return None;
    }
    let first = leaders.first()?;
    let (_, of_first) = all().find(|(cell, _)| &cell.target == first)?;
    let said = |metric| fmt::joined(fmt::metric(metric));
    Some(format!(
        "the whole answer: {} has {}, {first} {}",
        best.target,
        said(least),
        said(of_first)
    ))
}

/// The best target of the baseline's precision and its ratio to the baseline; `None` where the
/// leader has that precision.
fn same_precision(shown: &Shown, at: &CaseKey, leader: &str) -> Option<String> {
    let precision = |id: &str| Some(shown.target(id)?.precision.as_str());
    let wanted = precision(shown.baseline())?;
    if precision(leader) == Some(wanted) {
        return None;
    }
    let best = shown
        .analysis
        .comparisons_of(at, Role::Baseline)
        .filter(|c| precision(&c.target) == Some(wanted))
        .max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let ratio = fmt::joined(fmt::ratio(best.ratio, best.ci95));
    Some(format!("{wanted}: {} {ratio}", best.target))
}

fn certainty(shown: &Shown, at: &CaseKey, invocations: u32) -> String {
    let launches = plural(u64::from(invocations), "launch", "launches");
    match worst_p(shown, at) {
        Some(p) => format!("{p} (Holm), {launches} each"),
        None => format!("{launches} each"),
    }
}

/// Say how many of the others are detectably worse than the leader, and what that rests on.
fn rests_on(shown: &Shown, at: &CaseKey, invocations: u32) -> String {
    let launches = plural(u64::from(invocations), "launch", "launches");
    let others = || shown.analysis.comparisons_of(at, Role::Leader);
    let worse = others().filter(|c| c.verdict == Verdict::Worse).count() as u64;
    let all = others().count() as u64;
    let Some(p) = worst_p(shown, at) else {
        return format!("It rests on {launches} of each target.");
    };
    let who = match (worse, all) {
        (worse, all) if worse == all => "Every other measured target is".to_owned(),
        (1, all) => format!("1 of {all} other targets is"),
        (worse, all) => format!("{worse} of {all} other targets are"),
    };
    format!("{who} detectably worse ({p} after Holm’s correction; {launches} each).")
}

/// The largest p of the targets that are detectably worse than the leader, such as `p < 0.001`;
/// `None` where none is.
fn worst_p(shown: &Shown, at: &CaseKey) -> Option<String> {
    let worst = shown
        .analysis
        .comparisons_of(at, Role::Leader)
        .filter(|c| c.verdict == Verdict::Worse)
        .filter_map(|c| c.p_holm)
        .reduce(f64::max);
    let p = fmt::p_value(worst?);
    let sign = if p.starts_with('<') { "" } else { "≤ " };
    Some(format!("p {sign}{p}"))
}

/// Say how many of the pairs that an answer rests on were disturbed during a launch. It rests on
/// the pairs of the others with the leader, and of the leader with the baseline.
fn disturbed(shown: &Shown, at: &CaseKey, leader: &str) -> String {
    let of_leader = shown.analysis.comparison(&at.cell(leader), Role::Baseline);
    let pairs: BTreeSet<[&str; 2]> = shown
        .analysis
        .comparisons_of(at, Role::Leader)
        .chain(of_leader)
        .filter(|c| !c.not_comparable.is_empty())
        .map(|c| {
            let mut pair = [c.target.as_str(), c.against.as_str()];
            pair.sort();
            pair
        })
        .collect();
    match pairs.len() as u64 {
        0 => String::new(),
        n => format!("{} disturbed", plural(n, "comparison", "comparisons")),
    }
}
