//! Tests of damaged and missing files: they always give an error of one line, and never a panic.

use super::fixture::{How, Random, tiny, tiny_stored_as};
use crate::weights::Precision;
use protocol::engine::EngineError;
use protocol::wire::FailureKind;
use safetensors::Dtype;
use std::path::Path;

/// The files of weights, each with the precision in which it is loaded.
const FILES: [(Precision, &str); 2] = [
    (Precision::F32, "model.safetensors"),
    (Precision::Q8_0, "model-q8_0.gguf"),
];

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
    for (precision, file) in FILES {
        let error = load(dir.path(), precision).unwrap_err();
        assert_eq!(error.kind, FailureKind::Unavailable);
        check(&error, file);
    }
    let dir = tiny(false, true);
    std::fs::remove_file(dir.path().join("config.json")).unwrap();
    let error = load(dir.path(), Precision::F32).unwrap_err();
    check(&error, "config.json");
}

#[test]
fn truncated_files_are_errors_at_every_length() {
    for (precision, file) in FILES {
        let dir = tiny_stored_as(Dtype::BF16, true, false);
        let path = dir.path().join(file);
        let whole = std::fs::read(&path).unwrap();
        // Many lengths in the header, few in the data. The last tensor of a GGUF file is padded,
        // so its last bytes may be missing.
        let lengths = (0..4300)
            .step_by(37)
            .chain((4300..whole.len() - 32).step_by(9973));
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
    // A file begins with about so many bytes of header.
    for (precision, file, header) in [
        (Precision::F32, "model.safetensors", 2500),
        (Precision::Q8_0, "model-q8_0.gguf", 4200),
    ] {
        let dir = tiny(true, true);
        let path = dir.path().join(file);
        let whole = std::fs::read(&path).unwrap();
        let mut random = Random::new(11);
        let mut refused = 0;
        for _ in 0..300 {
            let mut bytes = whole.clone();
            let at = random.next() as usize % header;
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
    let dir = tiny(false, true);
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
