//! Builds engines: each program once, in release, on demand. A program that can't be built is a
//! fact about this machine, not an error of the run.

mod adoption;
mod base_python;
mod build_tools;
mod cargo;
mod compiler;
mod cuda;
mod engine_tests;
mod environment_stamp;
mod failure;
mod lazy_library;
mod libdevice;
mod needs;
mod order;
mod prebuilt;
mod python;
mod report;
mod stage;
mod stale;
mod surroundings;
mod tracer;

pub use adoption::adoption;
pub use build_tools::{LOCK as BUILD_TOOLS_LOCK, are_made as build_tools_are_made};
pub use cargo::{cargo_command, package_variables};
pub(crate) use cargo::{cargo_output, cargo_tree};
pub use cuda::{LOCK as CUDA_LOCK, cuda_home};
pub use engine_tests::{default_packages, packages_of, test_engines, test_trainer};
pub(crate) use environment_stamp::recorded_version;
pub use libdevice::to_pack as libdevice_files;
pub use needs::{libtorch_dir, libtorch_named};
use python::Environment;
pub use python::{environment_at, environment_dir, packages_dir};
pub use stage::{Stage, is_built, why_missing};
pub use tracer::{tracer, tracer_file};

use crate::waiting_lock;
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use base::{exit_code, names};
use harness::devices::Named;
use harness::engine::{EngineFailure, Program, isa};
use harness::programs::Programs;
use schema::adoption::Built;
use schema::record::Status;
use schema::registry::{Build, Need, Registry, Target};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

/// Build the programs of `targets`, each once. Targets that have no device to run on here are left
/// out, unless they are `named`.
pub fn build<'a>(
    repo: &Repo,
    registry: &Registry,
    targets: impl IntoIterator<Item = &'a Target>,
    named: &Named,
) -> Result<Programs> {
    let stage = Stage::new(repo, registry, targets, &[], &[], named)?;
    for (id, failure) in stage.without_device() {
        eprintln!("{id}: {failure}");
    }
    stage.run(|_| Ok(()))
}

/// Build the programs of `targets`, each once. The user asked for them, so it doesn't matter
/// whether this machine can run them.
pub fn compile<'a>(
    repo: &Repo,
    registry: &Registry,
    targets: impl IntoIterator<Item = &'a Target>,
) -> Result<Programs> {
    let targets: Vec<&Target> = targets.into_iter().collect();
    let ids: Vec<String> = targets.iter().map(|target| target.id.clone()).collect();
    build(repo, registry, targets, &Named::new(&ids))
}

/// Build one program that belongs to no target, under an id of its own.
pub fn program(
    repo: &Repo,
    registry: &Registry,
    id: &str,
    how: &Build,
) -> Result<Program, EngineFailure> {
    make(repo, registry, id, how).map(|(program, _)| program)
}

/// The id of the program that measures the limits of a backend's device.
pub fn limits_id(backend: &str) -> String {
    format!("{backend}-limits")
}

fn make(
    repo: &Repo,
    registry: &Registry,
    id: &str,
    how: &Build,
) -> Result<(Program, Option<Built>), EngineFailure> {
    let as_found = |program| (program, None);
    let made = match how {
        Build::Cargo(how) => cargo::build(repo, registry, id, how),
        Build::Prebuilt { path, .. } => prebuilt::program(repo, registry, path, how).map(as_found),
        Build::Python {
            script,
            requirements,
            environment,
            modules,
        } => python::build(
            repo,
            script,
            modules.as_deref(),
            &Environment::new(repo, environment, requirements),
        )
        .map(as_found),
    };
    let isa = isa::of_build(repo, registry, how);
    let passed = registry.variables_for(how);
    made.map(|(program, built)| (program.with_isa(isa).with_passed(passed), built))
        .map_err(unavailable)
}

/// `cargo xtask build`. The exit status is 3 where something can't be built.
pub fn command(repo: &Repo, names: &[String], cuda: bool, json: bool) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let usual = repo.profile("cpu")?.backends;
    let targets = choose(&registry, &usual, names, cuda)?;
    let programs = compile(repo, &registry, &targets)?;
    let costs = adoption(repo, &programs);
    if json {
        println!("{}", serde_json::to_string_pretty(&costs)?);
    } else {
        print!("{}", report::table(&costs));
        for (id, made) in &programs.made {
            if let Ok(made) = made {
                println!("{id}: {}", made.program.argv.join(" "));
            }
        }
    }
    // A failure was reported when it happened.
    Ok(exit_code(programs.made.values().all(Result::is_ok), 3))
}

/// Choose the targets to build: of the engines named (or of all that aren't hidden), those on the
/// usual backends, or with `cuda` those that need a CUDA toolkit. A target named in full is always
/// chosen.
pub fn choose(
    registry: &Registry,
    backends: &[String],
    names: &[String],
    cuda: bool,
) -> Result<Vec<Target>> {
    let all = registry.targets();
    names::check_engines(names, &all)?;
    let wanted = |target: &Target| {
        let engine = registry.engine(&target.engine);
        let needs = engine.map_or(&[][..], |e| e.build_for(&target.backend).needs());
        let fits = match cuda {
            true => needs.contains(&Need::CudaToolkit),
            false => backends.contains(&target.backend),
        };
        let named = match names {
            [] => !target.hidden,
            names => names.contains(&target.engine),
        };
        names.contains(&target.id) || (fits && named)
    };
    let chosen: Vec<Target> = all.into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        let with = if cuda { " with a CUDA toolkit" } else { "" };
        bail!(
            "nothing to build{with} for these engines: `cargo xtask list targets` lists what each has, and a target named in full is built as it is"
        );
    }
    Ok(chosen)
}

