//! Provides the CUDA toolkit: the one of the machine, else one of the project's own, made of Python
//! wheels whose hashes are locked. It compiles without a GPU. The driver, which programs need to
//! run, is the machine's and never provided.

use super::surroundings::Surroundings;
use super::{lazy_library, python};
use anyhow::{Context, Result, anyhow, bail};
use base::nix_shell::NixShell;
use base::repo::Repo;
use harness::machine::Gpu;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The lock file of the wheels that the project's own toolkit is made of, relative to the
/// repository.
pub const LOCK: &str = "data/cuda-toolkit.lock";
/// The directory of the toolkit's environment, under the build directory.
const DIR: &str = "cuda-toolkit";
/// Where the wheels put the toolkit, in their environment's packages.
const HOME_IN_WHEELS: &str = "nvidia/cu13";
/// The CUDA version of those wheels: a driver that supports only older ones can't run what they
/// compile.
const WHEELS_CUDA_MAJOR: u32 = 13;
/// Variables that name the directory of a toolkit; build scripts read one or another.
const HOME_VARIABLES: [&str; 4] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
];
/// Variable that names the toolkit to build scripts that look for its libraries and read none of
/// [`HOME_VARIABLES`].
const LIBRARY_VARIABLE: &str = "CUDA_LIBRARY_PATH";
/// Variable with the GPU architectures for which CMake compiles kernels. It is set to one
/// architecture only, because each further one would take as long again.
const ARCHITECTURES_VARIABLE: &str = "CMAKE_CUDA_ARCHITECTURES";
/// Compute capability where there is no GPU to ask: 9.0 (Hopper).
const COMPUTE_CAP: &str = "90";

