//! What goes into one archive, in memory: the largest engine is some 120 MB. Pure but
//! for reading the files that are added.

use super::crates::Package;
use super::{licenses, sbom};
use anyhow::{Context, Result};
use schema::hash::sha256_hex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it can be run.
    pub is_program: bool,
}

/// One archive's content.
#[derive(Debug, Default)]
pub struct Part {
    /// `base`, or an engine's id.
    pub name: String,
    /// Path inside the bundle → file.
    pub entries: BTreeMap<String, Entry>,
    /// What its programs are linked from.
    packages: BTreeSet<Package>,
}

impl Part {
    /// With nothing in it.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Whether there is nothing to pack.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size of all files, bytes.
    pub fn bytes(&self) -> u64 {
        self.entries
            .values()
            .map(|entry| entry.bytes.len() as u64)
            .sum()
    }

    /// Add a text or a program at `path`.
    pub fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>, is_program: bool) {
        let bytes = bytes.into();
        self.entries
            .insert(path.to_owned(), Entry { bytes, is_program });
    }

    /// Add a file that is no program as it is.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let bytes =
            std::fs::read(from).with_context(|| format!("{} can't be read", from.display()))?;
        self.add(path, bytes, false);
        Ok(())
    }

    /// Note what a program in it is linked from, and write down licences, components and
    /// sums anew: call after its files were added.
    pub fn describe(&mut self, packages: impl IntoIterator<Item = Package>) -> Result<()> {
        self.packages.extend(packages);
        let name = self.name.clone();
        let packages: Vec<&Package> = self.packages.iter().collect();
        let texts = licenses::text(&packages)?;
        let components = sbom::cyclonedx(&name, &packages)?;
        self.add(&format!("licenses/{name}.txt"), texts, false);
        self.add(&format!("sbom/{name}.cdx.json"), components, false);
        let sums_path = format!("checksums/{name}.sha256");
        self.entries.remove(&sums_path);
        let sums = self.entries.iter();
        let sums = sums.map(|(path, entry)| format!("{}  {path}\n", sha256_hex(&entry.bytes)));
        let sums: String = sums.collect();
        self.add(&sums_path, sums, false);
        Ok(())
    }
}
