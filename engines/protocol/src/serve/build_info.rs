//! How this binary was built, for `hello.build`. What the machine can do is the
//! harness's to find out; this is what the compiler was allowed to use.

use std::collections::BTreeMap;

macro_rules! enabled {
    ($($feature:literal)*) => {{
        let mut enabled: Vec<&str> = Vec::new();
        $(if cfg!(target_feature = $feature) { enabled.push($feature); })*
        enabled.join(" ")
    }};
}

/// `rustc`, `profile`, `target`, `target_cpu`, `target_features`, `lock_sha256`.
pub fn collect() -> BTreeMap<String, String> {
    // Read off the compiler itself, here, and not off the flags: what `native`
    // meant on the building machine is what decides the numbers.
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
