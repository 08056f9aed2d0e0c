//! A temporary directory with the real data and registries but without the engines' code, for
//! messages that must come before anything is built, fetched or measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

/// The directory, which is deleted when dropped.
pub struct Bare {
    dir: tempfile::TempDir,
}

impl Bare {
    /// Make a directory without models, programs and runs.
    pub fn new() -> Self {
        let bare = Self {
            dir: tempfile::tempdir().expect("a temporary directory can be made"),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        copy(&root.join("data"), &bare.path("data"), &|path| {
            !path.ends_with("data/results") && !path.ends_with("data/models")
        });
        copy(&root.join("engines"), &bare.path("engines"), &|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        });
        bare
    }

    /// Return a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Write a file in the directory.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        let dir = path.parent().expect("it is in a directory");
        std::fs::create_dir_all(dir).expect("a directory can be made");
        std::fs::write(path, text).expect("a file can be written");
    }

    /// Run `cargo xtask` in the directory, as on a machine without Python.
    pub fn xtask(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .env("BENCH_PYTHON", "/nonexistent/python3")
            .output()
            .expect("the binary can be started")
    }

    /// Prepare `cargo xtask` in the directory, with this machine's Python, without starting it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env_remove("BENCH_ROOT")
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("BENCH_MODELS_DIR", self.path("models"));
        command
    }

    /// Return every file and directory, with its length and modification time.
    pub fn tree(&self) -> BTreeMap<PathBuf, (u64, SystemTime)> {
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
