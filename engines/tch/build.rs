//! Records which libtorch this binary is linked to: its directory as a run path, so that the
//! binary starts by hand without `LD_LIBRARY_PATH` (which still takes precedence if it is set),
//! and its version for `hello`. torch-sys finds libtorch, and refuses another version than the one
//! that `tch` binds.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEP_TCH_LIBTORCH_LIB");
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").unwrap_or_default();
    if !lib.is_empty() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
    let version = version(Path::new(&lib)).unwrap_or_else(|| "unknown".to_string());
    println!("cargo::rustc-env=BENCH_LIBTORCH={version}");
}

/// Read the version from `build-version` of a plain libtorch, or from `version.py` of Python's
/// package.
fn version(lib: &Path) -> Option<String> {
    let root = lib.parent()?;
    if let Ok(text) = std::fs::read_to_string(root.join("build-version")) {
        return Some(text.trim().to_string());
    }
    let text = std::fs::read_to_string(root.join("version.py")).ok()?;
    let line = text.lines().find(|line| line.starts_with("__version__"))?;
    Some(line.split(['\'', '"']).nth(1)?.to_string())
}
