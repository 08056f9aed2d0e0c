//! What is known of an engine beyond its speed: facts that no run measures, each with its source,
//! and what adopting it costs by the run's own record, a row per program. A run recorded before
//! that cost was measured has no such table.

use crate::chart::Table;
use crate::fmt::{NONE, Unit, quantity};
use crate::view::Shown;
use crate::words::plural;
use schema::adoption::Adoption;
use schema::maturity::{Dossier, Fact, NotMeasured, Release};
use serde::Serialize;
use std::collections::BTreeSet;

/// The section of an engine's page with facts beyond its speed.
#[derive(Serialize)]
pub struct Beyond {
    read: String,
    releases: String,
    releases_source: String,
    facts: Vec<FactView>,
    /// Two small programs that do the same: the baseline's, then the engine's.
    programs: Vec<Program>,
}

#[derive(Serialize)]
struct Program {
    title: String,
    path: String,
    text: String,
}

#[derive(Serialize)]
struct FactView {
    title: &'static str,
    says: String,
    source: String,
}

/// Make the section of an engine that was measured in `versions`; `None` where the file was not
/// read or says nothing of the engine.
pub fn beyond(shown: &Shown, engine: &str, versions: &[String]) -> Option<Beyond> {
    let all = shown.input.maturity?;
    let dossier = all.dossier(engine)?;
    let mut facts: Vec<&Fact> = dossier.facts.iter().collect();
    facts.sort_by_key(|fact| fact.topic);
    let fact = |fact: &Fact| FactView {
        title: fact.topic.title(),
        says: fact.says.clone(),
        source: fact.source.clone(),
    };
    Some(Beyond {
        read: all.read.clone(),
        releases: releases(dossier, versions, &shown.run.header.started),
        releases_source: dossier.releases_source.clone(),
        facts: facts.into_iter().map(fact).collect(),
        programs: programs(shown, engine),
    })
}

