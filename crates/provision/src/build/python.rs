//! Engines that are Python programs. Their virtual environments are made from hash-locked
//! requirements files, and made again only when these or the Python change. Other things that come
//! as Python wheels are made in the same way, each in a directory of its own.

use super::base_python::{PYTHON_ENV, python, version, version_here};
use super::environment_stamp::{self, STAMP};
use super::{failure, unavailable};
use anyhow::{Context, Result, bail, ensure};
use base::nix_shell::{self, NixShell};
use base::repo::Repo;
use harness::engine::{EngineFailure, Program};
use indicatif::{ProgressBar, ProgressStyle};
use schema::registry::VENV;
use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

thread_local! {
    static BESIDE: Cell<bool> = const { Cell::new(false) };
}

/// Do `work` without drawing a progress bar, because this process shows something else meanwhile.
pub fn beside<T>(work: impl FnOnce() -> T) -> T {
    BESIDE.set(true);
    let result = work();
    BESIDE.set(false);
    result
}

/// A Python environment in which programs run.
pub struct Environment {
    name: String,
    /// The directory in which it is made, where it isn't given.
    dir: PathBuf,
    requirements: PathBuf,
}

impl Environment {
    /// The environment of this name, made from these requirements.
    pub fn new(repo: &Repo, name: &str, requirements: &str) -> Self {
        Self {
            name: name.to_owned(),
            dir: repo.build_dir.join(name),
            requirements: repo.root.join(requirements),
        }
    }

    /// Whether the environment exists, made from these requirements by the Python that is here now,
    /// or named by the user.
    pub fn stands(&self) -> bool {
        if let Some(given) = self.given() {
            return given.is_ok();
        }
        let Ok(text) = std::fs::read(&self.requirements) else {
            return false;
        };
        version_here().is_some_and(|version| {
            environment_stamp::is_current(&self.dir, &text, &python(), version)
        })
    }

    /// The reason why the environment can't be had here, as far as that is known without making it.
    pub fn missing(&self) -> Option<String> {
        if let Some(given) = self.given() {
            return given.err().map(|why| unavailable(why).reason);
        }
        if self.stands() {
            return None;
        }
        let version = version(&python());
        version.err().map(|why| unavailable(why).reason)
    }

    /// The environment's directory: the user's, or the flake's inside its shell, else one that is
    /// made here.
    pub fn provide(&self) -> Result<PathBuf> {
        if let Some(given) = self.given() {
            return given;
        }
        environment_of(&python(), &self.dir, &self.requirements)?;
        Ok(self.dir.clone())
    }

    /// The directory of an environment that isn't made here: the user names it, instead of the one
    /// in `VENV`, or the flake's shell brings it, with a Python of its own.
    fn given(&self) -> Option<Result<PathBuf>> {
        if let Some(dir) = named(&self.name) {
            return Some(check(&dir).map(|()| dir));
        }
        Some(given(&shell()?, &self.requirements))
    }
}

/// Make the environment if it doesn't exist. Returns how to start the program, whose modules lie
/// beside it and in the folder `modules`.
pub fn build(
    repo: &Repo,
    script: &str,
    modules: Option<&str>,
    environment: &Environment,
) -> Result<Program> {
    let venv = environment.provide()?;
    let file = repo.root.join(script);
    let argv = vec![
        venv.join("bin/python").display().to_string(),
        file.display().to_string(),
    ];
    let own = file.parent().unwrap_or(&repo.root).to_owned();
    let others = modules.map(|dir| repo.root.join(dir));
    let mut files = Vec::new();
    for dir in [own].into_iter().chain(others) {
        files.extend(modules_in(&dir)?);
    }
    Ok(Program::new(argv, files, &repo.root, &repo.build_dir))
}

/// The directory of an environment's packages.
pub fn packages_dir(venv: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(venv.join("lib")).ok()?.flatten();
    let mut dirs = versions.map(|entry| entry.path().join("site-packages"));
    dirs.find(|dir| dir.is_dir())
}

/// A directory of an installed package, such as `torch/lib`.
pub fn package_dir(venv: &Path, name: &str) -> Option<PathBuf> {
    let dir = packages_dir(venv)?.join(name);
    dir.is_dir().then_some(dir)
}

/// The Nix shell whose environments are used; `None` outside of one, or where the user names a
/// Python by the variable [`PYTHON_ENV`], with which an environment is then made here.
fn shell() -> Option<NixShell> {
    NixShell::current().filter(|_| std::env::var_os(PYTHON_ENV).is_none())
}

/// The directory of the environment of this name, made from these requirements. Outside of the
/// flake's shells it may not exist yet; `None` in a shell that brings none made from them.
pub fn environment_dir(repo: &Repo, name: &str, requirements: &str) -> Option<PathBuf> {
    match shell() {
        Some(shell) => given(&shell, &repo.root.join(requirements)).ok(),
        None => Some(named(name).unwrap_or_else(|| repo.build_dir.join(name))),
    }
}

