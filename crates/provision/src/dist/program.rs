//! The programs of a bundle, and the bundle's registry.
//!
//! Programs are packed without symbols, at the path where the bundle's registry looks for them,
//! with the files that they read beside them.
//!
//! In the registry of a bundle every program that Cargo builds is a prebuilt one. Making that
//! registry is pure.

use super::crates;
use super::part::Part;
use crate::build::{self, libdevice_files, limits_id};
use anyhow::{Context, Result};
use base::repo::Repo;
use harness::engine::Program;
use harness::programs::Programs;
use schema::registry::{Build, Need, Registry, Target};
use std::path::Path;
use xshell::{Shell, cmd};

/// Add the programs of `targets` that could be built, each once, and note which crates are in them.
pub fn add(repo: &Repo, programs: &Programs, targets: &[Target], part: &mut Part) -> Result<()> {
    for target in targets {
        if let Some((id, how, program)) = programs.made(target) {
            add_one(repo, id, how, program, part)?;
        }
    }
    Ok(())
}

/// Add the programs that measure the limits of devices, where they can be built.
pub fn add_limits(repo: &Repo, registry: &Registry, part: &mut Part) -> Result<()> {
    for (backend, how) in &registry.limits {
        let id = limits_id(backend);
        match build::program(repo, registry, &id, how) {
            Ok(program) => add_one(repo, &id, how, &program, part)?,
            Err(failure) => watch::warn(format!("the limits of {backend}: {failure}")),
        }
    }
    Ok(())
}

/// Add a program that Cargo built, with the files that it reads beside it, unless the part has it.
/// Note which crates are in it.
fn add_one(repo: &Repo, id: &str, how: &Build, program: &Program, part: &mut Part) -> Result<()> {
    let (Some(path), Some(file)) = (program_path(id, how), program.files.first()) else {
        return Ok(());
    };
    if part.entries.contains_key(&path) {
        return Ok(());
    }
    part.add(&path, stripped(file)?, true);
    if how.needs().contains(&Need::Libdevice) {
        for (path, from) in libdevice_files(repo)? {
            part.copy(&path, &from)?;
        }
    }
    part.describe(crates::of_program(repo, how)?)
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

/// The registry of a bundle: the same targets, with the paths of the bundle's programs. What only
/// builds and tests need is left out.
pub fn prebuilt(registry: &Registry) -> Registry {
    let mut registry = registry.clone();
    registry.build_s.clear();
    for engine in &mut registry.engines {
        let on = engine.on.iter().map(|(backend, how)| {
            let id = engine.program_id(backend);
            (backend.clone(), there_already(&id, how))
        });
        engine.on = on.collect();
        engine.build = there_already(&engine.id, &engine.build);
        engine.direct = Vec::new();
        engine.test_server = None;
    }
    for (backend, how) in &mut registry.limits {
        *how = there_already(&limits_id(backend), how);
    }
    registry
}

/// The path of a program in a bundle; `None` for one that Cargo doesn't build.
pub fn program_path(id: &str, how: &Build) -> Option<String> {
    match how {
        Build::Cargo(how) => Some(format!("programs/{id}/{}", how.bin)),
        Build::Prebuilt { .. } | Build::Python { .. } => None,
    }
}

fn there_already(id: &str, how: &Build) -> Build {
    let Some(path) = program_path(id, how) else {
        return how.clone();
    };
    // Its other needs are needs of the build.
    let needs = how.needs().iter().filter(|need| need.is_to_run());
    Build::Prebuilt {
        path,
        needs: needs.copied().collect(),
        libtorch: how.libtorch().cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundles_registry_loads_and_runs_the_same_targets() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ours = Registry::load(&root.join("engines/engines.toml")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engines.toml");
        std::fs::write(&path, toml::to_string(&prebuilt(&ours)).unwrap()).unwrap();
        let theirs = Registry::load(&path).unwrap();
        assert_eq!(theirs.targets(), ours.targets());
        for target in ours.targets() {
            let id = ours.program_id(&target).unwrap();
            assert_eq!(theirs.program_id(&target).as_ref(), Some(&id));
            let engine = theirs.engine(&target.engine).unwrap();
            match engine.build_for(&target.backend) {
                Build::Prebuilt {
                    path,
                    needs,
                    libtorch,
                } => {
                    assert!(path.starts_with(&format!("programs/{id}/")), "{path}");
                    let wanted = ours.engine(&target.engine).unwrap();
                    let wanted = wanted.build_for(&target.backend);
                    let stays = |need: &Need| needs.contains(need) == need.is_to_run();
                    assert!(wanted.needs().iter().all(stays), "{id}");
                    assert_eq!(libtorch.as_ref(), wanted.libtorch(), "{id}");
                }
                Build::Python { .. } => {}
                Build::Cargo(_) => panic!("{id} would have to be built"),
            }
        }
        assert!(theirs.engines.iter().all(|engine| engine.direct.is_empty()));
        let limits = &theirs.limits["cuda"];
        assert!(
            matches!(limits, Build::Prebuilt { path, .. } if path.starts_with("programs/cuda-limits/"))
        );
    }
}
