//! A checkout in a temporary directory, and `cargo xtask` run in it. Its only engine is `fake`, which
//! is also the reference; or it has the real registries and nothing else.

use base::repo::Repo;
use runs::results::Results;
use schema::launch_log::LaunchLog;
use schema::record::{LaunchRecord, Status};
use schema::registry::{Build, CargoBuild};
use schema::run::Run;
use stats::analysis::{Analysis, Cell};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, OnceLock};
use std::time::SystemTime;

/// The directory of the embedded model that tests use, made once for all of them.
static TINY_LLAMA: LazyLock<PathBuf> = LazyLock::new(|| embedded("tiny-llama"));
/// The fake's binary, built once for all tests.
pub static FAKE: LazyLock<PathBuf> = LazyLock::new(|| program("fake", "fake-bench", "fake-bench"));

/// Return the directory of an embedded model, after making it in the real checkout.
pub fn embedded(id: &str) -> PathBuf {
    let repo = Repo::at(root());
    provision::fetch::ensure(&repo, &[id.to_owned()]).expect("the embedded model can be made");
    repo.model_dir(id)
}

/// Build a library from a C file of this package.
pub fn library(dir: &Path, source: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let to = dir
        .join(from.file_name().expect("it is a file"))
        .with_extension("so");
    let status = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&to, &from])
        .args(["-ldl", "-lpthread"])
        .status()
        .expect("there is a C compiler: Rust links with it");
    assert!(status.success(), "{source}");
    to
}

/// Build a program of the real checkout's workspace; return its file.
pub fn program(id: &str, package: &str, bin: &str) -> PathBuf {
    let repo = Repo::at(root());
    let registry = repo.registry().expect("the registry is valid");
    let how = Build::Cargo(CargoBuild::new(package, bin));
    let program = provision::build::program(&repo, &registry, id, &how);
    program.expect("it can be built").files[0].clone()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the checkout")
        .to_owned()
}

/// Copy the wanted entries of a directory, and everything in wanted directories.
fn copy(from: &Path, to: &Path, is_wanted: &dyn Fn(&Path) -> bool) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    for entry in std::fs::read_dir(from).expect("it is in the repository") {
        let path = entry.expect("it is in the repository").path();
        if !is_wanted(&path) {
            continue;
        }
        let to = to.join(path.file_name().expect("it has a name"));
        match path.is_dir() {
            true => copy(&path, &to, is_wanted),
            false => drop(std::fs::copy(&path, &to).expect("a file can be copied")),
        }
    }
}

/// The golden, with which the gate compares targets.
const GOLDEN: &str = "data/golden/tiny-llama.json";

/// As on a machine without Python.
pub const NO_PYTHON: (&str, &str) = ("BENCH_PYTHON", "/nonexistent/python3");

