//! Building engines: each once, in release, on demand. What can't be built is a
//! fact of this machine, not an error of the run.

mod cargo;
mod python;

pub use python::VENV;

use crate::engine::{EngineFailure, Program};
use crate::repo::Repo;
use anyhow::{Result, bail};
use schema::record::Status;
use schema::registry::{Build, Registry};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The programs of the engines asked for, or why there is none.
#[derive(Debug, Default)]
pub struct Programs(BTreeMap<String, Result<Program, EngineFailure>>);

impl Programs {
    /// The program of an engine that was asked for.
    pub fn get(&self, engine: &str) -> Result<&Program, &EngineFailure> {
        self.0[engine].as_ref()
    }

    /// Whether an engine was asked for and built.
    pub fn has(&self, engine: &str) -> bool {
        self.0.get(engine).is_some_and(Result::is_ok)
    }
}

/// Build the programs of `engines` (ids, duplicates allowed).
pub fn build(repo: &Repo, registry: &Registry, engines: &[&str]) -> Result<Programs> {
    let mut programs = Programs::default();
    for id in engines {
        if programs.0.contains_key(*id) {
            continue;
        }
        crate::interrupt::check()?;
        let Some(engine) = registry.engine(id) else {
            bail!("no engine {id:?} in engines/engines.toml")
        };
        let program = match &engine.build {
            Build::Cargo {
                package,
                bin,
                manifest,
            } => cargo::build(repo, package, bin, manifest.as_deref()),
            Build::Prebuilt { path } => prebuilt(repo, path),
            Build::Python {
                script,
                requirements,
            } => python::build(repo, script, requirements),
        };
        if let Err(failure) = &program {
            eprintln!("{id}: {failure}");
        }
        programs.0.insert((*id).to_owned(), program);
    }
    Ok(programs)
}

/// `cargo xtask build`: exit status 3 where something can't be built.
pub fn command(repo: &Repo, engines: &[String]) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let usual = registry
        .engines
        .iter()
        .filter(|engine| !engine.hidden)
        .map(|engine| engine.id.as_str());
    let engines: Vec<&str> = if engines.is_empty() {
        usual.collect()
    } else {
        engines.iter().map(String::as_str).collect()
    };
    let programs = build(repo, &registry, &engines)?;
    let mut code = ExitCode::SUCCESS;
    for (engine, program) in &programs.0 {
        match program {
            Ok(program) => println!("{engine}: {}", program.argv.join(" ")),
            Err(_) => code = ExitCode::from(3), // said when it happened
        }
    }
    Ok(code)
}

fn prebuilt(repo: &Repo, path: &str) -> Result<Program, EngineFailure> {
    let file = repo.root.join(path);
    if !file.is_file() {
        return Err(unavailable(format!("{} is not there", file.display())));
    }
    let argv = vec![file.display().to_string()];
    Ok(Program::new(argv, vec![file], &repo.root, &repo.build_dir))
}

/// A failure to build: this machine lacks something.
fn unavailable(reason: impl Into<String>) -> EngineFailure {
    EngineFailure::new(Status::Unavailable, reason)
}
