//! What the flake's shell tells in environment variables. Inside such a shell the project uses what
//! the shell brings and provides nothing of its own: no Python environment, no libtorch, no CUDA
//! toolkit. Outside, the project knows nothing of Nix.

use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variable that `nix/shell.nix` sets to the shell's name in the flake.
pub const NAME: &str = "BENCH_NIX_SHELL";
/// Environment variable that `nix/shell.nix` sets to the Python environments of the engines, with
/// colons between them.
pub const VENV: &str = "BENCH_VENV";
/// The directory that holds everything of a pure shell.
pub const STORE: &str = "/nix/store/";

/// The shell that this process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NixShell {
    /// The shell's name in the flake: `default` or `cpu`.
    pub name: String,
    /// Whether every directory on `PATH` that exists is in the Nix store, so that no program of the
    /// host can have been started by its name.
    pub pure: bool,
    /// The Python environments that the shell brings: one for each of the engines' locks.
    pub venvs: Vec<PathBuf>,
}

impl NixShell {
    /// The shell of this process; `None` outside of one.
    pub fn current() -> Option<Self> {
        Self::from(&|name| std::env::var_os(name))
    }

    fn from(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Self> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let path = set("PATH").unwrap_or_default();
        let venvs = set(VENV).unwrap_or_default();
        Some(Self {
            name: set(NAME)?.into_string().ok()?,
            pure: std::env::split_paths(&path).all(|dir| dir.starts_with(STORE) || !dir.exists()),
            venvs: std::env::split_paths(&venvs)
                .filter(|dir| !dir.as_os_str().is_empty())
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(set: &[(&str, &str)]) -> Option<NixShell> {
        NixShell::from(&|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn only_the_marker_makes_a_shell() {
        assert_eq!(shell(&[(VENV, "/nix/store/v"), ("PATH", "/bin")]), None);
        assert_eq!(shell(&[(NAME, "")]), None);
        let found = shell(&[(NAME, "cpu"), (VENV, "/nix/store/v:/nix/store/w")]).unwrap();
        assert_eq!(found.name, "cpu");
        let brought = ["/nix/store/v", "/nix/store/w"].map(PathBuf::from);
        assert_eq!(found.venvs, brought);
        assert!(shell(&[(NAME, "cpu")]).unwrap().venvs.is_empty());
    }

    #[test]
    fn a_directory_of_the_host_makes_it_impure() {
        let pure = |path: &str| {
            let shell = shell(&[(NAME, "default"), ("PATH", path)]);
            shell.unwrap().pure
        };
        // stdenv leaves a placeholder at the end of `PATH`.
        assert!(pure("/nix/store/a/bin:/nix/store/b/bin:/path-not-set"));
        let host = tempfile::tempdir().unwrap();
        assert!(!pure(&format!(
            "/nix/store/a/bin:{}",
            host.path().display()
        )));
    }
}
