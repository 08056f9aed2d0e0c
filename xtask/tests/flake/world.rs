//! A copy of the flake in a directory of its own, and all checks of it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

const SYSTEM: &str = "x86_64-linux";
/// Files that the flake reads, besides the directory `nix` and the locks that its files name.
const FILES: [&str; 3] = ["flake.nix", "flake.lock", "rust-toolchain.toml"];
/// The lock of the Python environment that has the flake's libtorch.
const LOCK: &str = "engines/pytorch/requirements.lock";
/// Compute capability for kernels that are compiled without a GPU to ask.
const COMPUTE_CAP: &str = "90";

/// Tell whether Nix is missing, and print that; in CI it must be there.
pub fn no_nix() -> bool {
    is_missing("nix", "the flake is not evaluated")
}

/// Tell whether a linter is missing, and print that; in CI it must be there.
pub fn no_linter(linter: &str) -> bool {
    is_missing(linter, "what it looks for is not looked for")
}

fn is_missing(tool: &str, consequence: &str) -> bool {
    let found = Command::new(tool).arg("--version").output();
    let missing = !found.is_ok_and(|output| output.status.success());
    let in_ci = std::env::var_os("CI").is_some();
    assert!(!(missing && in_ci), "CI has no {tool}: {consequence}");
    if missing {
        eprintln!("skipped: no {tool} on this machine, so {consequence}");
    }
    missing
}

/// A copy of the flake that tests may change.
pub struct Copy {
    dir: TempDir,
}

