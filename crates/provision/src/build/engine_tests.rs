//! Runs the engines' own tests that a plain `cargo test` leaves out because building them needs
//! more than a Rust toolchain, or takes minutes. Each runs with the same surroundings in which its
//! program is built.

use super::cargo::{cargo_command, cargo_for};
use super::{needs, unavailable};
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use harness::engine::isa;
use schema::registry::{Build, CargoBuild, Registry, Target};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Run all of these tests. Those that this machine lacks something for are skipped with a message.
pub fn test_engines(repo: &Repo, registry: &Registry) -> Result<()> {
    long_to_build(repo, registry)?;
    with_real_servers(repo, registry)
}

/// Build all programs in the packages of `targets`, because tests start other programs of them than
/// the engine's own.
pub fn packages_of(repo: &Repo, registry: &Registry, targets: &[Target]) -> Result<()> {
    for target in targets {
        let engine = registry.engine(&target.engine);
        let Some(Build::Cargo(how)) = engine.map(|engine| &engine.build) else {
            continue;
        };
        let package = &how.package;
        let mut build = cargo_for(repo, how, &["build", "--release", "--locked", "--quiet"]);
        let status = build.args(["--package", package]).status();
        if !status.context("cargo can't be started")?.success() {
            bail!("{package} can't be built");
        }
    }
    Ok(())
}

/// Run the tests of client engines once more, now with a real server.
fn with_real_servers(repo: &Repo, registry: &Registry) -> Result<()> {
    for engine in &registry.engines {
        let (Some(server), Build::Cargo(how)) = (&engine.test_server, &engine.build) else {
            continue;
        };
        let package = &how.package;
        let id = format!("{}-test-server", engine.id);
        let server = match super::program(repo, registry, &id, server) {
            Ok(program) => program.argv[0].clone(),
            Err(failure) => {
                eprintln!("   {package} with a real server skipped: {failure}");
                continue;
            }
        };
        eprintln!("   {package} with {server}");
        crate::fetch::ensure(repo, &["tiny-llama".to_owned()])?;
        let mut command = cargo_for(repo, how, &["test", "--release", "--locked", "--quiet"]);
        command
            .args(["--package", package])
            .env("BENCH_REAL_SERVER", server);
        run(command)?;
    }
    Ok(())
}

/// Run a command of Cargo's; the error says which one failed.
fn run(mut command: Command) -> Result<()> {
    let status = command.status().context("cargo can't be started")?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// The trainer's own tests, for the first of its backends.
pub fn test_trainer(repo: &Repo, registry: &Registry) -> Result<()> {
    let backends = repo.train_registry()?.backends;
    match backends.first().map(|backend| &backend.build) {
        Some(Build::Cargo(how)) => test_package(repo, registry, how),
        _ => Ok(()),
    }
}

fn long_to_build(repo: &Repo, registry: &Registry) -> Result<()> {
    let mut tested = default_packages(repo)?.engines;
    for engine in &registry.engines {
        if let Build::Cargo(how) = &engine.build
            && tested.insert(how.package.clone())
        {
            test_package(repo, registry, how)?;
        }
    }
    Ok(())
}

/// Run the tests of a program's package, with the surroundings in which the program is built. Where
/// this machine lacks these, print a line and skip the tests.
fn test_package(repo: &Repo, registry: &Registry, how: &CargoBuild) -> Result<()> {
    let package = &how.package;
    let from = how.libtorch.as_ref();
    let surroundings = match needs::provide(repo, registry, &how.bin, &how.needs, from) {
        Ok(surroundings) => surroundings,
        Err(why) => {
            eprintln!("   {package} skipped: {}", unavailable(why));
            return Ok(());
        }
    };
    eprintln!("   {package}");
    let limits = isa::limits(registry);
    let mut words = vec!["test", "--release", "--locked", "--quiet"];
    words.extend(["--package", package]);
    let features = how.feature_arguments();
    words.extend(features.iter().map(String::as_str));
    let mut command = cargo_for(repo, how, &words);
    command
        .envs(surroundings.build())
        .envs(surroundings.run())
        .envs(limits.iter().map(|limit| (&limit.variable, &limit.value)));
    run(command)
}

/// The packages that a plain `cargo test` covers, by name.
#[derive(Debug, PartialEq)]
pub struct DefaultPackages {
    /// Packages of the harness, including those that only the harness uses.
    pub harness: BTreeSet<String>,
    /// Packages that lie in `engines`.
    pub engines: BTreeSet<String>,
}

/// Ask Cargo for the packages that a plain `cargo test` covers.
pub fn default_packages(repo: &Repo) -> Result<DefaultPackages> {
    let output = cargo_command()
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .current_dir(&repo.root)
        .output()
        .context("cargo can't be started")?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    names(&metadata).context("cargo metadata names no default members")
}

fn names(metadata: &Value) -> Option<DefaultPackages> {
    let defaults = metadata["workspace_default_members"].as_array()?;
    let engines_dir = Path::new(metadata["workspace_root"].as_str()?).join("engines");
    let (mut harness, mut engines) = (BTreeSet::new(), BTreeSet::new());
    for package in metadata["packages"].as_array()? {
        if !defaults.contains(&package["id"]) {
            continue;
        }
        let is_engines = Path::new(package["manifest_path"].as_str()?).starts_with(&engines_dir);
        let names = if is_engines {
            &mut engines
        } else {
            &mut harness
        };
        names.insert(package["name"].as_str()?.to_owned());
    }
    Some(DefaultPackages { harness, engines })
}

#[cfg(test)]
mod tests {
    use super::names;
    use serde_json::json;

    #[test]
    fn default_members_are_told_apart_by_where_they_lie() {
        let metadata = json!({
            "packages": [
                {"id": "p#a", "name": "a", "manifest_path": "/r/engines/a/Cargo.toml"},
                {"id": "p#b", "name": "b", "manifest_path": "/r/engines/b/Cargo.toml"},
                {"id": "p#c", "name": "c", "manifest_path": "/r/xtask/c/Cargo.toml"},
            ],
            "workspace_default_members": ["p#b", "p#c"],
            "workspace_root": "/r",
        });
        let packages = names(&metadata).unwrap();
        assert_eq!(packages.engines.into_iter().collect::<Vec<_>>(), ["b"]);
        assert_eq!(packages.harness.into_iter().collect::<Vec<_>>(), ["c"]);
        assert!(names(&json!({})).is_none());
    }
}
