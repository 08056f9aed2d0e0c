//! Builds engines that are Cargo binaries.

use super::surroundings::Surroundings;
use super::{failure, needs, stale};
use anyhow::{Context, Result, anyhow, bail};
use base::repo::Repo;
use base::say;
use harness::engine::Program;
use schema::adoption::Built;
use schema::registry::{CargoBuild, Registry};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Build one binary in release, and keep a copy under the program's own id: the same package with
/// other features is written to the same file.
pub fn build(
    repo: &Repo,
    registry: &Registry,
    id: &str,
    wanted: &CargoBuild,
) -> Result<(Program, Option<Built>)> {
    let from = wanted.libtorch.as_ref();
    let surroundings = needs::provide(repo, registry, &wanted.bin, &wanted.needs, from)?;
    let file = kept_path(repo, id, &wanted.bin);
    // No other build of the same file may come between ours and the copy.
    let lock = format!("programs/{}.lock", wanted.bin);
    let _alone = super::alone(&repo.build_dir.join(lock))?;
    let release = target_dir(repo, wanted).join("release");
    if !surroundings.compiled_by.is_empty() {
        let dir = release.display();
        stale::remove(&release, &surroundings.compiled_by)
            .with_context(|| format!("what another compiler made in {dir} stays"))?;
    }
    let built = run(repo, wanted, &surroundings)?;
    let made = release.join(&wanted.bin);
    keep(&made, &file).map_err(|error| {
        let (made, file) = (made.display(), file.display());
        let why = format!("{made} can't be copied to {file}: {error}");
        anyhow!(failure::advised(why, &error.to_string()))
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
fn arguments(wanted: &CargoBuild) -> Vec<String> {
    let mut words = vec!["build", "--release", "--locked"];
    words.extend(["--package", &wanted.package, "--bin", &wanted.bin]);
    let words = words.into_iter().map(str::to_owned);
    words.chain(wanted.feature_arguments()).collect()
}

fn run(repo: &Repo, wanted: &CargoBuild, surroundings: &Surroundings) -> Result<Option<Built>> {
    let arguments = arguments(wanted);
    let mut command = cargo_for(repo, wanted, &arguments);
    command
        .envs(surroundings.build())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if io::stderr().is_terminal() && !say::is_quiet() {
        command
            .env("CARGO_TERM_COLOR", "always")
            .env("CARGO_TERM_PROGRESS_WHEN", "always")
            .env("CARGO_TERM_PROGRESS_WIDTH", "80");
    }
    let mut child = command.spawn().context("cargo can't be started")?;
    let stderr = child.stderr.take().expect("stderr is piped");
    let said = match say::is_quiet() {
        true => tee(stderr, io::sink()),
        false => tee(stderr, io::stderr()),
    };
    let status = child.wait().context("cargo can't be started")?;
    if status.success() {
        // The time spent waiting for another build's lock doesn't count.
        return Ok(said.first_crate.map(|start| Built {
            build_s: start.elapsed().as_secs_f64(),
            crates_compiled: said.crates,
        }));
    }
    let why = failure::cargo(&said.end, &[&repo.root, &repo.build_dir]);
    bail!("`cargo {}` failed ({status}): {why}", arguments.join(" "));
}

/// The target directory of what `wanted` is built from. An excluded workspace has its own lockfile,
/// so it gets its own target directory too.
fn target_dir(repo: &Repo, wanted: &CargoBuild) -> PathBuf {
    match wanted.manifest {
        None => repo.build_dir.clone(),
        Some(_) => repo.build_dir.join("excluded").join(&wanted.package),
    }
}

/// Create a command for Cargo about what `wanted` is built from: its manifest and target directory
/// are added to these words.
pub(super) fn cargo_for(repo: &Repo, wanted: &CargoBuild, words: &[impl AsRef<OsStr>]) -> Command {
    let manifest = wanted.manifest.as_deref().unwrap_or("Cargo.toml");
    let manifest = repo.root.join(manifest);
    let mut command = cargo_command();
    command
        .args(words)
        .arg("--manifest-path")
        .arg(&manifest)
        .env("CARGO_TARGET_DIR", target_dir(repo, wanted))
        .current_dir(&repo.root)
        .stdin(Stdio::null());
    if wanted.manifest.is_some() {
        // The lockfile that chose the dependencies: the runtime that engines share would otherwise
        // find the root's, in a directory above itself.
        command.env("BENCH_LOCKFILE", manifest.with_file_name("Cargo.lock"));
    }
    command
}

/// What Cargo prints about what `wanted` is built from.
pub(crate) fn cargo_output(repo: &Repo, wanted: &CargoBuild, words: &[&str]) -> Result<String> {
    let output = cargo_for(repo, wanted, words).output();
    let output = output.context("cargo can't be started")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`cargo {}` failed: {}", words.join(" "), said.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The output of `cargo tree`: the crates that a program is linked from or that expand its macros,
/// a line each. `more`: further options.
pub(crate) fn cargo_tree(repo: &Repo, wanted: &CargoBuild, more: &[&str]) -> Result<String> {
    let mut words = vec!["tree", "--locked", "--edges", "normal", "--prefix", "none"];
    words.extend(["--format", "{p}", "--package", &wanted.package]);
    let features = wanted.feature_arguments();
    words.extend(features.iter().map(String::as_str));
    words.extend(more);
    cargo_output(repo, wanted, &words)
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

/// Cargo's messages during a build.
struct Said {
    /// The end of the messages.
    end: String,
    /// Number of crates that Cargo began to compile.
    crates: u64,
    /// Time when the first of them began.
    first_crate: Option<Instant>,
}

/// Whether a line is the message that Cargo prints when it begins to compile a crate.
fn begins_crate(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let line = console::strip_ansi_codes(&line);
    line.trim_start().starts_with("Compiling")
}

/// Copy Cargo's messages to `to` as they come. Each line is looked at once, when it is whole.
fn tee(mut from: impl Read, mut to: impl Write) -> Said {
    let (mut end, mut line): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let (mut crates, mut first_crate) = (0, None);
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut chunk) {
        let _ = to.write_all(&chunk[..n]); // a closed terminal stops no build
        end.extend_from_slice(&chunk[..n]);
        for byte in &chunk[..n] {
            match byte {
                b'\n' | b'\r' => {
                    if begins_crate(&line) {
                        crates += 1;
                        first_crate.get_or_insert_with(Instant::now);
                    }
                    line.clear();
                }
                byte => line.push(*byte),
            }
        }
        if end.len() > 2 * SAID_BYTES_MAX {
            end.drain(..end.len() - SAID_BYTES_MAX);
        }
    }
    Said {
        end: String::from_utf8_lossy(&end).into_owned(),
        crates,
        first_crate,
    }
}

/// Copy `from` to `to` where they differ. The old file is replaced and not overwritten, because it
/// may be running.
fn keep(from: &Path, to: &Path) -> io::Result<()> {
    let length = |path: &Path| path.metadata().map(|about| about.len());
    let made = length(from)?;
    if length(to).is_ok_and(|kept| kept == made) && std::fs::read(from)? == std::fs::read(to)? {
        return Ok(());
    }
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let part = to.with_extension("part");
    std::fs::copy(from, &part)?;
    std::fs::rename(&part, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn wanted(features: &[&str]) -> CargoBuild {
        CargoBuild {
            features: features.iter().map(|&name| name.into()).collect(),
            default_features: features.is_empty(),
            ..CargoBuild::new("a-bench", "a-bench")
        }
    }

    #[test]
    fn cargo_is_told_the_features() {
        let plain = arguments(&wanted(&[]));
        assert_eq!(
            plain.join(" "),
            "build --release --locked --package a-bench --bin a-bench"
        );
        let own = arguments(&wanted(&["cuda", "fast"]));
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
        let heard = tee(said.as_bytes(), io::sink());
        assert_eq!(heard.crates, 2);
        assert!(heard.end == said && heard.first_crate.is_some());
        let none = tee("    Finished\n".as_bytes(), io::sink());
        assert!(none.crates == 0 && none.first_crate.is_none());
        // Of a long output only the end is kept, and every crate counts.
        let long = said.repeat(3 * SAID_BYTES_MAX / said.len());
        let heard = tee(long.as_bytes(), io::sink());
        assert!(heard.end.len() < long.len() && long.ends_with(&heard.end));
        assert_eq!(heard.crates, 2 * (long.len() / said.len()) as u64);
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
