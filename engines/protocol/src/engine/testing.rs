//! What the tests of several adapters need. Each function panics where a test must fail, and no
//! program calls one.

use super::Engine;
use crate::wire::Load;
use std::path::Path;

/// Return a request to load `weights` in `dir` on one thread of the processor, for four rows of 64
/// tokens.
pub fn request(dir: &Path, weights: &str, precision: &str) -> Load {
    Load {
        model_dir: dir.to_string_lossy().into_owned(),
        weights: weights.to_owned(),
        precision: precision.to_owned(),
        backend: "cpu".to_owned(),
        threads: 1,
        max_context: 64,
        max_batch: 4,
        ..Load::default()
    }
}

/// Generate `new_tokens` (≥ 1) greedy tokens after each of `prompts`, as one batch; return the
/// tokens of each row.
///
/// # Panics
/// If the engine fails.
pub fn generate(engine: &mut impl Engine, prompts: &[&[u32]], new_tokens: usize) -> Vec<Vec<u32>> {
    let mut next = engine.prefill(prompts).unwrap();
    let mut rows: Vec<Vec<u32>> = next.iter().map(|&id| vec![id]).collect();
    for _ in 1..new_tokens {
        next = engine.decode(&next).unwrap();
        for (row, &id) in rows.iter_mut().zip(&next) {
            row.push(id);
        }
    }
    rows
}

/// Check that a lockfile has each of `packages` in `version`. `lock` is its text.
///
/// # Panics
/// If it has not.
pub fn assert_locked(lock: &str, packages: &[&str], version: &str) {
    for package in packages {
        let entry = format!("name = \"{package}\"\nversion = \"{version}\"\n");
        assert!(lock.contains(&entry), "{package} is not {version}");
    }
}
