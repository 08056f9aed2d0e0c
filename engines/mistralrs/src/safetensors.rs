//! Computes how much of the safetensors files a decode step reads, from their headers and
//! `config.json`. mistral.rs itself loads the weights.

use protocol::engine::EngineError;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest header that is accepted. No real one is longer, and an allocation must not be sized by
/// the first eight bytes of a wrong file.
const HEADER_BYTES_MAX: u64 = 100 << 20;

/// Return the bytes of weights that a decode step reads, at `element_bytes` each. `quantised`
/// (bytes, per elements) is the size of what in-situ quantisation makes smaller: every linear
/// layer, but not an output head that is also the embedding.
pub fn weight_bytes(
    files: &[PathBuf],
    config: &Path,
    element_bytes: u64,
    quantised: Option<(u64, u64)>,
) -> Result<u64, EngineError> {
    let tied = json(config)?["tie_word_embeddings"] == true;
    // Of an embedding that is not also the output head, only single rows are read.
    let unread = if tied {
        "lm_head.weight"
    } else {
        "model.embed_tokens.weight"
    };
    let mut total = 0;
    for file in files {
        let header = header(file)?;
        let tensors = header.as_object().into_iter().flatten();
        for (name, tensor) in tensors.filter(|(name, _)| name.ends_with(".weight")) {
            if name == unread {
                continue;
            }
            let shape = tensor["shape"].as_array().into_iter().flatten();
            let elements: u64 = shape.filter_map(Value::as_u64).product();
            let linear = name.ends_with("_proj.weight") || name == "lm_head.weight";
            total += match quantised {
                Some((bytes, per)) if linear => elements / per * bytes,
                _ => elements * element_bytes,
            };
        }
    }
    Ok(total)
}

/// Return the number of key/value elements per position.
pub fn kv_elements(config: &Path) -> Result<u64, EngineError> {
    let values = json(config)?;
    let number = |key: &str| {
        values[key]
            .as_u64()
            .ok_or_else(|| EngineError::internal(format!("no {key}")).in_file(config))
    };
    let heads = number("num_attention_heads")?;
    let head_dim = match values["head_dim"].as_u64() {
        Some(head_dim) => head_dim,
        None => number("hidden_size")? / heads.max(1),
    };
    let kv_heads = values["num_key_value_heads"].as_u64().unwrap_or(heads);
    Ok(2 * number("num_hidden_layers")? * kv_heads * head_dim)
}

fn header(path: &Path) -> Result<Value, EngineError> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX {
            return Err(std::io::Error::other(format!("a header of {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header)?;
        Ok(header)
    };
    parsed(path, read())
}

fn json(path: &Path) -> Result<Value, EngineError> {
    parsed(path, std::fs::read(path))
}

/// Parse the JSON that was read from the file at `path`.
fn parsed(path: &Path, text: std::io::Result<Vec<u8>>) -> Result<Value, EngineError> {
    let text = text.map_err(|err| EngineError::internal(err).in_file(path))?;
    serde_json::from_slice(&text).map_err(|err| EngineError::internal(err).in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempDir;

    #[test]
    fn only_what_a_step_reads_is_counted() {
        let dir = TempDir::new();
        let tensor = |shape: &[u64]| serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [0, 0]});
        let header = serde_json::json!({
            "__metadata__": {"format": "pt"},
            "model.embed_tokens.weight": tensor(&[10, 32]),
            "model.norm.weight": tensor(&[32]),
            "model.layers.0.self_attn.q_proj.weight": tensor(&[32, 32]),
            "lm_head.weight": tensor(&[10, 32]),
        })
        .to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        let weights = dir.path().join("model.safetensors");
        std::fs::write(&weights, bytes).unwrap();
        let config = dir.path().join("config.json");
        let count = |tied: bool, quantised| {
            let text = serde_json::json!({ "tie_word_embeddings": tied }).to_string();
            std::fs::write(&config, text).unwrap();
            weight_bytes(std::slice::from_ref(&weights), &config, 2, quantised).unwrap()
        };
        assert_eq!(count(true, None), (320 + 32 + 1024) * 2);
        assert_eq!(count(false, None), (320 + 32 + 1024) * 2);
        // 34 bytes for 32 weights; a tied head keeps its two bytes per weight.
        assert_eq!(count(true, Some((34, 32))), (320 + 32) * 2 + 1024 / 32 * 34);
        assert_eq!(
            count(false, Some((34, 32))),
            32 * 2 + (320 + 1024) / 32 * 34
        );
    }

    #[test]
    fn a_head_may_be_of_another_size() {
        let dir = TempDir::new();
        let config = dir.path().join("config.json");
        let mut values = serde_json::json!({
            "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_hidden_layers": 3,
        });
        std::fs::write(&config, values.to_string()).unwrap();
        assert_eq!(kv_elements(&config).unwrap(), 2 * 3 * 2 * 16);
        values["head_dim"] = serde_json::json!(32);
        std::fs::write(&config, values.to_string()).unwrap();
        assert_eq!(kv_elements(&config).unwrap(), 2 * 3 * 2 * 32);
    }
}