/// Add a toolkit to what surrounds the build of `program`.
pub fn provide(repo: &Repo, program: &str, all: &mut Surroundings) -> Result<()> {
    let gpu = Gpu::read();
    let shell = NixShell::current();
    let (home, is_ours) = match find(&variable) {
        Some(home) => (home, false),
        None => (provision(repo, program, &gpu, shell.as_ref())?, true),
    };
    for name in HOME_VARIABLES {
        // Our own must win over a variable that names a toolkit without a compiler.
        if is_ours || variable(name).is_none() {
            all.variables.push((name, home.clone().into()));
        }
    }
    if variable(LIBRARY_VARIABLE).is_none() {
        all.variables.push((LIBRARY_VARIABLE, home.clone().into()));
    }
    let device = gpu.devices.first();
    let device = device.and_then(|device| device.compute_capability.as_deref());
    let said = variable("CUDA_COMPUTE_CAP").filter(|_| shell.is_none() || device.is_none());
    // The flake's shell sets it for machines without a GPU. A GPU that is here takes precedence.
    let cap = said.unwrap_or_else(|| {
        let cap = device.map_or(COMPUTE_CAP.into(), |cap| cap.replace('.', ""));
        cap.into()
    });
    if variable(ARCHITECTURES_VARIABLE).is_none() {
        let mut only = cap.clone();
        only.push("-real");
        all.variables.push((ARCHITECTURES_VARIABLE, only));
    }
    all.variables.push(("CUDA_COMPUTE_CAP", cap));
    all.programs.push(home.join("bin"));
    let libraries = ["lib64", "lib"].map(|lib| home.join(lib));
    all.libraries
        .extend(libraries.into_iter().find(|dir| dir.is_dir()));
    Ok(())
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The toolkit that CUDA programs are built with, and whether it is the project's own; `None` where
/// there is none yet.
pub fn cuda_home(repo: &Repo) -> Option<(PathBuf, bool)> {
    if let Some(home) = find(&variable) {
        return Some((home, false));
    }
    let ours = python::package_dir(&repo.build_dir.join(DIR), HOME_IN_WHEELS);
    let ours = ours.filter(|_| NixShell::current().is_none());
    ours.map(|home| (home, true))
}

/// The toolkits that the environment names, whether or not they are complete.
pub(super) fn named_homes() -> impl Iterator<Item = PathBuf> {
    named(&variable)
}

fn named(variable: &dyn Fn(&str) -> Option<OsString>) -> impl Iterator<Item = PathBuf> {
    ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(variable)
        .map(PathBuf::from)
}

/// Find the toolkit that the environment names, else the one of the `nvcc` on `PATH`.
fn find(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(home) = named(variable).find(|home| home.join("bin/nvcc").is_file()) {
        return Some(home);
    }
    let path = variable("PATH")?;
    let nvcc = std::env::split_paths(&path)
        .map(|dir| dir.join("nvcc"))
        .find(|file| file.is_file())?;
    let nvcc = std::fs::canonicalize(nvcc).ok()?;
    Some(nvcc.parent()?.parent()?.to_owned())
}

/// The directory of the project's own toolkit, which is made if it doesn't exist.
fn provision(repo: &Repo, program: &str, gpu: &Gpu, shell: Option<&NixShell>) -> Result<PathBuf> {
    let none = format!(
        "building {program} needs a CUDA toolkit, and there is none (no nvcc under CUDA_HOME or CUDA_PATH, none on PATH)"
    );
    if let Some(shell) = shell {
        bail!(
            "{none}; the flake's shell {} brings none, and inside of it the project makes none: `nix develop` enters the one that does",
            shell.name
        );
    }
    let platform = (std::env::consts::OS, std::env::consts::ARCH);
    if let Some(why) = refused(gpu.cuda.as_deref(), platform) {
        bail!("{none}; {why}");
    }
    let dir = repo.build_dir.join(DIR);
    python::environment_at(&dir, &repo.root.join(LOCK)).map_err(|failure| {
        anyhow!(
            "{none}, and the project's own can't be made: {}; install a toolkit and set CUDA_HOME to it",
            failure.reason
        )
    })?;
    let home = python::package_dir(&dir, HOME_IN_WHEELS).with_context(|| {
        let dir = dir.display();
        format!("{none}, and {LOCK} brought no {HOME_IN_WHEELS}: delete {dir} and run this again")
    })?;
    link_usual_names(&home).with_context(|| format!("{}: links can't be made", home.display()))?;
    lazy_library::make_link_libraries(&home)
        .map_err(|why| anyhow!("{none}, and the project's own can't be finished: {why}"))?;
    Ok(home)
}

/// The reason why the project's own toolkit can't serve this machine; `None` where it can.
fn refused(driver_cuda: Option<&str>, platform: (&str, &str)) -> Option<String> {
    if platform != ("linux", "x86_64") {
        return Some(format!(
            "the one the project can make is for Linux on x86-64, not {} on {}",
            platform.0, platform.1
        ));
    }
    let driver_cuda = driver_cuda?;
    let major: u32 = driver_cuda.split('.').next()?.parse().ok()?;
    (major < WHEELS_CUDA_MAJOR).then(|| {
        format!(
            "the one the project can make is CUDA {WHEELS_CUDA_MAJOR}, and the driver serves CUDA {driver_cuda}: \
             update the driver, or install a CUDA {major} toolkit and set CUDA_HOME to it"
        )
    })
}

/// Add links that linkers and build scripts look for and that wheels lack: `lib64`, and `libx.so`
/// beside `libx.so.13`.
fn link_usual_names(home: &Path) -> io::Result<()> {
    let lib = home.join("lib");
    let link = |target: &Path, name: PathBuf| match symlink(target, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    link(Path::new("lib"), home.join("lib64"))?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&lib)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    for name in &names {
        if let Some((stem, _)) = name.split_once(".so.") {
            link(Path::new(name), lib.join(format!("{stem}.so")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_that_is_here_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let dir = std::fs::canonicalize(dir.path()).unwrap();
        for home in ["a", "b"] {
            crate::write(dir.join(home).join("bin/nvcc"), "");
        }
        let find = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(k, v)| (*k, dir.join(v))).collect();
            find(&|name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| value.clone().into_os_string())
            })
        };
        assert_eq!(
            find(&[("CUDA_PATH", "a"), ("PATH", "b/bin")]),
            Some(dir.join("a"))
        );
        assert_eq!(find(&[("PATH", "b/bin")]), Some(dir.join("b")));
        // A variable that names a toolkit without a compiler doesn't count.
        assert_eq!(
            find(&[("CUDA_HOME", "none"), ("PATH", "b/bin")]),
            Some(dir.join("b"))
        );
        assert_eq!(find(&[("CUDA_HOME", "none"), ("PATH", "a")]), None);
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn our_toolkit_is_refused_where_it_could_not_run() {
        let here = ("linux", "x86_64");
        assert_eq!(refused(None, here), None, "building needs no driver");
        assert_eq!(refused(Some("13.0"), here), None);
        let old = refused(Some("12.4"), here).unwrap();
        assert!(
            old.contains("CUDA 12.4") && old.contains("CUDA_HOME"),
            "{old}"
        );
        for elsewhere in [("macos", "aarch64"), ("linux", "aarch64")] {
            assert!(refused(None, elsewhere).unwrap().contains("aarch64"));
        }
    }

    #[test]
    fn wheels_get_the_usual_names() {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        for name in ["libx.so.13", "libx.alt.so.13", "liby.so"] {
            std::fs::write(lib.join(name), name).unwrap();
        }
        for _ in 0..2 {
            link_usual_names(dir.path()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(dir.path().join("lib64").join(name));
        assert_eq!(read("libx.so").unwrap(), "libx.so.13");
        assert_eq!(read("libx.alt.so").unwrap(), "libx.alt.so.13");
        assert_eq!(read("liby.so").unwrap(), "liby.so");
    }
}
