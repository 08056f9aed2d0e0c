//! Finds out which crates a program is linked from, as Cargo reports it, and where their sources
//! lie. Licences are read and listed in `components`.

use crate::build::{cargo_output, cargo_tree};
use anyhow::{Context, Result};
use base::repo::Repo;
use schema::registry::{Build, CargoBuild};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A crate that a program is linked from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// SPDX expression of its licence, where its manifest has one.
    pub license: Option<String>,
    /// URL of its repository, where its manifest has one.
    pub repository: Option<String>,
    /// Its manifest, which lies in the directory of its source.
    pub manifest_path: PathBuf,
    /// sha256 of its archive, as the lockfile has it; `None` where it isn't from a registry.
    #[serde(skip)]
    pub checksum: Option<String>,
}

impl Package {
    /// The directory of its source.
    pub fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }
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
    let tree = linked(&cargo_tree(repo, how, &[])?);
    let words = ["metadata", "--locked", "--format-version", "1"];
    let metadata: Metadata = serde_json::from_str(&cargo_output(repo, how, &words)?)?;
    let manifest = how.manifest.as_deref().unwrap_or("Cargo.toml");
    let sums = checksums(&repo.root.join(manifest).with_file_name("Cargo.lock"))?;
    let mut packages = metadata.packages;
    packages.retain(|p| tree.contains(&(p.name.clone(), p.version.clone())));
    for package in &mut packages {
        let key = (package.name.clone(), package.version.clone());
        package.checksum = sums.get(&key).cloned();
    }
    Ok(packages)
}

/// The name and version in each line of `cargo tree`.
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
    packages: Vec<Package>,
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
