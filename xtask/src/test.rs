//! `cargo xtask test`: runs every check of this repository, cheapest first, and prints each one's
//! name when it begins. It stops at the first that fails.

mod readme;

use crate::versions;
use anyhow::{Context, Result, bail, ensure};
use base::files::is_on_path;
use base::repo::Repo;
use harness::engine::isa;
use provision::build::environment_dir;
use readme::Readme;
use runs::results::Results;
use schema::registry::{Build, Engine, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use xshell::{Shell, cmd};

/// Run all checks. `quick` leaves out those that need built engines; `all_engines` adds the tests
/// of engines that take long to build.
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
    let cargo = |words: &str| {
        run(provision::build::cargo_command()
            .args(words.split(' '))
            .envs(test_threads())
            .current_dir(&repo.root))
    };
    let test_packages = |words: &str, packages: &BTreeSet<String>| {
        let named = packages.iter().map(|name| format!(" --package {name}"));
        cargo(&format!("{words}{}", named.collect::<String>()))
    };

    let readme = Readme::read(repo)?;
    step("tidy", &mut || crate::tidy::command(repo))?;
    step("format", &mut || {
        cargo("fmt --all --check")?;
        for workspace in &versions::WORKSPACES[1..] {
            let manifest = format!("{workspace}/Cargo.toml");
            cargo(&format!("fmt --manifest-path {manifest} --check"))?;
        }
        Ok(())
    })?;
    step("lint", &mut || {
        // Features that aren't built by default are checked too.
        cargo("clippy --all-targets --features xtask/parquet --locked --quiet -- --deny warnings")
    })?;
    step("workflows and scripts", &mut || {
        crate::lint::lint(repo).map(drop)
    })?;
    step("unit and integration tests", &mut || {
        // Only the harness's packages, so that Cargo unifies features, and finds the files, as when
        // the harness itself was built.
        let packages = provision::build::default_packages(repo)?.harness;
        build_what_tests_start(repo)?;
        test_packages("test --locked --quiet", &packages)?;
        print_fault_matrix(repo)
    })?;
    if !quick {
        // In release, as they are measured: many of these tests compute a lot.
        step("the engines' own tests", &mut || {
            let packages = provision::build::default_packages(repo)?.engines;
            test_packages("test --release --locked --quiet", &packages)
        })?;
    }
    if all_engines {
        step("the tests of engines that take long to build", &mut || {
            provision::build::test_engines(repo, &repo.registry()?)
        })?;
        step("the gate on every target that a CPU runs", &mut || {
            // Through Cargo, not `current_exe`: the tests above build this very program again, so
            // the file that this process was started from is gone.
            cargo("xtask verify --profile cpu-full")
        })?;
    }
    // Most of the time is spent starting Python, on one processor.
    let python = match quick {
        true => "the engines' Python tests",
        false => "the engines' Python tests, and a training, twice and after a kill",
    };
    step(python, &mut || {
        std::thread::scope(|scope| {
            let python = scope.spawn(|| python_tests(repo));
            if !quick {
                provision::build::test_trainer(repo, &repo.registry()?)?;
            }
            python.join().expect("the tests' thread returns")
        })
    })?;
    if !quick {
        step("the gate sees every mutant", &mut || {
            cargo("xtask verify --mutants")
        })?;
        let pages = tempfile::tempdir_in(&repo.build_dir)?;
        step("two renders, equal bytes", &mut || {
            renders_equal(repo, pages.path())
        })?;
        // These commands mostly wait; the browser uses the processors meanwhile.
        let both = "the documents' commands, with --profile smoke, and the site in a browser";
        step(both, &mut || {
            std::thread::scope(|scope| {
                let browser = scope.spawn(|| browser(repo, pages.path()));
                readme.run(repo)?;
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

/// Build the programs that tests start. Done before the tests, because a compiler beside them would
/// delay requests and fail some tests.
fn build_what_tests_start(repo: &Repo) -> Result<()> {
    let registry = repo.registry()?;
    let all = registry.targets();
    let instrument = |target: &&Target| registry.instrument.iter().any(|i| i.target == target.id);
    let instruments: Vec<Target> = all.iter().filter(instrument).cloned().collect();
    // One test packs and runs these programs.
    let smoke = repo.profile("smoke")?.targets;
    let packed = all.iter().filter(|target| {
        let engine = registry.engine(&target.engine);
        let how = engine.map(|engine| engine.build_for(&target.backend));
        smoke.contains(&target.id) && matches!(how, Some(Build::Cargo(_)))
    });
    provision::build::compile(repo, &registry, instruments.iter().chain(packed))?;
    provision::build::packages_of(repo, &registry, &instruments)?;
    if let Err(failure) = provision::build::tracer(repo) {
        bail!("{failure}");
    }
    Ok(())
}

/// Return the number of test threads: four per CPU, because the harness's tests mostly wait for
/// processes.
fn test_threads() -> Option<(&'static str, String)> {
    const NAME: &str = "RUST_TEST_THREADS";
    let chosen = std::env::var_os(NAME).is_some();
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    (!chosen).then(|| (NAME, (4 * cpus).to_string()))
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

/// Print what each fault led to, as noted by the tests that provoke faults.
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

/// Run `test_*.py` beside each Python engine and beside a workflow's script: with the engine's
/// environment where it exists, which tests more, else with the system's Python.
fn python_tests(repo: &Repo) -> Result<()> {
    let shell = Shell::new()?;
    let registry = repo.registry()?;
    let micro = repo.micro_registry()?;
    let limits = isa::limits(&registry);
    for limit in &limits {
        eprintln!("   {limit}");
    }
    let mut dirs = vec![repo.root.join(".github/versions")];
    dirs.extend(shell.read_dir(repo.root.join("engines"))?);
    for dir in dirs.into_iter().filter(|dir| dir.is_dir()) {
        let is_test = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("test_") && name.ends_with(".py")
        };
        if !shell.read_dir(&dir)?.iter().any(is_test) {
            continue;
        }
        let engines = registry.engines.iter().flat_map(Engine::builds);
        let micro_programs = micro.programs.iter().map(|program| &program.build);
        let python = python_of(repo, engines.chain(micro_programs), &dir);
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
    Ok(())
}

/// Return the Python of the first program, built as one of `builds`, whose script is in `dir`.
fn python_of<'a>(repo: &Repo, builds: impl Iterator<Item = &'a Build>, dir: &Path) -> PathBuf {
    let mut environments = builds.filter_map(|build| match build {
        Build::Python {
            script,
            environment,
            requirements,
            ..
        } if repo.root.join(script).parent() == Some(dir) => Some((environment, requirements)),
        _ => None,
    });
    let environment = environments.next();
    let venv = environment.and_then(|(name, lock)| environment_dir(repo, name, lock));
    let python = venv.map(|venv| venv.join("bin/python"));
    let python = python.filter(|python| python.exists());
    python.unwrap_or_else(|| "python3".into())
}

/// Render the published runs twice, at the same time, once into `pages`, and check for equal bytes.
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
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| render(elsewhere.path()));
        let second = render(pages);
        (first.join().expect("the thread returns"), second)
    });
    let (first, second) = (first?, second?);
    let mut paths = first.keys().chain(second.keys());
    if let Some(path) = paths.find(|path| first.get(*path) != second.get(*path)) {
        bail!(
            "{} differs between two renders of the same records",
            path.display()
        );
    }
    ensure!(!first.is_empty(), "no page is rendered");
    Ok(())
}

/// Read all files under `dir` into `files`, by their paths relative to `top`.
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

/// Open every page in Chromium from file://, and check that there is no console message, no request
/// and no overflow on a phone. In CI it must run; elsewhere only where the browser is. On Linux it
/// runs at idle priority, so that it disturbs no measurement.
fn browser(repo: &Repo, pages: &Path) -> Result<()> {
    let dir = repo.root.join("site/tests/browser");
    let mut missing = vec!["chromium", "node", "npm"];
    missing.retain(|tool| !is_on_path(tool));
    if !missing.is_empty() {
        let missing = missing.join(", ");
        ensure!(std::env::var_os("CI").is_none(), "CI has no {missing}");
        eprintln!("   skipped: no {missing} on this machine");
        return Ok(());
    }
    let shell = Shell::new()?;
    let _dir = shell.push_dir(dir);
    cmd!(shell, "npm ci --silent --no-audit --no-fund")
        .quiet()
        .run()?;
    let idle: &[&str] = match is_on_path("chrt") {
        true => &["chrt", "--idle", "0"],
        false => &[],
    };
    let command = [idle, &["node", "check.mjs"]].concat();
    let (program, arguments) = command.split_first().expect("it isn't empty");
    Ok(cmd!(shell, "{program} {arguments...} {pages}")
        .quiet()
        .run()?)
}