/// Hold the lock at `path` for as long as the returned file is open, so that no other process
/// writes the same files.
fn alone(path: &Path) -> Result<File> {
    let held = waiting_lock::hold(path, || {
        eprintln!("Waiting for another build that holds {}", path.display());
    });
    held.with_context(|| format!("{} can't be locked", path.display()))
}

/// The failure of a build because this machine lacks something.
fn unavailable(why: anyhow::Error) -> EngineFailure {
    EngineFailure::new(Status::Unavailable, format!("{why:#}"))
}

/// A registry for tests: of each engine its id, its targets (`cpu.f32`), and the other lines of its
/// table. The first target is baseline, reference and cross-check.
#[cfg(test)]
pub(crate) fn registry_of(engines: &[(&str, &[&str], &str)]) -> Registry {
    let (id, targets, _) = engines[0];
    let mut text = String::new();
    for role in ["baseline", "reference", "cross_check"] {
        text += &format!("{role} = '{id}.{}'\n", targets[0]);
    }
    for (id, targets, more) in engines {
        let name = format!("id = '{id}'\nname = '{id}'\nabout = ''\nhomepage = ''");
        text += &format!("[[engine]]\n{name}\n{more}\n");
        for target in *targets {
            let (backend, precision) = target.split_once('.').unwrap();
            let target = format!("backend = '{backend}'\nprecision = '{precision}'\nweights = 'w'");
            text += &format!("[[engine.target]]\n{target}\n");
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Registry::load(file.path()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let a = r#"build = { kind = "prebuilt", path = "a" }
            on = { cuda = { kind = "prebuilt", path = "gone", needs = ["cuda_toolkit"] } }"#;
        let b = "hidden = true\nbuild = { kind = 'prebuilt', path = 'b' }";
        let targets = ["cpu.f32", "cpu.q8_0", "cuda.f32", "cuda.bf16"];
        registry_of(&[("a", &targets, a), ("b", &["cpu.f32"], b)])
    }

    #[test]
    fn targets_built_alike_share_a_program() {
        let registry = registry();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        let repo = Repo::under(dir.path());
        let targets = registry.targets();
        let programs = compile(&repo, &registry, &targets[..4]).unwrap();
        let made: Vec<&str> = programs.made.keys().map(String::as_str).collect();
        assert_eq!(made, ["a", "a-cuda"]);
        assert_eq!(programs.get(&targets[0]), programs.get(&targets[1]));
        assert!(programs.has(&targets[0]) && !programs.has(&targets[2]));
        let why = &programs.get(&targets[3]).unwrap_err().reason;
        assert!(why.contains("gone is not there"), "{why}");
        assert!(!programs.has(&targets[4]), "it wasn't asked for");
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn what_has_nothing_to_run_on_is_not_compiled() {
        let mut registry = registry();
        let metal = vec![schema::registry::Device::Metal];
        registry.backends.insert("cuda".into(), metal);
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::under(dir.path());
        let targets = registry.targets();
        let programs = build(&repo, &registry, &targets[..3], &Named::default()).unwrap();
        let why = &programs.get(&targets[2]).unwrap_err().reason;
        assert!(
            why.contains("no Mac") && why.contains("name a.cuda.f32 in full"),
            "{why}"
        );
        assert!(!programs.made.contains_key("a-cuda") && programs.made(&targets[2]).is_none());
        // The other targets go on, and report what is wrong with their programs.
        let why = &programs.get(&targets[0]).unwrap_err().reason;
        assert!(why.contains("is not there"), "{why}");
    }

    #[test]
    fn only_what_is_asked_for_is_built() {
        let registry = registry();
        let cpu = ["cpu".to_owned()];
        let ids = |names: &[&str], cuda| -> Vec<String> {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            let chosen = choose(&registry, &cpu, &names, cuda).unwrap();
            chosen.into_iter().map(|target| target.id).collect()
        };
        assert_eq!(ids(&[], false), ["a.cpu.f32", "a.cpu.q8_0"]);
        assert_eq!(ids(&[], true), ["a.cuda.f32", "a.cuda.bf16"]);
        assert_eq!(ids(&["b"], false), ["b.cpu.f32"]);
        assert_eq!(
            ids(&["a.cuda.f32", "b"], false),
            ["a.cuda.f32", "b.cpu.f32"]
        );
        let none = choose(&registry, &cpu, &["b".to_owned()], true).unwrap_err();
        assert!(none.to_string().contains("CUDA"), "{none}");
        let unknown = choose(&registry, &cpu, &["c".to_owned()], false).unwrap_err();
        assert!(unknown.to_string().contains("there are a, b"), "{unknown}");
    }
}
