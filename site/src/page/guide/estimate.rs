//! Estimates how long an answer of usual length takes where the measured ones are short: the time to
//! the first token, and then the time of each other token, both as measured in the same cell. This
//! is arithmetic and no measurement, so no choice rests on it.

use super::decided::metric_name;
use super::workload::{Asked, Workload};
use crate::fmt::{self, Unit};
use crate::words::join;
use serde::Serialize;
use stats::analysis::MetricId;

/// The estimates beside a choice; empty where the work has no longer answers than those measured.
#[derive(Clone, Default, Serialize)]
pub(super) struct Longer {
    /// What is estimated, as a heading: `256 tokens, estimated`.
    heading: String,
    /// The estimate of the choice, with its heading.
    short: String,
    /// The estimates and their order, in sentences.
    words: String,
    /// What the heading means, in a sentence.
    pub(super) note: String,
}

/// Number of tokens of a usual answer, where the measured ones have fewer.
fn tokens(workload: &Workload, asked: &Asked) -> Option<u32> {
    let usual = workload.answer_tokens?;
    (usual > asked.case.new_tokens).then_some(usual)
}

/// Estimate the time of a usual answer of a target (ns); `None` where its cell lacks a metric.
fn longer_ns(workload: &Workload, asked: &Asked, target: &str) -> Option<f64> {
    let gaps = f64::from(tokens(workload, asked)?.saturating_sub(1));
    let ns = mean(asked, target, MetricId::TtftNs)? + gaps * mean(asked, target, MetricId::TpotNs)?;
    ns.is_finite().then_some(ns)
}

/// The value of a metric in a target's cell: of a latency, the mean over launches of its median.
fn mean(asked: &Asked, target: &str, id: MetricId) -> Option<f64> {
    Some(asked.cell(target)?.metric(id)?.value)
}

/// The estimate of a target, `10.8 s`; empty where there is none.
pub(super) fn of_target(workload: &Workload, asked: &Asked, target: &str) -> String {
    let ns = longer_ns(workload, asked, target);
    ns.map_or(String::new(), |ns| fmt::quantity(Unit::Ns, ns))
}

/// The estimate of a target with its heading, `256 tokens, estimated: 10.8 s`; empty where there is
/// none.
pub(super) fn headed(workload: &Workload, asked: &Asked, target: &str) -> String {
    match (tokens(workload, asked), of_target(workload, asked, target)) {
        (Some(tokens), estimate) if !estimate.is_empty() => {
            format!("{}: {estimate}", heading(tokens))
        }
        _ => String::new(),
    }
}

fn heading(tokens: u32) -> String {
    format!("{tokens} tokens, estimated")
}

/// Name the estimate of a target of another run, beside that of the choice in the same run; empty
/// where one has none.
pub(super) fn beside(workload: &Workload, there: &Asked, target: &str, choice: &str) -> String {
    let of = |id| longer_ns(workload, there, id).zip(mean(there, id, there.metric));
    let (Some(a), Some(b)) = (of(target), of(choice)) else {
        return String::new();
    };
    let turned = match (a.0 < b.0) == (a.1 < b.1) {
        true => String::new(),
        false => format!(", the other way round than by {}", metric_name(there)),
    };
    let [of_target, of_choice] = [a.0, b.0].map(|ns| fmt::quantity(Unit::Ns, ns));
    format!("{target} {of_target}, beside {choice} with {of_choice}{turned}")
}

/// Estimate usual answers of the choice and of the targets `beside` it in its run, and say whether
/// they come in another order than by the metric that decides, which is a time. `elsewhere` has what
/// [`beside`] says of other runs.
pub(super) fn longer(
    workload: &Workload,
    asked: &Asked,
    choice: &str,
    beside: &[Option<&str>],
    elsewhere: &[&str],
) -> Longer {
    let Some(tokens) = tokens(workload, asked) else {
        return Longer::default();
    };
    let mut ids = vec![choice];
    for id in beside.iter().copied().flatten() {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let estimated = ids.iter().filter_map(|id| {
        let ns = longer_ns(workload, asked, id)?;
        Some((ns, mean(asked, id, asked.metric)?, *id))
    });
    let mut all: Vec<(f64, f64, &str)> = estimated.collect();
    if all.is_empty() {
        return Longer::default();
    }
    let order = |all: &[(f64, f64, &str)]| -> Vec<String> {
        all.iter().map(|(_, _, id)| (*id).to_owned()).collect()
    };
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let measured = order(&all);
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let each = all.iter().map(|(ns, _, id)| {
        let estimate = fmt::quantity(Unit::Ns, *ns);
        format!("{id} {estimate}")
    });
    let each: Vec<String> = each.collect();
    let formula = format!(
        "time to first token + {} × time per output token",
        tokens - 1
    );
    let mut words = format!(
        "Computed and not measured, for an answer of {tokens} tokens: {}. The estimate is {formula}, by the values of this case (each the mean over launches of its median), as if a token did not take longer in a longer text.",
        join(&each)
    );
    let name = metric_name(asked);
    match (all.len(), order(&all) == measured) {
        (1, _) => {}
        (_, true) => words.push_str(&format!(" The order is that by {name}.")),
        (_, false) => words.push_str(&format!(
            " The order by {name} is another: {}.",
            join(&measured)
        )),
    }
    let mut there: Vec<&str> = Vec::new();
    for said in elsewhere.iter().copied().filter(|said| !said.is_empty()) {
        if !there.contains(&said) {
            there.push(said);
        }
    }
    if !there.is_empty() {
        words.push_str(&format!(" In other runs: {}.", there.join("; ")));
    }
    Longer {
        heading: heading(tokens),
        short: headed(workload, asked, choice),
        words,
        note: format!(
            "“{}” is computed and not measured: {formula}, by the values of the case named. The guide says where the order differs from the measured one.",
            heading(tokens)
        ),
    }
}