/// The directory of the environment that the user names instead of the one in `VENV`, for a machine
/// without a network. It is used as it is, and `hello` reports what is installed in it. `None` where
/// none is named, and in the flake's shells, which name their own.
fn named(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(nix_shell::VENV).filter(|dir| name == VENV && !dir.is_empty());
    let named = named.filter(|_| NixShell::current().is_none());
    named.map(PathBuf::from)
}

/// Check that the environment which the user names has a Python.
fn check(dir: &Path) -> Result<()> {
    ensure!(
        dir.join("bin/python").exists(),
        "{}={}: there is no bin/python in it; it names a Python environment that has torch and transformers",
        nix_shell::VENV,
        dir.display()
    );
    Ok(())
}

/// The directory of the shell's environment that was made from these requirements.
fn given(shell: &NixShell, requirements: &Path) -> Result<PathBuf> {
    let name = &shell.name;
    ensure!(
        !shell.venvs.is_empty(),
        "the flake's shell {name} brings no Python environment: {} is not set",
        nix_shell::VENV
    );
    let wanted = read(requirements)?;
    let mut venvs = shell.venvs.iter();
    let found = venvs.find(|venv| environment_stamp::is_made_from(venv, &wanted));
    found.cloned().with_context(|| {
        format!(
            "no Python environment that the flake's shell {name} brings was made from {}: leave the shell and enter it again",
            requirements.display()
        )
    })
}

fn read(requirements: &Path) -> Result<Vec<u8>> {
    let text = std::fs::read(requirements);
    text.with_context(|| format!("{} can't be read", requirements.display()))
}

/// Make an environment if it doesn't exist or its requirements changed.
pub fn environment_at(venv: &Path, requirements: &Path) -> Result<(), EngineFailure> {
    environment_of(&python(), venv, requirements).map_err(unavailable)
}

/// Make an environment with this Python if it isn't complete. It is complete where its stamp is up
/// to date: the stamp is removed first and written last, so that what an interrupted pip leaves is
/// made again. Two processes that make the same one wait for each other.
fn environment_of(python: &str, venv: &Path, requirements: &Path) -> Result<()> {
    let text = read(requirements)?;
    let version = version(python)?;
    let is_current = || environment_stamp::is_current(venv, &text, python, &version);
    if is_current() {
        return Ok(());
    }
    let _alone = super::alone(&venv.with_added_extension("lock"))?;
    // Another process may have made it while this one waited.
    if is_current() {
        return Ok(());
    }
    let stamp_path = venv.join(STAMP);
    let _ = std::fs::remove_file(&stamp_path); // there may be none
    let packages = String::from_utf8_lossy(&text);
    provision((python, version.as_str()), venv, requirements, &packages)?;
    let stamp = environment_stamp::of(&text, python, &version);
    std::fs::write(&stamp_path, stamp)
        .with_context(|| format!("{} can't be written", stamp_path.display()))
}

/// The modules in a folder: all of its `*.py`, sorted.
fn modules_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("{} can't be listed", dir.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "py"))
        .collect();
    files.sort();
    Ok(files)
}

