//! The house rules that a program can check. Each rule is a pure function from a file to
//! complaints, and has a test of its own.

mod hacking;
mod house;
mod imports;
mod source;
mod workflows;

use crate::versions;
use anyhow::{Context, Result, bail};
use base::exit_code;
use base::repo::Repo;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Most lines of a Rust file; a longer one probably has a second subject.
const LINES_MAX: usize = 450;
/// Largest tracked file (bytes). Larger files are blobs, which belong elsewhere; goldens are the
/// largest data that belongs in the repository.
const BYTES_MAX: usize = 700_000;
/// Directory of the weights of shipped models, and the largest file there (bytes): training takes
/// too long to be part of a fetch.
const WEIGHTS_MAX: (&str, usize) = ("data/models/", 8_000_000);
/// The only folders and files allowed at the root. A new one needs a reason.
const ROOT: [&str; 27] = [
    ".cargo",
    ".ci",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "HACKING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "USAGE.md",
    "crates",
    "data",
    "deny.toml",
    "engines",
    "examples",
    "flake.lock",
    "flake.nix",
    "nix",
    "rust-toolchain.toml",
    "site",
    "xtask",
];

/// Check every tracked file, and print all complaints.
pub fn command(repo: &Repo) -> Result<()> {
    let complaints = tidy(&repo.root)?;
    if complaints.is_empty() {
        println!("tidy");
        return Ok(());
    }
    bail!("{} untidy:\n{}", complaints.len(), complaints.join("\n"))
}

/// Print the complaints as a JSON array. Exit status 1 where there are any.
pub fn as_json(repo: &Repo) -> Result<ExitCode> {
    let complaints = tidy(&repo.root)?;
    println!("{}", serde_json::to_string_pretty(&complaints)?);
    Ok(exit_code(complaints.is_empty(), 1))
}

/// Redraw the map of ARCHITECTURE.md.
pub fn write(repo: &Repo) -> Result<()> {
    let names = tracked(&repo.root)?;
    let names: Vec<&str> = names.split('\0').collect();
    match house::write(&repo.root, &names)? {
        true => println!("{}: the map is drawn anew", house::PAGE),
        false => println!("{}: the map is right as it is", house::PAGE),
    }
    Ok(())
}

/// Return the files of a checkout that git doesn't ignore, each name ended by a NUL.
fn tracked(root: &Path) -> Result<String> {
    let needs = || {
        let root = root.display();
        format!("tidy needs git and a checkout made by it, to know the files of {root}")
    };
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others"])
        .arg("--exclude-standard")
        .current_dir(root)
        .output()
        .with_context(needs)?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr);
        let why = said.lines().next().unwrap_or("git says nothing");
        bail!("{}: {why}", needs());
    }
    Ok(String::from_utf8(listed.stdout)?)
}

/// Return all complaints about the checkout at `root`.
pub fn tidy(root: &Path) -> Result<Vec<String>> {
    let listed = tracked(root)?;
    let names: Vec<&str> = listed.split('\0').collect();
    let mut complaints = Vec::new();
    let engines: Vec<String> = std::fs::read_dir(root.join("engines"))?
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name != "protocol")
        .collect();
    // Records are not written by hand: they are validated when they are loaded.
    let ours = |name: &&str| !name.is_empty() && !name.starts_with("data/results/");
    for name in names.iter().copied().filter(ours) {
        let path = root.join(name);
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        }; // deleted, not yet committed
        let top = name.split('/').next().unwrap_or(name);
        if !ROOT.contains(&top) {
            complaints.push(format!(
                "{name}: a new entry at the root: put it into a folder, or add it to `ROOT` in xtask/src/tidy.rs"
            ));
        }
        if bytes.len() > bytes_max(name) {
            complaints.push(format!(
                "{name}: {} bytes; blobs don't belong in the repository",
                bytes.len()
            ));
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            continue;
        };
        complaints.extend(check_words(name, text));
        if name.ends_with(".rs") {
            complaints.extend(check_rust(name, text));
        }
        if is_harness(name) && name.ends_with(".rs") {
            complaints.extend(check_knows_no_engine(name, text, &engines));
        }
        let may_be = name.starts_with(".github/workflows/") || name.starts_with("examples/");
        if may_be && name.ends_with(".yml") {
            complaints.extend(workflows::check(name, text));
        }
        if name.ends_with(".md") {
            complaints.extend(check_links(root, name, text));
            complaints.extend(check_sources(name, text, &names));
        }
    }
    complaints.extend(house::check(root, &names)?);
    complaints.extend(hacking::check(root, &names)?);
    complaints.extend(versions::disagreement(root));
    Ok(complaints)
}

