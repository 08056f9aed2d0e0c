//! Tests of Frink's decoder with small models that the generator writes: against the generator's
//! own forward pass, in company, and with kept prefixes. Whether a model's output is right is
//! checked by the parity gate.

use crate::engine::Frink;
use models::reference::{Cache, Reference};
use models::{ModelFile, ModelSpec, generate_without_tokenizer};
use protocol::engine::testing::{generate, request};
use protocol::engine::{Engine, EngineError};
use protocol::wire::{FailureKind, Load, Loaded};
use std::path::Path;
use std::sync::Once;

const PROMPTS: [&[u32]; 3] = [&[1, 2, 3, 4, 5], &[90, 3, 17, 64, 8], &[7, 7, 7, 7, 7]];

/// A model of the shape of `tiny-llama`, with fewer layers and ids, in the files that Frink reads.
fn spec() -> ModelSpec {
    ModelSpec {
        num_layers: 2,
        vocab_size: 512,
        files: vec![ModelFile::GgufQ8_0, ModelFile::GgufQ4KM],
        ..ModelSpec::tiny_llama()
    }
}

fn model() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    generate_without_tokenizer(&spec(), dir.path()).unwrap();
    dir
}

fn load(dir: &Path, weights: &str, precision: &str) -> Result<(Frink, Loaded), EngineError> {
    with(&request(dir, weights, precision))
}

/// Load with the kernels that are timed, which `main` chooses.
fn with(load: &Load) -> Result<(Frink, Loaded), EngineError> {
    static KERNELS: Once = Once::new();
    // SAFETY: what else reads the environment here is in Rust, which locks it.
    KERNELS.call_once(|| unsafe { frink_core::weight_matrix::default_cpu_int_dot_on() });
    Frink::load(load)
}

fn loaded(dir: &Path) -> Frink {
    load(dir, "model-q8_0.gguf", "q8_0").unwrap().0
}

/// Generate six greedy tokens per row; return them, and row 0's logits after the last.
fn run(engine: &mut Frink, prompts: &[&[u32]]) -> (Vec<Vec<u32>>, Vec<f32>) {
    (generate(engine, prompts, 6), engine.logits(0).unwrap())
}

/// Return the Kullback-Leibler divergence (nats) of the distribution of logits `b` from that of
/// `a`.
fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let log_probabilities = |logits: &[f32]| -> Vec<f64> {
        let all = logits.iter().map(|&logit| f64::from(logit));
        let max = all.clone().fold(f64::NEG_INFINITY, f64::max);
        let total = all.clone().map(|logit| (logit - max).exp()).sum::<f64>();
        all.map(|logit| logit - max - total.ln()).collect()
    };
    let (a, b) = (log_probabilities(a), log_probabilities(b));
    a.iter().zip(&b).map(|(a, b)| a.exp() * (a - b)).sum()
}

#[test]
fn its_logits_are_those_of_the_files_weights() {
    let (dir, spec) = (model(), spec());
    let ids: Vec<u32> = (0..40).map(|i| (i * i * 7 + 3) % 512).collect();
    let positions: Vec<usize> = (0..ids.len()).collect();
    let reference = Reference::new(&spec, ModelFile::GgufQ8_0);
    let truth = reference.forward(&ids, &positions, &mut Cache::default(), 1);
    let mut engine = loaded(dir.path());
    let (prompt, last) = ids.split_at(ids.len() - 1);
    engine.prefill(&[prompt]).unwrap();
    engine.decode(last).unwrap();
    let away = divergence(&truth, &engine.logits(0).unwrap());
    assert!(away < 1e-3, "{away}");
}

#[test]
fn rows_do_not_see_each_other_nor_the_last_batch() {
    let dir = model();
    for (weights, precision) in [("model-q8_0.gguf", "q8_0"), ("model-q4_k_m.gguf", "q4_k_m")] {
        let (mut engine, _) = load(dir.path(), weights, precision).unwrap();
        let (together, _) = run(&mut engine, &PROMPTS);
        let alone: Vec<_> = PROMPTS
            .iter()
            .flat_map(|prompt| run(&mut engine, &[prompt]).0)
            .collect();
        assert_eq!(together, alone, "{precision}");
    }
}