/// The baseline's small program and the engine's; empty unless both are written.
fn programs(shown: &Shown, engine: &str) -> Vec<Program> {
    let registry = shown.input.registry;
    let program = |id: &str| {
        let dossier = shown.input.maturity?.dossier(id)?;
        (!dossier.example_text.is_empty()).then(|| Program {
            title: registry
                .engine(id)
                .map_or(id, |e| e.name.as_str())
                .to_owned(),
            path: dossier.example.clone(),
            text: dossier.example_text.clone(),
        })
    };
    let targets = registry.targets();
    let baseline = registry.baseline_of(&targets);
    let baseline = targets.iter().find(|target| target.id == baseline);
    match baseline.map(|target| target.engine.as_str()) {
        Some(baseline) if baseline != engine => {
            let both = [program(baseline), program(engine)];
            let all: Option<Vec<Program>> = both.into_iter().collect();
            all.unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Say how old an engine is, how often it is released, and how old the measured version was on the
/// day of the run.
fn releases(dossier: &Dossier, versions: &[String], started: &str) -> String {
    let (Some(first), Some(latest)) = (&dossier.first, dossier.latest()) else {
        return String::new();
    };
    let package = match dossier.package.as_str() {
        "" => String::new(),
        package => format!("{package}: "),
    };
    let mut words = format!(
        "{package}first {}, newest {}; {} in the year before.",
        of_date(first),
        of_date(latest),
        plural(
            u64::from(dossier.releases_last_year),
            "stable release",
            "stable releases"
        )
    );
    let measured = versions.iter().filter_map(|said| dossier.release_of(said));
    let measured: Vec<String> = measured.map(|release| aged(release, started)).collect();
    if !measured.is_empty() {
        words += &format!(" Measured here: {}.", measured.join("; "));
    }
    words
}

fn of_date(release: &Release) -> String {
    format!("{} of {}", release.version, release.date)
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

/// The versions that an engine reported in the run, with date and age where known, to stand beside
/// ratios. Empty where the engine was not started.
pub fn versions(shown: &Shown, engine: &str) -> String {
    match measured(shown, engine) {
        Some(words) => format!("version {words}"),
        None => String::new(),
    }
}

fn measured(shown: &Shown, engine: &str) -> Option<String> {
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

/// An engine that is not measured, with the reason.
#[derive(Serialize)]
pub struct Other {
    name: String,
    latest: String,
    why: String,
    source: String,
}

/// The known engines that are not measured.
pub fn not_measured(shown: &Shown) -> Vec<Other> {
    let other = |other: &NotMeasured| Other {
        name: other.name.clone(),
        latest: dated(other.latest.as_ref()),
        why: other.why.clone(),
        source: other.source.clone(),
    };
    let all = shown.input.maturity.iter();
    all.flat_map(|all| &all.not_measured).map(other).collect()
}

fn dated(release: Option<&Release>) -> String {
    match release {
        Some(release) => format!("{}, {}", release.version, release.date),
        None => NONE.into(),
    }
}

/// Make a table of all engines about which something is known; `None` where there are none.
pub fn table(shown: &Shown, engines: &[String]) -> Option<Table> {
    let all = shown.input.maturity?;
    let row = |id: &String| {
        let dossier = all.dossier(id)?;
        let name = shown.input.registry.engine(id).map(|engine| &engine.name);
        Some(vec![
            name.unwrap_or(id).clone(),
            dated(dossier.first.as_ref()),
            match (dossier.latest(), dossier.package.as_str()) {
                (Some(_), package) if !package.is_empty() => {
                    format!("{package} {}", dated(dossier.latest()))
                }
                (latest, _) => dated(latest),
            },
            match dossier.latest() {
                Some(_) => dossier.releases_last_year.to_string(),
                None => NONE.into(),
            },
            measured(shown, id).unwrap_or_else(|| NONE.into()),
        ])
    };
    let rows: Vec<Vec<String>> = engines.iter().filter_map(row).collect();
    let head = [
        "Engine",
        "First release",
        "Newest",
        "Releases in a year",
        "Measured in this run",
    ];
    (!rows.is_empty()).then(|| Table::new(head, rows))
}

const HEAD: [&str; 8] = [
    "Program",
    "Serves",
    "Binary, stripped",
    "Crates",
    "Python packages",
    "Shared libraries",
    "Lines of our code",
    "Built in",
];

/// Make the table of what adopting an engine's programs costs; `None` where the run measured none.
pub fn cost_table(shown: &Shown, engine: &str) -> Option<Table> {
    let all = shown.run.header.provenance.adoption.iter();
    let rows: Vec<Vec<String>> = all
        .filter(|(_, cost)| cost.engine == engine)
        .map(|(program, cost)| cost_row(program, cost))
        .collect();
    (!rows.is_empty()).then(|| Table::new(HEAD, rows))
}

fn cost_row(program: &str, cost: &Adoption) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    let bytes = |n: u64| quantity(Unit::Bytes, n as f64);
    let number = |n: u64| crate::fmt::count(n);
    let weighed = |what: String, n: Option<u64>| match n {
        Some(n) => format!("{what}, {}", bytes(n)),
        None => what,
    };
    let libraries = (!cost.libraries.is_empty())
        .then(|| weighed(cost.libraries.join(", "), cost.libraries_bytes));
    let packages = cost
        .packages
        .map(|n| weighed(number(n), cost.packages_bytes));
    let built = cost.built.map(|built| {
        let crates = plural(built.crates_compiled, "crate", "crates");
        format!(
            "{} ({crates} compiled)",
            quantity(Unit::Ns, built.build_s * 1e9)
        )
    });
    vec![
        program.to_owned(),
        cost.targets.join(", "),
        or_dash(cost.stripped_bytes.map(bytes)),
        or_dash(cost.crates.map(number)),
        or_dash(packages),
        or_dash(libraries),
        or_dash(cost.adapter_lines.map(number)),
        built.unwrap_or_else(|| "was built before this run".into()),
    ]
}
