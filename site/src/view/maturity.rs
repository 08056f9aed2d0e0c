//! How old the measured versions of engines were on the day of the run.

use crate::chart::Table;
use crate::fmt::NONE;
use crate::view::Shown;
use crate::view::reported::{in_run, logs_of, reporting_run};
use crate::words::plural;
use schema::launch_log::LaunchLog;
use schema::maturity::{Dossier, Release};
use schema::registry::{Build, Target};
use std::collections::{BTreeMap, BTreeSet};

/// A release with its date.
pub fn of_date(release: &Release) -> String {
    format!("{} of {}", release.version, release.date)
}

/// Name the package whose releases a dossier lists, and its registry: `x on crates.io`. Releases of
/// one name in two registries differ. The package alone stands where the dossier names the page of
/// its releases; `None` without a package.
pub fn package_of(shown: &Shown, dossier: &Dossier) -> Option<String> {
    let engine = shown.input.registry.engine(&dossier.id);
    let registry = match engine.map(|engine| &engine.build) {
        _ if !dossier.releases_source.is_empty() => "",
        Some(Build::Cargo(_)) => " on crates.io",
        Some(Build::Python { .. }) => " on PyPI",
        Some(Build::Prebuilt { .. }) | None => "",
    };
    let package = &dossier.package;
    (!package.is_empty()).then(|| format!("{package}{registry}"))
}

/// A release with its date, and its age at the start of a run.
fn aged(release: &Release, started: &str) -> String {
    let words = of_date(release);
    match release.age_days(started) {
        Some(days) => format!(
            "{words}, {} old on the day of the run",
            plural(days, "day", "days")
        ),
        None => words,
    }
}

/// A version that an engine reported, and the release that it belongs to.
#[derive(Clone, Copy, PartialEq)]
struct Version<'a> {
    /// The version, as the engine reports it.
    said: &'a str,
    /// The package of `release`, if only the facts of the build name that release.
    package: Option<&'a str>,
    release: Option<&'a Release>,
}

impl<'a> Version<'a> {
    /// Find the release of a reported version. If the version is that of another library than the
    /// package whose releases are known, find the package's release by the facts of the build.
    fn new(dossier: Option<&'a Dossier>, said: &'a str, build: &BTreeMap<String, String>) -> Self {
        let own = dossier.and_then(|dossier| dossier.release_of(said));
        let built = match (own, dossier) {
            (None, Some(dossier)) => of_package(dossier, build).map(|release| (dossier, release)),
            _ => None,
        };
        Self {
            said,
            package: built.map(|(dossier, _)| dossier.package.as_str()),
            release: own.or(built.map(|(_, release)| release)),
        }
    }

    /// The version with its release as `release_words` says it, where that is known.
    fn in_words(&self, release_words: impl Fn(&Release) -> String) -> String {
        let Some(release) = self.release else {
            return self.said.to_owned();
        };
        let words = release_words(release);
        match self.package {
            Some(package) => format!("{} ({package} {words})", self.said),
            None => words,
        }
    }
}

/// The release of a dossier's package with which a program was built, by the facts of its build: by
/// `crate`, which has a package and its version, or by the fact named after the package.
fn of_package<'a>(dossier: &'a Dossier, build: &BTreeMap<String, String>) -> Option<&'a Release> {
    let package = dossier.package.as_str();
    let both = build.get("crate").and_then(|both| both.split_once(' '));
    let version = match both {
        Some((name, version)) if name == package => version,
        _ => build.get(package)?.as_str(),
    };
    dossier.release_of(version)
}

/// The versions that an engine reported in these launches of its targets, each once.
fn reported<'a>(
    shown: &'a Shown,
    engine: &str,
    logs: impl Iterator<Item = &'a LaunchLog>,
) -> Vec<Version<'a>> {
    let dossier = shown.input.maturity.and_then(|all| all.dossier(engine));
    let ready = logs.flat_map(|log| log.ready.iter());
    let said: BTreeSet<(&str, &BTreeMap<String, String>)> = ready
        .map(|ready| (ready.version.as_str(), &ready.build))
        .collect();
    let mut versions: Vec<Version> = Vec::new();
    for (said, build) in said {
        let version = Version::new(dossier, said, build);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// The versions that an engine reported in these launches of its targets, with date and age where
/// known; `None` where it was not started.
pub fn of_launches<'a>(
    shown: &'a Shown,
    engine: &str,
    logs: impl Iterator<Item = &'a LaunchLog>,
) -> Option<String> {
    let started = &shown.run.header.started;
    let versions = reported(shown, engine, logs);
    let aged = |release: &Release| aged(release, started);
    let words: Vec<String> = versions.iter().map(|v| v.in_words(aged)).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The versions that an engine reported in the run, with date and age where known; `None` where it
/// was not started.
pub fn measured(shown: &Shown, engine: &str) -> Option<String> {
    of_launches(shown, engine, logs_of(shown, engine))
}

/// Like [`measured`], for the run by which the engine is described, with that run's id if it isn't
/// the run shown; `None` if no run of `all` started the engine.
pub fn measured_in_any(shown: &Shown, all: &[Shown], engine: &str) -> Option<String> {
    let run = reporting_run(shown, all, engine)?;
    Some(measured(run, engine)? + &in_run(shown, run))
}

/// What the run measured in words, to stand beside ratios; empty where the engine was not started.
pub fn versions(shown: &Shown, engine: &str) -> String {
    match measured(shown, engine) {
        Some(words) => format!("version {words}"),
        None => String::new(),
    }
}

/// Make the table of the versions that a page's ratios compare: of each engine that has a target
/// for which `is_in` holds, with date and age where known. `None` where the run started none.
pub fn compared(shown: &Shown, is_in: impl Fn(&Target) -> bool) -> Option<Table> {
    let mut engines: Vec<&str> = Vec::new();
    for target in shown.targets() {
        if is_in(target) && !engines.contains(&target.engine.as_str()) {
            engines.push(target.engine.as_str());
        }
    }
    let mut rows = Vec::new();
    for engine in engines {
        let name = shown.input.engine_name(engine);
        for version in reported(shown, engine, logs_of(shown, engine)) {
            let date = version.release.map(|release| release.date.clone());
            let started = &shown.run.header.started;
            let days = version.release.and_then(|r| r.age_days(started));
            let age = days.map(|days| plural(days, "day", "days"));
            rows.push(vec![
                name.to_owned(),
                version.in_words(|release| release.version.clone()),
                date.unwrap_or_else(|| NONE.into()),
                age.unwrap_or_else(|| NONE.into()),
            ]);
        }
    }
    let head = ["Engine", "Version", "Released", "Age on the day of the run"];
    (!rows.is_empty()).then(|| Table::new(head, rows))
}
