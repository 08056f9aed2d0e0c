//! What a program needs around it while it is built and while it runs.

use std::ffi::OsString;
use std::path::PathBuf;

/// What a build and the program it makes must find around them.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Variables for the build.
    pub variables: Vec<(&'static str, OsString)>,
    /// Variables for the program.
    pub run_variables: Vec<(&'static str, OsString)>,
    /// Directories that come first on `PATH` while building.
    pub programs: Vec<PathBuf>,
    /// Directories that come first on `LD_LIBRARY_PATH` while running.
    pub libraries: Vec<PathBuf>,
    /// The hash of what compiles C++ for the program, and how; empty where nothing does.
    pub compiled_by: String,
}

impl Surroundings {
    /// The build's environment, beside ours.
    pub fn build(&self) -> Vec<(&'static str, OsString)> {
        let mut all = self.variables.clone();
        if !self.programs.is_empty() {
            all.push(("PATH", before("PATH", &self.programs)));
        }
        all
    }

    /// The program's environment, beside ours.
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

/// A path list with `dirs` before what is in it.
fn before(variable: &str, dirs: &[PathBuf]) -> OsString {
    let now = std::env::var_os(variable).unwrap_or_default();
    let now = std::env::split_paths(&now).filter(|dir| !dir.as_os_str().is_empty());
    let all: Vec<PathBuf> = dirs.iter().cloned().chain(now).collect();
    // Only a directory with a colon in its name can't be joined.
    std::env::join_paths(all).unwrap_or_default()
}
