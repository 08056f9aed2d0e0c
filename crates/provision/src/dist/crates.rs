//! Finds out which crates a program is linked from, as Cargo reports it, and where their sources
//! lie. Licences are read and listed in `components`.

use crate::build::cargo_command;
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use schema::registry::{Build, CargoBuild};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A crate that a program is linked from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// The crate's name.
    pub name: String,
    /// The crate's version.
    pub version: String,
    /// SPDX expression of its licence, where its manifest has one.
    pub license: Option<String>,
    /// URL of its repository, where its manifest has one.
    pub repository: Option<String>,
    /// The directory of its source.
    pub dir: PathBuf,
    /// sha256 of its archive, as the lockfile has it; `None` where it isn't from a registry.
    pub checksum: Option<String>,
}

/// The crates that the harness itself is linked from.
pub fn of_harness(repo: &Repo) -> Result<Vec<Package>> {
    of_cargo(repo, &CargoBuild::new("xtask", ""))
}

/// The crates that a program is linked from; none where Cargo doesn't build it.
pub fn of_program(repo: &Repo, how: &Build) -> Result<Vec<Package>> {
    match how {
        Build::Cargo(how) => of_cargo(repo, how),
        Build::Prebuilt { .. } | Build::Python { .. } => Ok(Vec::new()),
    }
}

fn of_cargo(repo: &Repo, how: &CargoBuild) -> Result<Vec<Package>> {
    let manifest = how.manifest.as_deref().unwrap_or("Cargo.toml");
    let manifest = repo.root.join(manifest);
    let mut words = vec!["tree", "--locked", "--edges", "normal", "--prefix", "none"];
    words.extend(["--format", "{p}", "--package", &how.package]);
    let features = how.feature_arguments();
    words.extend(features.iter().map(String::as_str));
    let tree = linked(&cargo(repo, &words, &manifest)?);
    let words = ["metadata", "--locked", "--format-version", "1"];
    let metadata = cargo(repo, &words, &manifest)?;
    let metadata: Metadata = serde_json::from_str(&metadata)?;
    let lock = manifest.with_file_name("Cargo.lock");
    let sums = checksums(&lock)?;
    let packages = metadata.packages.into_iter();
    let packages = packages.filter(|p| tree.contains(&(p.name.clone(), p.version.clone())));
    Ok(packages.map(|found| found.with(&sums)).collect())
}

fn cargo(repo: &Repo, words: &[&str], manifest: &Path) -> Result<String> {
    let output = cargo_command()
        .args(words)
        .arg("--manifest-path")
        .arg(manifest)
        .current_dir(&repo.root)
        .stdin(Stdio::null())
        .output()
        .context("cargo can't be started")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`cargo {}` failed: {}", words.join(" "), said.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The name and version in each line of `cargo tree --format {p}`.
fn linked(tree: &str) -> BTreeSet<(String, String)> {
    let lines = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
    });
    lines.collect()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
}

impl Found {
    fn with(self, sums: &BTreeMap<(String, String), String>) -> Package {
        let checksum = sums
            .get(&(self.name.clone(), self.version.clone()))
            .cloned();
        let dir = self.manifest_path.parent().map(Path::to_owned);
        Package {
            name: self.name,
            version: self.version,
            license: self.license,
            repository: self.repository,
            dir: dir.unwrap_or_default(),
            checksum,
        }
    }
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

fn checksums(lock: &Path) -> Result<BTreeMap<(String, String), String>> {
    let text = std::fs::read_to_string(lock)
        .with_context(|| format!("{} can't be read", lock.display()))?;
    let lock: Lock = toml::from_str(&text)?;
    let packages = lock.package.into_iter();
    let with_sum = packages.filter_map(|p| Some(((p.name, p.version), p.checksum?)));
    Ok(with_sum.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trees_lines_are_names_and_versions() {
        let tree = "a-bench v0.1.0 (/home/me/a)\nserde v1.0.1\nserde_derive v1.0.1 (proc-macro)\nserde v1.0.1 (*)\n\n";
        let found = linked(tree);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a-bench", "serde", "serde_derive"]);
    }
}
