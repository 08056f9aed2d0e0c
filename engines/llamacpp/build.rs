//! Passes on to `hello` how ggml was compiled: the compiler and the build type decide its kernels'
//! speed, and the library itself cannot report them. Both are read from the files that CMake wrote
//! beside the library; nothing is built here.

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

/// Return the compiler and build type, for example `Clang 14.0.6, Release`, and whether the
/// compiler was told to leave out AMX on a CPU that has it.
fn found() -> Option<(String, bool)> {
    // The variable names <out>/lib/cmake of the package that compiled ggml; CMake worked in
    // <out>/build.
    let cmake_dir = std::env::var("DEP_LLAMA_GGML_CMAKE_DIR").ok()?;
    let build = Path::new(&cmake_dir).parent()?.parent()?.join("build");
    let cache = build.join("CMakeCache.txt");
    println!("cargo:rerun-if-changed={}", cache.display());
    let cache = std::fs::read_to_string(cache).ok()?;
    // A directory named after CMake's version holds its findings about the compiler.
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

/// Return the rest of the line that begins with `key`, without quotes, brackets and spaces.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim_matches(['"', ')', ' ']))
}
