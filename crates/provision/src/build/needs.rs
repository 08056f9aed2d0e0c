//! What a build needs beyond Cargo and a C compiler. Each need is looked for, provided by the
//! project where it can be, and otherwise reported in one line with what to do.

use super::surroundings::Surroundings;
use super::{build_tools, compiler, cuda, libdevice, python, unavailable};
use base::repo::Repo;
use harness::engine::EngineFailure;
use schema::registry::{Need, Registry};
use std::path::PathBuf;

/// Provide everything that `program` needs. The failure says what is missing.
pub fn provide(
    repo: &Repo,
    registry: &Registry,
    program: &str,
    needs: &[Need],
) -> Result<Surroundings, EngineFailure> {
    let mut all = Surroundings::default();
    for need in needs {
        match need {
            Need::Cmake | Need::Libclang => {
                build_tools::provide(repo, *need, program, &mut all)?;
            }
            Need::Clang => compiler::provide(repo, &mut all),
            Need::Libtorch => libtorch(repo, registry, program, &mut all)?,
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

/// Add libtorch to the surroundings: the one that `LIBTORCH` names, else the one in the project's
/// Python environment.
fn libtorch(
    repo: &Repo,
    registry: &Registry,
    program: &str,
    all: &mut Surroundings,
) -> Result<(), EngineFailure> {
    if let Some(dir) = libtorch_dir() {
        all.libraries.push(dir.join("lib"));
        return Ok(());
    }
    let Some(requirements) = registry.python_requirements() else {
        return Err(unavailable(format!(
            "building {program} needs libtorch, and no engine in Python brings one: set LIBTORCH to an unpacked libtorch"
        )));
    };
    let venv = python::environment(repo, requirements)?;
    let Some(lib) = python::package_dir(&venv, "torch/lib") else {
        return Err(unavailable(format!(
            "building {program} needs libtorch, and {requirements} does not install it: set LIBTORCH to an unpacked libtorch"
        )));
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
