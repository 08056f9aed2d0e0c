//! Where and with what a run was made: revision, lockfiles, model files,
//! programs, and the machine's facts.

use crate::build::{self, Programs};
use crate::doctor;
use crate::model_work;
use crate::prompts::Prompts;
use crate::repo::Repo;
use anyhow::Result;
use schema::plan::Plan;
use schema::registry::{Build, Registry};
use schema::run::{Provenance, sha256_hex};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use xshell::{Shell, cmd};

/// All of it, for a plan.
pub fn provenance(
    repo: &Repo,
    registry: &Registry,
    plan: &Plan,
    programs: &Programs,
    prompts: &Prompts,
) -> Result<Provenance> {
    Ok(Provenance {
        binaries: binaries(plan, programs)?,
        adoption: build::adoption(repo, programs),
        ..before_building(repo, registry, plan, prompts)?
    })
}

/// What is known before there are programs.
pub fn before_building(
    repo: &Repo,
    registry: &Registry,
    plan: &Plan,
    prompts: &Prompts,
) -> Result<Provenance> {
    let (git_revision, git_dirty) = git(&repo.root);
    let mut facts = doctor::facts(&repo.root);
    facts.insert("prompts_sha256".into(), prompts.sha256());
    facts.extend(model_work::facts(&repo.model_dir(&plan.model)));
    Ok(Provenance {
        git_revision,
        git_dirty,
        lockfiles: lockfiles(&repo.root, registry),
        model_files: model_files(repo, plan)?,
        facts,
        ..Provenance::default()
    })
}

/// Target id → sha256 of its program; those of the micro suites by their own ids.
pub fn binaries(plan: &Plan, programs: &Programs) -> Result<BTreeMap<String, String>> {
    let mut binaries = programs.micro.sha256()?;
    for target in &plan.targets {
        if let Ok(program) = programs.get(target) {
            binaries.insert(target.id.clone(), program.sha256()?);
        }
    }
    Ok(binaries)
}

/// Whether nothing that decides a number differs between two revisions: everything
/// but records, pages and prose. `None` where git doesn't know one of them.
pub fn same_sources(root: &Path, a: &str, b: &str) -> Option<bool> {
    // They come from a record, and must not be read as options.
    let is_hash = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hash(a) || !is_hash(b) {
        return None;
    }
    let status = Command::new("git")
        .args(["diff", "--quiet", a, b, "--", "."])
        .args([":(exclude)data/results", ":(exclude)site", ":(exclude)*.md"])
        .current_dir(root)
        .stderr(Stdio::null())
        .status()
        .ok()?;
    match status.code()? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

fn git(root: &Path) -> (Option<String>, Option<bool>) {
    let Ok(shell) = Shell::new() else {
        return (None, None);
    };
    let _dir = shell.push_dir(root);
    let revision = cmd!(shell, "git rev-parse HEAD")
        .quiet()
        .ignore_stderr()
        .read()
        .ok();
    // Results are what a run makes, so they don't make the next one dirty.
    let status = cmd!(
        shell,
        "git status --porcelain --untracked-files=no -- . :(exclude)data/results"
    )
    .quiet()
    .ignore_stderr()
    .read()
    .ok();
    (revision, status.map(|text| !text.is_empty()))
}

/// The lockfiles that decide a number, relative to the repository: its own and
/// those of the engines that can't live in it. One that isn't there is absent.
fn lockfiles(root: &Path, registry: &Registry) -> BTreeMap<String, String> {
    let own = [
        "Cargo.lock",
        "data/models.lock",
        build::CUDA_LOCK,
        "flake.lock",
    ]
    .map(str::to_owned);
    let engines = registry
        .engines
        .iter()
        .flat_map(|engine| engine.builds())
        .filter_map(|build| match build {
            Build::Python { requirements, .. } => Some(requirements.clone()),
            Build::Prebuilt { .. } => None,
            Build::Cargo { manifest, .. } => manifest.as_ref().map(|m| {
                Path::new(m)
                    .with_file_name("Cargo.lock")
                    .display()
                    .to_string()
            }),
        });
    own.into_iter()
        .chain(engines)
        .filter_map(|name| {
            let bytes = std::fs::read(root.join(&name)).ok()?;
            Some((name, sha256_hex(&bytes)))
        })
        .collect()
}

/// The weight files of the plan's targets, tokenizer and config, by the lock
/// that `fetch` has verified them against.
fn model_files(repo: &Repo, plan: &Plan) -> Result<BTreeMap<String, String>> {
    let lock = repo.models_lock()?;
    let files = lock.models.get(&plan.model).cloned().unwrap_or_default();
    let used = |name: &str| {
        name == "config.json"
            || name == "tokenizer.json"
            || plan.targets.iter().any(|t| t.weights == name)
    };
    Ok(files
        .into_iter()
        .filter(|(name, _)| used(name))
        .map(|(name, sha)| (format!("{}/{name}", plan.model), sha))
        .collect())
}