/// Tell whether a file is code of the harness, which must not know an engine by name. The
/// repository's chores may: they test engines, and compare versions of their dependencies.
fn is_harness(name: &str) -> bool {
    const CHORES: [&str; 4] = ["lint", "test", "tidy", "versions"];
    const CRATES: [&str; 8] = [
        "xtask",
        "crates/base",
        "crates/bench",
        "crates/watch",
        "crates/harness",
        "crates/proofs",
        "crates/provision",
        "crates/runs",
    ];
    let mut dirs = CRATES.iter().map(|dir| format!("{dir}/src/"));
    let is_chore = |chore: &&str| {
        let path = format!("xtask/src/{chore}");
        name == format!("{path}.rs") || name.starts_with(&format!("{path}/"))
    };
    dirs.any(|dir| name.starts_with(&dir)) && !CHORES.iter().any(is_chore)
}

/// Return how large a tracked file may be (bytes).
fn bytes_max(name: &str) -> usize {
    let (dir, max) = WEIGHTS_MAX;
    match name.starts_with(dir) && name.ends_with(".safetensors") {
        true => max,
        false => BYTES_MAX,
    }
}

/// Check that a Rust file has a header that says what it is for, and isn't too long.
fn check_rust(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push(format!(
            "{name}:1: begins without a //! header saying what it is for"
        ));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!(
            "{name}: {lines} lines (more than {LINES_MAX}): what is its second subject?"
        ));
    }
    complaints
}

/// Check for words that don't belong in the project; each complaint says what to write instead.
/// This file is exempt, because it lists them.
fn check_words(name: &str, text: &str) -> Vec<String> {
    let banned = [
        ("FIXME", "an issue"),
        ("/root/", "a path relative to the repository"),
        ("/work/", "a path relative to the repository"),
        ("todo!(", "the code"),
    ];
    let mut complaints = Vec::new();
    if name == "xtask/src/tidy.rs" {
        return complaints;
    }
    for (number, line) in text.lines().enumerate() {
        for (word, instead) in banned {
            if line.contains(word) {
                complaints.push(format!("{name}:{}: {word:?}: write {instead}", number + 1));
            }
        }
    }
    complaints
}

/// Check invariant 1: the harness knows no engine by name. Comments and tests may name engines.
fn check_knows_no_engine(name: &str, text: &str, engines: &[String]) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let mut complaints = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let code = line.trim_start();
        // `after_help` examples and doc comments tell people what to type.
        if code.starts_with("//") || code.contains("after_help") {
            continue;
        }
        for engine in engines {
            if code.contains(&format!("\"{engine}")) {
                complaints.push(format!(
                    "{name}:{}: names the engine {engine:?}: it belongs in engines.toml; where the string means something else, give the engine's folder and id another name",
                    number + 1
                ));
            }
        }
    }
    complaints
}

/// Check that relative links in Markdown exist. The site's pages also link to rendered pages, which
/// the site's own tests check.
fn check_links(root: &Path, name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let of_a_page = name.starts_with("site/pages/");
    let links = text.split("](").skip(1);
    for target in links.filter_map(|rest| rest.split(')').next()) {
        let path = target.split('#').next().unwrap_or(target);
        let rendered = of_a_page && path.ends_with(".html");
        if path.is_empty() || path.contains("://") || path.starts_with("mailto:") || rendered {
            continue;
        }
        let from = root.join(name);
        let dir = from.parent().unwrap_or(root);
        if !dir.join(path).exists() {
            complaints.push(format!("{name}: links to {path}, which is not there"));
        }
    }
    complaints
}

