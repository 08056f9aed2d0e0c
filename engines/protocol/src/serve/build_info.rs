//! How this binary was built, for `hello.build`. The harness finds out which instructions the
//! machine has; this module reports which ones the compiler was allowed to use.

use std::collections::BTreeMap;

macro_rules! enabled {
    ($($feature:literal)*) => {{
        let mut enabled: Vec<&str> = Vec::new();
        $(if cfg!(target_feature = $feature) { enabled.push($feature); })*
        enabled.join(" ")
    }};
}

/// Return `rustc`, `profile`, `target`, `target_cpu`, `target_features` and `lock_sha256`.
pub fn collect() -> BTreeMap<String, String> {
    // Asked of the compiler here, not read from the flags: what counts for the numbers is what
    // `native` meant on the machine that built this.
    let target_features = enabled!(
        "sse4.2" "avx" "avx2" "fma" "f16c" "avxvnni" "avx512f" "avx512bw" "avx512dq" "avx512vl"
        "avx512vnni" "avx512bf16" "avx512fp16" "neon" "dotprod" "i8mm" "fp16" "bf16" "sve"
    );
    [
        ("rustc", env!("BENCH_RUSTC")),
        ("profile", env!("BENCH_PROFILE")),
        ("target", env!("BENCH_TARGET")),
        ("target_cpu", env!("BENCH_TARGET_CPU")),
        ("target_features", &target_features),
        ("lock_sha256", env!("BENCH_LOCK_SHA256")),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_string(), value.to_string()))
    .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn says_what_a_reader_needs_to_rebuild() {
        let build = super::collect();
        assert!(build["rustc"].starts_with("rustc "));
        assert_eq!(build["lock_sha256"].len(), 64);
        assert!(build.values().all(|value| !value.contains('\n')));
    }
}
