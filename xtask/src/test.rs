//! `cargo xtask test`: every check of this repository, cheapest first, each
//! named as it begins. It stops at the first that fails.

use anyhow::{Context, Result, bail};
use base::repo::Repo;
use harness::engine::isa;
use provision::build::environment_dir;
use runs::results::Results;
use schema::registry::{Build, Engine, Registry};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use xshell::{Shell, cmd};

/// Run everything; `quick` leaves out what needs built engines, `all_engines` adds
/// the tests of those that take long to build.
pub fn test(repo: &Repo, quick: bool, all_engines: bool) -> Result<()> {
    let began = Instant::now();
    let mut steps = 0;
    let mut step = |name: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        base::interrupt::check()?;
        eprintln!("── {name}");
        let began = Instant::now();
        work().with_context(|| format!("check {name:?} failed"))?;
        eprintln!("   {:.0} s", began.elapsed().as_secs_f64());
        steps += 1;
        Ok(())
    };
    let cargo = |args: &[&str]| {
        run(provision::build::cargo_command()
            .args(args)
            .envs(test_threads())
            .current_dir(&repo.root))
    };
    // Through Cargo, not `current_exe`: the tests above build this very program
    // again, and the file that we were started from is gone.
    let xtask = |args: &[&str]| cargo(&[&["xtask"], args].concat());

    let test_packages = |arguments: &[&str], packages: &BTreeSet<String>| {
        let named = packages
            .iter()
            .flat_map(|name| ["--package", name.as_str()]);
        cargo(&arguments.iter().copied().chain(named).collect::<Vec<_>>())
    };

    step("tidy", &mut || crate::tidy::command(repo))?;
    step("format", &mut || cargo(&["fmt", "--all", "--check"]))?;
    step("lint", &mut || {
        cargo(&[
            "clippy",
            "--all-targets",
            // Features that aren't built by default are checked too.
            "--features",
            "xtask/parquet",
            "--locked",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ])
    })?;
    step("workflows and scripts", &mut || {
        crate::lint::lint(repo).map(drop)
    })?;
    step("unit and integration tests", &mut || {
        // The harness's packages alone, so that their dependencies have the features,
        // and are the files, that the harness itself was built with.
        let packages = provision::build::default_packages(repo)?.harness;
        build_what_tests_start(repo)?;
        test_packages(&["test", "--locked", "--quiet"], &packages)?;
        print_fault_matrix(repo)
    })?;
    if !quick {
        // In release, as they are measured: much of what they test computes.
        step("the engines' own tests", &mut || {
            let packages = provision::build::default_packages(repo)?.engines;
            test_packages(&["test", "--release", "--locked", "--quiet"], &packages)
        })?;
    }
    if all_engines {
        step("the tests of engines that take long to build", &mut || {
            provision::build::test_engines(repo, &repo.registry()?)
        })?;
        step("the gate on every target that a CPU runs", &mut || {
            xtask(&["verify"])
        })?;
    }
    step("the engines' Python tests", &mut || python_tests(repo))?;
    if !quick {
        step("a training, twice and after a kill", &mut || {
            provision::build::test_trainer(repo, &repo.registry()?)
        })?;
        step("the gate sees every mutant", &mut || {
            xtask(&["verify", "--mutants"])
        })?;
        let pages = tempfile::tempdir_in(&repo.build_dir)?;
        step("two renders, equal bytes", &mut || {
            renders_equal(repo, pages.path())
        })?;
        // Both wait a good part of their time.
        let both = "the site in a browser, and the README's commands with --profile smoke";
        step(both, &mut || {
            std::thread::scope(|scope| {
                let browser = scope.spawn(|| browser(repo, pages.path()));
                readme(repo)?;
                browser.join().expect("the browser's thread returns")
            })
        })?;
    }
    // The closing line in the form that test runners share.
    eprintln!(
        "all checks passed in {:.0} s",
        began.elapsed().as_secs_f64()
    );
    println!("{steps} passed, 0 failed");
    Ok(())
}

/// Before the harness's tests, some of which would find their own requests late beside a compiler.
fn build_what_tests_start(repo: &Repo) -> Result<()> {
    let registry = repo.registry()?;
    let mut targets = registry.targets();
    targets.retain(|target| registry.instrument.iter().any(|i| i.target == target.id));
    provision::build::compile(repo, &registry, &targets)?;
    provision::build::packages_of(repo, &registry, &targets)?;
    if let Err(failure) = provision::build::tracer(repo) {
        bail!("{failure}");
    }
    Ok(())
}

