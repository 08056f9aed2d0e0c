//! Tests of the tracer: its declarations against NVIDIA's headers, and what it writes in a process
//! that plays the driver.
//!
//! This module has what the tests share: compiling C, and finding NVIDIA's headers and libraries.
//! Nothing is downloaded for a test.

mod layout;
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compile a C program or, with `-shared` among `flags`, a library. The error is the compiler's
/// output.
fn cc(source: &Path, to: &Path, flags: &[&str]) -> Result<(), String> {
    let output = Command::new("cc")
        .args(["-O1", "-Wall"])
        .arg(source)
        .arg("-o")
        .arg(to)
        .args(flags)
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|error| format!("cc can't be started: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The path of a file in this crate's `tests`.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// The path of the library under test, which lies beside this test program.
fn tracer() -> PathBuf {
    let program = std::env::current_exe().expect("a test program has a path");
    let dir = program.parent().expect("it lies in a directory");
    let library = dir.join("libkernel_tracer.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// Find the CUDA toolkits on this machine: those that the environment names, the one in the usual
/// place, and those that the project made of wheels. Each is `(include directories, library
/// directories)`.
fn toolkits() -> Vec<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut homes: Vec<PathBuf> = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        homes.extend(std::env::var_os(variable).map(PathBuf::from));
    }
    homes.push("/usr/local/cuda".into());
    let target = tracer();
    // <target>/release/deps/libkernel_tracer.so
    if let Some(target) = target.ancestors().nth(3) {
        let wheels = |environment: &str, package: &str| -> Vec<PathBuf> {
            let lib = target.join(environment).join("lib");
            let pythons = std::fs::read_dir(lib).into_iter().flatten().flatten();
            pythons
                .map(|python| python.path().join("site-packages/nvidia").join(package))
                .collect()
        };
        homes.extend(wheels("cuda-toolkit", "cu13"));
        homes.extend(wheels("venv", "cuda_cupti"));
    }
    homes.sort();
    homes.dedup();
    let mut found: Vec<_> = homes.iter().filter_map(|home| toolkit(home)).collect();
    // A wheel of CUPTI alone lacks compiler headers that any other toolkit has.
    let everywhere: Vec<PathBuf> = found.iter().flat_map(|(dirs, _)| dirs.clone()).collect();
    for (include, _) in &mut found {
        include.extend(everywhere.clone());
    }
    found
}

fn toolkit(home: &Path) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    let places = [home.to_owned(), home.join("extras/CUPTI")];
    let mut include: Vec<PathBuf> = places.iter().map(|p| p.join("include")).collect();
    // The wheel of CUPTI 12 has cuda.h in a neighbour.
    include.push(home.join("../cuda_runtime/include"));
    let has = |name: &str| include.iter().any(|dir| dir.join(name).is_file());
    if !(has("cupti.h") && has("cuda.h")) {
        return None;
    }
    let lib = places.iter().flat_map(|p| [p.join("lib64"), p.join("lib")]);
    Some((include, lib.filter(|dir| dir.is_dir()).collect()))
}
