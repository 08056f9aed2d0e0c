//! Builds engines that are Cargo binaries.

use super::surroundings::Surroundings;
use super::{failure, needs, stale, unavailable};
use base::repo::Repo;
use base::say;
use harness::engine::{EngineFailure, Program};
use schema::adoption::Built;
use schema::registry::{Need, Registry};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program that Cargo is to build.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The program's id, and the name of its directory under `programs`.
    pub id: &'a str,
    /// Package name.
    pub package: &'a str,
    /// Binary name.
    pub bin: &'a str,
    /// Manifest of a workspace that is excluded from the root's; `None` = the root's own.
    pub manifest: Option<&'a str>,
    /// Features of the package.
    pub features: &'a [String],
    /// Whether the package's default features are wanted too.
    pub default_features: bool,
    /// What the machine must have, for the build or the program.
    pub needs: &'a [Need],
}

/// Build one binary in release, and keep a copy under the program's own id: the same package with
/// other features is written to the same file.
pub fn build(
    repo: &Repo,
    registry: &Registry,
    wanted: &Wanted,
) -> Result<(Program, Option<Built>), EngineFailure> {
    let surroundings = needs::provide(repo, registry, wanted.bin, wanted.needs)?;
    // An excluded workspace has its own lockfile, so it gets its own target directory too.
    let target_dir = match wanted.manifest {
        None => repo.build_dir.clone(),
        Some(_) => repo.build_dir.join("excluded").join(wanted.package),
    };
    let file = kept_path(repo, wanted.id, wanted.bin);
    // No other build of the same file may come between ours and the copy.
    let lock_path = repo
        .build_dir
        .join("programs")
        .join(format!("{}.lock", wanted.bin));
    let _alone = super::alone(&lock_path)?;
    let release = target_dir.join("release");
    if !surroundings.compiled_by.is_empty() {
        stale::remove(&release, &surroundings.compiled_by).map_err(|error| {
            let dir = release.display();
            unavailable(format!(
                "what another compiler made in {dir} stays: {error}"
            ))
        })?;
    }
    let built = run(repo, wanted, &surroundings, &target_dir)?;
    let made = release.join(wanted.bin);
    keep(&made, &file).map_err(|error| {
        let (made, file) = (made.display(), file.display());
        let why = format!("{made} can't be copied to {file}: {error}");
        unavailable(failure::advised(why, &error.to_string()))
    })?;
    let argv = vec![file.display().to_string()];
    let program = Program::new(argv, vec![file], &repo.root, &repo.build_dir);
    Ok((program.with_env(surroundings.run()), built))
}

/// The path where a program is kept, whatever its package is built into next.
pub(super) fn kept_path(repo: &Repo, id: &str, bin: &str) -> PathBuf {
    repo.build_dir.join("programs").join(id).join(bin)
}

