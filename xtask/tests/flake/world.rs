//! A copy of the flake in a directory of its own, and all checks of it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

const SYSTEM: &str = "x86_64-linux";
/// Files that the flake reads, besides the directory `nix` and the locks that its files name.
const FILES: [&str; 3] = ["flake.nix", "flake.lock", "rust-toolchain.toml"];

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
        let copied = Self { dir };
        let copy = |name: &Path| {
            let to = copied.dir.path().join(name);
            std::fs::create_dir_all(to.parent().expect("it has one")).expect("it can be made");
            std::fs::copy(root.join(name), to).expect("it can be copied");
        };
        FILES.iter().map(Path::new).for_each(copy);
        for file in files(&root.join("nix")) {
            copy(file.strip_prefix(root).expect("it lies in the checkout"));
        }
        for (_, lock) in copied.environments() {
            copy(Path::new(&lock));
        }
        copied
    }

    /// The Python environments that the flake makes: the name of each, and its lock.
    fn environments(&self) -> Vec<(String, String)> {
        let of = |file: PathBuf| {
            let name = file.file_stem().and_then(std::ffi::OsStr::to_str);
            let lock = self.said(&file, &["requirements"]);
            (name.expect("it has a name").to_owned(), lock)
        };
        let wheels = files(&self.path("nix/wheels")).into_iter();
        let mut all: Vec<_> = wheels.map(of).collect();
        all.sort();
        all
    }

    /// Return a string in a TOML file.
    fn said(&self, file: impl AsRef<Path>, keys: &[&str]) -> String {
        let text = std::fs::read_to_string(self.dir.path().join(file)).expect("it was copied");
        let table = toml::Value::Table(text.parse().expect("it is TOML"));
        let value = keys.iter().fold(&table, |value, key| &value[*key]);
        value.as_str().expect("it is a string").to_owned()
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
        self.lock()?;
        self.outputs()?;
        self.shells()?;
        self.form()
    }

    /// Check that the files are formatted and have no dead code.
    fn form(&self) -> Result<(), String> {
        for (linter, arguments) in [("nixfmt", &["--check"][..]), ("deadnix", &["--fail"])] {
            if no_linter(linter) {
                continue;
            }
            let mut command = Command::new(linter);
            let nix = |file: &PathBuf| file.extension().is_some_and(|ext| ext == "nix");
            let files = files(self.dir.path()).into_iter().filter(nix);
            finished(command.args(arguments).args(files))?;
        }
        Ok(())
    }

    /// Check that Nix accepts the lock without a network. `cargo xtask tidy` holds it against what
    /// the flake asks for.
    fn lock(&self) -> Result<(), String> {
        let place = self.place("");
        self.nix(&["flake", "metadata", "--no-update-lock-file", &place])
            .map(drop)
    }

    /// Check that all outputs evaluate, with the names that README, CI and users use.
    fn outputs(&self) -> Result<(), String> {
        let place = self.place("");
        self.nix(&self.overridden(&["flake", "check", "--no-build", &place]))?;
        let shown = self.json(&["flake", "show", "--json", &place])?;
        let environments = self.environments().into_iter();
        let pythons: Vec<String> = environments
            .map(|(name, _)| format!("python-{name}"))
            .collect();
        let pythons = pythons.join(" ");
        for (output, wanted) in [
            ("devShells", "cpu default".to_owned()),
            ("packages", format!("container cuda libtorch {pythons}")),
            ("apps", "bench-all default".to_owned()),
            ("checks", format!("format libtorch {pythons} toolchain")),
        ] {
            let found = shown[output][SYSTEM].as_object().into_iter();
            let found: Vec<&str> = found
                .flat_map(|names| names.keys())
                .map(String::as_str)
                .collect();
            equal(output, &found.join(" "), &wanted)?;
        }
        equal("formatter", &shown["formatter"][SYSTEM].is_object(), &true)
    }

    /// Check what each shell sets and brings. A path in the store is given as `@` and its name.
    fn shells(&self) -> Result<(), String> {
        let pinned = |keys: &[&str]| self.said("nix/versions.toml", keys);
        let cuda = pinned(&["cuda"]);
        let torch = pinned(&["libtorch", "version"]);
        let libtorch = format!("@libtorch-{torch}-cu{}", cuda.replace('.', ""));
        let compiler = format!("cuda-{cuda}-stdenv");
        let root = format!("@cuda-{cuda}");
        // The driver's stub is only for linking, and must come last there.
        let linking = format!("{root}/lib:{root}/lib/stubs");
        let driver = "source @driver.sh\nbench_use_driver\n";
        let clang = "@libclang-0/lib";
        // Neither libtorch nor CUDA: xtask adds them for programs that need them. Python has its own,
        // and would load the wrong ones.
        let loaded = "@vulkan-loader-0/lib";
        let pythons = self.pythons(&pinned(&["python"]));
        // Each variable with its value in both shells; empty where it must not be set.
        let variables: [(&str, [&str; 2]); 14] = [
            ("BENCH_NIX_SHELL", ["default", "cpu"]),
            ("BENCH_VENV", [&pythons, &pythons]),
            // For kernels that are compiled without a GPU to ask.
            ("CUDA_COMPUTE_CAP", ["90", ""]),
            ("CUDA_HOME", [&root, ""]),
            ("CUDA_PATH", [&root, ""]),
            ("CUDA_ROOT", [&root, ""]),
            ("CUDA_TOOLKIT_ROOT_DIR", [&root, ""]),
            ("LD_LIBRARY_PATH", [loaded, loaded]),
            ("LIBCLANG_PATH", [clang, clang]),
            ("LIBRARY_PATH", [&linking, ""]),
            ("LIBTORCH", [&libtorch, ""]),
            ("NIX_ENFORCE_NO_NATIVE", ["0", "0"]),
            ("shellHook", [driver, ""]),
            ("stdenv", [&compiler, "stdenv"]),
        ];
        let channel = self.said("rust-toolchain.toml", &["toolchain", "channel"]);
        let rust = format!("@rust-{channel}");
        let others = ["@chromium-0", "@nodejs-0", "@cmake-0", "@clang-on-path"];
        for (column, name) in ["default", "cpu"].into_iter().enumerate() {
            let place = self.place(&format!("#devShells.{SYSTEM}.{name}"));
            let shell = self.json(&["eval", "--json", "--apply", "d: d.drvAttrs", &place])?;
            for (variable, values) in &variables {
                let what = format!("{variable} in the shell {name}");
                equal(&what, &short(&shell[*variable]).as_str(), &values[column])?;
            }
            let packages = shell["nativeBuildInputs"].as_array().into_iter().flatten();
            let packages: Vec<String> = packages.map(short).collect();
            let rusts = packages.iter().filter(|package| package.contains("rust-"));
            let rusts: Vec<&String> = rusts.collect();
            let what = format!("Rust toolchains in the shell {name}");
            equal(&what, &rusts, &vec![&rust])?;
            for wanted in others {
                let what = format!("package {wanted} in the shell {name}");
                let has = packages.iter().any(|package| package == wanted);
                equal(&what, &has, &true)?;
            }
        }
        Ok(())
    }

    /// Return what BENCH_VENV must be: all environments, each with the PyTorch of its lock, if any.
    fn pythons(&self, python: &str) -> String {
        let in_store = |(name, lock): (String, String)| {
            let lock = std::fs::read_to_string(self.path(&lock)).expect("it was copied");
            let torch = lock.lines().find_map(|line| line.strip_prefix("torch=="));
            let torch = torch.and_then(|rest| rest.split([' ', ';']).next());
            let torch = torch.map_or(String::new(), |version| format!("-torch-{version}"));
            // The stand-in has the first patch of each Python.
            format!("@bench-python-{name}-{python}.1{torch}")
        };
        let all: Vec<String> = self.environments().into_iter().map(in_store).collect();
        all.join(":")
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

    /// Return what Nix prints of the flake with the stand-ins.
    fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let output = self.nix(&self.overridden(arguments))?;
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
        finished(&mut command)
    }
}

/// Return a text of Nix with `@` in place of the store's directory and each path's hash; empty for
/// what is no text.
fn short(value: &Value) -> String {
    let mut parts = value.as_str().unwrap_or_default().split("/nix/store/");
    let start = parts.next().unwrap_or_default().to_owned();
    parts.fold(start, |all, path| {
        all + "@" + path.split_once('-').map_or(path, |(_, name)| name)
    })
}

/// Return a command's output, or its complaint.
fn finished(command: &mut Command) -> Result<Output, String> {
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

/// Return the files in a directory and below it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("it can be listed");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let below = paths.map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    below.flatten().collect()
}
