//! Decides among the targets of one case, and words the decision: who is taken and why, with which
//! value, tied with whom and how far ahead.

use super::setup;
use super::workload::Asked;
use crate::fmt;
use crate::view::Shown;
use crate::words::join;
use serde::Serialize;
use stats::decide::{BrokenBy, Decision, decide};
use stats::metrics::Better;

/// Precisions that count as unquantised: the weights stay as they were trained, or are halved.
const UNQUANTISED: [&str; 3] = ["f32", "bf16", "f16"];

/// The target of a decision; empty where there is none.
#[derive(Clone, Default, Serialize)]
pub(super) struct Decided {
    /// Id of the target.
    pub(super) target: String,
    /// The target with its value, who is tied with it, and its lead over the next.
    pub(super) words: String,
}

/// Decide among the targets of a case for which `of` holds; `None` if [`decide`] returns none.
pub(super) fn decision(
    shown: &Shown,
    asked: &Asked,
    of: impl Fn(&str) -> bool,
) -> Option<Decision> {
    let cells = asked.cells.iter().copied().filter(|c| of(&c.target));
    let cells: Vec<_> = cells.collect();
    let inflation = shown.analysis.noise(asked.metric).map(|n| n.inflation);
    let matters = shown.analysis.matters;
    decide(&cells, asked.metric, inflation, matters, |target| {
        setup::shipped_bytes(shown, target)
    })
}

/// Name a target with its value: `candle.cpu.q8_0 (12.3 ms [11.9, 12.8])`.
pub(super) fn value_of(asked: &Asked, target: &str) -> String {
    let cell = asked.cell(target);
    let Some(found) = cell.and_then(|cell| cell.metric(asked.metric)) else {
        return target.to_owned();
    };
    let (value, interval) = fmt::metric(found);
    match interval {
        Some(interval) => format!("{target} ({value} {interval})"),
        None => format!("{target} ({value}, a single launch)"),
    }
}

/// Say why the choice was taken.
pub(super) fn why(asked: &Asked, decision: &Decision) -> String {
    let name = metric_name(asked);
    let most = match asked.metric.describe().better {
        Better::Higher => "highest",
        _ => "lowest",
    };
    let value = value_of(asked, &decision.choice);
    let others = join(&decision.tied[1..]);
    match decision.broken_by {
        BrokenBy::NoTie => format!(
            "The {most} {name} of {} targets, and detectably so: {value}.",
            decision.measured
        ),
        BrokenBy::Cost => format!(
            "By {name} it can’t be told from {others} ({} has the {most} mean); of these it is the smallest to ship. {value}.",
            decision.leader
        ),
        BrokenBy::Mean => format!(
            "By {name} it can’t be told from {others}, and nothing else here tells them apart: it has the {most} mean, which is no finding. {value}."
        ),
    }
}

/// Say what to take among unquantised weights; empty where the choice has such weights.
pub(super) fn unquantised(shown: &Shown, asked: &Asked, precision: &str) -> String {
    if UNQUANTISED.contains(&precision) {
        return String::new();
    }
    let plain = |id: &str| {
        let target = shown.target(id);
        !shown.is_ours(id) && target.is_some_and(|t| UNQUANTISED.contains(&t.precision.as_str()))
    };
    match decision(shown, asked, plain) {
        None => String::new(),
        Some(found) => format!(
            "Quantised weights answer a little differently. Where that is not allowed: {}{}.",
            value_of(asked, &found.choice),
            tied_with(&found)
        ),
    }
}

/// Decide among the engines that others maintain, since this project's own was written to be
/// measured and not to be deployed; where nothing else was measured, among all. Also return the one
/// of our own targets that is ahead of the choice.
pub(super) fn without_our_own(shown: &Shown, asked: &Asked) -> Option<(Decision, Decided)> {
    let all = decision(shown, asked, |_| true)?;
    let Some(of_others) = decision(shown, asked, |target| !shown.is_ours(target)) else {
        return Some((all, Decided::default()));
    };
    // One that is tied with the choice isn't ahead of it.
    let is_ahead = shown.is_ours(&all.choice) && !all.tied.contains(&of_others.choice);
    let own = match is_ahead {
        true => in_words(asked, all),
        false => Decided::default(),
    };
    Some((of_others, own))
}

/// The name of the metric that decides, inside a sentence.
pub(super) fn metric_name(asked: &Asked) -> String {
    asked.metric.describe().title.to_lowercase()
}

/// Put a decision into words.
pub(super) fn in_words(asked: &Asked, found: Decision) -> Decided {
    let ahead = ahead(&found).map_or(String::new(), |ahead| format!(", {ahead}"));
    let words = format!(
        "{}{}{ahead}",
        value_of(asked, &found.choice),
        tied_with(&found)
    );
    Decided {
        target: found.choice,
        words,
    }
}

/// Name who is tied with the choice: `, tied with candle.cpu.q8_0`; empty where it leads alone.
pub(super) fn tied_with(decision: &Decision) -> String {
    match &decision.tied[1..] {
        [] => String::new(),
        others if others.len() <= 2 => format!(", tied with {}", join(others)),
        others => format!(", tied with {} others", others.len()),
    }
}

/// Say how far the choice is ahead of the best target that is not tied with it:
/// `1.41× [1.31, 1.52] over candle.cpu.q8_0`.
pub(super) fn ahead(decision: &Decision) -> Option<String> {
    let c = decision.ahead_of.as_ref()?;
    let ratio = fmt::joined(fmt::ratio(c.ratio, c.ci95));
    Some(format!("{ratio} over {}", c.against))
}
