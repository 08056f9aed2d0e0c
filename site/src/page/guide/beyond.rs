//! What the chosen engine and that of the runner-up offer beyond speed, in few words: releases, a
//! server, batching and devices. It stands beside a choice and changes none.

use super::setup::batching;
use super::workload::Asked;
use crate::view::Shown;
use crate::view::maturity::of_date;
use crate::view::paths::engine_path;
use crate::words::{join, plural};
use schema::maturity::{Dossier, Topic};
use serde::Serialize;
use stats::metrics::Better;

/// The topics that stand beside a choice; the engine's page has all.
const TOPICS: [Topic; 3] = [Topic::Server, Topic::Batching, Topic::Devices];

/// What is known of one engine beyond its speed.
#[derive(Clone, Serialize)]
pub(super) struct Offer {
    /// The engine's name.
    name: String,
    /// `the choice`, or `runner-up` with its target.
    role: String,
    /// Path of the section of the engine's page that has the sources.
    path: String,
    /// Its releases, and a few words on each topic.
    words: String,
}

/// Say what the chosen target's engine offers beyond speed, and what that of the runner-up does. An
/// engine of which nothing was read is left out.
pub(super) fn beyond(shown: &Shown, asked: &Asked, choice: &str) -> Vec<Offer> {
    let chosen = offer(shown, choice, "the choice".into());
    let next = runner_up(shown, asked, choice);
    let next = next.and_then(|id| offer(shown, id, format!("runner-up {id}")));
    chosen.into_iter().chain(next).collect()
}

/// The target with the best mean among those of other engines than the chosen one, without this
/// project's own.
pub(super) fn runner_up<'a>(shown: &Shown, asked: &Asked<'a>, choice: &str) -> Option<&'a str> {
    let engine = &shown.target(choice)?.engine;
    let is_other = |id: &str| shown.target(id).is_some_and(|t| t.engine != *engine);
    let others = asked.cells.iter().copied().filter_map(|cell| {
        let value = cell.metric(asked.metric)?.value;
        let counts = is_other(&cell.target) && !shown.is_ours(&cell.target);
        (counts && value.is_finite()).then_some((value, cell.target.as_str()))
    });
    let best = match asked.metric.describe().better {
        Better::Higher => others.max_by(|a, b| a.0.total_cmp(&b.0)),
        _ => others.min_by(|a, b| a.0.total_cmp(&b.0)),
    };
    best.map(|(_, id)| id)
}

fn offer(shown: &Shown, target: &str, role: String) -> Option<Offer> {
    let target = shown.target(target)?;
    let id = &target.engine;
    // A hidden engine need not have a page.
    let engine = shown.input.registry.engine(id).filter(|e| !e.hidden)?;
    let all = shown.input.maturity?;
    let dossier = all.dossier(id)?;
    Some(Offer {
        name: engine.name.clone(),
        role,
        path: format!("{}#beyond", engine_path(id)),
        words: words(dossier, all.read_of(dossier), &batching(shown, target)),
    })
}

/// Say how an engine is released, and what it has by each topic; `read` is the date of reading,
/// and `here` how the target that was measured batches, which may be less than its engine offers.
fn words(dossier: &Dossier, read: &str, here: &str) -> String {
    let in_a_year = plural(
        u64::from(dossier.releases_last_year),
        "stable release",
        "stable releases",
    );
    let releases = match (dossier.latest(), dossier.package.as_str()) {
        (None, _) => format!("no release by {read}"),
        (Some(latest), package) => {
            let newest = of_date(latest);
            let newest = format!("newest {package} {newest}").replace("  ", " ");
            format!("{newest}, {in_a_year} in the year before {read}")
        }
    };
    let mut parts = vec![releases];
    let mut silent = Vec::new();
    for topic in TOPICS {
        let title = topic.title().to_lowercase();
        match dossier.facts.iter().find(|fact| fact.topic == topic) {
            Some(fact) => {
                let measured = match topic {
                    Topic::Batching if !here.is_empty() => format!(" (measured here: {here})"),
                    _ => String::new(),
                };
                parts.push(format!("{title}: {}{measured}", fact.in_short()));
            }
            None => silent.push(title),
        }
    }
    if !silent.is_empty() {
        parts.push(format!("nothing was read on {}", join(&silent)));
    }
    parts.join("; ")
}
