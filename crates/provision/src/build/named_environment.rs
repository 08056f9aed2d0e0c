//! A Python environment that the user names instead of one made from a lock, for a machine without
//! a network. It is used as it is, and `hello` reports what is installed in it.

use super::unavailable;
use base::nix_shell::{self, NixShell};
use harness::engine::EngineFailure;
use std::path::{Path, PathBuf};

/// The directory of the environment; `None` where none is named, and in the flake's shells, which
/// name their own.
pub fn dir() -> Option<PathBuf> {
    let named = std::env::var_os(nix_shell::VENV).filter(|dir| !dir.is_empty());
    let named = named.filter(|_| NixShell::current().is_none());
    named.map(PathBuf::from)
}

/// Check that the environment has a Python.
pub fn check(dir: &Path) -> Result<(), EngineFailure> {
    match dir.join("bin/python").exists() {
        true => Ok(()),
        false => Err(unavailable(format!(
            "{}={}: there is no bin/python in it; it names a Python environment that has torch and transformers",
            nix_shell::VENV,
            dir.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_as_it_stands_needs_a_python_alone() {
        let dir = tempfile::tempdir().unwrap();
        let why = check(dir.path()).unwrap_err().reason;
        assert!(
            why.starts_with("BENCH_VENV=") && why.contains("bin/python"),
            "{why}"
        );
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(dir.path().join("bin/python"), "").unwrap();
        assert!(check(dir.path()).is_ok());
    }
}
