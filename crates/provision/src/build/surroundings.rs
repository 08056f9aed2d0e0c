//! What a program needs around it while it is built and while it runs: environment variables and
//! paths.

use std::ffi::OsString;
use std::path::PathBuf;

/// The environment of a build, and of the program that it makes.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Environment variables for the build.
    pub variables: Vec<(&'static str, OsString)>,
    /// Environment variables for the program when it runs.
    pub run_variables: Vec<(&'static str, OsString)>,
    /// Directories that come first on `PATH` while building.
    pub programs: Vec<PathBuf>,
    /// Directories that come first on `LD_LIBRARY_PATH` while running.
    pub libraries: Vec<PathBuf>,
    /// Hash of the compiler of the program's C++ and its flags; empty where no C++ is compiled.
    pub compiled_by: String,
}

impl Surroundings {
    /// The variables that the build needs in addition to ours.
    pub fn build(&self) -> Vec<(&'static str, OsString)> {
        let mut all = self.variables.clone();
        if !self.programs.is_empty() {
            all.push(("PATH", before("PATH", &self.programs)));
        }
        all
    }

    /// The variables that the program needs in addition to ours.
    pub fn run(&self) -> Vec<(String, String)> {
        let mut all = self.run_variables.clone();
        if !self.libraries.is_empty() {
            let name = "LD_LIBRARY_PATH";
            all.push((name, before(name, &self.libraries)));
        }
        let text = |value: OsString| value.to_string_lossy().into_owned();
        let all = all.into_iter();
        all.map(|(name, value)| (name.to_owned(), text(value)))
            .collect()
    }
}

/// The path list in `variable`, with `dirs` in front.
fn before(variable: &str, dirs: &[PathBuf]) -> OsString {
    let now = std::env::var_os(variable).unwrap_or_default();
    let now = std::env::split_paths(&now).filter(|dir| !dir.as_os_str().is_empty());
    let all: Vec<PathBuf> = dirs.iter().cloned().chain(now).collect();
    // Joining fails only where a directory has a colon in its name.
    std::env::join_paths(all).unwrap_or_default()
}
