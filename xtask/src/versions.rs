//! Checks that every version is the same wherever it is pinned. The files that pin versions are of
//! several kinds, for Cargo, pip and Nix; this reads all of them and reports the first two that
//! disagree. Part of `cargo xtask tidy`.
//!
//! It asks no registry and starts nothing. Whether hashes match their files is checked by the
//! programs that download; whether the flake's shells bring what is pinned, by xtask/tests/flake.

mod wheels;

use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crate that binds libtorch, and (`TORCH_SYS`) the crate below it, whose build script requires
/// an exact version of libtorch.
const TCH: &str = "tch";
const TORCH_SYS: &str = "torch-sys";
/// Versions of these crates, each with the version of libtorch that it binds.
const TCH_BINDS: [(&str, &str); 2] = [("0.22.0", "2.9.0"), ("0.26.0", "2.13.0")];
/// The Python environment of the flake and of the baseline.
const PYTHON: &str = "engines/pytorch";
/// Workspaces that have these crates, each with the folder of the requirements whose PyTorch brings
/// its libtorch.
const LIBTORCH_OF: [(&str, &str); 2] = [(".", PYTHON), ("engines/tch", "engines/tch")];
/// Workspaces: the root's, and those of engines that can't be members of it.
pub const WORKSPACES: [&str; 4] = [
    ".",
    "engines/mistralrs",
    "engines/lmrs-upstream",
    "engines/tch",
];
/// Files that list the workspaces too: the workflow that audits their lockfiles, and the
/// configuration of what updates them, which also lists the folders of Python locks.
const AUDIT: &str = ".github/workflows/audit.yml";
const DEPENDABOT: &str = ".github/dependabot.yml";
/// The flake and its parts, without the stand-in for nixpkgs.
const NIX: [&str; 5] = [
    "flake.nix",
    "nix/cuda.nix",
    "nix/libtorch.nix",
    "nix/python.nix",
    "nix/shell.nix",
];
/// What the flake pins, beside the locks.
const PINS: &str = "nix/versions.toml";
/// The CUDA toolkit that is provisioned outside of Nix, and the code that does it.
const TOOLKIT: &str = "data/cuda-toolkit.lock";
const TOOLKIT_CODE: &str = "crates/provision/src/build/cuda.rs";
/// The beginning of complaints about what `TCH_BINDS` and `LIBTORCH_OF` lack.
const HERE: &str = "say in xtask/src/versions.rs which";

/// The files that pin versions.
struct Sources {
    root: PathBuf,
    /// The names of the files in nix/wheels.
    wheel_files: BTreeSet<String>,
    /// Texts that take the place of files', by name: only tests have some.
    changed: BTreeMap<String, String>,
}

/// Return the first disagreement as a complaint; `None` where all agree.
pub fn disagreement(root: &Path) -> Option<String> {
    let agreed = Sources::read(root).and_then(|sources| sources.check());
    agreed.err().map(|error| format!("versions: {error:#}"))
}

/// A locked Python package.
struct Locked {
    version: String,
    /// Whether it is installed on some machines only.
    conditional: bool,
    sha256: Vec<String>,
}

