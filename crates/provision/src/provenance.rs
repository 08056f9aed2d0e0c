//! Collects where and with what a run was made: revision, lockfiles, model files, programs, and the
//! machine's facts.

use crate::{build, pins};
use anyhow::Result;
use base::repo::Repo;
use base::shelf::{INDEX, WEIGHTS};
use harness::programs::Programs;
use harness::prompts::Prompts;
use harness::{machine, model_work};
use schema::hash::sha256_hex;
use schema::model::Model;
use schema::plan::Plan;
use schema::provenance::Provenance;
use schema::registry::{Build, Registry};
use std::collections::BTreeMap;
use std::path::Path;
use xshell::{Cmd, Shell, cmd};

/// Collect everything for a plan.
pub fn provenance(
    repo: &Repo,
    registry: &Registry,
    plan: &Plan,
    programs: &Programs,
    prompts: &Prompts,
) -> Result<Provenance> {
    // Building may have made things that weren't there before, so the rest is read only now.
    Ok(Provenance {
        binaries: binaries(plan, programs)?,
        adoption: build::adoption(repo, programs),
        ..before_building(repo, registry, plan, prompts)?
    })
}

/// Collect what is known before programs are built. Things that are only made for a program that
/// needs them may be absent.
pub fn before_building(
    repo: &Repo,
    registry: &Registry,
    plan: &Plan,
    prompts: &Prompts,
) -> Result<Provenance> {
    // A bundle has no checkout around it, and says what it was made from.
    let (git_revision, git_dirty, lockfiles) = match repo.bundle()? {
        Some(bundle) => (bundle.git_revision, bundle.git_dirty, bundle.lockfiles),
        None => {
            let (revision, dirty) = git(&repo.root);
            (revision, dirty, lockfiles(&repo.root, registry))
        }
    };
    let mut facts = machine::facts(&repo.root);
    facts.insert("prompts_sha256".into(), prompts.sha256());
    facts.extend(model_work::facts(&repo.model_dir(&plan.model)));
    Ok(Provenance {
        git_revision,
        git_dirty,
        lockfiles,
        model_files: model_files(repo, plan)?,
        model: brought(repo, plan)?,
        facts,
        pins: pins::read(repo, registry),
        ..Provenance::default()
    })
}

/// sha256 of each target's program, by the target's id, and of the micro suites' programs, by their
/// own ids.
pub fn binaries(plan: &Plan, programs: &Programs) -> Result<BTreeMap<String, String>> {
    let mut binaries = programs.micro.sha256()?;
    for target in &plan.targets {
        if let Ok(program) = programs.get(target) {
            binaries.insert(target.id.clone(), program.sha256()?);
        }
    }
    Ok(binaries)
}

/// Git pathspecs that exclude what no number depends on: records, pages, prose, and what pages are
/// made from.
const DECIDES_NOTHING: [&str; 10] = [
    ":(exclude)data/results",
    ":(exclude)data/prices",
    ":(exclude)data/hypotheses.toml",
    ":(exclude)data/claims.toml",
    ":(exclude)data/maturity.toml",
    ":(exclude)data/simulation.json",
    ":(exclude)data/adapters.json",
    ":(exclude)site",
    ":(exclude).github",
    ":(exclude)*.md",
];