#[test]
fn a_kept_prefix_changes_no_token() {
    let dir = model();
    let keeping = Load {
        prefix_cache: true,
        ..request(dir.path(), "model-q8_0.gguf", "q8_0")
    };
    let (mut keeping, _) = with(&keeping).unwrap();
    let mut anew = loaded(dir.path());
    // The same again, a part of it, what was generated, and another beginning.
    for prompt in [&[5, 9, 2, 8][..], &[5, 9, 2, 8], &[5, 9, 3], &[4, 9, 2, 8]] {
        let (kept, logits) = run(&mut keeping, &[prompt]);
        let (expected, truth) = run(&mut anew, &[prompt]);
        assert_eq!(kept, expected, "{prompt:?}");
        assert!(divergence(&truth, &logits) < 1e-4, "{prompt:?}");
    }
}

#[test]
fn a_step_reads_the_weights_once() {
    let (dir, spec) = (model(), spec());
    let (_, loaded) = load(dir.path(), "model-q8_0.gguf", "q8_0").unwrap();
    let weights: usize = models::weights::tensors(&spec)
        .iter()
        .map(models::weights::TensorDef::len)
        .sum();
    let norms = (2 * spec.num_layers + 1) * spec.hidden_size;
    let expected = (weights - norms) / 32 * 34 + norms * 4;
    assert_eq!(loaded.weight_bytes, expected as u64);
    let kv = 2 * 2 * spec.num_layers * spec.num_kv_heads * spec.head_dim;
    assert_eq!(loaded.kv_bytes_per_token, kv as u64);
}

#[test]
fn a_bad_file_is_named() {
    let dir = model();
    let bytes = std::fs::read(dir.path().join("model-q8_0.gguf")).unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    put("half.gguf", &bytes[..bytes.len() / 2]);
    put("bad.gguf", &[0xff; 64]);
    for (weights, precision, kind) in [
        ("missing.gguf", "q8_0", FailureKind::Internal),
        ("half.gguf", "q8_0", FailureKind::Internal),
        ("bad.gguf", "q8_0", FailureKind::Internal),
        ("model-q8_0.gguf", "q4_k_m", FailureKind::Unsupported),
    ] {
        let Err(error) = load(dir.path(), weights, precision) else {
            panic!("{weights} loaded")
        };
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(weights), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
}

#[test]
fn a_window_that_is_not_heeded_is_declared() {
    let dir = model();
    let gap = |architecture: &str| {
        let config = format!(
            r#"{{"model_type": "{architecture}", "sliding_window": 16, "max_position_embeddings": 32}}"#
        );
        std::fs::write(dir.path().join("config.json"), config).unwrap();
        let load = request(dir.path(), "model-q8_0.gguf", "q8_0");
        Frink::hello(&load).capabilities.position_gap
    };
    for architecture in ["mistral", "phi3"] {
        let gap = gap(architecture).unwrap();
        assert!(gap.contains("16 positions"), "{gap}");
    }
    assert_eq!(gap("qwen3"), None);
}

#[test]
fn an_id_outside_the_vocabulary_is_refused_and_the_engine_lives_on() {
    let dir = model();
    let mut engine = loaded(dir.path());
    let outside = spec().vocab_size as u32;
    let refused = engine.prefill(&[&[1, outside]]).unwrap_err();
    assert_eq!(refused.kind, FailureKind::BadRequest);
    engine.prefill(&[&[1, outside - 1]]).unwrap();
    let refused = engine.decode(&[outside]).unwrap_err();
    assert_eq!(refused.kind, FailureKind::BadRequest);
    engine.decode(&[2]).unwrap();
}

#[test]
fn another_backend_is_unsupported() {
    let dir = model();
    let load = Load {
        backend: "cuda".to_string(),
        ..request(dir.path(), "model-q8_0.gguf", "q8_0")
    };
    let error = with(&load).err().unwrap();
    assert_eq!(error.kind, FailureKind::Unsupported);
}