impl Sources {
    fn read(root: &Path) -> Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            wheel_files: wheels::files(root)?,
            changed: BTreeMap::new(),
        })
    }

    fn check(&self) -> Result<()> {
        self.workspaces()?;
        self.release()?;
        self.toolchain()?;
        self.libtorch()?;
        self.cuda()?;
        self.wheels()?;
        self.flake()
    }

    /// Return the text of a file, named relative to the repository.
    fn text(&self, name: &str) -> Result<String> {
        match self.changed.get(name) {
            Some(text) => Ok(text.clone()),
            None => std::fs::read_to_string(self.root.join(name))
                .with_context(|| format!("{name} can't be read")),
        }
    }

    fn toml(&self, name: &str) -> Result<toml::Table> {
        self.text(name)?
            .parse()
            .with_context(|| format!("{name} is not TOML"))
    }

    /// Return a string in a TOML file.
    fn string_at(&self, name: &str, path: &[&str]) -> Result<String> {
        let table = toml::Value::Table(self.toml(name)?);
        let value = path.iter().try_fold(&table, |value, key| value.get(key));
        let text = value.and_then(toml::Value::as_str);
        Ok(text
            .with_context(|| format!("{name} says no {}", path.join(".")))?
            .to_owned())
    }

    /// Check that every list of workspaces has those that the root's leaves out.
    fn workspaces(&self) -> Result<()> {
        let root = self.toml("Cargo.toml")?;
        let left_out = root.get("workspace").and_then(|all| all.get("exclude"));
        let left_out = left_out.and_then(toml::Value::as_array);
        let left_out = left_out.context("Cargo.toml says no workspace.exclude")?;
        let (audit, cargo) = (self.text(AUDIT)?, self.updated("cargo")?);
        for dir in left_out.iter().filter_map(toml::Value::as_str) {
            ensure!(
                WORKSPACES.contains(&dir),
                "Cargo.toml leaves out {dir}; add it to WORKSPACES in xtask/src/versions.rs"
            );
            let audited = format!("--manifest-path {dir}/Cargo.toml");
            let updated = format!("\"/{dir}\"");
            for (name, text, entry) in [(AUDIT, &audit, audited), (DEPENDABOT, &cargo, updated)] {
                ensure!(
                    text.contains(&entry),
                    "Cargo.toml leaves out {dir}; {name} must have {entry}"
                );
            }
        }
        Ok(())
    }

    /// Return what the configuration of updates says of packages of one kind.
    fn updated(&self, kind: &str) -> Result<String> {
        let text = self.text(DEPENDABOT)?;
        let parts = text.split("package-ecosystem: ");
        let of_kind = parts.filter(|part| part.lines().next() == Some(kind));
        Ok(of_kind.collect())
    }

    /// Check that every workspace has the version that CITATION.cff names.
    fn release(&self) -> Result<()> {
        let ours = self.string_at("Cargo.toml", &["workspace", "package", "version"])?;
        for dir in &WORKSPACES[1..] {
            let name = in_dir(dir, "Cargo.toml");
            let version = self.string_at(&name, &["package", "version"])?;
            ensure!(
                version == ours,
                "Cargo.toml is of version {ours}, and {name} of {version}"
            );
        }
        let citation = self.text("CITATION.cff")?;
        let mut lines = citation.lines();
        let cited = lines.find_map(|line| line.strip_prefix("version: "));
        let cited = cited.context("CITATION.cff names no version")?;
        ensure!(
            cited.trim() == ours,
            "Cargo.toml is of version {ours}, and CITATION.cff of {cited}"
        );
        Ok(())
    }

    /// Check that every workspace's `rust-version` is that of rust-toolchain.toml.
    fn toolchain(&self) -> Result<()> {
        let channel = self.string_at("rust-toolchain.toml", &["toolchain", "channel"])?;
        for dir in WORKSPACES {
            let name = in_dir(dir, "Cargo.toml");
            let version = self
                .string_at(&name, &["workspace", "package", "rust-version"])
                .or_else(|_| self.string_at(&name, &["package", "rust-version"]))?;
            ensure!(
                channel == version || channel.starts_with(&format!("{version}.")),
                "rust-toolchain.toml pins {channel}, and {name} has rust-version {version}"
            );
        }
        Ok(())
    }

    /// Check that the crate and the wheel have one version in each workspace, and that the flake's
    /// C++ library has that of its wheel.
    fn libtorch(&self) -> Result<()> {
        for dir in WORKSPACES {
            let name = in_dir(dir, "Cargo.lock");
            let lock = self.toml(&name)?;
            let packages = lock.get("package").and_then(toml::Value::as_array);
            let versions = |of: &str| -> Vec<&str> {
                let all = packages.into_iter().flatten();
                let of_name = all.filter(|package| word(package, "name") == Some(of));
                of_name.filter_map(|p| word(p, "version")).collect()
            };
            for tch in versions(TCH) {
                let Some((_, bound)) = TCH_BINDS.iter().find(|(of, _)| *of == tch) else {
                    bail!("{name} has tch {tch}: {HERE} libtorch it binds")
                };
                ensure!(
                    versions(TORCH_SYS) == [tch],
                    "{name} has tch {tch} and another torch-sys"
                );
                let Some((_, python)) = LIBTORCH_OF.iter().find(|(of, _)| *of == dir) else {
                    bail!("{name} has tch {tch}: {HERE} requirements bring its libtorch")
                };
                for (file, torch) in self.torch(python)? {
                    ensure!(
                        *bound == torch,
                        "{name} has tch {tch}, which binds libtorch {bound}, and {file} has torch {torch}"
                    );
                }
            }
        }
        let libtorch = self.string_at(PINS, &["libtorch", "version"])?;
        for (file, torch) in self.torch(PYTHON)? {
            ensure!(
                torch == libtorch,
                "{file} has torch {torch}, and {PINS} pins libtorch {libtorch}"
            );
        }
        Ok(())
    }

    /// Return the version of PyTorch in the requirements of the folder `dir` and in their lock,
    /// each with the file's name.
    fn torch(&self, dir: &str) -> Result<[(String, String); 2]> {
        let wants = in_dir(dir, "requirements.in");
        let lock = in_dir(dir, "requirements.lock");
        let text = self.text(&wants)?;
        let wanted = text.lines().find_map(|line| line.strip_prefix("torch=="));
        let wanted = wanted.with_context(|| format!("{wants} pins no torch"))?;
        let locked = requirements(&self.text(&lock)?).remove("torch");
        let locked = locked.with_context(|| format!("{lock} has no torch"))?;
        Ok([(wants, wanted.trim().to_owned()), (lock, locked.version)])
    }

    /// Check that the wheels are of the release of CUDA that the flake uses, and that the toolkit
    /// outside of Nix is of one release, which its code knows.
    fn cuda(&self) -> Result<()> {
        let cuda = self.string_at(PINS, &["cuda"])?;
        self.cuda_in(&in_dir(PYTHON, "requirements.lock"), &cuda, PINS)?;
        let locked = requirements(&self.text(TOOLKIT)?);
        let compiler = locked
            .get("nvidia-cuda-nvcc")
            .with_context(|| format!("{TOOLKIT} has no nvidia-cuda-nvcc"))?;
        let numbers: Vec<&str> = compiler.version.split('.').take(2).collect();
        let release = numbers.join(".");
        self.cuda_in(TOOLKIT, &release, "its compiler")?;
        let known = format!("const WHEELS_CUDA_MAJOR: u32 = {};", numbers[0]);
        ensure!(
            self.text(TOOLKIT_CODE)?.lines().any(|line| line == known),
            "{TOOLKIT} has CUDA {release}, and {TOOLKIT_CODE} no `{known}`"
        );
        Ok(())
    }

    /// Check that the packages of CUDA in a lock are of the release that `other` has.
    fn cuda_in(&self, lock: &str, release: &str, other: &str) -> Result<()> {
        for (name, package) in requirements(&self.text(lock)?) {
            ensure!(
                !name.starts_with("nvidia-cuda-")
                    || package.version.starts_with(&format!("{release}.")),
                "{lock} has {name} {}, and {other} CUDA {release}",
                package.version
            );
        }
        Ok(())
    }

    /// Check that the flake's inputs are those in its lock, where each has a revision and a hash,
    /// and that its code contains no version.
    fn flake(&self) -> Result<()> {
        let lock = self.text("flake.lock")?;
        let lock: serde_json::Value =
            serde_json::from_str(&lock).context("flake.lock is not JSON")?;
        let nodes = lock["nodes"].as_object();
        let nodes = nodes.context("flake.lock has no nodes")?;
        let mut locked = BTreeSet::new();
        for (input, node) in nodes.iter().filter(|(name, _)| *name != "root") {
            let word = |part: &str, key: &str| node[part][key].as_str().unwrap_or_default();
            let place = ["owner", "repo", "ref"].map(|key| word("original", key));
            let place = place.join("/");
            let kind = word("original", "type");
            locked.insert(format!("{kind}:{}", place.trim_end_matches('/')));
            ensure!(
                word("locked", "rev").len() == 40
                    && word("locked", "narHash").starts_with("sha256-"),
                "flake.lock has {input} without a whole revision or without a hash"
            );
        }
        let flake = self.text("flake.nix")?;
        let code = flake.lines().filter_map(|line| line.split('#').next());
        let words = code.flat_map(|line| line.split('"'));
        let asked = words.filter(|word| word.starts_with("github:"));
        let asked: BTreeSet<String> = asked.map(str::to_owned).collect();
        ensure!(
            asked == locked,
            "flake.nix has the inputs {asked:?}, and flake.lock {locked:?}"
        );
        for name in NIX {
            for (number, line) in self.text(name)?.lines().enumerate() {
                if let Some(version) = version_in(line) {
                    bail!(
                        "{name}:{}: names the version {version}: it belongs into {PINS}",
                        number + 1
                    )
                }
            }
        }
        Ok(())
    }
}

