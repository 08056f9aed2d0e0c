//! Records how this binary is built, for `hello.build`: the compiler's settings are known only to
//! a build script. Deliberately leaves out dates and paths, so that two builds of one source stay
//! byte-identical.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let env = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(env("RUSTC")).arg("--version").output();
    let rustc = rustc.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string());
    set("BENCH_RUSTC", &rustc.unwrap_or_default());
    set(
        "BENCH_PROFILE",
        &format!("{} (opt-level {})", env("PROFILE"), env("OPT_LEVEL")),
    );
    set("BENCH_TARGET", &env("TARGET"));
    set(
        "BENCH_TARGET_CPU",
        &target_cpu(&env("CARGO_ENCODED_RUSTFLAGS")),
    );
    set("BENCH_LOCK_SHA256", &lock_sha256());
    println!("cargo::rerun-if-changed=build.rs");
}

fn set(name: &str, value: &str) {
    println!("cargo::rustc-env={name}={value}");
}

/// Return the `target-cpu` that the flags ask for, or `default`.
fn target_cpu(encoded_flags: &str) -> String {
    let flags: Vec<&str> = encoded_flags.split('\x1f').collect();
    let joined = flags.join(" ");
    let cpu = joined
        .split("target-cpu=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    cpu.unwrap_or("default").to_string()
}

/// Hash of the lockfile that chose our dependencies: the nearest `Cargo.lock`
/// above this crate, or the file named by `BENCH_LOCKFILE` (`cargo xtask` sets it for an
/// adapter in a workspace of its own; whoever builds one by hand sets it too).
fn lock_sha256() -> String {
    println!("cargo::rerun-if-env-changed=BENCH_LOCKFILE");
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let nearest = || {
        here.ancestors()
            .map(|dir| dir.join("Cargo.lock"))
            .find(|lock| lock.exists())
    };
    let lock = std::env::var("BENCH_LOCKFILE")
        .ok()
        .map(PathBuf::from)
        .or_else(nearest);
    let Some(bytes) = lock.as_deref().and_then(read_watched) else {
        return "unknown".to_string();
    };
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn read_watched(path: &Path) -> Option<Vec<u8>> {
    println!("cargo::rerun-if-changed={}", path.display());
    std::fs::read(path).ok()
}
