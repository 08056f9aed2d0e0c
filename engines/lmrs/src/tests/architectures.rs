//! Tests of models of every architecture, written by the generator, against the generator's plain
//! forward pass. They cover names, layouts, shards and arithmetic together.

use super::fixture::How;
use super::whole::{divergence, score};
use crate::weights::Precision;
use models::reference::{Cache, Reference};
use models::{ModelFile, ModelSpec, generate_without_tokenizer, safetensors_file};
use protocol::wire::FailureKind;
use tempfile::TempDir;

/// Number of tokens that are decoded after a prompt and compared.
const DECODED: usize = 8;

/// Reduce layers and ids, so that a test is fast.
fn small(spec: ModelSpec) -> ModelSpec {
    ModelSpec {
        num_layers: 2,
        vocab_size: 512,
        files: vec![ModelFile::Safetensors, ModelFile::GgufQ8_0],
        ..spec
    }
}

fn write(spec: &ModelSpec) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    generate_without_tokenizer(spec, dir.path()).unwrap();
    dir
}

/// Return the generator's logits after each of the last positions.
fn truth(spec: &ModelSpec, file: ModelFile, ids: &[u32]) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (0..ids.len()).collect();
    let reference = Reference::new(spec, file);
    let logits = reference.forward(ids, &positions, &mut Cache::default(), DECODED + 1);
    logits
        .chunks_exact(spec.vocab_size)
        .map(<[f32]>::to_vec)
        .collect()
}

/// Return the largest difference between two lists of logits.
fn worst(ours: &[Vec<f32>], truth: &[Vec<f32>]) -> f32 {
    let pairs = ours.iter().flatten().zip(truth.iter().flatten());
    pairs.fold(0.0f32, |worst, (a, b)| worst.max((a - b).abs()))
}

#[test]
fn every_architecture_gives_what_the_generator_computes() {
    let ids: Vec<u32> = (0..40).map(|i| (i * i * 7 + 3) % 512).collect();
    for spec in [
        ModelSpec::tiny_llama3(),
        ModelSpec::tiny_mistral(),
        ModelSpec::tiny_phi3(),
        ModelSpec::tiny_qwen3(),
        ModelSpec::tiny_sharded(),
    ] {
        let spec = small(spec);
        let dir = write(&spec);
        let mut model = How::plain(Precision::F32).load(dir.path()).unwrap();
        let exact = truth(&spec, ModelFile::Safetensors, &ids);
        let away = worst(&score(&mut model, &ids, DECODED), &exact);
        assert!(away < 1e-3, "{}: {away}", spec.id);
        let mut model = How::plain(Precision::Q8_0).load(dir.path()).unwrap();
        let rounded = truth(&spec, ModelFile::GgufQ8_0, &ids);
        let away = divergence(&rounded, &score(&mut model, &ids, DECODED));
        assert!(away < 1e-3, "{}, q8_0: {away}", spec.id);
    }
}

/// A head of 8 numbers is padded to 16 in the cache, which is no part of a token's keys and values.
#[test]
fn a_padded_head_computes_the_same_and_is_counted_without_its_padding() {
    let ids: Vec<u32> = (0..40).map(|i| (i * i * 7 + 3) % 512).collect();
    let spec = small(ModelSpec {
        head_dim: 8,
        ..ModelSpec::tiny_llama()
    });
    let dir = write(&spec);
    for precision in [Precision::F32, Precision::Q8_0] {
        let model = How::plain(precision).load(dir.path()).unwrap();
        assert_eq!(model.kv_bytes_per_token(), 2 * 2 * 4 * 8 * 4);
    }
    let mut model = How::plain(Precision::F32).load(dir.path()).unwrap();
    let exact = truth(&spec, ModelFile::Safetensors, &ids);
    let away = worst(&score(&mut model, &ids, DECODED), &exact);
    assert!(away < 1e-3, "{away}");
}

#[test]
fn shards_must_all_be_there() {
    let spec = small(ModelSpec::tiny_sharded());
    let dir = write(&spec);
    let shard = &spec.safetensors_names()[1];
    std::fs::remove_file(dir.path().join(shard)).unwrap();
    let error = How::plain(Precision::F32).load(dir.path()).err().unwrap();
    assert_eq!(error.kind, FailureKind::Unavailable);
    assert!(error.message.contains(shard), "{}", error.message);
    // If the index leaves out a shard, its tensors are missing.
    let index = safetensors_file::index_json(&spec).replace(shard, &spec.safetensors_names()[0]);
    std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
    let error = How::plain(Precision::F32).load(dir.path()).err().unwrap();
    assert!(error.message.contains("no tensor"), "{}", error.message);
}

#[test]
fn a_window_shorter_than_the_context_is_refused() {
    let dir = write(&small(ModelSpec::tiny_mistral()));
    let path = dir.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    for (window, fits) in [("299", false), ("300", true)] {
        let windowed = format!("\"sliding_window\": {window}");
        let config = config.replace("\"sliding_window\": null", &windowed);
        assert!(config.contains(&windowed));
        std::fs::write(&path, config).unwrap();
        let loaded = How::plain(Precision::F32).load(dir.path());
        let refused = loaded.err().map(|error| error.message);
        let by_window = |message: &String| message.contains("last 299 positions");
        assert_eq!(refused.is_none(), fits, "{refused:?}");
        assert!(
            fits || refused.as_ref().is_some_and(by_window),
            "{refused:?}"
        );
    }
}
