//! Tests of damaged and missing files: they always give an error of one line, and never a panic.

use super::fixture::{How, Random, Storage, Tiny};
use crate::weights::Precision;
use protocol::engine::EngineError;
use protocol::wire::FailureKind;
use std::path::Path;

fn load(dir: &Path, precision: Precision) -> Result<(), EngineError> {
    How {
        threads: 1,
        ..How::plain(precision)
    }
    .load(dir)
    .map(drop)
}

fn check(error: &EngineError, file: &str) {
    let message = &error.message;
    assert!(
        message.contains(file) && !message.contains('\n'),
        "{message}"
    );
}

#[test]
fn missing_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (precision, file) in [
        (Precision::F32, "model.safetensors"),
        (Precision::Q8_0, "model-q8_0.gguf"),
    ] {
        let error = load(dir.path(), precision).unwrap_err();
        assert_eq!(error.kind, FailureKind::Unavailable);
        check(&error, file);
    }
    Tiny::new(false, true).write_safetensors(dir.path(), Storage::F32);
    std::fs::remove_file(dir.path().join("config.json")).unwrap();
    let error = load(dir.path(), Precision::F32).unwrap_err();
    check(&error, "config.json");
}

#[test]
fn truncated_files_are_errors_at_every_length() {
    for (precision, file) in [
        (Precision::F32, "model.safetensors"),
        (Precision::Q8_0, "model-q8_0.gguf"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let tiny = Tiny::new(true, false);
        tiny.write_safetensors(dir.path(), Storage::Bf16);
        tiny.write_gguf(dir.path());
        let path = dir.path().join(file);
        let whole = std::fs::read(&path).unwrap();
        // Many lengths in the header, few in the data. The last tensor of a GGUF file is padded,
        // so its last bytes may be missing.
        let lengths = (0..3000)
            .step_by(37)
            .chain((3000..whole.len() - 32).step_by(9973));
        for length in lengths.chain([whole.len() - 33]) {
            std::fs::write(&path, &whole[..length]).unwrap();
            check(&load(dir.path(), precision).unwrap_err(), file);
        }
        std::fs::write(&path, &whole).unwrap();
        load(dir.path(), precision).unwrap();
    }
}

#[test]
fn flipped_header_bytes_never_panic() {
    for (precision, file) in [
        (Precision::F32, "model.safetensors"),
        (Precision::Q8_0, "model-q8_0.gguf"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let tiny = Tiny::new(true, true);
        tiny.write_safetensors(dir.path(), Storage::F32);
        tiny.write_gguf(dir.path());
        let path = dir.path().join(file);
        let whole = std::fs::read(&path).unwrap();
        let mut random = Random::new(11);
        let mut refused = 0;
        for _ in 0..300 {
            let mut bytes = whole.clone();
            let at = random.next() as usize % 2500;
            bytes[at] ^= 1 << (random.next() % 8);
            std::fs::write(&path, &bytes).unwrap();
            // Some bit flips only change a number that nothing depends on.
            if let Err(error) = load(dir.path(), precision) {
                assert!(!error.message.contains('\n'), "{}", error.message);
                refused += 1;
            }
        }
        assert!(refused > 100, "{refused}");
    }
}

#[test]
fn a_config_of_another_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Tiny::new(false, true).write_safetensors(dir.path(), Storage::F32);
    let path = dir.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        config.replace("\"vocab_size\": 72", "\"vocab_size\": 73"),
    )
    .unwrap();
    let error = load(dir.path(), Precision::F32).unwrap_err();
    check(&error, "model.embed_tokens.weight");
    assert!(error.message.contains("[72, 64]") && error.message.contains("[73, 64]"));
}
