//! The programs in an archive: without symbols, at the path where the bundle's registry
//! looks for them, with what they read beside them.

use super::part::Part;
use super::{crates, registry};
use crate::build::libdevice_files;
use anyhow::{Context, Result};
use base::repo::Repo;
use harness::programs::Programs;
use schema::registry::{Need, Target};
use std::path::Path;
use xshell::{Shell, cmd};

/// Add the programs of `targets` that could be built, each once, and say what is in them.
pub fn add(repo: &Repo, programs: &Programs, targets: &[Target], part: &mut Part) -> Result<()> {
    let mut packages = Vec::new();
    for target in targets {
        let Some((id, how, program)) = programs.made(target) else {
            continue;
        };
        let (Some(path), Some(file)) = (registry::program_path(id, how), program.files.first())
        else {
            continue;
        };
        if !part.entries.contains_key(&path) {
            part.add(&path, stripped(file)?, true);
            packages.extend(crates::of_program(repo, how)?);
            if how.needs().contains(&Need::Libdevice) {
                for (path, from) in libdevice_files(repo)? {
                    part.copy(&path, &from)?;
                }
            }
        }
    }
    match packages.is_empty() {
        true => Ok(()),
        false => part.describe(packages),
    }
}

/// A program's bytes without symbols and debug information; the file stays as it is.
pub fn stripped(file: &Path) -> Result<Vec<u8>> {
    let out = tempfile::NamedTempFile::new().context("no temporary file can be made")?;
    let (shell, to) = (Shell::new()?, out.path());
    let strip = cmd!(shell, "strip -o {to} {file}").quiet();
    strip.run().with_context(|| {
        let file = file.display();
        format!("{file} can't be stripped (strip is one of the binutils)")
    })?;
    Ok(std::fs::read(out.path())?)
}
