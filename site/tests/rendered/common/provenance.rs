//! The provenance of the synthetic run, and what adopting its engines would cost.

use super::launch::SPEEDS;
use schema::adoption::{Adoption, Built};
use schema::provenance::Provenance;
use schema::run::Run;
use std::collections::BTreeMap;

pub fn provenance() -> Provenance {
    let facts = [
        ("cpu_model", "synthetic data, no machine"),
        ("cpus", "2"),
        ("kernel", "0.0.0-synthetic"),
        (
            "cpu_flags",
            "sse2 avx avx2 fma avx512f avx512_vnni amx_int8 amx_bf16 and many more of which the list goes on and on",
        ),
        ("rustc", "rustc 1.95.0"),
    ];
    Provenance {
        git_revision: Some("0123456789abcdef0123456789abcdef01234567".into()),
        git_dirty: Some(false),
        lockfiles: BTreeMap::from([("Cargo.lock".into(), "ab".repeat(32))]),
        model_files: BTreeMap::from([("model.safetensors".into(), "cd".repeat(32))]),
        binaries: SPEEDS
            .iter()
            .map(|s| (s.0.to_owned(), "ef".repeat(32)))
            .collect(),
        adoption: adoption(),
        facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ..Provenance::default()
    }
}

/// The costs of a compiled program with every fact, and of a Python program with few.
fn adoption() -> BTreeMap<String, Adoption> {
    let cost = |engine: &str| Adoption {
        engine: engine.into(),
        targets: vec![format!("{engine}.cpu.f32")],
        ..Adoption::default()
    };
    let compiled = Adoption {
        stripped_bytes: Some(12_345_678),
        crates: Some(1234),
        libraries: vec!["libsynthetic.so.1".into()],
        libraries_bytes: Some(3 << 30),
        adapter_lines: Some(321),
        built: Some(Built {
            build_s: 61.5,
            crates_compiled: 1300,
        }),
        ..cost("candle")
    };
    let python = Adoption {
        packages: Some(57),
        packages_bytes: Some(7 << 30),
        ..cost("pytorch")
    };
    [("candle".into(), compiled), ("pytorch".into(), python)].into()
}

/// Add facts to a run's provenance.
pub fn add_facts(run: &mut Run, facts: &[(&str, &str)]) {
    let facts = facts.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    run.header.provenance.facts.extend(facts);
}

/// Add facts to a run: what its processor can do at best, and what its model computes.
pub fn add_limits(run: &mut Run) {
    let facts = [
        ("memory_read_bytes_per_s", "3300000000000"),
        ("flops_f32_per_s", "6200000000000"),
        ("last_level_cache_bytes", "1000"),
        ("model_params_per_token", "7864320"),
        ("model_params_head", "2097152"),
        ("model_attention_width", "2048"),
    ];
    add_facts(run, &facts);
}
