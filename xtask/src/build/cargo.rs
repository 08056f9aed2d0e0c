//! Engines that are Cargo binaries.

use super::unavailable;
use crate::engine::{EngineFailure, Program};
use crate::repo::Repo;
use std::process::{Command, Stdio};

/// Build one binary in release. Cargo's own progress goes to the terminal.
pub fn build(
    repo: &Repo,
    package: &str,
    bin: &str,
    manifest: Option<&str>,
) -> Result<Program, EngineFailure> {
    // An excluded workspace has its own lockfile, so it gets its own target directory too.
    let (manifest_path, target_dir) = match manifest {
        None => (repo.root.join("Cargo.toml"), repo.build_dir.clone()),
        Some(manifest) => (
            repo.root.join(manifest),
            repo.build_dir.join("excluded").join(package),
        ),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            package,
            "--bin",
            bin,
            "--manifest-path",
        ])
        .arg(&manifest_path)
        .env("CARGO_TARGET_DIR", &target_dir)
        .current_dir(&repo.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| unavailable(format!("cargo can't be started: {error}")))?;
    if !status.success() {
        return Err(unavailable(format!(
            "`cargo build --release --package {package}` failed ({status}); its messages are above"
        )));
    }
    let file = target_dir.join("release").join(bin);
    let argv = vec![file.display().to_string()];
    Ok(Program::new(argv, vec![file], &repo.root, &repo.build_dir))
}
