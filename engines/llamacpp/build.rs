//! Hands on to `hello` how ggml was compiled: compiler and build type decide its
//! kernels' speed, and the library itself cannot tell. Both are read from what
//! CMake wrote beside the library; deliberately nothing is built here.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DEP_LLAMA_GGML_CMAKE_DIR");
    let found = found();
    let (compiler, without_amx) = found.unwrap_or_else(|| ("unknown".to_string(), false));
    println!("cargo:rustc-env=BENCH_GGML_COMPILER={compiler}");
    println!("cargo:rustc-check-cfg=cfg(without_amx)");
    if without_amx {
        println!("cargo:rustc-cfg=without_amx");
    }
}

/// For example `Clang 14.0.6, Release`, and whether it was told to leave AMX out of code
/// for a CPU that has it.
fn found() -> Option<(String, bool)> {
    // <out>/lib/cmake of the package that compiled it; CMake worked in <out>/build.
    let cmake_dir = std::env::var("DEP_LLAMA_GGML_CMAKE_DIR").ok()?;
    let build = Path::new(&cmake_dir).parent()?.parent()?.join("build");
    let cache = build.join("CMakeCache.txt");
    println!("cargo:rerun-if-changed={}", cache.display());
    let cache = std::fs::read_to_string(cache).ok()?;
    // A directory named after CMake's version holds what it found out.
    let entries = std::fs::read_dir(build.join("CMakeFiles")).ok()?;
    let mut found = entries.flatten().filter_map(|entry| {
        std::fs::read_to_string(entry.path().join("CMakeCXXCompiler.cmake")).ok()
    });
    let facts = found.next()?;
    let compiler = format!(
        "{} {}, {}",
        value(&facts, "set(CMAKE_CXX_COMPILER_ID ")?,
        value(&facts, "set(CMAKE_CXX_COMPILER_VERSION ")?,
        value(&cache, "CMAKE_BUILD_TYPE:STRING=")?
    );
    let flags = value(&cache, "CMAKE_CXX_FLAGS:STRING=").unwrap_or_default();
    Some((compiler, flags.contains("-U__AMX_INT8__")))
}

/// What follows `key` on its line, without the decoration.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim_matches(['"', ')', ' ']))
}
