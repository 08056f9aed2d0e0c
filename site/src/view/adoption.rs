//! What adopting an engine costs beside its speed, by the run's own record: a row a
//! program. A run recorded before it was measured has no table.

use super::Shown;
use crate::chart::Table;
use crate::fmt::{NONE, Unit, quantity};
use crate::words::plural;
use schema::adoption::Adoption;

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

/// The table of an engine's programs; `None` where the run measured none.
pub fn table(shown: &Shown, engine: &str) -> Option<Table> {
    let all = shown.run.header.provenance.adoption.iter();
    let rows: Vec<Vec<String>> = all
        .filter(|(_, cost)| cost.engine == engine)
        .map(|(program, cost)| row(program, cost))
        .collect();
    (!rows.is_empty()).then(|| Table {
        head: HEAD.map(str::to_owned).into(),
        rows,
    })
}

fn row(program: &str, cost: &Adoption) -> Vec<String> {
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
