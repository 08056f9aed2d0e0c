//! The contents of `hello`: version, build, and all that a reader of the numbers must know.

use crate::log;
use llama_cpp_sys_2 as sys;
use protocol::wire::{Batching, Capabilities, Hello, Load};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::path::Path;

/// Name and version of the bindings, which contain llama.cpp's source. A test compares them with
/// the lockfile.
const CRATE: &str = "llama-cpp-sys-2 0.1.161";
/// The compiler and build type, read from CMake's files by the build script.
const COMPILER: &str = env!("BENCH_GGML_COMPILER");
/// Part of ggml's system info if its kernels use AMX.
const HAS_AMX: &str = "AMX_INT8 = 1";

/// Why AMX was left out although the CPU has it; `None` if it was not left out.
const AMX: Option<&str> = match cfg!(without_amx) {
    true => Some(
        "left out: this compiler's intrinsics lack memory clobbers, and what it makes of them \
         crashes. With Clang it is there: install it, `cargo clean --release -p llama-cpp-sys-2`, \
         and build again",
    ),
    false => None,
};

/// Describe the engine and its build.
pub fn hello(load: &Load) -> Hello {
    // This comes first, since looking for devices is logged too.
    log::take_over();
    let [version, ggml] = names();
    let amx = amx(&ggml, &cpu_flags());
    let mut build = BTreeMap::from([
        ("crate".to_string(), CRATE.to_string()),
        ("features".to_string(), protocol::features!("openmp" "cuda")),
        ("ggml".to_string(), ggml),
        ("ggml_compiler".to_string(), COMPILER.to_string()),
    ]);
    build.extend(amx.map(|amx| ("ggml_amx".to_string(), amx.to_string())));
    let capabilities = Capabilities {
        prefix_cache: true,
        // Mistral's files don't mention the window, and llama.cpp reads Phi-3's without it ("Phi
        // SWA is currently disabled").
        position_gap: protocol::window_gap(Path::new(&load.model_dir), "llama.cpp"),
        notes: notes(load, amx),
        ..Capabilities::new(Batching::Continuous)
    };
    Hello {
        build,
        ..Hello::new("llamacpp", version, capabilities)
    }
}

/// Return llama.cpp's version, and the instruction sets that its CPU backend was compiled for.
fn names() -> [String; 2] {
    let text = |string: *const c_char| {
        // SAFETY: both are C strings that no other code changes meanwhile.
        let string = unsafe { CStr::from_ptr(string) };
        string
            .to_string_lossy()
            .trim_end_matches([' ', '|'])
            .to_string()
    };
    // SAFETY: neither takes anything, and no other thread of ours runs yet.
    unsafe {
        [
            text(sys::llama_version()),
            text(sys::llama_print_system_info()),
        ]
    }
}

/// Return why ggml doesn't use AMX; `None` if it does, or if the CPU has no AMX that ggml could
/// use. ggml's kernels need VNNI beside it.
fn amx(ggml: &str, cpu_flags: &str) -> Option<&'static str> {
    let has = |flag: &str| cpu_flags.split_whitespace().any(|known| known == flag);
    let is_missing = has("amx_int8") && has("avx512_vnni") && !ggml.contains(HAS_AMX);
    AMX.or(is_missing.then_some(
        "not in this build, which was compiled for another CPU or by a compiler that was not told \
         of it: `cargo clean --release -p llama-cpp-sys-2`, and build again on this machine",
    ))
}

/// Return the CPU flags that Linux reports; empty on other systems.
fn cpu_flags() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.unwrap_or_default().to_string()
}

fn notes(load: &Load, amx: Option<&str>) -> Vec<String> {
    let threads = if cfg!(feature = "openmp") {
        "OpenMP's"
    } else {
        "ggml's own, kept between steps in a pool, as llama-bench keeps them without OpenMP; ggml's \
         own build has OpenMP by default, the crate as a feature that is off here"
    };
    let prompts = match load.prefix_cache {
        true => "A prompt goes on from what a free slot holds of an earlier one.",
        false => "No prompt is cached.",
    };
    let mut notes = vec![
        "llama.cpp through its C API. The scheduler is ours, after llama-server's: a step feeds \
         one token of each running sequence and up to 2048 prompt tokens of new ones, over one \
         unified KV cache."
            .to_string(),
        prompts.to_string(),
        "Keys and values are f16, flash attention is auto: llama.cpp's defaults.".to_string(),
        "In a batch its kernels sum in another order than for one request, so a near-tie may give another token."
            .to_string(),
        "Loading ends with a warm-up of two tokens, as llama-server's does.".to_string(),
        format!("ggml was compiled by {COMPILER}; threads are {threads}."),
    ];
    notes.extend(amx.map(|amx| format!("AMX, which this CPU has, is {amx}.")));
    if load.backend == "cuda" {
        notes.push("Every layer is on the GPU.".to_string());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::engine::testing::assert_locked;

    #[test]
    fn the_crate_is_the_lockfiles() {
        let lock = include_str!("../../../Cargo.lock");
        let (name, version) = CRATE.split_once(' ').unwrap();
        assert_locked(lock, &[name], version);
    }

    #[test]
    fn the_compiler_is_known() {
        assert!(COMPILER.contains(' '), "{COMPILER}");
    }

    #[test]
    fn amx_is_there_unless_it_was_left_out() {
        let [_, ggml] = names();
        assert!(AMX.is_none() || !ggml.contains(HAS_AMX), "{ggml}");
        // A build for another CPU than this one says nothing about this one's AMX.
        if AMX.is_none() && cfg!(target_feature = "avx512vnni") {
            assert_eq!(amx(&ggml, &cpu_flags()), None, "{ggml}");
        }
    }

    #[test]
    fn amx_that_is_missing_is_said_where_the_cpu_has_it() {
        let both = "flags : fpu avx512_vnni amx_tile amx_int8";
        let said = |ggml: &str, flags: &str| amx(ggml, flags).is_some();
        assert!(said("CPU : AVX2 = 1 | AVX512_VNNI = 1", both));
        if AMX.is_none() {
            assert!(!said("CPU : AVX512_VNNI = 1 | AMX_INT8 = 1", both));
            assert!(!said("CPU : AVX2 = 1", "flags : fpu avx512_vnni"));
            assert!(!said("CPU : AVX2 = 1", "flags : fpu amx_int8"));
            assert!(!said("CPU : NEON = 1", ""));
        }
    }

    #[test]
    fn ggml_was_compiled_for_what_we_were() {
        let [version, ggml] = names();
        assert!(
            version.starts_with(|c: char| c.is_ascii_digit()),
            "{version}"
        );
        for (ours, on, theirs) in [
            ("avx2", cfg!(target_feature = "avx2"), "AVX2 = 1"),
            ("fma", cfg!(target_feature = "fma"), "FMA = 1"),
            ("avx512f", cfg!(target_feature = "avx512f"), "AVX512 = 1"),
            (
                "avx512vnni",
                cfg!(target_feature = "avx512vnni"),
                "AVX512_VNNI = 1",
            ),
        ] {
            assert!(
                !on || ggml.contains(theirs),
                "{ours} without {theirs}: {ggml}"
            );
        }
    }
}
