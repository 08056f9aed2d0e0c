//! Small models that the generator writes, one of each architecture, as safetensors and as GGUF.

use candle_core::Device;
use candle_core::quantized::gguf_file::{self, Content, Value};
use models::{Architecture, ModelFile, ModelSpec, generate_without_tokenizer};
use serde_json::json;
use std::fs::File;
use std::path::Path;

/// The architectures, by their `model_type`.
pub const ALL: [&str; 4] = ["llama", "mistral", "phi3", "qwen3"];

/// Return the embedded model `tiny-<kind>` with smaller dimensions, so that a test is fast.
pub fn spec(kind: &str) -> ModelSpec {
    let spec = ModelSpec::named(&format!("tiny-{kind}")).unwrap();
    ModelSpec {
        vocab_size: 128,
        hidden_size: 64,
        intermediate_size: 96,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        // A Qwen3's remains wider than hidden / heads.
        head_dim: spec.head_dim / 4,
        max_position: 32,
        files: vec![
            ModelFile::Safetensors,
            ModelFile::GgufF32,
            ModelFile::GgufQ8_0,
        ],
        ..spec
    }
}

/// Create a directory with the `config.json` and the files of `spec(kind)`.
pub fn model(kind: &str) -> tempfile::TempDir {
    write(&spec(kind))
}

/// Create a directory with the `config.json` and the files of a model.
pub fn write(spec: &ModelSpec) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    generate_without_tokenizer(spec, dir.path()).unwrap();
    // Some models have several of these ids; the generator writes one.
    configure(dir.path(), json!({"eos_token_id": [1, 2]}));
    if spec.architecture == Architecture::Qwen3 {
        for file in [ModelFile::GgufF32, ModelFile::GgufQ8_0] {
            state_f32(&dir.path().join(file.name()));
        }
    }
    dir
}

/// Change fields of a model's `config.json`.
pub fn configure(dir: &Path, change: serde_json::Value) {
    let path = dir.join("config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (key, value) in change.as_object().unwrap() {
        config[key] = value.clone();
    }
    std::fs::write(path, config.to_string()).unwrap();
}

/// Add the key `general.dtype` to a GGUF file: its 0 says f32, and without the key quantized_qwen3
/// computes in f16.
fn state_f32(path: &Path) {
    let mut file = File::open(path).unwrap();
    let mut content = Content::read(&mut file).unwrap();
    let dtype = Value::U32(0);
    content.metadata.insert("general.dtype".to_string(), dtype);
    let metadata = content.metadata.iter();
    let metadata: Vec<_> = metadata.map(|(key, value)| (key.as_str(), value)).collect();
    let read = |name| content.tensor(&mut file, name, &Device::Cpu).unwrap();
    let names: Vec<&str> = content.tensor_infos.keys().map(String::as_str).collect();
    let tensors: Vec<_> = names.iter().copied().map(read).collect();
    let tensors: Vec<_> = names.into_iter().zip(&tensors).collect();
    gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
}
