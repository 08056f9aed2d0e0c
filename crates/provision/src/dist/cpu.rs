//! The CPU that a bundle's programs are compiled for: builds everything for another CPU than this
//! machine's, and finds out what a machine must have to run it.

use super::Options;
use crate::build::cargo_command;
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use std::process::{Command, ExitCode};
use xshell::{Shell, cmd};

/// rustc's name for this machine's own CPU, for which a checkout's programs are compiled.
pub const NATIVE: &str = "native";
/// Environment variable with the CPU that this program was itself compiled for, where one was asked
/// for.
const BUILT_FOR: &str = "BENCH_DIST_CPU";

/// Where another CPU than this machine's is wanted, run the whole command again from a build for
/// that CPU, harness included, and return its exit status. `None` where nothing has to be built
/// anew.
pub fn built_for_another(repo: &Repo, options: &Options) -> Result<Option<ExitCode>> {
    let wanted = options.target_cpu.as_str();
    let built_for = std::env::var(BUILT_FOR).ok();
    if wanted == NATIVE || built_for.as_deref() == Some(wanted) {
        return Ok(None);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._+".contains(c);
    if !wanted.chars().all(is_name) {
        bail!("--target-cpu {wanted:?}: `rustc --print target-cpus` lists the names");
    }
    let status = again(repo, wanted).status();
    let status = status.context("cargo can't be started")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Some(code.map_or(ExitCode::FAILURE, ExitCode::from)))
}

/// This command once more, from a build for the CPU `wanted`. It runs in the same directory,
/// because its arguments may name paths relative to that.
fn again(repo: &Repo, wanted: &str) -> Command {
    let mut command = cargo_command();
    // In release, unlike the harness of a checkout: the user of a bundle doesn't compile it again.
    command
        .args(["run", "--release", "--package", "xtask", "--manifest-path"])
        .arg(repo.root.join("Cargo.toml"))
        .arg("--")
        .args(std::env::args_os().skip(1))
        .env(BUILT_FOR, wanted)
        .env("RUSTFLAGS", format!("-Ctarget-cpu={wanted}"))
        .env(
            "CARGO_TARGET_DIR",
            repo.build_dir.join(format!("cpu-{wanted}")),
        );
    command
}

/// The CPU features that programs for `cpu` need, in the kernel's spelling: those that the compiler
/// may use and that this machine's kernel has a word for.
pub fn flags(cpu: &str) -> Result<Vec<String>> {
    let shell = Shell::new()?;
    let asked = cmd!(shell, "rustc --print cfg -Ctarget-cpu={cpu}").ignore_status();
    let output = asked.output().context("rustc can't be started")?;
    // For an unknown CPU rustc only prints a warning, and takes its default.
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("not a recognized processor") {
        bail!("rustc knows no CPU {cpu:?}: `rustc --print target-cpus` lists them");
    }
    let cfg = String::from_utf8_lossy(&output.stdout).into_owned();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Ok(needed(&cfg, &cpuinfo))
}

/// The features in the output of `rustc --print cfg` that /proc/cpuinfo names.
fn needed(cfg: &str, cpuinfo: &str) -> Vec<String> {
    let is_flags = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let known = cpuinfo.lines().find(is_flags).unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    let features = cfg
        .lines()
        .filter_map(|line| line.strip_prefix("target_feature=\"")?.strip_suffix('"'));
    let words = features.flat_map(spellings);
    let mut needed: Vec<String> = words
        .filter(|word| known.contains(&word.as_str()))
        .collect();
    needed.sort();
    needed.dedup();
    needed
}

/// The names that the kernel may use for a feature of rustc's.
fn spellings(feature: &str) -> Vec<String> {
    let other = match feature {
        "sse3" => "pni",
        "lzcnt" => "abm",
        "cmpxchg16b" => "cx16",
        "sha" => "sha_ni",
        "neon" => "asimd",
        "dotprod" => "asimddp",
        "fp16" => "asimdhp",
        "lse" => "atomics",
        "crc" => "crc32",
        _ => feature,
    };
    // avx512vnni is avx512_vnni, but avx512bw is avx512bw.
    let parted = other.replacen("avx512", "avx512_", 1);
    vec![other.replace(['.', '-'], "_"), parted]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_said_in_the_kernels_words() {
        let cfg = "target_arch=\"x86_64\"\ntarget_feature=\"avx512bw\"\ntarget_feature=\"avx512vnni\"\n\
            target_feature=\"sse3\"\ntarget_feature=\"sse4.1\"\ntarget_feature=\"x87\"\nunix\n";
        let cpuinfo =
            "processor: 0\nflags\t\t: fpu pni sse4_1 avx512bw avx512_vnni amx_tile\nflags: x87\n";
        assert_eq!(
            needed(cfg, cpuinfo),
            ["avx512_vnni", "avx512bw", "pni", "sse4_1"]
        );
        assert_eq!(needed(cfg, ""), Vec::<String>::new());
    }

    #[test]
    fn the_second_run_is_in_the_same_directory() {
        let repo = Repo::under("/r");
        let command = again(&repo, "x86-64-v3");
        assert_eq!(command.get_current_dir(), None);
        assert!(command.get_args().any(|word| word == "/r/Cargo.toml"));
    }

    #[test]
    fn an_older_cpu_needs_less_and_an_unknown_one_is_refused() {
        let (native, v1) = (flags(NATIVE).unwrap(), flags("x86-64").unwrap_or_default());
        assert!(v1.len() < native.len(), "{v1:?} {native:?}");
        let error = flags("no-such-cpu").unwrap_err().to_string();
        assert!(error.contains("no CPU \"no-such-cpu\""), "{error}");
    }
}
