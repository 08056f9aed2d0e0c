//! Checks that HACKING.md names only files and functions that exist, every example, and every
//! variable that is read.

use super::source;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = "HACKING.md";
/// Most steps in the life of a sample, because a reader can't follow more.
const STEPS_MAX: usize = 16;

/// Return complaints about the page, given the tracked files of `root`.
pub fn check(root: &Path, names: &[&str]) -> Result<Vec<String>> {
    let Ok(page) = std::fs::read_to_string(root.join(PAGE)) else {
        return Ok(Vec::new());
    };
    let text = |name: &str| std::fs::read_to_string(root.join(name)).ok();
    let mut complaints = steps(&page, text)?;
    complaints.extend(examples(&page, names));
    let mut read: BTreeSet<String> = BTreeSet::new();
    for name in names.iter().filter(|name| is_source(name)) {
        let text = text(name).unwrap_or_default();
        match name.ends_with(".rs") {
            true => read.extend(variables(&source::tokens(name, &text)?.join(" "), '"')),
            false => read.extend(variables(&text, '"')),
        }
    }
    let told: BTreeSet<String> = variables(&page, '`').collect();
    let untold = "is read by the source and not in the table of variables";
    let unread = "is in the table of variables, and nothing reads it";
    for (lacking, what) in [(&read - &told, untold), (&told - &read, unread)] {
        complaints.extend(lacking.iter().map(|name| format!("{PAGE}: {name} {what}")));
    }
    Ok(complaints)
}

/// Complain about rows `| n | what | `file` | `function` |` whose file or function doesn't exist,
/// and about too many rows.
fn steps(page: &str, text: impl Fn(&str) -> Option<String>) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let mut complain = |what: String| complaints.push(format!("{PAGE}: {what}"));
    let mut count = 0;
    for line in page.lines() {
        let cells = line.split('|').map(|cell| cell.trim().trim_matches('`'));
        let cells: Vec<&str> = cells.collect();
        let [_, number, _, file, function, _] = cells[..] else {
            continue;
        };
        let Ok(number) = number.parse::<usize>() else {
            continue;
        };
        count += 1;
        if number != count {
            complain(format!("step {number} stands where {count} should"));
        }
        let Some(text) = text(file) else {
            complain(format!("step {number}: there is no {file}"));
            continue;
        };
        let tokens = source::tokens(file, &text)?;
        if !tokens.windows(2).any(|pair| pair == ["fn", function]) {
            complain(format!("step {number}: {file} has no function {function}"));
        }
    }
    if count > STEPS_MAX {
        complain(format!("{count} steps, and {STEPS_MAX} are the most"));
    }
    Ok(complaints)
}

/// Complain about programs in a folder `examples` that the page doesn't name.
fn examples(page: &str, names: &[&str]) -> Vec<String> {
    let programs = names
        .iter()
        .filter(|name| name.contains("/examples/") && name.ends_with(".rs"));
    let untold = programs.filter(|name| !page.contains(&format!("`{name}`")));
    untold
        .map(|name| format!("{PAGE}: {name} is not in the table of examples"))
        .collect()
}

/// Tell whether a file may read a variable that users set. Variables that only tests read are not
/// in the table.
fn is_source(name: &str) -> bool {
    let kinds = [".rs", ".py", ".nix", ".sh"];
    kinds.iter().any(|kind| name.ends_with(kind))
        && !name.contains("/tests/")
        && !name.ends_with("/tests.rs")
}

/// Return the `BENCH_…` variables that stand between two of the given quotes.
fn variables(text: &str, quote: char) -> impl Iterator<Item = String> + '_ {
    text.split(quote)
        .filter(|word| {
            let rest = word.strip_prefix("BENCH_").unwrap_or_default();
            let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            !rest.is_empty() && rest.chars().all(is_of_name)
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "| 1 | it is cut | `a.rs` | `cut` |\n";

    fn complaints(page: &str) -> Vec<String> {
        steps(page, |name| {
            (name == "a.rs").then(|| "fn cut() {} // fn paste()".to_owned())
        })
        .unwrap()
    }

    #[test]
    fn a_step_that_names_what_is_not_there_is_found() {
        assert_eq!(complaints(ROW), [""; 0]);
        let no_file = complaints(&ROW.replace("a.rs", "b.rs"));
        assert_eq!(no_file, ["HACKING.md: step 1: there is no b.rs"]);
        let no_function = complaints(&ROW.replace("`cut`", "`paste`"));
        let wanted = "HACKING.md: step 1: a.rs has no function paste";
        assert_eq!(no_function, [wanted]);
        let twice = complaints(&format!("{ROW}{ROW}"));
        assert_eq!(twice, ["HACKING.md: step 1 stands where 2 should"]);
        let row = |n: u32| ROW.replace("| 1 |", &format!("| {n} |"));
        let many = complaints(&(1..18).map(row).collect::<String>());
        assert_eq!(many, ["HACKING.md: 17 steps, and 16 are the most"]);
    }

    #[test]
    fn an_example_that_the_page_lacks_is_found() {
        let names = ["a/examples/b.rs", "a/examples/c.rs", "examples/d/README.md"];
        let untold = examples("| `a/examples/b.rs` | what it shows |\n", &names);
        let wanted = "HACKING.md: a/examples/c.rs is not in the table of examples";
        assert_eq!(untold, [wanted]);
    }

    #[test]
    fn variables_are_whole_words_between_quotes() {
        let of = |text, quote| variables(text, quote).collect::<Vec<_>>();
        let text = r#"x("BENCH_A_1"), "BENCH_", "a BENCH_B""#;
        assert_eq!(of(text, '"'), ["BENCH_A_1"]);
        assert_eq!(of("| `BENCH_`C` |", '`'), [""; 0]);
    }
}
