//! Reads what surrounds this run's programs: the flake's shell, the Python environment, libtorch,
//! the CUDA toolkit. It makes none of them. One that will only be made when a program needs it is
//! absent.

use crate::build;
use base::nix_shell::{NixShell, STORE};
use base::repo::Repo;
use schema::hash::sha256_hex;
use schema::pins::{Pin, Pins};
use schema::registry::{Registry, VENV};
use std::ffi::OsStr;
use std::path::Path;
use xshell::{Shell, cmd};

/// Read everything that exists now.
pub fn read(repo: &Repo, registry: &Registry) -> Pins {
    let shell = NixShell::current();
    let lock = registry.python_requirements().unwrap_or_default();
    let venv = build::environment_dir(repo, VENV, lock);
    Pins {
        python: venv.as_deref().and_then(|venv| python(venv, lock)),
        libtorch: match build::libtorch_named(repo, lock) {
            Some(dir) => Some(libtorch(&dir)),
            None => venv.as_deref().and_then(|venv| wheel(venv, lock)),
        },
        cuda_toolkit: build::cuda_home(repo).map(|(home, ours)| Pin {
            version: nvcc_version(&home),
            from: match ours {
                true => build::CUDA_LOCK.to_owned(),
                false => place(&home, "CUDA_HOME, CUDA_PATH or PATH"),
            },
            sha256: None,
        }),
        nix_shell_pure: shell.as_ref().map(|shell| shell.pure),
        nix_shell: shell.map(|shell| shell.name),
    }
}

/// Describe a place. A path of the Nix store says what is there. Any other path may reveal
/// something of this machine's user, and records are published, so `otherwise` is given instead:
/// who named the place.
fn place(path: &Path, otherwise: &str) -> String {
    match path.starts_with(STORE) {
        true => path.display().to_string(),
        false => otherwise.to_owned(),
    }
}

fn python(venv: &Path, lock: &str) -> Option<Pin> {
    let is_there = venv.join("pyvenv.cfg").is_file();
    is_there.then(|| Pin {
        version: build::recorded_version(venv),
        from: place(venv, lock),
        sha256: None,
    })
}

/// Describe an unpacked libtorch.
fn libtorch(dir: &Path) -> Pin {
    let word = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let version = word("build-version").map(|version| match word("build-hash") {
        Some(hash) => format!("{version} (PyTorch's {hash:.12})"),
        None => version,
    });
    Pin {
        version,
        from: place(dir, "LIBTORCH"),
        sha256: None,
    }
}

/// Describe the libtorch in a Python environment's PyTorch.
fn wheel(venv: &Path, lock: &str) -> Option<Pin> {
    let packages = build::packages_dir(venv)?;
    let module = std::fs::read_to_string(packages.join("torch/version.py")).ok()?;
    let version = assigned(&module, "__version__");
    Some(Pin {
        sha256: record_sha256(&packages, "torch-", "torch/lib/"),
        version,
        from: place(venv, lock),
    })
}

/// Find `name = 'value'` in a Python module, and return the value.
fn assigned(module: &str, name: &str) -> Option<String> {
    module.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.split(':').next()?.trim();
        (key == name).then(|| value.trim().trim_matches(['\'', '"']).to_owned())
    })
}

/// Hash the lines in which an installed wheel's own list (`RECORD`) names the files under `prefix`:
/// path, hash and size of each. Lines that the installer adds are about other files.
fn record_sha256(packages: &Path, package: &str, prefix: &str) -> Option<String> {
    let entries = std::fs::read_dir(packages).ok()?.flatten();
    let mut infos = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with(package) && name.ends_with(".dist-info")
    });
    let record = std::fs::read_to_string(infos.next()?.join("RECORD")).ok()?;
    let mut lines: Vec<&str> = record
        .lines()
        .filter(|line| line.starts_with(prefix) && line.contains(",sha256="))
        .collect();
    lines.sort_unstable();
    (!lines.is_empty()).then(|| sha256_hex(lines.join("\n").as_bytes()))
}

/// The compiler's version as it prints it, such as `12.8.93`.
fn nvcc_version(home: &Path) -> Option<String> {
    let nvcc = home.join("bin/nvcc");
    let shell = Shell::new().ok()?;
    let said = cmd!(shell, "{nvcc} --version").ignore_stderr().read();
    parse_nvcc(&said.ok()?)
}

fn parse_nvcc(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains(" release "))?;
    let version = line.split(", V").nth(1)?.trim();
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_says_its_version() {
        let said = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.8, V12.8.93\nBuild x\n";
        assert_eq!(parse_nvcc(said).as_deref(), Some("12.8.93"));
        assert_eq!(parse_nvcc("nothing"), None);
    }

    #[test]
    fn a_wheel_is_told_apart_by_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let venv = dir.path();
        assert_eq!(wheel(venv, "l"), None);
        let packages = venv.join("lib/python3.13/site-packages");
        let list = packages.join("torch-2.9.0.dist-info/RECORD");
        let module = "__version__ = '2.9.0+cu128'\ncuda: Optional[str] = '12.8'\n";
        crate::write(packages.join("torch/version.py"), module);
        let record = |lines: &[&str]| {
            crate::write(&list, lines.join("\n"));
            wheel(venv, "l").unwrap()
        };
        let first = record(&["torch/lib/a.so,sha256=x,1", "torch/lib/b.so,sha256=y,2"]);
        assert_eq!(first.version.as_deref(), Some("2.9.0+cu128"));
        assert_eq!(first.from, "l");
        assert_eq!(first.sha256.as_ref().map(String::len), Some(64));
        // Lines that an installer adds, and their order, change nothing.
        let installed = record(&[
            "torch/lib/b.so,sha256=y,2",
            "torch/__init__.py,sha256=z,3",
            "torch/lib/a.so,sha256=x,1",
            "torch/__pycache__/a.pyc,,",
        ]);
        assert_eq!(installed, first);
        let other = record(&["torch/lib/a.so,sha256=other,1", "torch/lib/b.so,sha256=y,2"]);
        assert_ne!(other.sha256, first.sha256);
        assert_eq!(record(&["x,,"]).sha256, None);
    }

    #[test]
    fn of_a_path_outside_of_the_store_only_who_named_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("build-version"), "2.9.0+cu128\n").unwrap();
        std::fs::write(dir.path().join("build-hash"), "0123456789abcdef\n").unwrap();
        let pin = libtorch(dir.path());
        assert_eq!(
            pin.to_string(),
            "2.9.0+cu128 (PyTorch's 0123456789ab) from LIBTORCH"
        );
        assert_eq!(place(Path::new("/nix/store/x-l"), "V"), "/nix/store/x-l");
    }

    #[test]
    fn a_python_environment_says_its_version() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(python(dir.path(), "l"), None);
        let said = "home = /usr/bin\nversion = 3.11.7\nexecutable = /usr/bin/python3\n";
        std::fs::write(dir.path().join("pyvenv.cfg"), said).unwrap();
        let found = python(dir.path(), "l").unwrap();
        assert_eq!(found.to_string(), "3.11.7 from l");
    }
}
