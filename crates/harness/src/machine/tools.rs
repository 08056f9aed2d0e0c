//! Finds out which programs and libraries that the build, the engines and the tests need are here,
//! and in which version. Runs each with `--version` and does nothing more.

use super::put;
use base::nix_shell::NixShell;
use schema::registry::Need;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tool {
    /// The version that the tool prints of itself, or its path; `None` where it isn't here.
    pub found: Option<String>,
}

impl Tool {
    /// Whether the tool is here.
    pub fn is_here(&self) -> bool {
        self.found.is_some()
    }
}

/// The tools on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tools {
    /// The Rust version that `rust-toolchain.toml` pins.
    pub rust_pinned: Option<String>,
    /// Whether the flake's shell provides the tools; in that shell the project installs none.
    pub in_nix_shell: bool,
    /// The Rust compiler that is used in the repository.
    pub rustc: Tool,
    /// Cargo.
    pub cargo: Tool,
    /// The C compiler.
    pub cc: Tool,
    /// The C++ compiler.
    pub cxx: Tool,
    /// CMake.
    pub cmake: Tool,
    /// libclang, which bindgen loads.
    pub libclang: Tool,
    /// Clang for C++.
    pub clang: Tool,
    /// Python.
    pub python: Tool,
    /// Whether that Python can make virtual environments with pip in them.
    pub python_venv: Tool,
    /// Git.
    pub git: Tool,
    /// Nix.
    pub nix: Tool,
    /// Node.js, for the browser tests.
    pub node: Tool,
    /// A Chromium, for the browser tests.
    pub chromium: Tool,
}

impl Tools {
    /// Look for all tools.
    pub fn read(repo: &Path) -> Self {
        let venv = "import venv, ensurepip; print('venv and ensurepip')";
        Self {
            cc: first(repo, &[&env_or("CC", "cc"), "gcc", "clang"]),
            cxx: first(repo, &[&env_or("CXX", "c++"), "g++", "clang++"]),
            cmake: cmake(repo),
            libclang: libclang(),
            clang: clang(repo),
            python_venv: Tool {
                found: run(repo, "python3", &["-c", venv]),
            },
            git: first(repo, &["git"]),
            nix: first(repo, &["nix"]),
            node: first(repo, &["node"]),
            chromium: first(
                repo,
                &[
                    "chromium",
                    "chromium-browser",
                    "google-chrome",
                    "google-chrome-stable",
                ],
            ),
            ..Self::read_compilers(repo)
        }
    }

    /// Look only for the tools that a record names.
    pub fn read_compilers(repo: &Path) -> Self {
        let toolchain = std::fs::read_to_string(repo.join("rust-toolchain.toml"));
        Self {
            rust_pinned: toolchain.ok().and_then(|text| pinned_channel(&text)),
            in_nix_shell: NixShell::current().is_some(),
            rustc: first(repo, &["rustc"]),
            cargo: first(repo, &["cargo"]),
            python: first(repo, &["python3"]),
            ..Self::default()
        }
    }

    /// Whether the compiler has the pinned version; `None` where either version is unknown.
    pub fn rust_matches(&self) -> Option<bool> {
        let (pinned, rustc) = (self.rust_pinned.as_ref()?, self.rustc.found.as_ref()?);
        Some(rustc.split_whitespace().nth(1)? == pinned)
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "rustc", self.rustc.found.as_ref());
        put(facts, "cargo", self.cargo.found.as_ref());
        put(facts, "python", self.python.found.as_ref());
    }
}

/// Whether `need` is installed; what the project always provides itself counts as installed.
pub fn is_here(repo: &Path, need: Need) -> bool {
    match need {
        Need::Cmake => cmake(repo).is_here(),
        Need::Libclang => libclang().is_here(),
        Need::Clang => clang(repo).is_here(),
        Need::Libtorch | Need::CudaToolkit | Need::Libdevice => true,
    }
}

fn cmake(repo: &Path) -> Tool {
    first(repo, &["cmake"])
}

fn clang(repo: &Path) -> Tool {
    first(repo, &["clang++"])
}

fn libclang() -> Tool {
    Tool {
        found: find_libclang(&libclang_dirs()).map(|path| path.display().to_string()),
    }
}

