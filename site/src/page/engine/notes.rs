//! What an engine's adapter declares about itself in a run. A note that it declares in only some
//! scenarios is printed with their names.

use crate::view::Shown;
use crate::view::reported::logs_of;
use crate::words::join;
use schema::launch_log::LaunchLog;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A note, in the adapter's own words.
#[derive(Serialize)]
pub struct Note {
    /// The scenarios that it is about, such as `In prefix reuse:`; empty: all that were launched.
    only: String,
    says: String,
}

/// The notes of an engine's adapter in a run, each once, in the order of their text.
pub fn of_engine(shown: &Shown, engine: &str) -> Vec<Note> {
    let logs: Vec<&LaunchLog> = logs_of(shown, engine).collect();
    let mut declared: BTreeMap<&str, Vec<&LaunchLog>> = BTreeMap::new();
    for &log in &logs {
        for note in log.ready.iter().flat_map(|ready| &ready.notes) {
            declared.entry(note.as_str()).or_default().push(log);
        }
    }
    let notes = declared.into_iter().map(|(says, by)| {
        let targets: BTreeSet<&str> = by.iter().map(|log| log.launch.target.as_str()).collect();
        let started = logs.iter().filter(|log| log.ready.is_some());
        let of_targets = started.filter(|log| targets.contains(log.launch.target.as_str()));
        let all: BTreeSet<&str> = of_targets.map(|log| log.launch.scenario.as_str()).collect();
        let here: BTreeSet<&str> = by.iter().map(|log| log.launch.scenario.as_str()).collect();
        Note {
            only: only(shown, &here, &all),
            says: says.to_owned(),
        }
    });
    notes.collect()
}

/// Name the scenarios in which a note is declared (`here`), or the other scenarios in which its
/// targets were launched if those are fewer; empty if the note is declared in all.
fn only(shown: &Shown, here: &BTreeSet<&str>, all: &BTreeSet<&str>) -> String {
    let others: BTreeSet<&str> = all.difference(here).copied().collect();
    let named = |ids: &BTreeSet<&str>| {
        let title = |id: &&str| {
            let scenario = shown.scenario(id);
            scenario
                .map_or(*id, |scenario| shown.title(scenario))
                .to_lowercase()
        };
        join(&ids.iter().map(title).collect::<Vec<String>>())
    };
    match others.len() {
        0 => String::new(),
        n if n < here.len() => format!("Outside {}:", named(&others)),
        _ => format!("In {}:", named(here)),
    }
}
