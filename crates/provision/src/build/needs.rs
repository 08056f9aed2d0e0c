//! What a build needs beyond Cargo and a C compiler. Each need is looked for, provided by the
//! project where it can be, and otherwise reported in one line with what to do.

use super::python::Environment;
use super::surroundings::Surroundings;
use super::{build_tools, compiler, cuda, libdevice, python};
use anyhow::{Result, bail};
use base::repo::Repo;
use schema::registry::{Libtorch, Need, Registry, VENV};
use std::path::{Path, PathBuf};

/// Provide everything that `program` needs. `from`: the environment that brings its libtorch, where
/// the registry names one. The failure says what is missing.
pub fn provide(
    repo: &Repo,
    registry: &Registry,
    program: &str,
    needs: &[Need],
    from: Option<&Libtorch>,
) -> Result<Surroundings> {
    let mut all = Surroundings::default();
    for need in needs {
        match need {
            Need::Cmake | Need::Libclang => {
                build_tools::provide(repo, *need, program, &mut all)?;
            }
            Need::Clang => compiler::provide(repo, &mut all),
            Need::Libtorch => libtorch(repo, registry, program, from, &mut all)?,
            Need::CudaToolkit => cuda::provide(repo, program, &mut all)?,
            Need::Libdevice => libdevice::provide(repo, program, &mut all)?,
        }
    }
    Ok(all)
}

/// The directory of the unpacked libtorch that the environment names.
pub fn libtorch_dir() -> Option<PathBuf> {
    let named = std::env::var_os("LIBTORCH").filter(|dir| !dir.is_empty());
    named.map(PathBuf::from)
}

/// The directory of the unpacked libtorch that the environment names, unless it is of another
/// version than the PyTorch in these locked requirements. A libtorch that doesn't say its version
/// is accepted.
pub fn libtorch_named(repo: &Repo, requirements: &str) -> Option<PathBuf> {
    let lock = std::fs::read_to_string(repo.root.join(requirements)).unwrap_or_default();
    libtorch_dir().filter(|dir| !is_other(dir, &lock))
}

fn is_other(dir: &Path, lock: &str) -> bool {
    let said = std::fs::read_to_string(dir.join("build-version")).unwrap_or_default();
    // Such as 2.9.0+cu128: which build it is doesn't matter.
    let version = said.trim().split('+').next().unwrap_or_default();
    let locked = lock.lines().find_map(|line| line.strip_prefix("torch=="));
    let locked = locked.and_then(|rest| rest.split([' ', ';']).next());
    !version.is_empty() && locked.is_some_and(|locked| locked != version)
}

/// Add libtorch to the surroundings: the one that `LIBTORCH` names, if it has the version, else the
/// one in the Python environment `from` or, without that, in the project's usual one.
fn libtorch(
    repo: &Repo,
    registry: &Registry,
    program: &str,
    from: Option<&Libtorch>,
    all: &mut Surroundings,
) -> Result<()> {
    let own = from.map(|from| (from.environment.as_str(), from.requirements.as_str()));
    let from = own.or_else(|| Some((VENV, registry.python_requirements()?)));
    let requirements = from.map_or("", |(_, requirements)| requirements);
    if let Some(dir) = libtorch_named(repo, requirements) {
        all.libraries.push(dir.join("lib"));
        return Ok(());
    }
    let Some((name, requirements)) = from else {
        bail!(
            "building {program} needs libtorch, and no engine in Python brings one: set LIBTORCH to an unpacked libtorch"
        );
    };
    let venv = Environment::new(repo, name, requirements).provide()?;
    let Some(lib) = python::package_dir(&venv, "torch/lib") else {
        bail!(
            "building {program} needs libtorch, and {requirements} does not install it: set LIBTORCH to an unpacked libtorch"
        );
    };
    all.variables.push(("LIBTORCH_USE_PYTORCH", "1".into()));
    all.programs.push(venv.join("bin"));
    all.libraries.push(lib);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_libtorch_of_another_version_than_the_locked_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let lock = "# torch==1.0\nnumpy==2.2.6\ntorch==2.13.0 \\\n    --hash=sha256:x\n";
        assert!(!is_other(dir.path(), lock), "it doesn't say its version");
        let says = |version: &str| {
            std::fs::write(dir.path().join("build-version"), version).unwrap();
            is_other(dir.path(), lock)
        };
        assert!(!says("2.13.0\n") && !says("2.13.0+cu130\n"));
        assert!(says("2.9.0+cu128\n") && says("2.13\n"));
        assert!(!is_other(dir.path(), "numpy==2.2.6\n"), "none is locked");
        let conditional = "torch==2.13; sys_platform == 'linux'\n";
        assert!(!is_other(dir.path(), conditional));
    }

    #[test]
    fn what_is_needed_comes_first() {
        let all = Surroundings {
            variables: vec![("A", "1".into())],
            programs: vec!["/x/bin".into()],
            libraries: vec!["/x/lib".into(), "/y/lib".into()],
            run_variables: vec![("B", "2".into())],
            compiled_by: String::new(),
        };
        let build = all.build();
        assert_eq!(build[0], ("A", "1".into()));
        let path = build[1].1.to_string_lossy().into_owned();
        let old = std::env::var("PATH").unwrap_or_default();
        assert!(
            path.starts_with("/x/bin:") && path.len() > old.len(),
            "{path}"
        );
        let run = all.run();
        assert_eq!(run[0], ("B".into(), "2".into()));
        assert_eq!(run[1].0, "LD_LIBRARY_PATH");
        assert!(run[1].1.starts_with("/x/lib:/y/lib"), "{}", run[1].1);
        assert_eq!(Surroundings::default().run(), []);
        assert_eq!(Surroundings::default().build(), []);
    }
}
