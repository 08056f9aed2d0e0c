//! The table that `cargo xtask build` prints: a line for each program with its costs. Pure.

use base::text::aligned;
use schema::adoption::Adoption;
use std::collections::BTreeMap;

const HEAD: [&str; 7] = [
    "program",
    "binary",
    "crates",
    "packages",
    "libraries",
    "adapter",
    "built",
];

/// The table, aligned. A dash means that the cost doesn't apply or can't be read.
pub fn table(costs: &BTreeMap<String, Adoption>) -> String {
    if costs.is_empty() {
        return String::new();
    }
    let rows = costs.iter().map(|(id, cost)| row(id, cost));
    aligned(std::iter::once(HEAD.map(str::to_owned)).chain(rows))
}

fn row(id: &str, cost: &Adoption) -> [String; HEAD.len()] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let sized = |n: u64, bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{n} ({})", megabytes(bytes)),
        None => n.to_string(),
    };
    let packages = cost.packages.map(|n| sized(n, cost.packages_bytes));
    let libraries = Some(cost.libraries.len() as u64).filter(|n| *n > 0);
    let libraries = libraries.map(|n| sized(n, cost.libraries_bytes));
    let built = cost
        .built
        .map(|b| format!("{:.1} s, {} crates", b.build_s, b.crates_compiled));
    [
        id.to_owned(),
        or_dash(cost.stripped_bytes.map(megabytes)),
        or_dash(cost.crates.map(|n| n.to_string())),
        or_dash(packages),
        or_dash(libraries),
        or_dash(cost.adapter_lines.map(|n| format!("{n} lines"))),
        built.unwrap_or_else(|| "was there".into()),
    ]
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::adoption::Built;

    #[test]
    fn a_line_a_program() {
        let compiled = Adoption {
            stripped_bytes: Some(7_340_000),
            crates: Some(120),
            libraries: vec!["libx.so".into()],
            libraries_bytes: Some(2_000_000),
            adapter_lines: Some(310),
            built: Some(Built {
                build_s: 61.4,
                crates_compiled: 140,
            }),
            ..Adoption::default()
        };
        let python = Adoption {
            packages: Some(60),
            packages_bytes: Some(6_800_000_000),
            ..Adoption::default()
        };
        let costs = [("a-cuda".to_owned(), compiled), ("b".to_owned(), python)].into();
        assert_eq!(
            table(&costs),
            "program  binary  crates  packages        libraries   adapter    built\n\
             a-cuda   7.3 MB  120     -               1 (2.0 MB)  310 lines  61.4 s, 140 crates\n\
             b        -       -       60 (6800.0 MB)  -           -          was there\n"
        );
    }
}