/// Check that the source files that a document names in backticks exist. A path may leave out `src`
/// and the folders before it: `run/audit.rs` is `crates/harness/src/run/audit.rs`. What was true
/// once, as in the changelogs, need not exist today.
fn check_sources(name: &str, text: &str, names: &[&str]) -> Vec<String> {
    if name.to_lowercase().ends_with("changelog.md") {
        return Vec::new();
    }
    let is_source = |word: &&str| {
        let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        (word.ends_with(".rs") || word.ends_with(".py")) && word.chars().all(is_of_path)
    };
    let is_there = |word: &&str| {
        let ends = |path: &str| {
            let before = path.strip_suffix(*word);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let mut all = names.iter();
        all.any(|path| ends(path) || ends(&path.replace("/src/", "/")))
    };
    let words = text.split('`').filter(is_source);
    let missing = words.filter(|word| !is_there(word));
    missing
        .map(|word| format!("{name}: names {word}, which is not there"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies in the checkout");
        let complaints = tidy(root).expect("git lists the files");
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn without_a_git_checkout_one_error_says_what_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".git"), "not git's").unwrap();
        let error = tidy(dir.path()).unwrap_err().to_string();
        assert!(error.contains("tidy needs git and a checkout"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn a_file_without_header_or_too_long_is_seen() {
        assert_eq!(check_rust("a.rs", "//! For a.\n").len(), 0);
        assert!(check_rust("a.rs", "fn main() {}\n")[0].contains("a.rs:1"));
        let long = format!("//! For a.\n{}", "\n".repeat(LINES_MAX));
        assert!(check_rust("a.rs", &long)[0].contains("second subject"));
    }

    #[test]
    fn only_a_shipped_model_s_weights_may_be_large() {
        assert_eq!(bytes_max("data/models/m/model.safetensors"), 8_000_000);
        assert_eq!(bytes_max("data/models/m/curve.jsonl"), BYTES_MAX);
        assert_eq!(bytes_max("site/model.safetensors"), BYTES_MAX);
    }

    #[test]
    fn banned_words_are_seen_with_their_line() {
        let text = "fine\nFIXME here\n";
        assert!(check_words("a.md", text)[0].starts_with("a.md:2:"));
        assert!(check_words("a.md", "fine\n").is_empty());
        assert!(check_words("xtask/src/tidy.rs", text).is_empty());
    }

    #[test]
    fn chores_may_name_engines_and_the_harness_may_not() {
        let harness = ["xtask/src/cli.rs", "crates/bench/src/job.rs"];
        assert!(harness.into_iter().all(is_harness));
        let chores = ["xtask/src/versions.rs", "xtask/src/tidy/house.rs"];
        assert!(!chores.into_iter().any(is_harness));
    }

    #[test]
    fn an_engine_named_in_the_harness_is_seen() {
        let named = |text: &str| check_knows_no_engine("x.rs", text, &["candle".to_owned()]).len();
        assert_eq!(named("if id == \"candle\" {}\n"), 1);
        assert_eq!(named("// \"candle\" is fine here\n"), 0);
        assert_eq!(named("#[cfg(test)]\n\"candle\"\n"), 0);
    }

    #[test]
    fn a_source_file_that_is_not_there_is_seen() {
        let names = ["crates/a/src/b/c.rs", "engines/p/q.py"];
        let missing = |name, text| check_sources(name, text, &names);
        let there = "`crates/a/src/b/c.rs` `a/b/c.rs` `b/c.rs` `c.rs` `q.py`, `<x>/y.rs`";
        assert_eq!(missing("a.md", there), [""; 0]);
        let elsewhere = missing("a.md", "`a/c.rs` and `src/c.rs`");
        assert_eq!(
            elsewhere,
            [
                "a.md: names a/c.rs, which is not there",
                "a.md: names src/c.rs, which is not there"
            ]
        );
        // The end of a name is no name.
        assert_eq!(missing("a.md", "`.rs`").len(), 1);
        assert_eq!(missing("site/pages/changelog.md", "`old.rs`"), [""; 0]);
    }

    #[test]
    fn a_dead_link_is_seen() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dead = |text: &str| check_links(root, "a.md", text).len();
        let alive = "[x](Cargo.toml) [y](https://example.org) [z](#here)";
        assert_eq!((dead(alive), dead("[x](nowhere.toml#a)")), (0, 1));
    }
}
