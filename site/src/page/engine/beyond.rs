//! What is known of an engine beyond its speed: facts that no run measures, each with its source,
//! and what adopting it costs by the run's own record, a row per program. A run recorded before that
//! cost was measured has no such table.

use crate::chart::Table;
use crate::fmt::{NONE, Unit, count, quantity};
use crate::view::Shown;
use crate::view::maturity::{measured_in_any, of_date, package_of};
use crate::words::plural;
use schema::adoption::Adoption;
use schema::maturity::{Dossier, Fact};
use serde::Serialize;

/// The section of an engine's page with facts beyond its speed.
#[derive(Serialize)]
pub struct Beyond {
    read: String,
    releases: String,
    releases_source: String,
    /// The facts, each after the heading of its topic.
    facts: Vec<(&'static str, Fact)>,
    /// Two small programs that do the same: the baseline's, then the engine's.
    programs: Vec<Program>,
}

#[derive(Serialize)]
struct Program {
    title: String,
    path: String,
    text: String,
}

/// Make the section of an engine; `None` where the file was not read or says nothing of the engine.
/// The measured version may be that of another run in `all`.
pub fn of_engine(shown: &Shown, all: &[Shown], engine: &str) -> Option<Beyond> {
    let known = shown.input.maturity?;
    let dossier = known.dossier(engine)?;
    let mut facts = dossier.facts.clone();
    facts.sort_by_key(|fact| fact.topic);
    let facts = facts.into_iter().map(|fact| (fact.topic.title(), fact));
    Some(Beyond {
        read: known.read_of(dossier).to_owned(),
        releases: releases(shown, dossier, measured_in_any(shown, all, engine)),
        releases_source: dossier.releases_source.clone(),
        facts: facts.collect(),
        programs: programs(shown, engine),
    })
}

/// The baseline's small program and the engine's; empty unless both are written.
fn programs(shown: &Shown, engine: &str) -> Vec<Program> {
    let registry = shown.input.registry;
    let program = |id: &str| {
        let dossier = shown.input.maturity?.dossier(id)?;
        (!dossier.example_text.is_empty()).then(|| Program {
            title: shown.input.engine_name(id).to_owned(),
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

/// Say how old an engine is, how often it is released, and which version was measured.
fn releases(shown: &Shown, dossier: &Dossier, measured: Option<String>) -> String {
    let (Some(first), Some(latest)) = (&dossier.first, dossier.latest()) else {
        return String::new();
    };
    let package = package_of(shown, dossier);
    let package = package.map_or(String::new(), |package| format!("{package}: "));
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
    if let Some(measured) = measured {
        words += &format!(" Measured here: {measured}.");
    }
    words
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
    let weighed = |what: String, n: Option<u64>| match n {
        Some(n) => format!("{what}, {}", bytes(n)),
        None => what,
    };
    let libraries = (!cost.libraries.is_empty())
        .then(|| weighed(cost.libraries.join(", "), cost.libraries_bytes));
    let packages = cost
        .packages
        .map(|n| weighed(count(n), cost.packages_bytes));
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
        or_dash(cost.crates.map(count)),
        or_dash(packages),
        or_dash(libraries),
        or_dash(cost.adapter_lines.map(count)),
        built.unwrap_or_else(|| "was built before this run".into()),
    ]
}