/// Return a string in a table.
fn word<'a>(table: &'a toml::Value, key: &str) -> Option<&'a str> {
    table.get(key).and_then(toml::Value::as_str)
}

fn in_dir(dir: &str, name: &str) -> String {
    match dir {
        "." => name.to_owned(),
        dir => format!("{dir}/{name}"),
    }
}

/// Parse the packages of a lock. Where it has several versions for several Pythons, the last wins,
/// which is the one for the newest.
fn requirements(text: &str) -> BTreeMap<String, Locked> {
    let mut all: BTreeMap<String, Locked> = BTreeMap::new();
    for entry in text.replace("\\\n", " ").lines() {
        let Some((name, rest)) = entry.split_once("==") else {
            continue;
        };
        if name.starts_with(['#', ' ']) {
            continue;
        }
        let (words, hashes) = rest.split_once(" --hash=sha256:").unwrap_or((rest, ""));
        let (version, condition) = words.split_once(';').unwrap_or((words, ""));
        let locked = Locked {
            version: version.trim().to_owned(),
            conditional: !condition.trim().is_empty(),
            sha256: hashes
                .split("--hash=sha256:")
                .map(|hash| hash.trim().to_owned())
                .collect(),
        };
        all.insert(name.to_lowercase().replace(['_', '.'], "-"), locked);
    }
    all
}

/// Return a version that a line of Nix contains: three numbers between dots, or a package whose
/// name ends in numbers (`cudaPackages_12_8`, `python313`).
fn version_in(line: &str) -> Option<&str> {
    let code = line.split('#').next().unwrap_or(line);
    let mut words = code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
    words.find(|word| {
        let numbers = word.split('.').filter(|part| part.parse::<u32>().is_ok());
        let last = word.rsplit('.').next().unwrap_or(word);
        let named = ["cudaPackages_", "python3", "cu1"];
        let named = named.iter().filter_map(|stem| last.strip_prefix(stem));
        let mut rests = named.filter(|rest| !rest.is_empty());
        numbers.count() >= 3
            || rests.any(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '_'))
    })
}

#[cfg(test)]
mod tests;