/// The harness's tests mostly wait for processes: three threads a CPU keep it busy.
fn test_threads() -> Option<(&'static str, String)> {
    const NAME: &str = "RUST_TEST_THREADS";
    let chosen = std::env::var_os(NAME).is_some();
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    (!chosen).then(|| (NAME, (3 * cpus).to_string()))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{command:?} can't be started"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// What every fault led to, as the tests that provoke them noted it.
fn print_fault_matrix(repo: &Repo) -> Result<()> {
    let dir = repo.build_dir.join("tmp/fault-matrix");
    let entries = std::fs::read_dir(&dir).with_context(|| {
        format!(
            "{} can't be listed, where the tests note every fault",
            dir.display()
        )
    })?;
    let mut rows = Vec::new();
    for entry in entries {
        rows.push(std::fs::read_to_string(entry?.path())?);
    }
    rows.sort();
    eprintln!(
        "   {:<36} {:<22} {:>14} {:>13}",
        "fault", "status", "samples before", "samples after"
    );
    for row in &rows {
        if let [fault, status, before, after] = row.trim().split('\t').collect::<Vec<_>>()[..] {
            eprintln!("   {fault:<36} {status:<22} {before:>14} {after:>13}");
        }
    }
    eprintln!("   {} faults", rows.len());
    Ok(())
}

/// `test_*.py` beside each Python engine and a workflow's script, with the engine's environment
/// where it has been made (more is tested there), else with the system's Python.
fn python_tests(repo: &Repo) -> Result<()> {
    let shell = Shell::new()?;
    let registry = repo.registry()?;
    let limits = isa::limits(&registry);
    for limit in &limits {
        eprintln!("   {limit}");
    }
    let mut dirs = vec![repo.root.join(".github/versions")];
    for entry in std::fs::read_dir(repo.root.join("engines"))? {
        dirs.push(entry?.path());
    }
    for dir in dirs {
        let is_test = |name: &str| name.starts_with("test_") && name.ends_with(".py");
        let has_tests = dir.is_dir()
            && std::fs::read_dir(&dir)?
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .any(|name| is_test(&name));
        if has_tests {
            let python = python_of(repo, &registry, &dir);
            if cmd!(shell, "{python} --version").output().is_err() {
                eprintln!("   skipped: no python3 on this machine");
                return Ok(());
            }
            let _dir = shell.push_dir(&dir);
            cmd!(
                shell,
                "{python} -m unittest discover --start-directory {dir}"
            )
            .envs(limits.iter().map(|limit| (&limit.variable, &limit.value)))
            .quiet()
            .run()?;
        }
    }
    Ok(())
}

/// The Python of the engine whose script lies in `dir`.
fn python_of(repo: &Repo, registry: &Registry, dir: &Path) -> PathBuf {
    let builds = registry.engines.iter().flat_map(Engine::builds);
    let mut environments = builds.filter_map(|build| match build {
        Build::Python {
            script,
            environment,
            ..
        } if repo.root.join(script).parent() == Some(dir) => Some(environment),
        _ => None,
    });
    let environment = environments.next();
    let python = environment.map(|name| environment_dir(repo, name).join("bin/python"));
    let python = python.filter(|python| python.exists());
    python.unwrap_or_else(|| "python3".into())
}

/// Every `cargo xtask …` and engine command in a `sh` block of the README, in
/// order, as a newcomer would type them; `bench-all` with the smoke profile.
fn readme(repo: &Repo) -> Result<()> {
    let text =
        std::fs::read_to_string(repo.root.join("README.md")).context("README.md can't be read")?;
    let commands = commands(&text);
    if commands.is_empty() {
        bail!("README.md has no command in a ```sh block");
    }
    for command in commands {
        let Some(command) = as_tested(&command) else {
            continue;
        };
        eprintln!("   $ {command}");
        // The binaries' directory on PATH, as the README tells the reader to have it.
        let path = format!(
            "{}:{}",
            repo.build_dir.join("release").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let shell = Shell::new()?;
        let _dir = shell.push_dir(&repo.root);
        let bash = cmd!(shell, "bash -euo pipefail -c {command}").env("PATH", path);
        // As from a reader's shell.
        let bash = provision::build::package_variables()
            .into_iter()
            .fold(bash, |bash, name| bash.env_remove(name));
        bash.ignore_stdout()
            .quiet()
            .run()
            .with_context(|| format!("README.md says `{command}`"))?;
    }
    Ok(())
}

/// The lines of all ```sh blocks, comments stripped, continuations joined.
fn commands(markdown: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    let mut open = String::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.trim() == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        let line = line.split(" # ").next().unwrap_or(line).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(start) = line.strip_suffix('\\') {
            open.push_str(start);
        } else {
            commands.push(format!("{open}{line}"));
            open.clear();
        }
    }
    commands
}

/// How a README command is tested; `None`: it isn't (it would test itself, or
/// needs what a machine may lack).
fn as_tested(command: &str) -> Option<String> {
    if command == "cargo xtask test"
        || command.starts_with("nix ")
        || command.starts_with("git clone")
        || command.starts_with("cd ")
        || command.contains(" hf:")
    {
        return None;
    }
    if command.contains("path/to/dir") {
        // A model that is there by now, brought as if it were the reader's own.
        let own = command.replace("path/to/dir", "\"${BENCH_MODELS_DIR:-models}/tiny-llama\"");
        return as_tested(&own);
    }
    if command.contains(" mine.jsonl") {
        // Prompts as the reader would write them.
        const MINE: &str = "\"${CARGO_TARGET_DIR:-target}/mine.jsonl\"";
        let own = as_tested(&command.replace("mine.jsonl", MINE))?;
        let prompts = r#"{"text": "Once upon a time"}\n{"text": "The old man"}\n"#;
        return Some(format!("printf '{prompts}' > {MINE} && {own}"));
    }
    let measures = [
        "cargo xtask bench-all",
        "cargo xtask bench ",
        "cargo xtask verify",
    ];
    if measures.iter().any(|verb| command.starts_with(verb))
        && !command.contains("--profile")
        && !command.contains("--resume")
    {
        return Some(format!("{command} --profile smoke"));
    }
    if command.starts_with("cargo xtask calibrate") {
        // That it measures is tested here; how well, is this machine's business now.
        let short = match command.rsplit(' ').next() {
            Some("--verdicts") => "--profile smoke",
            Some("--watching") => "--pairs 2",
            _ => "--quick",
        };
        return Some(format!("{command} {short} || test $? -eq 3"));
    }
    Some(command.to_owned())
}

/// The published runs rendered twice, into `pages` the second time, give the same bytes.
fn renders_equal(repo: &Repo, pages: &Path) -> Result<()> {
    type Files = BTreeMap<PathBuf, Vec<u8>>;
    let published = Results::at(&repo.published_dir());
    let render = |dir: &Path| -> Result<Files> {
        runs::page::site(repo, &published, dir)?;
        let mut files = Files::new();
        collect(dir, dir, &mut files)?;
        Ok(files)
    };
    let elsewhere = tempfile::tempdir()?;
    let (first, second) = (render(elsewhere.path())?, render(pages)?);
    for (path, bytes) in &first {
        if second.get(path) != Some(bytes) {
            bail!(
                "{} differs between two renders of the same records",
                path.display()
            );
        }
    }
    if first.len() != second.len() || first.is_empty() {
        bail!(
            "{} files in the first render, {} in the second",
            first.len(),
            second.len()
        );
    }
    Ok(())
}

/// All files under `dir`, by their paths from `top`.
fn collect(top: &Path, dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(top, &path, files)?;
        } else {
            let content = std::fs::read(&path)?;
            files.insert(path.strip_prefix(top)?.to_owned(), content);
        }
    }
    Ok(())
}