fn provision(
    (python, version): (&str, &str),
    venv: &Path,
    requirements: &Path,
    text: &str,
) -> Result<()> {
    let packages = text
        .lines()
        .filter(|line| line.contains("==") && !line.starts_with('#'))
        .count();
    let much = match packages {
        0..10 => "",
        _ => ", some GB, a few minutes the first time",
    };
    eprintln!(
        "Making the Python environment {} with {} from {}: {packages} packages{much}",
        venv.display(),
        version,
        requirements.display()
    );
    let made = Command::new(python)
        .args(["-m", "venv", "--clear"])
        .arg(venv)
        .output()
        .with_context(|| format!("{python} can't be started"))?;
    if !made.status.success() {
        let said = [made.stdout, made.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', " ");
        // ensurepip doesn't report a full disk.
        bail!(
            "`{python} -m venv {}` failed: {said}; on Debian: apt install python3-venv; where that is there, see whether the disk is full",
            venv.display()
        );
    }
    install(venv, requirements, packages)
}

fn install(venv: &Path, requirements: &Path, packages: usize) -> Result<()> {
    let mut child = Command::new(venv.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--require-hashes",
            // A package without a wheel would be compiled, which runs code of the package.
            "--only-binary=:all:",
            // Only a fraction of it is ever imported, and that is compiled then.
            "--no-compile",
            "--progress-bar",
            "off",
            "--no-input",
            "--requirement",
        ])
        .arg(requirements)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("pip can't be started")?;
    let stderr = child.stderr.take().expect("stderr is piped");
    let errors = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let bar = match BESIDE.get() || base::say::is_quiet() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(packages as u64),
    };
    let template = "{spinner} [{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let bar = bar.with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    let stdout = child.stdout.take().expect("stdout is piped");
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some(package) = line.strip_prefix("Collecting ") {
            bar.inc(1);
            bar.set_message(package.split(' ').next().unwrap_or_default().to_owned());
        } else if line.starts_with("Installing collected packages") {
            bar.set_message("installing what was downloaded");
        }
    }
    let status = child.wait().context("pip can't be waited for")?;
    bar.finish_and_clear();
    let errors = errors.join().unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    let requirements = requirements.display().to_string();
    let why = failure::pip(&errors, &requirements);
    bail!("pip could not install {requirements}: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::hash::sha256_hex;

    #[test]
    fn an_environment_as_it_stands_needs_a_python_alone() {
        let dir = tempfile::tempdir().unwrap();
        let why = check(dir.path()).unwrap_err().to_string();
        assert!(
            why.starts_with("BENCH_VENV=") && why.contains("bin/python"),
            "{why}"
        );
        crate::write(dir.path().join("bin/python"), "");
        assert!(check(dir.path()).is_ok());
    }

    #[test]
    fn a_shell_brings_the_environments_of_this_checkout_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("a.lock");
        std::fs::write(&lock, "torch==1").unwrap();
        let mut shell = NixShell {
            name: "cpu".into(),
            ..NixShell::default()
        };
        let refused = |shell: &NixShell| given(shell, &lock).unwrap_err().to_string();
        assert!(refused(&shell).contains("BENCH_VENV is not set"));
        shell.venvs = ["one", "two"].map(|name| dir.path().join(name)).into();
        assert!(refused(&shell).contains("enter it again"));
        for (venv, made_from) in shell.venvs.iter().zip(["torch==1", "torch==2"]) {
            crate::write(venv.join(STAMP), sha256_hex(made_from.as_bytes()));
        }
        assert_eq!(given(&shell, &lock).unwrap(), shell.venvs[0]);
        std::fs::write(&lock, "torch==2").unwrap();
        assert_eq!(given(&shell, &lock).unwrap(), shell.venvs[1]);
        std::fs::write(&lock, "torch==3").unwrap();
        let why = refused(&shell);
        assert!(why.contains("shell cpu brings was made from"), "{why}");
        assert!(why.contains("a.lock: leave the shell"), "{why}");
    }

    /// Make a Python for tests: a shell script that makes environments. Its `pip` runs the script
    /// `does`.
    fn fake_python(dir: &Path, does: &str) -> String {
        let script = format!(
            "#!/bin/sh\nif [ \"$2\" = venv ]; then mkdir -p \"$4/bin\" && cp \"$0\" \"$4/bin/python\"; exit; fi\n\
             if [ \"$2\" = pip ]; then echo \"$@\" >> \"{}/pip\"; {does}; fi\necho Python 3.10.0\n",
            dir.display()
        );
        let path = dir.join("python");
        std::fs::write(&path, script).unwrap();
        let program = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, program).unwrap();
        path.display().to_string()
    }

    #[test]
    fn what_an_interrupted_pip_leaves_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (venv, lock) = (dir.path().join("venv"), dir.path().join("a.lock"));
        std::fs::write(&lock, "a==1").unwrap();
        let make = |python: &str| environment_of(python, &venv, &lock);
        let calls = || std::fs::read_to_string(dir.path().join("pip")).unwrap();
        let whole = fake_python(dir.path(), "exit 0");
        make(&whole).unwrap();
        make(&whole).unwrap();
        assert_eq!(calls().lines().count(), 1, "a whole one is left alone");
        assert!(calls().contains("--require-hashes --only-binary=:all:"));
        // The same requirements once more, after others whose installation never finished.
        std::fs::write(&lock, "a==2").unwrap();
        let killed = fake_python(dir.path(), "kill -9 $$");
        let why = make(&killed).unwrap_err().to_string();
        assert!(why.contains("pip could not install"), "{why}");
        std::fs::write(&lock, "a==1").unwrap();
        make(&fake_python(dir.path(), "exit 0")).unwrap();
        assert_eq!(calls().lines().count(), 3);
        // The same Python after an upgrade.
        let newer = std::fs::read_to_string(&whole).unwrap();
        std::fs::write(&whole, newer.replace("3.10.0", "3.11.0")).unwrap();
        make(&whole).unwrap();
        make(&whole).unwrap();
        assert_eq!(calls().lines().count(), 4);
    }

    #[test]
    fn what_pip_refuses_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("a.lock");
        std::fs::write(&lock, "a==1").unwrap();
        let refuses = "echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES' >&2; echo '    a==1 from x (from y):' >&2; exit 1";
        let python = fake_python(dir.path(), refuses);
        let venv = dir.path().join("venv");
        let why = environment_of(&python, &venv, &lock).unwrap_err();
        let why = why.to_string();
        assert!(why.contains("a==1 is not the file whose hash"), "{why}");
        assert!(!why.contains('\n') && !venv.join(STAMP).exists(), "{why}");
        let none = environment_of("/no/python", &venv, &lock).unwrap_err();
        assert!(none.to_string().contains("install Python 3.10"), "{none}");
    }
}