/// The limits of the gate without the model with outliers, whose golden no fake could give in time.
fn without_outliers(parity: &Path) -> String {
    let text = std::fs::read_to_string(parity).expect("it is there");
    let lines = text.lines().filter(|line| !line.starts_with("outliers"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A checkout, which is deleted when dropped.
pub struct Checkout {
    dir: tempfile::TempDir,
}

impl Checkout {
    /// Make an empty directory.
    pub fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary directory can be made"),
        }
    }

    /// Make a checkout with the real data and registries, but without the engines' code, models and
    /// runs: for messages that must come before anything is built, fetched or measured.
    pub fn bare() -> Self {
        let checkout = Self::empty();
        copy(&root().join("data"), &checkout.path("data"), &|path| {
            !path.ends_with("data/results") && !path.ends_with("data/models")
        });
        copy(
            &root().join("engines"),
            &checkout.path("engines"),
            &|path| {
                path.extension()
                    .is_some_and(|extension| extension == "toml")
            },
        );
        checkout
    }

    /// Make a checkout whose targets are the plain fake and the given variants of it.
    pub fn with(variants: &[&str]) -> Self {
        let checkout = Self::empty();
        let data = root().join("data");
        let scenarios = checkout.path("data/scenarios");
        // Directories hold the micro suites' texts.
        copy(&data.join("scenarios"), &scenarios, &Path::is_file);
        for name in ["models.toml", "models.lock"] {
            let to = checkout.path("data").join(name);
            std::fs::copy(data.join(name), to).expect("a file can be copied");
        }
        checkout.write(
            "data/parity.toml",
            &without_outliers(&data.join("parity.toml")),
        );
        std::fs::create_dir_all(checkout.path("data/golden")).expect("a directory can be made");
        let mut registry = format!(
            "baseline = \"fake.cpu.f32\"\nreference = \"fake.cpu.f32\"\ncross_check = \"fake.cpu.f32\"\n\
             [[engine]]\nid = \"fake\"\nname = \"fake\"\nabout = \"\"\nhomepage = \"\"\n\
             env = [\"FAKE_*\"]\nbuild = {{ kind = \"prebuilt\", path = {:?} }}\n",
            FAKE.display().to_string()
        );
        for variant in std::iter::once(&"").chain(variants) {
            registry.push_str(&format!(
                "[[engine.target]]\nvariant = {variant:?}\nbackend = \"cpu\"\nprecision = \"f32\"\nweights = \"model.safetensors\"\n"
            ));
        }
        checkout.write("engines/engines.toml", &registry);
        checkout.profile(PROFILE);
        checkout.link_model(&TINY_LLAMA);
        checkout.write(GOLDEN, checkout.golden());
        checkout
    }

    /// Return the golden that the fake gives for the model, made once for all tests.
    fn golden(&self) -> &'static str {
        static GOLDEN_TEXT: OnceLock<String> = OnceLock::new();
        GOLDEN_TEXT.get_or_init(|| {
            let bless = "verify --model tiny-llama --engines fake.cpu.f32 --profile test --bless";
            self.ended(&words(bless), &[], 0);
            self.read(GOLDEN)
        })
    }

    /// Change the registry's text.
    pub fn registry(&self, change: impl Fn(String) -> String) {
        let name = "engines/engines.toml";
        self.write(name, &change(self.read(name)));
    }

    /// Replace a text in a file, which must contain it.
    #[track_caller]
    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{name} has no {from:?}: {text}");
        self.write(name, &text.replacen(from, to, 1));
    }

    /// The real checkout that this is a copy of.
    pub fn real_repo() -> Repo {
        Repo::at(root())
    }

    /// This checkout.
    pub fn repo(&self) -> Repo {
        Repo::under(self.dir.path())
    }

    /// Replace the profile `test`.
    pub fn profile(&self, toml: &str) {
        self.write("data/profiles/test.toml", toml);
    }

    /// Write a file of the checkout.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is in the checkout"))
            .expect("a directory can be made");
        std::fs::write(path, text).expect("a file can be written");
    }

    /// Return the text of a file of the checkout.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.path(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Write a program of the checkout; return its path.
    pub fn script(&self, name: &str, text: &str) -> String {
        self.write(name, text);
        let path = self.path(name);
        let executable = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("it is ours");
        path.display().to_string()
    }

    /// A path in the checkout.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Return every file and directory, with its length and modification time.
    fn tree(&self) -> BTreeMap<PathBuf, (u64, SystemTime)> {
        let mut all = BTreeMap::new();
        let mut dirs = vec![self.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("it is ours") {
                let entry = entry.expect("it is ours");
                let data = entry.metadata().expect("it is ours");
                let written = data.modified().expect("the file system knows times");
                all.insert(entry.path(), (data.len(), written));
                if data.is_dir() {
                    dirs.push(entry.path());
                }
            }
        }
        all
    }

    /// Link a model, file by file, into the models of this checkout.
    pub fn link_model(&self, original: &Path) {
        let name = original.file_name().expect("it is a model's directory");
        let own = self.path("models").join(name);
        std::fs::create_dir_all(&own).expect("a directory can be made");
        for entry in std::fs::read_dir(original).expect("the model is there") {
            let entry = entry.expect("a directory can be read");
            std::os::unix::fs::symlink(entry.path(), own.join(entry.file_name()))
                .expect("a link can be made");
        }
    }

    /// The variables that keep `cargo xtask` within this checkout.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        let within = |name: &str| self.path(name).display().to_string();
        [
            ("CARGO_TARGET_DIR", within("target")),
            ("BENCH_MODELS_DIR", within("models")),
            // A lock of its own, because tests measure at the same time.
            ("BENCH_LOCK", within("bench.lock")),
        ]
    }

    /// Prepare `cargo xtask` with arguments and environment, without starting it.
    pub fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env_remove("BENCH_ROOT")
            .envs(self.environment())
            .envs(environment.iter().copied());
        command
    }

    /// Run `cargo xtask`.
    pub fn xtask(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        self.command(arguments, environment)
            .output()
            .expect("the binary can be started")
    }

    /// Run `cargo xtask`, which must end with this status; return everything that it printed.
    #[track_caller]
    pub fn ended(&self, arguments: &[&str], environment: &[(&str, &str)], status: i32) -> String {
        ended(&self.xtask(arguments, environment), status)
    }

    /// Run `cargo xtask`, which must end with this status and leave every file and directory as it
    /// was.
    #[track_caller]
    pub fn unchanged_by(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        status: i32,
    ) -> Output {
        let before = self.tree();
        let output = self.xtask(arguments, environment);
        ended(&output, status);
        assert_eq!(self.tree(), before, "{arguments:?}");
        output
    }

    /// Run `bench --profile test`, which must succeed, and load what it recorded.
    #[track_caller]
    pub fn measured(&self, environment: &[(&str, &str)]) -> Run {
        self.bench_ends(environment, 0).1
    }

    /// Run `bench --profile test`, which must end with this status; return everything that it
    /// printed, and what it recorded.
    #[track_caller]
    pub fn bench_ends(&self, environment: &[(&str, &str)], status: i32) -> (String, Run) {
        self.records(&["bench", "--profile", "test"], environment, status)
    }

    /// Do the same with other arguments.
    #[track_caller]
    pub fn records(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        status: i32,
    ) -> (String, Run) {
        let said = self.ended(arguments, environment, status);
        (said, self.latest().expect("a run was recorded"))
    }

    /// Run `bench --profile test` and load what it recorded.
    pub fn bench(&self, environment: &[(&str, &str)]) -> (Output, Run) {
        let output = self.xtask(&["bench", "--profile", "test"], environment);
        let run = self
            .latest()
            .unwrap_or_else(|| panic!("no run was recorded: {}", text(&output)));
        (output, run)
    }

    /// Load the newest run.
    pub fn latest(&self) -> Option<Run> {
        Some(Run::load(&self.latest_dir()?).expect("the records are valid"))
    }

    /// Return the directory of the newest run.
    pub fn latest_dir(&self) -> Option<PathBuf> {
        Results::at(&self.path("runs")).find("latest").ok()
    }

    /// Analyse a run, with the plain fake as the baseline.
    pub fn analysis(&self, run: &Run) -> Analysis {
        let scenarios = self.repo().scenarios().expect("the scenarios are valid");
        stats::analyse(run, &scenarios, "fake.cpu.f32")
    }

    /// Check each cell of a run; return them. Given its target and `scenario/case`, `wanted` says
    /// its status, a part of its reason, and the least number of its requests.
    #[track_caller]
    pub fn cells_are(
        &self,
        run: &Run,
        wanted: impl Fn(&str, &str) -> (Status, &'static str, u64),
    ) -> Vec<Cell> {
        let cells = self.analysis(run).cells;
        for cell in &cells {
            let name = format!("{}/{}", cell.scenario, cell.case);
            let (status, words, requests_min) = wanted(&cell.target, &name);
            let said = format!("{} {name}: {:?}", cell.target, cell.reason);
            assert_eq!(cell.status, status, "{said}");
            assert!(cell.reason.contains(words), "{said} has no {words:?}");
            let requests = cell.requests;
            assert!(requests >= requests_min, "{said}, {requests} requests");
        }
        cells
    }

    /// Check that every cell of a run is measured, with this many requests or more; return them.
    #[track_caller]
    pub fn all_ok(&self, run: &Run, requests_min: u64) -> Vec<Cell> {
        self.cells_are(run, |_, _| (Status::Ok, "", requests_min))
    }
}

/// Return what was recorded of the launches that are wanted.
pub fn logs(run: &Run, is_wanted: impl Fn(&LaunchRecord) -> bool) -> Vec<&LaunchLog> {
    let logs = run.launches.iter();
    logs.filter(|log| is_wanted(&log.launch)).collect()
}

/// The words of a command line, none of which contains a space.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Everything a process printed.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Check a process's exit status; return everything that it printed.
#[track_caller]
pub fn ended(output: &Output, status: i32) -> String {
    let said = text(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

/// Check that a text has each of these words.
#[track_caller]
pub fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "it does not say {word:?}:\n{said}");
    }
}

/// A small profile with a serial scenario, in turns, and a closed loop.
pub const PROFILE: &str = r#"
id = "test"
about = "for tests"
publishable = false
model = "tiny-llama"
backends = ["cpu"]
invocations = 2
seed = 1
threads = 1
warmup_requests = 1
request_timeout_s = 3
load_timeout_s = 3

[scenarios.single_request]
prompt_tokens = [10]
new_tokens = 6
concurrency = [1]
requests = 6
turns = true

[scenarios.concurrent]
prompt_tokens = [10]
new_tokens = 6
concurrency = [4]
requests = 8
"#;
