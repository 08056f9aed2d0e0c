//! How old the measured versions of an engine were on the day of the run.

use crate::view::Shown;
use crate::words::plural;
use schema::maturity::Release;
use std::collections::BTreeSet;

/// A release with its date.
pub fn of_date(release: &Release) -> String {
    format!("{} of {}", release.version, release.date)
}

/// A release with its date, and its age at the start of a run.
pub fn aged(release: &Release, started: &str) -> String {
    let words = of_date(release);
    match release.age_days(started) {
        Some(days) => format!(
            "{words}, {} old on the day of the run",
            plural(days, "day", "days")
        ),
        None => words,
    }
}

/// The versions that an engine reported in the run, with date and age where known; `None` where it was
/// not started.
pub fn measured(shown: &Shown, engine: &str) -> Option<String> {
    let planned = shown.targets().iter();
    let planned = planned.filter(|target| target.engine == engine);
    let ids: BTreeSet<&str> = planned.map(|target| target.id.as_str()).collect();
    let launches = shown.run.launches.iter();
    let logs = launches.filter(|log| ids.contains(log.launch.target.as_str()));
    let said = logs.flat_map(|log| log.ready.iter().map(|ready| ready.version.as_str()));
    let said: BTreeSet<&str> = said.collect();
    let dossier = shown.input.maturity.and_then(|all| all.dossier(engine));
    let word = |said: &&str| match dossier.and_then(|dossier| dossier.release_of(said)) {
        Some(release) => aged(release, &shown.run.header.started),
        None => (*said).to_owned(),
    };
    let words: Vec<String> = said.iter().map(word).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The same in words, to stand beside ratios; empty where the engine was not started.
pub fn versions(shown: &Shown, engine: &str) -> String {
    match measured(shown, engine) {
        Some(words) => format!("version {words}"),
        None => String::new(),
    }
}
