//! Builds the kernel tracer: a library of ours that the driver of a traced engine loads. It is
//! built like an engine, on demand, and needs no CUDA for that.

use super::cargo::cargo_for;
use super::unavailable;
use anyhow::anyhow;
use base::repo::Repo;
use harness::engine::EngineFailure;
use schema::registry::CargoBuild;
use std::path::PathBuf;
use std::process::Stdio;

const PACKAGE: &str = "kernel-tracer";
/// The library's name, without the prefix and suffix that a system adds.
const LIBRARY: &str = "kernel_tracer";

/// Build the library, or find a bundle's. Returns the library's path.
pub fn tracer(repo: &Repo) -> Result<PathBuf, EngineFailure> {
    if matches!(repo.bundle(), Ok(Some(_))) {
        let file = repo.root.join("lib").join(tracer_file());
        return match file.is_file() {
            true => Ok(file),
            false => Err(unavailable(anyhow!("{} is not there", file.display()))),
        };
    }
    let arguments = ["build", "--release", "--locked", "--package", PACKAGE];
    let status = cargo_for(repo, &CargoBuild::new(PACKAGE, ""), &arguments)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| unavailable(anyhow!("cargo can't be started: {error}")))?;
    if !status.success() {
        let command = arguments.join(" ");
        return Err(unavailable(anyhow!("`cargo {command}` failed ({status})")));
    }
    Ok(repo.build_dir.join("release").join(tracer_file()))
}

/// The file name of the library.
pub fn tracer_file() -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}{LIBRARY}{DLL_SUFFIX}")
}
