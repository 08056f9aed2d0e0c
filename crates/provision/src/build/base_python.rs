//! The Python by which environments are made, and its version. It makes nothing itself.

use anyhow::{Result, anyhow};
use std::process::Command;
use std::sync::OnceLock;

/// Environment variable that names a Python to use instead of `python3`, for tests of a machine
/// without one.
pub(super) const PYTHON_ENV: &str = "BENCH_PYTHON";

/// The command that starts the Python by which environments are made.
pub(super) fn python() -> String {
    std::env::var(PYTHON_ENV).unwrap_or_else(|_| "python3".into())
}

pub(super) fn version(python: &str) -> Result<String> {
    let output = Command::new(python).arg("--version").output().map_err(|error| {
        anyhow!("{python} can't be started ({error}): install Python 3.10 or later with its venv module")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The version of the Python by which environments are made, which is asked once; `None` where it
/// can't be started.
pub(super) fn version_here() -> Option<&'static str> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    let version = VERSION.get_or_init(|| version(&python()).ok());
    version.as_deref()
}
