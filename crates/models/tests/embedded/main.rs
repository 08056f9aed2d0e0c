//! Tests of the models that the harness makes: that their bytes are the same everywhere (here), and
//! that they behave like models.
//!
//! The same spec must give the same bytes with any number of threads, in every process and, by the
//! pinned hashes, on every machine.

mod behaviour;

use models::{ModelSpec, Origin, generate};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The SHA-256 of each file, by name.
fn hashes(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let digest = Sha256::digest(fs::read(entry.path()).unwrap());
            let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            (entry.file_name().into_string().unwrap(), hex)
        })
        .collect()
}

fn made_with(spec: &ModelSpec, threads: usize) -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let told = pool.install(|| {
        let mut told = Vec::new();
        let mut tell = |_: &str, fraction| {
            told.push(fraction);
            true
        };
        generate(spec, Origin::Seed, dir.path(), &mut tell).unwrap();
        told
    });
    assert!(
        told.is_sorted() && told.last() == Some(&1.0),
        "progress only grows, to 1"
    );
    hashes(dir.path())
}

#[test]
fn bytes_do_not_depend_on_threads_or_machine() {
    let spec = ModelSpec::tiny_llama();
    let one = made_with(&spec, 1);
    assert_eq!(one, made_with(&spec, 3));
    let names: Vec<&str> = one.keys().map(String::as_str).collect();
    let mut expected = spec.file_names();
    expected.sort_unstable();
    assert_eq!(names, expected, "all files and no leftovers");

    // If you mean to change the models, change these, and make the golden files again.
    for (name, start) in [
        ("tokenizer.json", "0b0946e5680d7508"),
        ("model.safetensors", "e82883e8bf3e513b"),
        ("model-q8_0.gguf", "5b1d7e19955d41c1"),
        ("model-q4_k_m.gguf", "1abeef7152030d43"),
    ] {
        assert!(one[name].starts_with(start), "{name} is {}", one[name]);
    }
}

#[test]
fn making_a_model_ends_when_it_is_told_to() {
    let spec = ModelSpec::tiny_llama();
    let dir = tempfile::tempdir().unwrap();
    let ended = generate(&spec, Origin::Seed, dir.path(), &mut |_, share| share < 0.1);
    assert!(format!("{:#}", ended.unwrap_err()).ends_with("interrupted"));
    let made = hashes(dir.path()).len();
    assert!(made < spec.file_names().len(), "{made} files");
}

/// Checks that every tensor of the model is in the file that the index names, as transformers reads
/// them.
#[test]
fn shards_and_their_index_are_a_model() {
    let spec = ModelSpec::tiny_sharded();
    let spec = ModelSpec {
        files: vec![models::ModelFile::Safetensors],
        ..spec
    };
    let dir = tempfile::tempdir().unwrap();
    generate(&spec, Origin::Seed, dir.path(), &mut |_, _| true).unwrap();
    let mut expected = spec.file_names();
    expected.sort_unstable();
    let names: Vec<String> = hashes(dir.path()).into_keys().collect();
    assert_eq!(names, expected);
    let index = fs::read(dir.path().join("model.safetensors.index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    for (tensor, file) in index["weight_map"].as_object().unwrap() {
        let bytes = fs::read(dir.path().join(file.as_str().unwrap())).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert!(file.tensor(tensor).is_ok(), "{tensor}");
    }
}