fn env_or(name: &str, default: &str) -> String {
    let set = std::env::var(name).ok().filter(|value| !value.is_empty());
    set.unwrap_or_else(|| default.to_owned())
}

/// The first of the programs that tells its version.
fn first(repo: &Path, programs: &[&str]) -> Tool {
    let found = programs
        .iter()
        .find_map(|program| run(repo, program, &["--version"]));
    Tool { found }
}

/// The first line that a program prints; `None` if it isn't there or fails. Run in the repository,
/// where rustup and pyenv look for pinned versions.
fn run(repo: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(repo)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

fn pinned_channel(text: &str) -> Option<String> {
    let file: toml::Table = text.parse().ok()?;
    let channel = file.get("toolchain")?.get("channel")?.as_str()?;
    Some(channel.to_owned())
}

/// The directories in which bindgen's loader (clang-sys) looks, in its order.
fn libclang_dirs() -> Vec<PathBuf> {
    let variables = ["LIBCLANG_PATH", "LD_LIBRARY_PATH"].into_iter();
    let mut dirs: Vec<PathBuf> = variables
        .filter_map(std::env::var_os)
        .flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
        .collect();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/opt/homebrew/opt/llvm/lib",
        "/usr/local/opt/llvm/lib",
        "/Library/Developer/CommandLineTools/usr/lib",
    ];
    dirs.extend(usual.map(PathBuf::from));
    // Debian's llvm-*: newest first.
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"))
        .map(|entry| entry.path().join("lib"))
        .collect();
    versions.sort();
    dirs.extend(versions.into_iter().rev());
    dirs
}

fn find_libclang(dirs: &[PathBuf]) -> Option<PathBuf> {
    dirs.iter().find_map(|dir| {
        if is_libclang(&dir.file_name()?.to_string_lossy()) {
            return dir.is_file().then(|| dir.clone());
        }
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .ok()?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| is_libclang(name))
            .collect();
        names.sort();
        Some(dir.join(names.pop()?))
    })
}

/// Whether `name` is that of the C interface: `libclang.so`, `libclang-14.so.1`; not
/// `libclang-cpp.so.14`.
fn is_libclang(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("libclang") else {
        return false;
    };
    if rest.starts_with("-cpp") || rest.starts_with('_') {
        return false;
    }
    (rest.starts_with('.') || rest.starts_with('-'))
        && (rest.contains(".so") || rest.ends_with(".dylib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_toolchain() {
        assert_eq!(
            pinned_channel("[toolchain]\nchannel = \"1.95.0\"\n").as_deref(),
            Some("1.95.0")
        );
        assert_eq!(pinned_channel("nonsense"), None);
        let tools = |rustc: &str| Tools {
            rust_pinned: Some("1.95.0".into()),
            rustc: Tool {
                found: Some(rustc.into()),
            },
            ..Tools::default()
        };
        let right = tools("rustc 1.95.0 (59807616e 2026-04-14)");
        assert_eq!(right.rust_matches(), Some(true));
        assert_eq!(tools("rustc 1.94.0 (x)").rust_matches(), Some(false));
        assert_eq!(Tools::default().rust_matches(), None);
    }

    #[test]
    fn libclang_is_the_c_interface_only() {
        for name in [
            "libclang.so",
            "libclang-14.so.1",
            "libclang.so.1",
            "libclang.dylib",
        ] {
            assert!(is_libclang(name), "{name}");
        }
        for name in [
            "libclang-cpp.so.14",
            "libclang_rt.asan.so",
            "libclangAST.a",
            "clang",
        ] {
            assert!(!is_libclang(name), "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().join("none"), dir.path().to_owned()];
        assert_eq!(find_libclang(&dirs), None);
        std::fs::write(dir.path().join("libclang-18.so.1"), "").unwrap();
        assert_eq!(
            find_libclang(&dirs),
            Some(dir.path().join("libclang-18.so.1"))
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_absent() {
        assert_eq!(
            run(Path::new("/"), "no-such-program-here", &["--version"]),
            None
        );
        assert_eq!(run(Path::new("/"), "false", &[]), None);
    }
}
