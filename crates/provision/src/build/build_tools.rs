//! Provides CMake and libclang: those of the machine, else the project's own, made of Python wheels
//! whose hashes are locked. Only builds that need them get them.

use super::python;
use super::surroundings::Surroundings;
use anyhow::{Result, anyhow};
use base::nix_shell::NixShell;
use base::repo::Repo;
use harness::machine;
use schema::registry::Need;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The lock file of the wheels that the tools are made of, relative to the repository.
pub const LOCK: &str = "data/build-tools.lock";
/// The directory of the tools' environment, under the build directory.
const DIR: &str = "build-tools";
/// Where the wheels put CMake, in their environment's packages.
const CMAKE_IN_WHEELS: &str = "cmake/data/bin";
const LIBCLANG_IN_WHEELS: &str = "clang/native";
/// Environment variable whose arguments bindgen passes on to libclang.
const CLANG_ARGUMENTS: &str = "BINDGEN_EXTRA_CLANG_ARGS";

/// Add the tool `need` to what surrounds the build of `program`.
pub fn provide(repo: &Repo, need: Need, program: &str, all: &mut Surroundings) -> Result<()> {
    if machine::is_here(&repo.root, need) {
        return Ok(());
    }
    let (what, place) = match need {
        Need::Cmake => ("cmake", CMAKE_IN_WHEELS),
        _ => ("libclang", LIBCLANG_IN_WHEELS),
    };
    let own = own(repo, place, NixShell::current().as_ref());
    let dir = own.map_err(|why| {
        let command = machine::install_command(&machine::System::read(), need);
        anyhow!(missing(what, program, &why, command.as_deref()))
    })?;
    match need {
        Need::Cmake => all.programs.push(dir),
        _ => {
            all.variables.push(("LIBCLANG_PATH", dir.into()));
            // The wheel is the library alone, without the headers that every compiler
            // brings (stddef.h and others).
            if let Some(headers) = compiler_headers() {
                let given = std::env::var_os(CLANG_ARGUMENTS);
                all.variables
                    .push((CLANG_ARGUMENTS, with_headers(given, &headers)));
            }
        }
    }
    Ok(())
}

/// Whether the project's own tools have been made already.
pub fn are_made(repo: &Repo) -> bool {
    python::package_dir(&repo.build_dir.join(DIR), CMAKE_IN_WHEELS).is_some()
}

/// The directory of the project's own tool, which is made if it doesn't exist. The error says why
/// it can't be had.
fn own(repo: &Repo, place: &str, shell: Option<&NixShell>) -> Result<PathBuf, String> {
    if let Some(shell) = shell {
        return Err(format!(
            "the flake's shell {} brings none, and inside of it the project makes none",
            shell.name
        ));
    }
    let venv = repo.build_dir.join(DIR);
    let made = python::environment_at(&venv, &repo.root.join(LOCK));
    made.map_err(|failure| format!("the project's own can't be made: {}", failure.reason))?;
    python::package_dir(&venv, place).ok_or_else(|| {
        format!(
            "{LOCK} brought no {place}: delete {} and run this again",
            venv.display()
        )
    })
}

fn missing(what: &str, program: &str, why: &str, command: Option<&str>) -> String {
    let advice = match command {
        Some(command) => format!("with `{command}`"),
        None => "by your system's package manager".into(),
    };
    format!(
        "{what} isn't installed, and building {program} needs it; {why}. Or install it {advice}, and run this again"
    )
}

/// The directory where the system's C compiler keeps its own headers; `None` where it can't be
/// found out.
fn compiler_headers() -> Option<PathBuf> {
    let named = std::env::var_os("CC").filter(|cc| !cc.is_empty());
    let output = Command::new(named.unwrap_or_else(|| "cc".into()))
        .arg("-print-file-name=include")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    // A compiler that has no such directory repeats the name.
    let dir = PathBuf::from(said.trim());
    dir.is_absolute().then_some(dir)
}

fn with_headers(given: Option<OsString>, headers: &Path) -> OsString {
    let mut all = given.unwrap_or_default();
    if !all.is_empty() {
        all.push(" ");
    }
    all.push("-isystem ");
    all.push(headers);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_one_line_with_a_way_out() {
        let why = "the project's own can't be made: the disk is full";
        assert_eq!(
            missing(
                "cmake",
                "a-bench",
                why,
                Some("sudo apt-get install -y cmake")
            ),
            "cmake isn't installed, and building a-bench needs it; the project's own can't be made: the disk is full. Or install it with `sudo apt-get install -y cmake`, and run this again"
        );
        assert!(missing("cmake", "a-bench", why, None).contains("package manager"));
    }

    #[test]
    fn a_shell_brings_its_tools_or_none() {
        let repo = Repo::under("/no");
        let shell = NixShell {
            name: "cpu".into(),
            ..NixShell::default()
        };
        let why = own(&repo, CMAKE_IN_WHEELS, Some(&shell)).unwrap_err();
        assert!(why.contains("shell cpu brings none"), "{why}");
        let why = own(&repo, CMAKE_IN_WHEELS, None).unwrap_err();
        assert!(why.contains(LOCK), "{why}");
        assert!(!are_made(&repo));
    }

    #[test]
    fn headers_come_after_what_the_user_asked_for() {
        let headers = Path::new("/gcc/include");
        assert_eq!(with_headers(None, headers), "-isystem /gcc/include");
        assert_eq!(
            with_headers(Some("-DX".into()), headers),
            "-DX -isystem /gcc/include"
        );
        let found = compiler_headers().expect("a C compiler is here");
        assert!(found.join("stddef.h").is_file(), "{}", found.display());
    }
}
