//! Finds out who provides what programs are built with: the flake's shell, the environment, or the
//! project itself. It only looks, and makes nothing.

use crate::build;
use base::nix_shell::NixShell;
use base::repo::Repo;
use harness::machine::Tools;
use schema::registry::{Engine, Registry, VENV};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Who provides each of these things, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provision {
    /// The flake's shell, and whether programs of the host are on its `PATH`.
    pub nix_shell: String,
    /// The Python environment that brings libtorch where a build names no other.
    pub python: String,
    pub libtorch: String,
    pub cuda_toolkit: String,
    pub cmake: String,
    pub libclang: String,
}

impl Provision {
    pub(super) fn read(repo: &Repo, registry: Option<&Registry>, tools: &Tools) -> Self {
        let lock = registry.and_then(Registry::python_requirements);
        let engines = registry.map_or(&[][..], |registry| registry.engines.as_slice());
        let found = Found {
            shell: NixShell::current(),
            venv: build::environment_dir(repo, VENV, lock.unwrap_or_default()),
            libtorch: build::libtorch_dir(),
            own_libtorch: engines.iter().filter_map(own_libtorch).collect(),
            cuda: build::cuda_home(repo),
            cmake: tools.cmake.is_here(),
            libclang: tools.libclang.is_here(),
            build_tools: build::build_tools_are_made(repo),
        };
        found.in_words()
    }
}

/// An engine's name, and the requirements of the environment that brings its libtorch, where the
/// registry names one.
fn own_libtorch(engine: &Engine) -> Option<(String, String)> {
    let from = engine.build.libtorch()?;
    Some((engine.name.clone(), from.requirements.clone()))
}

#[derive(Default)]
struct Found {
    shell: Option<NixShell>,
    /// Absent where a shell brings none made from this checkout's lock.
    venv: Option<PathBuf>,
    libtorch: Option<PathBuf>,
    /// Engines whose libtorch is another, each with the requirements that bring it.
    own_libtorch: Vec<(String, String)>,
    /// The toolkit's directory, and whether the project made it.
    cuda: Option<(PathBuf, bool)>,
    /// Whether the machine has CMake.
    cmake: bool,
    libclang: bool,
    /// Whether the project's own CMake and libclang have been made.
    build_tools: bool,
}

impl Found {
    fn in_words(&self) -> Provision {
        let whose = |path: &Path, by: &str| match &self.shell {
            Some(shell) => format!("the {} shell's: {}", shell.name, path.display()),
            None => format!("{by}: {}", path.display()),
        };
        let brings_none = |shell: &NixShell| format!("none: the {} shell brings none", shell.name);
        let shell = self.shell.as_ref().map(|shell| match shell.pure {
            true => format!("{}, pure", shell.name),
            false => format!("{}, with programs of the host's on PATH", shell.name),
        });
        let is_made = self.venv.as_ref().is_some_and(|dir| dir.is_dir());
        let made = when_needed(is_made || self.shell.is_some());
        let libtorch = match &self.libtorch {
            Some(dir) => whose(dir, "the one that LIBTORCH names"),
            None => "the one in that Python's PyTorch".into(),
        };
        let build_tool = |is_here: bool| match (is_here, &self.shell) {
            (true, Some(shell)) => format!("the {} shell's", shell.name),
            (true, None) => "the machine's".into(),
            (false, Some(shell)) => brings_none(shell),
            (false, None) => {
                let made = when_needed(self.build_tools);
                format!("the project's own, of {}{made}", build::BUILD_TOOLS_LOCK)
            }
        };
        let others = self.own_libtorch.iter();
        let others = others.map(|(name, lock)| format!("; for {name} that of {lock}"));
        Provision {
            nix_shell: shell.unwrap_or("none: the project provides what is missing".into()),
            python: match (&self.venv, &self.shell) {
                (Some(dir), _) => whose(dir, "the project's own") + made,
                (None, Some(shell)) => brings_none(shell) + " made from this checkout's lock",
                (None, None) => "none".into(),
            },
            libtorch: others.fold(libtorch, |all, other| all + &other),
            cuda_toolkit: match (&self.cuda, &self.shell) {
                (Some((home, true)), _) => format!("the project's own: {}", home.display()),
                (Some((home, false)), _) => whose(home, "the machine's"),
                (None, Some(shell)) => brings_none(shell),
                (None, None) => format!(
                    "the project's own, of {} (made when a CUDA program is built)",
                    build::CUDA_LOCK
                ),
            },
            cmake: build_tool(self.cmake),
            libclang: build_tool(self.libclang),
        }
    }
}

/// What follows the name of something that the project makes, unless it is made already.
fn when_needed(is_made: bool) -> &'static str {
    match is_made {
        true => "",
        false => " (made when it is needed)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(shell: Option<&str>) -> Found {
        Found {
            shell: shell.map(|name| NixShell {
                name: name.into(),
                ..NixShell::default()
            }),
            venv: Some("/no/venv".into()),
            cmake: true,
            ..Found::default()
        }
    }

    #[test]
    fn outside_of_a_shell_the_project_provides() {
        let words = found(None).in_words();
        assert!(words.nix_shell.starts_with("none"));
        assert_eq!(
            words.python,
            "the project's own: /no/venv (made when it is needed)"
        );
        assert!(words.libtorch.contains("PyTorch"));
        assert!(words.cuda_toolkit.contains("made when"));
        assert_eq!(words.cmake, "the machine's");
        assert_eq!(
            words.libclang,
            "the project's own, of data/build-tools.lock (made when it is needed)"
        );
        let named = Found {
            libtorch: Some("/l".into()),
            cuda: Some(("/c".into(), false)),
            ..found(None)
        };
        assert_eq!(named.in_words().libtorch, "the one that LIBTORCH names: /l");
        assert_eq!(named.in_words().cuda_toolkit, "the machine's: /c");
        let own = Found {
            own_libtorch: vec![("T".into(), "t.lock".into())],
            ..found(None)
        };
        let words = own.in_words().libtorch;
        assert!(words.ends_with("PyTorch; for T that of t.lock"), "{words}");
    }

    #[test]
    fn inside_the_shell_does() {
        let words = found(Some("cpu")).in_words();
        assert!(words.nix_shell.starts_with("cpu, with programs"));
        assert_eq!(words.python, "the cpu shell's: /no/venv");
        assert_eq!(words.cuda_toolkit, "none: the cpu shell brings none");
        assert_eq!(words.cmake, "the cpu shell's");
        assert_eq!(words.libclang, "none: the cpu shell brings none");
        let stale = Found {
            venv: None,
            ..found(Some("cpu"))
        };
        let words = stale.in_words().python;
        assert!(words.starts_with("none: the cpu shell"), "{words}");
        let cuda = Found {
            libtorch: Some("/l".into()),
            cuda: Some(("/c".into(), false)),
            ..found(Some("default"))
        };
        assert_eq!(cuda.in_words().libtorch, "the default shell's: /l");
        assert_eq!(cuda.in_words().cuda_toolkit, "the default shell's: /c");
    }
}
