//! Says how sure a recommendation is: in a word for a table, and in sentences.

use super::workload::Asked;
use crate::fmt::{self, NONE};
use crate::view::cells::status_words;
use crate::view::{Shown, noise};
use crate::words::{join, plural};
use stats::analysis::Verdict;
use stats::decide::Decision;

/// Return a word on how sure the decision is, and the p value and launches behind it. `is_beaten`:
/// whether another run of the place has a target that is detectably better.
pub fn certainty_word(
    asked: &Asked,
    decision: &Decision,
    is_beaten: bool,
) -> (&'static str, String) {
    let next = decision.ahead_of.as_ref();
    let detected = next.is_some_and(|c| c.verdict == Verdict::Better);
    let is_sure = detected && decision.tied.len() == 1;
    let word = match decision.tied.len() {
        _ if is_sure && is_beaten => "sure in its run, beaten in another",
        _ if is_sure => "sure",
        1 => "not sure",
        _ => "tied",
    };
    let launches = launches(asked, decision);
    let p = next.filter(|_| is_sure).and_then(|c| c.p_holm);
    let from = match p.map(fmt::p_value) {
        Some(p) if p.starts_with('<') => format!("p {p} (Holm), {launches} each"),
        Some(p) => format!("p = {p} (Holm), {launches} each"),
        None => format!("{launches} each"),
    };
    (word, from)
}

/// Count the launches of the choice, in words.
fn launches(asked: &Asked, decision: &Decision) -> String {
    let cell = asked.cell(&decision.choice);
    let launches = cell.map_or(0, |cell| cell.invocations);
    plural(u64::from(launches), "launch", "launches")
}

/// Say in sentences how sure the decision is.
pub fn certainty_sentences(shown: &Shown, asked: &Asked, decision: &Decision) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(c) = &decision.ahead_of {
        let ratio = fmt::joined(fmt::ratio(c.ratio, c.ci95));
        let p = c.p_holm.map_or(NONE.into(), fmt::p_value);
        let verdict = match c.verdict {
            Verdict::Better => "detectably",
            _ => "not detectably",
        };
        parts.push(format!(
            "It is {ratio} as good as the next, {}: {verdict} better (p {p}, Holm)",
            c.against
        ));
    }
    let launches = launches(asked, decision);
    parts.push(format!("It rests on {launches} of each target"));
    if let Some(noise) = shown.analysis.noise(asked.metric) {
        let enlarged = noise::enlarged(noise);
        parts.push(enlarged.trim_end_matches('.').to_owned());
    }
    let absent = absent(shown, asked);
    if !absent.is_empty() {
        parts.push(format!("Without a number here: {}", join(&absent)));
    }
    format!("{}.", parts.join(". "))
}

/// The planned targets that have no number in the deciding case, each with its status.
fn absent(shown: &Shown, asked: &Asked) -> Vec<String> {
    let planned = shown.targets().iter();
    let planned = planned.filter(|target| asked.scenario.runs(&target.id));
    let absent = planned.filter(|target| asked.cell(&target.id).is_none());
    absent
        .map(|target| {
            let cell = shown.cell(&asked.scenario.cell_key(asked.case, &target.id));
            match cell {
                Some(cell) => format!("{} ({})", target.id, status_words(cell.status)),
                None => target.id.clone(),
            }
        })
        .collect()
}