/// Whether two revisions agree in everything that decides a number, which is all but records, pages
/// and prose. `None` where git doesn't know one of them.
pub fn same_sources(root: &Path, a: &str, b: &str) -> Option<bool> {
    // The revisions come from a record, and must not be read as options.
    let is_hash = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hash(a) || !is_hash(b) {
        return None;
    }
    let shell = Shell::new().ok()?;
    let _dir = shell.push_dir(root);
    let command = cmd!(shell, "git diff --quiet {a} {b} -- . {DECIDES_NOTHING...}");
    let output = command.ignore_status().ignore_stderr().output().ok()?;
    match output.status.code()? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// The checkout's revision, and whether its files differ from that. `None` where git doesn't tell.
pub fn git(root: &Path) -> (Option<String>, Option<bool>) {
    let Ok(shell) = Shell::new() else {
        return (None, None);
    };
    let _dir = shell.push_dir(root);
    let read = |command: Cmd| command.quiet().ignore_stderr().read().ok();
    let revision = read(cmd!(shell, "git rev-parse HEAD"));
    // Results are the output of a run, so they don't make the next one dirty.
    let status = read(cmd!(
        shell,
        "git status --porcelain --untracked-files=no -- . :(exclude)data/results"
    ));
    (revision, status.map(|text| !text.is_empty()))
}

/// sha256 of the lockfiles that decide a number, by their path in the repository: its own and those
/// of the engines that are excluded from its workspace. A file that doesn't exist is absent.
pub(crate) fn lockfiles(root: &Path, registry: &Registry) -> BTreeMap<String, String> {
    let own = [
        "Cargo.lock",
        "data/models.lock",
        build::CUDA_LOCK,
        "flake.lock",
    ]
    .map(str::to_owned);
    let builds = || registry.engines.iter().flat_map(|engine| engine.builds());
    let requirements = builds().filter_map(|build| Some(build.environment()?.1.to_owned()));
    let workspaces = builds().filter_map(|build| {
        let Build::Cargo(how) = build else {
            return None;
        };
        let lock = Path::new(how.manifest.as_ref()?).with_file_name("Cargo.lock");
        Some(lock.display().to_string())
    });
    own.into_iter()
        .chain(requirements)
        .chain(workspaces)
        .filter_map(|name| {
            let bytes = std::fs::read(root.join(&name)).ok()?;
            Some((name, sha256_hex(&bytes)))
        })
        .collect()
}

/// The plan's model, where the user brought it: readers of the record have no list that describes
/// it.
fn brought(repo: &Repo, plan: &Plan) -> Result<Option<Model>> {
    if repo.listed_models()?.get(&plan.model).is_some() {
        return Ok(None);
    }
    Ok(repo.models()?.get(&plan.model).cloned())
}

/// sha256 of the weight files of the plan's targets, of the tokenizer and of the config, from the
/// lock that `fetch` has verified them against.
fn model_files(repo: &Repo, plan: &Plan) -> Result<BTreeMap<String, String>> {
    let lock = repo.models_lock()?;
    let files = lock.models.get(&plan.model).cloned().unwrap_or_default();
    let named = |name: &str| plan.targets.iter().any(|t| t.weights == name);
    // A target names weights in shards as if they were one file.
    let in_shards = named(WEIGHTS) && !files.contains_key(WEIGHTS);
    let used = |name: &str| {
        ["config.json", "tokenizer.json"].contains(&name)
            || named(name)
            || in_shards && (name == INDEX || name.ends_with(".safetensors"))
    };
    Ok(files
        .into_iter()
        .filter(|(name, _)| used(name))
        .map(|(name, sha)| (format!("{}/{name}", plan.model), sha))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Write a file, commit all, and return the revision.
    fn commit(dir: &Path, file: &str, text: &str) -> String {
        let shell = Shell::new().unwrap();
        let _dir = shell.push_dir(dir);
        shell.write_file(file, text).unwrap();
        cmd!(shell, "git add --all").quiet().run().unwrap();
        let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        cmd!(shell, "git {who...} commit --quiet --message {file}")
            .quiet()
            .run()
            .unwrap();
        cmd!(shell, "git rev-parse HEAD").quiet().read().unwrap()
    }

    #[test]
    fn every_lockfile_of_a_program_is_hashed_that_of_its_libtorch_too() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Shell::new().unwrap();
        let _dir = shell.push_dir(dir.path());
        let p = r#"build = { kind = "python", script = "p.py", requirements = "engines/p/requirements.lock" }"#;
        let t = r#"build = { kind = "cargo", package = "t", bin = "t", manifest = "engines/t/Cargo.toml", needs = ["libtorch"], libtorch = { requirements = "engines/t/requirements.lock", environment = "venv-t" } }"#;
        let targets = ["cpu.f32"];
        let registry = build::registry_of(&[("p", &targets, p), ("t", &targets, t)]);
        let files = [
            "Cargo.lock",
            "engines/p/requirements.lock",
            "engines/t/Cargo.lock",
            "engines/t/requirements.lock",
        ];
        for name in files {
            shell.write_file(name, name).unwrap();
        }
        let hashed = lockfiles(dir.path(), &registry);
        assert_eq!(hashed.keys().collect::<Vec<_>>(), files);
        assert_eq!(hashed[files[3]], sha256_hex(files[3].as_bytes()));
    }

    #[test]
    fn revisions_that_differ_in_records_and_prose_only_are_the_same_sources() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Shell::new().unwrap();
        let _dir = shell.push_dir(dir.path());
        cmd!(shell, "git init --quiet").quiet().run().unwrap();
        let code = commit(dir.path(), "engines/a/src/main.rs", "fn main() {}");
        let record = commit(dir.path(), "data/results/r/run.json", "{}");
        let prose = commit(dir.path(), "engines/a/README.md", "a");
        let page = commit(dir.path(), "site/templates/base.html", "<p>");
        let same = |a: &str, b: &str| same_sources(dir.path(), a, b);
        for later in [&record, &prose, &page] {
            assert_eq!(same(&code, later), Some(true), "{later}");
        }
        let profile = commit(dir.path(), "data/profiles/cpu.toml", "id = 1");
        assert_eq!(same(&code, &profile), Some(false));
        assert_eq!(same(&page, &profile), Some(false));
        assert_eq!(same(&profile, &code), Some(false), "either way");
    }

    #[test]
    fn a_revision_that_git_does_not_know_or_that_is_none_is_not_judged() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Shell::new().unwrap();
        let _dir = shell.push_dir(dir.path());
        cmd!(shell, "git init --quiet").quiet().run().unwrap();
        let known = commit(dir.path(), "a", "a");
        let unknown = "0".repeat(40);
        for other in [unknown.as_str(), "", "--output=x", "HEAD"] {
            assert_eq!(same_sources(dir.path(), &known, other), None, "{other:?}");
        }
    }
}