/// Every page in Chromium from file://: no console message, no request, no
/// overflow on a phone. In CI it must run; elsewhere only where the browser is.
fn browser(repo: &Repo, pages: &Path) -> Result<()> {
    let dir = repo.root.join("site/tests/browser");
    let found = ["chromium", "node", "npm"].map(|tool| (tool, which(tool)));
    let missing: Vec<&str> = found
        .iter()
        .filter(|(_, path)| !path)
        .map(|(tool, _)| *tool)
        .collect();
    if !missing.is_empty() {
        if std::env::var_os("CI").is_some() {
            bail!("CI has no {}", missing.join(", "));
        }
        eprintln!("   skipped: no {} on this machine", missing.join(", "));
        return Ok(());
    }
    let shell = Shell::new()?;
    let _dir = shell.push_dir(dir);
    cmd!(shell, "npm ci --silent --no-audit --no-fund")
        .quiet()
        .run()?;
    Ok(cmd!(shell, "node check.mjs {pages}").quiet().run()?)
}

fn which(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}

#[cfg(test)]
mod tests {
    use super::{as_tested, commands};

    #[test]
    fn commands_come_from_sh_blocks_only() {
        let text = "```sh\ncargo xtask doctor   # what is here\n# a comment\na \\\n  b\n```\n```toml\nx = 1\n```\n";
        assert_eq!(commands(text), ["cargo xtask doctor", "a b"]);
    }

    #[test]
    fn a_benchmark_is_tested_with_the_smoke_profile_and_the_test_itself_is_not() {
        assert_eq!(
            as_tested("cargo xtask bench-all").as_deref(),
            Some("cargo xtask bench-all --profile smoke")
        );
        assert_eq!(
            as_tested("cargo xtask verify").as_deref(),
            Some("cargo xtask verify --profile smoke")
        );
        assert_eq!(as_tested("cargo xtask test"), None);
        assert_eq!(as_tested("cargo xtask bench-all --model hf:a/b"), None);
        let own = as_tested("cargo xtask bench-all --prompts mine.jsonl").unwrap();
        assert!(own.starts_with("printf '{") && own.ends_with("mine.jsonl\" --profile smoke"));
        assert_eq!(
            as_tested("cargo xtask bench-all --model path/to/dir").as_deref(),
            Some(
                "cargo xtask bench-all --model \"${BENCH_MODELS_DIR:-models}/tiny-llama\" --profile smoke"
            )
        );
        assert_eq!(
            as_tested("cargo xtask doctor").as_deref(),
            Some("cargo xtask doctor")
        );
    }
}
