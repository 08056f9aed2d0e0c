//! The content of one archive, in memory: the largest engine has some 120 MB. Pure, except that it
//! reads the files that are added.
//!
//! A part is written as a `.tar.gz`, which every system can unpack. Equal parts give equal bytes:
//! entries are sorted by name, their owner is 0, and their time is `SOURCE_DATE_EPOCH`, or the
//! Unix epoch where that isn't set.

use super::components;
use super::crates::Package;
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use schema::hash::sha256_hex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub bytes: Vec<u8>,
    pub is_program: bool,
}

/// The content of an archive.
#[derive(Debug, Default)]
pub struct Part {
    /// The part's name: `base`, or an engine's id.
    pub name: String,
    /// The files by their path inside the bundle.
    pub entries: BTreeMap<String, Entry>,
    /// The crates that the part's programs are linked from.
    packages: BTreeSet<Package>,
}

impl Part {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size of all files (bytes).
    pub fn bytes(&self) -> u64 {
        self.entries
            .values()
            .map(|entry| entry.bytes.len() as u64)
            .sum()
    }

    /// Add a file with these bytes at `path`.
    pub fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>, is_program: bool) {
        let bytes = bytes.into();
        self.entries
            .insert(path.to_owned(), Entry { bytes, is_program });
    }

    /// Add a copy of the file `from`, which is no program, at `path`.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let bytes =
            std::fs::read(from).with_context(|| format!("{} can't be read", from.display()))?;
        self.add(path, bytes, false);
        Ok(())
    }

    /// Note which crates a program of the part is linked from, and write the files of licences,
    /// components and hashes anew. Call it after the program's files were added.
    pub fn describe(&mut self, packages: impl IntoIterator<Item = Package>) -> Result<()> {
        self.packages.extend(packages);
        let name = self.name.clone();
        let packages: Vec<&Package> = self.packages.iter().collect();
        let texts = components::licence_texts(&packages)?;
        let components = components::cyclonedx(&name, &packages)?;
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

/// Pack `part` as a `.tar.gz` in which all files lie in the directory `dir`.
pub fn pack(dir: &str, part: &Part) -> Result<Vec<u8>> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mtime = epoch.and_then(|text| text.parse().ok()).unwrap_or(0);
    // GzBuilder writes neither a time nor a name unless told to.
    let gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for (path, entry) in &part.entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(if entry.is_program { 0o755 } else { 0o644 });
        header.set_mtime(mtime);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, format!("{dir}/{path}"), entry.bytes.as_slice())
            .with_context(|| format!("{path} can't be packed"))?;
    }
    let gzip = tar.into_inner().context("the archive can't be ended")?;
    gzip.finish().context("the archive can't be compressed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_archive_holds_what_was_added_and_is_the_same_twice() {
        let mut part = Part::new("a");
        part.add("z/data.txt", "data", false);
        part.add("bin/a", "#!", true);
        let bytes = pack("top", &part).unwrap();
        assert_eq!(bytes, pack("top", &part).unwrap());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let found = tar.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mode = entry.header().mode().unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            format!("{path} {mode:o} {text}")
        });
        let found: Vec<String> = found.collect();
        assert_eq!(found, ["top/bin/a 755 #!", "top/z/data.txt 644 data"]);
    }
}