/// The arguments of `cargo`, without paths.
fn arguments(wanted: &Wanted) -> Vec<String> {
    let mut words = vec!["build", "--release", "--locked"];
    words.extend(["--package", wanted.package, "--bin", wanted.bin]);
    if !wanted.default_features {
        words.push("--no-default-features");
    }
    let features = wanted.features.join(",");
    if !features.is_empty() {
        words.extend(["--features", &features]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn run(
    repo: &Repo,
    wanted: &Wanted,
    surroundings: &Surroundings,
    target_dir: &Path,
) -> Result<Option<Built>, EngineFailure> {
    let arguments = arguments(wanted);
    let manifest = repo.root.join(wanted.manifest.unwrap_or("Cargo.toml"));
    let mut command = cargo_command();
    command
        .args(&arguments)
        .arg("--manifest-path")
        .arg(&manifest)
        .envs(surroundings.build())
        .env("CARGO_TARGET_DIR", target_dir)
        .current_dir(&repo.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if wanted.manifest.is_some() {
        // The lockfile that chose the dependencies: the runtime that engines share would otherwise
        // find the root's, in a directory above itself.
        command.env("BENCH_LOCKFILE", manifest.with_file_name("Cargo.lock"));
    }
    if io::stderr().is_terminal() && !say::is_quiet() {
        command
            .env("CARGO_TERM_COLOR", "always")
            .env("CARGO_TERM_PROGRESS_WHEN", "always")
            .env("CARGO_TERM_PROGRESS_WIDTH", "80");
    }
    let no_start = |error| unavailable(format!("cargo can't be started: {error}"));
    let mut child = command.spawn().map_err(no_start)?;
    let stderr = child.stderr.take().expect("stderr is piped");
    let (said, first_crate) = match say::is_quiet() {
        true => tee(stderr, io::sink()),
        false => tee(stderr, io::stderr()),
    };
    let status = child.wait().map_err(no_start)?;
    if status.success() {
        // The time spent waiting for another build's lock doesn't count.
        return Ok(first_crate.map(|start| Built {
            build_s: start.elapsed().as_secs_f64(),
            crates_compiled: compiled(&said),
        }));
    }
    let why = failure::cargo(&said, &[&repo.root, &repo.build_dir]);
    Err(unavailable(format!(
        "`cargo {}` failed ({status}): {why}",
        arguments.join(" ")
    )))
}

/// Create a command for Cargo without the variables that `cargo xtask` sets for the program that it
/// runs. Some build scripts watch these, so what depends on them would be compiled again whenever
/// an engine is built by hand in between.
pub fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in package_variables() {
        command.env_remove(&name);
    }
    command
}

/// The variables by which Cargo described our package to this process. Whatever starts a Cargo of
/// its own must remove them, see [`cargo_command`].
pub fn package_variables() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names
        .filter(|name| name.to_str().is_some_and(describes_our_package))
        .collect()
}

fn describes_our_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Most bytes of Cargo's messages that are kept.
const SAID_BYTES_MAX: usize = 1 << 20;

/// The word in the message that Cargo prints when it begins a crate.
const COMPILING: &str = "Compiling";

/// Count the crates that Cargo began to compile.
fn compiled(said: &str) -> u64 {
    let said = console::strip_ansi_codes(said);
    let lines = said.split(['\n', '\r']).map(str::trim_start);
    lines.filter(|line| line.starts_with(COMPILING)).count() as u64
}

/// Copy Cargo's messages to `to` as they come. Returns the end of them, and when the first crate
/// began.
fn tee(mut from: impl Read, mut to: impl Write) -> (String, Option<Instant>) {
    let (mut said, mut chunk) = (Vec::new(), [0; 4096]);
    let mut first_crate = None;
    while let Ok(n @ 1..) = from.read(&mut chunk) {
        let _ = to.write_all(&chunk[..n]); // a closed terminal stops no build
        said.extend_from_slice(&chunk[..n]);
        if first_crate.is_none() && String::from_utf8_lossy(&said).contains(COMPILING) {
            first_crate = Some(Instant::now());
        }
        if said.len() > 2 * SAID_BYTES_MAX {
            said.drain(..said.len() - SAID_BYTES_MAX);
        }
    }
    (String::from_utf8_lossy(&said).into_owned(), first_crate)
}

/// Copy `from` to `to` where they differ. The old file is replaced and not overwritten, because it
/// may be running.
fn keep(from: &Path, to: &Path) -> io::Result<()> {
    if same_bytes(from, to)? {
        return Ok(());
    }
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let part = to.with_extension("part");
    std::fs::copy(from, &part)?;
    std::fs::rename(&part, to)
}

fn same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = match (File::open(a)?, File::open(b)) {
        (a, Ok(b)) => (a, b),
        (_, Err(_)) => return Ok(false),
    };
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n = a.read(&mut left)?;
        if n == 0 {
            return Ok(true);
        }
        if b.read_exact(&mut right[..n]).is_err() || left[..n] != right[..n] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted<'a>(id: &'a str, features: &'a [String]) -> Wanted<'a> {
        Wanted {
            id,
            package: "a-bench",
            bin: "a-bench",
            manifest: None,
            features,
            default_features: features.is_empty(),
            needs: &[],
        }
    }

    #[test]
    fn cargo_is_told_the_features() {
        let plain = arguments(&wanted("a", &[]));
        assert_eq!(
            plain.join(" "),
            "build --release --locked --package a-bench --bin a-bench"
        );
        let features = ["cuda".to_owned(), "fast".to_owned()];
        let own = arguments(&wanted("a-cuda", &features));
        assert_eq!(
            own.join(" "),
            "build --release --locked --package a-bench --bin a-bench --no-default-features --features cuda,fast"
        );
    }

    #[test]
    fn a_build_is_not_told_which_package_we_are() {
        assert!(describes_our_package("CARGO_PKG_VERSION"));
        assert!(describes_our_package("CARGO_MANIFEST_DIR"));
        assert!(!describes_our_package("CARGO_TARGET_DIR"));
        // Tests run under Cargo, so there is something to leave out.
        let command = cargo_command();
        let removed = |name: &str| command.get_envs().any(|(n, v)| n == name && v.is_none());
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_NAME"));
    }

    #[test]
    fn crates_are_counted_as_cargo_begins_them() {
        let said = "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m a v1.0.0\n    Building [=>] 1/2: a\r   Compiling b v1.0.0 (/r/b)\nwarning: Compiling is slow\n    Finished\n";
        assert_eq!(compiled(said), 2);
        let (kept, first_crate) = tee(said.as_bytes(), io::sink());
        assert!(kept == said && first_crate.is_some());
        assert!(tee("    Finished\n".as_bytes(), io::sink()).1.is_none());
    }

    #[test]
    fn programs_of_one_binary_lie_apart() {
        let repo = Repo {
            root: "/r".into(),
            build_dir: "/b".into(),
            models_dir: "/m".into(),
        };
        let at = |id| kept_path(&repo, id, "a-bench");
        assert_eq!(at("a"), Path::new("/b/programs/a/a-bench"));
        assert_eq!(at("a-cuda"), Path::new("/b/programs/a-cuda/a-bench"));
    }

    #[test]
    fn a_program_is_replaced_only_where_it_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (built, kept) = (dir.path().join("built"), dir.path().join("programs/a/a"));
        std::fs::write(&built, "one").unwrap();
        keep(&built, &kept).unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "one");
        // A running program keeps its file: the new one is another file.
        let mut running = File::open(&kept).unwrap();
        let inode = |path: &Path| {
            use std::os::unix::fs::MetadataExt;
            std::fs::metadata(path).unwrap().ino()
        };
        let first = inode(&kept);
        keep(&built, &kept).unwrap();
        assert_eq!(inode(&kept), first);
        std::fs::write(&built, "two").unwrap();
        keep(&built, &kept).unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "two");
        let mut still = String::new();
        running.read_to_string(&mut still).unwrap();
        assert_eq!(still, "one");
    }
}
