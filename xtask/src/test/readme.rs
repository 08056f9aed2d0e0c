//! Tests the commands of README.md and USAGE.md by running them as a reader would type them.

use anyhow::{Context, Result, bail, ensure};
use base::repo::Repo;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// The documents whose commands are run, in this order.
const DOCUMENTS: [&str; 2] = ["README.md", "USAGE.md"];

/// The exit status of a benchmark in which cells failed.
const CELLS_FAILED: i32 = 3;

/// Every `cargo xtask …` and engine command in the documents' `sh` blocks, in order.
pub struct Readme(Vec<String>);

impl Readme {
    /// Read the documents' commands. Benchmarks get the smoke profile.
    pub fn read(repo: &Repo) -> Result<Self> {
        let mut all = Vec::new();
        for name in DOCUMENTS {
            let read = std::fs::read_to_string(repo.root.join(name));
            let found = commands(&read.with_context(|| format!("{name} can't be read"))?);
            ensure!(!found.is_empty(), "{name} has no command in a ```sh block");
            all.extend(found);
        }
        let handicaps = repo.registry()?.handicaps;
        let one = handicaps.first().map(|handicap| handicap.of.as_str());
        let tested = all.iter().filter_map(|command| as_tested(command));
        let mut commands: Vec<String> = tested.collect();
        let Some((first, later)) = commands.split_first_mut() else {
            bail!("no command of {} is tested", DOCUMENTS.join(" and "));
        };
        if !first.ends_with("--profile smoke") {
            bail!("README.md begins with `{first}`, which measures nothing");
        }
        // The first benchmark measures all targets. For later ones, one target shows that the
        // command works.
        for command in later {
            if let Some(target) = one
                && command.ends_with("--profile smoke")
            {
                *command += &format!(" --engines {target}");
            }
        }
        Ok(Self(commands))
    }

    /// Run the commands in the documents' order.
    pub fn run(&self, repo: &Repo) -> Result<()> {
        self.0.iter().try_for_each(|command| run(repo, command))
    }
}

/// Run a command, and run it once more where cells failed. On a machine that was busy for a moment
/// answers come late (`bad_timing`), but a real fault fails again.
fn run(repo: &Repo, command: &str) -> Result<()> {
    eprintln!("   $ {command}");
    let began = Instant::now();
    let mut status = run_once(repo, command)?;
    if status.code() == Some(CELLS_FAILED) {
        eprintln!("   cells failed: once more");
        status = run_once(repo, command)?;
    }
    let documents = DOCUMENTS.join(" and ");
    ensure!(status.success(), "{documents} have `{command}`: {status}");
    eprintln!("   {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn run_once(repo: &Repo, command: &str) -> Result<ExitStatus> {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", command])
        .current_dir(&repo.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // Without Cargo's variables, as in a reader's shell.
    for name in provision::build::package_variables() {
        bash.env_remove(name);
    }
    bash.status().context("bash can't be started")
}

/// Return the lines of all ```sh blocks, with comments stripped and continuations joined.
fn commands(markdown: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    let mut open = String::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.trim() == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        let line = line.split(" # ").next().unwrap_or(line).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(start) = line.strip_suffix('\\') {
            open.push_str(start);
        } else {
            commands.push(format!("{open}{line}"));
            open.clear();
        }
    }
    commands
}

/// Return a document's command as it is tested; `None` where it isn't tested, because it would run
/// this test again or needs something that a machine may lack.
fn as_tested(command: &str) -> Option<String> {
    if command == "cargo xtask test"
        || command.starts_with("nix ")
        || command.starts_with("git clone")
        || command.starts_with("cd ")
        || command.contains(" hf:")
    {
        return None;
    }
    if command.contains("path/to/dir") {
        // A model that exists by now is brought as if it were the reader's own.
        let own = command.replace("path/to/dir", "\"${BENCH_MODELS_DIR:-models}/tiny-llama\"");
        return as_tested(&own);
    }
    if command.contains(" mine.jsonl") {
        // Prompts such as the reader would write.
        const MINE: &str = "\"${CARGO_TARGET_DIR:-target}/mine.jsonl\"";
        let own = as_tested(&command.replace("mine.jsonl", MINE))?;
        let prompts = r#"{"text": "Once upon a time"}\n{"text": "The old man"}\n"#;
        return Some(format!("printf '{prompts}' > {MINE} && {own}"));
    }
    let measures = [
        "cargo xtask bench-all",
        "cargo xtask bench ",
        "cargo xtask verify",
    ];
    if measures.iter().any(|verb| command.starts_with(verb))
        && !command.contains("--profile")
        && !command.contains("--resume")
    {
        return Some(format!("{command} --profile smoke"));
    }
    if command.starts_with("cargo xtask calibrate") {
        // Only that it measures is tested; the result depends on the machine's present load.
        let short = match command.rsplit(' ').next() {
            Some("--verdicts" | "--load") => "--profile smoke",
            Some("--watching") => "--processes 2 --quick",
            _ => "--quick",
        };
        return Some(format!("{command} {short} || test $? -eq 3"));
    }
    Some(command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{as_tested, commands};

    #[test]
    fn commands_come_from_sh_blocks_only() {
        let text = "```sh\ncargo xtask doctor   # what is here\n# a comment\na \\\n  b\n```\n```toml\nx = 1\n```\n";
        assert_eq!(commands(text), ["cargo xtask doctor", "a b"]);
    }

    #[test]
    fn a_benchmark_is_tested_with_the_smoke_profile_and_the_test_itself_is_not() {
        let tested = |command: &str| as_tested(command).unwrap();
        let all = tested("cargo xtask bench-all");
        assert_eq!(all, "cargo xtask bench-all --profile smoke");
        let verify = tested("cargo xtask verify");
        assert_eq!(verify, "cargo xtask verify --profile smoke");
        assert_eq!(as_tested("cargo xtask test"), None);
        assert_eq!(as_tested("cargo xtask bench-all --model hf:a/b"), None);
        let own = tested("cargo xtask bench-all --prompts mine.jsonl");
        assert!(own.starts_with("printf '{") && own.ends_with("mine.jsonl\" --profile smoke"));
        let own = tested("cargo xtask bench-all --model path/to/dir");
        let dir = "\"${BENCH_MODELS_DIR:-models}/tiny-llama\"";
        let wanted = format!("cargo xtask bench-all --model {dir} --profile smoke");
        assert_eq!(own, wanted);
        assert_eq!(tested("cargo xtask doctor"), "cargo xtask doctor");
        let calibrate = tested("cargo xtask calibrate");
        assert!(calibrate.ends_with("|| test $? -eq 3"));
    }
}