impl Copy {
    pub fn of_checkout() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = root.parent().expect("xtask lies in the checkout");
        let dir = tempfile::tempdir().expect("a directory can be made");
        for name in FILES {
            copy(&root.join(name), &dir.path().join(name));
        }
        copy_all(&root.join("nix"), &dir.path().join("nix"));
        let copied = Self { dir };
        for (_, lock) in copied.environments() {
            copy(&root.join(&lock), &copied.path(&lock));
        }
        copied
    }

    /// The Python environments that the flake makes: the name of each, and its lock.
    fn environments(&self) -> Vec<(String, String)> {
        let dir = std::fs::read_dir(self.path("nix/wheels")).expect("it was copied");
        let mut all: Vec<(String, String)> = dir
            .map(|entry| {
                let path = entry.expect("it can be listed").path();
                let name = path.file_stem().and_then(std::ffi::OsStr::to_str);
                let text = std::fs::read_to_string(&path).expect("it is text");
                let said: toml::Table = text.parse().expect("it is TOML");
                let lock = said["requirements"].as_str().expect("it names its lock");
                (name.expect("it has a name").to_owned(), lock.to_owned())
            })
            .collect();
        all.sort();
        all
    }

    /// Replace a text in a file, which must contain it.
    pub fn change(&self, name: &str, from: &str, to: &str) {
        let path = self.dir.path().join(name);
        let text = std::fs::read_to_string(&path).expect("the file is there");
        assert!(text.contains(from), "{name} has no {from:?}");
        std::fs::write(&path, text.replacen(from, to, 1)).expect("it can be written");
    }

    /// Return the first mistake. Formatting is checked last, so that a mistake is reported as what
    /// it is.
    pub fn check(&self) -> Result<(), String> {
        self.inputs()?;
        self.outputs()?;
        self.cuda_shell()?;
        self.cpu_shell()?;
        self.form()
    }

    /// Check that the files are formatted and have no dead code.
    fn form(&self) -> Result<(), String> {
        for (linter, arguments) in [("nixfmt", &["--check"][..]), ("deadnix", &["--fail"])] {
            if no_linter(linter) {
                continue;
            }
            let mut command = Command::new(linter);
            command.args(arguments).args(self.nix_files());
            said(&mut command)?;
        }
        Ok(())
    }

    /// Check that each input is locked, with its hash, to what the flake asks for.
    fn inputs(&self) -> Result<(), String> {
        let flake = self.path("flake.nix");
        let inputs = format!("(import {}).inputs", flake.display());
        let inputs = self.eval(&["--impure", "--expr", &inputs])?;
        let lock = std::fs::read_to_string(self.path("flake.lock")).map_err(|e| e.to_string())?;
        let lock: Value = serde_json::from_str(&lock).map_err(|e| e.to_string())?;
        let nodes = lock["nodes"].as_object().ok_or("flake.lock has no nodes")?;
        let inputs = inputs.as_object().ok_or("the flake has no inputs")?;
        equal("nodes of flake.lock", &(nodes.len() - 1), &inputs.len())?;
        for (name, input) in inputs {
            let node = &nodes[name.as_str()];
            let word = |key: &str| node["original"][key].as_str();
            let parts = ["owner", "repo", "ref"].map(word).into_iter().flatten();
            let locked = format!("github:{}", parts.collect::<Vec<_>>().join("/"));
            let asked = input["url"].as_str().unwrap_or_default();
            equal(&format!("flake.lock's {name}"), &locked.as_str(), &asked)?;
            let locked = &node["locked"];
            let revision = locked["rev"].as_str().unwrap_or_default();
            equal("length of a revision", &revision.len(), &40)?;
            let hash = locked["narHash"].as_str().unwrap_or_default();
            equal("hash", &hash.starts_with("sha256-"), &true)?;
        }
        // Nix itself must accept the lock without a network.
        let place = self.place("");
        self.nix(&[
            "flake",
            "metadata",
            "--no-update-lock-file",
            "--json",
            &place,
        ])?;
        Ok(())
    }

    /// Check that all outputs evaluate, with the names that README, CI and users use.
    fn outputs(&self) -> Result<(), String> {
        let place = self.place("");
        self.nix(&self.overridden(&["flake", "check", "--no-build", &place]))?;
        let shown = self.nix(&self.overridden(&["flake", "show", "--json", &place]))?;
        let shown: Value = serde_json::from_slice(&shown.stdout).map_err(|e| e.to_string())?;
        let environments = self.environments().into_iter();
        let pythons: Vec<String> = environments
            .map(|(name, _)| format!("python-{name}"))
            .collect();
        for (output, names, has_pythons) in [
            ("devShells", &["cpu", "default"][..], false),
            ("packages", &["container", "cuda", "libtorch"], true),
            ("apps", &["bench-all", "default"], false),
            ("checks", &["format", "libtorch", "toolchain"], true),
        ] {
            let found = shown[output][SYSTEM].as_object();
            let found: Vec<&str> = found
                .into_iter()
                .flat_map(|names| names.keys().map(String::as_str))
                .collect();
            let mut names = names.to_vec();
            if has_pythons {
                names.extend(pythons.iter().map(String::as_str));
            }
            names.sort_unstable();
            equal(output, &found, &names)?;
        }
        equal("formatter", &shown["formatter"][SYSTEM].is_object(), &true)
    }

    fn cuda_shell(&self) -> Result<(), String> {
        let shell = self.shell("default")?;
        let cuda = self.locked_cuda();
        let torch = self.locked(LOCK, "torch").expect("the lock has it");
        equal("BENCH_NIX_SHELL", &shell.get("BENCH_NIX_SHELL"), &"default")?;
        let home = shell.get("CUDA_PATH");
        ends("CUDA_PATH", home, &format!("-cuda-{cuda}"))?;
        for name in ["CUDA_HOME", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"] {
            equal(name, &shell.get(name), &home)?;
        }
        equal(
            "CUDA_COMPUTE_CAP",
            &shell.get("CUDA_COMPUTE_CAP"),
            &COMPUTE_CAP,
        )?;
        let build = format!("-libtorch-{torch}-cu{}", cuda.replace('.', ""));
        ends("LIBTORCH", shell.get("LIBTORCH"), &build)?;
        // The driver's stub is only for linking, and must come last there.
        let linking = format!("{home}/lib:{home}/lib/stubs");
        equal(
            "LIBRARY_PATH",
            &shell.get("LIBRARY_PATH"),
            &linking.as_str(),
        )?;
        equal(
            "stdenv",
            &shell.get("stdenv"),
            &format!("cuda-{cuda}-stdenv").as_str(),
        )?;
        equal(
            "calls of driver.sh",
            &shell.get("shellHook").matches("bench_use_driver").count(),
            &1,
        )?;
        self.both(&shell)
    }

    fn cpu_shell(&self) -> Result<(), String> {
        let shell = self.shell("cpu")?;
        equal("BENCH_NIX_SHELL", &shell.get("BENCH_NIX_SHELL"), &"cpu")?;
        for name in ["CUDA_PATH", "CUDA_HOME", "LIBTORCH", "LIBRARY_PATH"] {
            equal(name, &shell.get(name), &"")?;
        }
        self.both(&shell)
    }

    /// Check what must hold of each shell.
    fn both(&self, shell: &Shell) -> Result<(), String> {
        let toolchain = std::fs::read_to_string(self.path("rust-toolchain.toml"));
        let toolchain: toml::Table = toolchain.map_err(|e| e.to_string())?.parse().unwrap();
        let channel = toolchain["toolchain"]["channel"].as_str().unwrap_or("?");
        for wanted in [
            format!("-rust-{channel}").as_str(),
            "-chromium-0",
            "-nodejs-0",
            "-cmake-0",
            "-clang-on-path",
        ] {
            let has = shell.packages().any(|package| package.ends_with(wanted));
            equal(&format!("package {wanted} in the shell"), &has, &true)?;
        }
        let rusts = shell
            .packages()
            .filter(|package| package.contains("-rust-"));
        equal("Rust toolchains in the shell", &rusts.count(), &1)?;
        self.pythons(shell)?;
        equal(
            "NIX_ENFORCE_NO_NATIVE",
            &shell.get("NIX_ENFORCE_NO_NATIVE"),
            &"0",
        )?;
        ends(
            "LIBCLANG_PATH",
            shell.get("LIBCLANG_PATH"),
            "-libclang-0/lib",
        )?;
        // xtask puts these in front of the path for programs that need them. Python has its own,
        // and would load the wrong ones.
        let path = shell.get("LD_LIBRARY_PATH");
        for foreign in ["libtorch", "cuda", "stubs"] {
            equal(
                &format!("{foreign} on LD_LIBRARY_PATH"),
                &path.contains(foreign),
                &false,
            )?;
        }
        ends("LD_LIBRARY_PATH", path, "-vulkan-loader-0/lib")
    }

    /// Check that a shell brings each environment, with the PyTorch of its lock.
    fn pythons(&self, shell: &Shell) -> Result<(), String> {
        let brought: Vec<&str> = shell.get("BENCH_VENV").split(':').collect();
        let environments = self.environments();
        equal(
            "environments in BENCH_VENV",
            &brought.len(),
            &environments.len(),
        )?;
        for ((name, lock), python) in environments.iter().zip(brought) {
            let begins = python.contains(&format!("-bench-python-{name}-3."));
            equal(&format!("{python} is that of {lock}"), &begins, &true)?;
            match self.locked(lock, "torch") {
                Some(torch) => ends("BENCH_VENV", python, &format!("-torch-{torch}"))?,
                None => equal(
                    &format!("PyTorch in {python}"),
                    &python.contains("torch-"),
                    &false,
                )?,
            }
        }
        Ok(())
    }

    /// Return a shell's variables.
    fn shell(&self, name: &str) -> Result<Shell, String> {
        let place = self.place(&format!("#devShells.{SYSTEM}.{name}"));
        let arguments = self.overridden(&["--apply", "d: d.drvAttrs", &place]);
        let variables = self.eval(&arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(Shell(variables))
    }

    /// Return the version of a package in a lock.
    fn locked(&self, lock: &str, package: &str) -> Option<String> {
        let lock = std::fs::read_to_string(self.path(lock));
        let lock = lock.expect("it was copied");
        let line = lock
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{package}==")));
        let version = line.and_then(|rest| rest.split([' ', ';']).next());
        version.map(str::to_owned)
    }

    fn locked_cuda(&self) -> String {
        let version = self.locked(LOCK, "nvidia-cuda-runtime-cu12");
        let version = version.expect("the lock has it");
        let numbers: Vec<&str> = version.split('.').take(2).collect();
        numbers.join(".")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn place(&self, fragment: &str) -> String {
        format!("path:{}{fragment}", self.dir.path().display())
    }

    /// Add arguments that replace the inputs by their stand-ins.
    fn overridden(&self, arguments: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        all.push("--no-write-lock-file".into());
        for input in ["nixpkgs", "rust-overlay"] {
            let stand_in = format!("path:{}", self.path("nix/stub").join(input).display());
            all.extend(["--override-input".into(), input.into(), stand_in]);
        }
        all
    }

    fn nix_files(&self) -> Vec<PathBuf> {
        let mut found = vec![self.path("flake.nix")];
        let mut dirs = vec![self.path("nix")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("it was copied").flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => dirs.push(path),
                    false if path.extension().is_some_and(|ext| ext == "nix") => found.push(path),
                    false => {}
                }
            }
        }
        found.sort();
        found
    }

    fn eval(&self, arguments: &[&str]) -> Result<Value, String> {
        let output = self.nix(&[&["eval", "--json"], arguments].concat())?;
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }

    fn nix(&self, arguments: &[impl AsRef<std::ffi::OsStr>]) -> Result<Output, String> {
        // Two processes that create one store at the same time disturb each other.
        static STORE: LazyLock<Result<(), String>> = LazyLock::new(|| {
            let first = ["eval", "--expr", "1"];
            Copy::nix_in_its_store(&first).map(drop)
        });
        (*STORE).clone()?;
        Self::nix_in_its_store(arguments)
    }

    /// Run Nix without a network, daemon, registry or the user's settings.
    fn nix_in_its_store(arguments: &[impl AsRef<std::ffi::OsStr>]) -> Result<Output, String> {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nix");
        std::fs::create_dir_all(&kept).map_err(|error| error.to_string())?;
        let config = format!(
            "experimental-features = nix-command flakes\nstore = {}\nsubstituters =\nbuild-users-group =\nflake-registry =\n",
            kept.join("store").display()
        );
        let mut command = Command::new("nix");
        command
            .args(arguments)
            .env("NIX_CONFIG", config)
            .env("XDG_CACHE_HOME", kept.join("cache"))
            .env("XDG_CONFIG_HOME", kept.join("config"))
            .env("HOME", &kept);
        said(&mut command)
    }
}

/// A shell's variables, taken from its derivation.
struct Shell(Value);

impl Shell {
    /// Return a variable's value; empty where it isn't set.
    fn get(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn packages(&self) -> impl Iterator<Item = &str> {
        let all = self.0["nativeBuildInputs"].as_array();
        all.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// Return a command's output, or its complaint.
fn said(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, and not {wanted:?}")),
    }
}

fn ends(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    match found.ends_with(wanted) {
        true => Ok(()),
        false => Err(format!(
            "{what}: {found:?}, which does not end in {wanted:?}"
        )),
    }
}

fn copy(from: &Path, to: &Path) {
    let dir = to.parent().expect("it lies in a directory");
    std::fs::create_dir_all(dir).expect("it can be made");
    std::fs::copy(from, to).expect("it can be copied");
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("it is there").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy_all(&path, &to),
            false => copy(&path, &to),
        }
    }
}
