//! `candle_transformers::models::llama`: plain weights from safetensors, at f32,
//! f16 or bf16. Weights are converted to the precision asked for while loading.

use crate::engine::{Loading, Model, catching, in_file};
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama, LlamaConfig};
use protocol::engine::EngineError;
use protocol::wire::{FailureKind, Load};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

struct Plain {
    llama: Llama,
    /// Never used, only cloned: its RoPE tables are shared by every clone, and
    /// are the costly part of a `Cache` (there is no way to empty one).
    fresh: Cache,
    cache: Cache,
    positions: usize,
}

impl Model for Plain {
    fn forget(&mut self) {
        self.cache = self.fresh.clone();
    }

    fn forward(&mut self, ids: &Tensor, position: usize) -> candle_core::Result<Tensor> {
        self.llama.forward(ids, position, &mut self.cache)
    }

    fn positions(&self) -> usize {
        self.positions
    }
}

/// Load `config.json` and the weights beside it.
pub fn load(load: &Load, device: &Device) -> Result<Loading, EngineError> {
    let dtype = dtype(&load.precision, device)?;
    let dir = Path::new(&load.model_dir);
    let flash = uses_flash_attention(&load.backend, &load.precision);
    let config = config(&dir.join("config.json"), flash)?;
    let path = dir.join(&load.weights);
    let files = files(&path)?;
    let fault = |message: String| in_file(FailureKind::Internal, &path, message);

    // SAFETY: the benchmark's weight files are not written to while it runs.
    let tensors = catching(|| unsafe { MmapedSafetensors::multi(&files) }).map_err(fault)?;
    let weight_bytes = weight_bytes(&tensors, &config, dtype);
    let (llama, fresh) = catching(|| {
        let weights = VarBuilder::from_backend(Box::new(tensors), dtype, device.clone());
        Ok((
            Llama::load(weights, &config)?,
            Cache::new(true, dtype, &config, device)?,
        ))
    })
    .map_err(fault)?;

    let head_dim = config.hidden_size / config.num_attention_heads;
    let kv_elements = 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim;
    let positions = config.max_position_embeddings;
    Ok(Loading {
        model: Box::new(Plain {
            llama,
            cache: fresh.clone(),
            fresh,
            positions,
        }),
        weight_bytes,
        kv_bytes_per_token: (kv_elements * dtype.size_in_bytes()) as u64,
    })
}

/// Its kernels take 16-bit numbers on CUDA, and are there if they were built in.
pub fn uses_flash_attention(backend: &str, precision: &str) -> bool {
    cfg!(feature = "flash-attn") && backend == "cuda" && matches!(precision, "f16" | "bf16")
}

fn dtype(precision: &str, device: &Device) -> Result<DType, EngineError> {
    match precision {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        "bf16" if device.is_cpu() => Err(EngineError::unsupported(
            "Candle 0.11 has no bf16 matrix product on the CPU",
        )),
        "bf16" => Ok(DType::BF16),
        other => Err(EngineError::unsupported(format!(
            "Candle reads safetensors as f32, f16 or bf16; for {other} give it a GGUF file"
        ))),
    }
}

fn config(path: &Path, flash: bool) -> Result<Config, EngineError> {
    let text =
        std::fs::read_to_string(path).map_err(|err| in_file(FailureKind::Internal, path, err))?;
    let wrong = |err| in_file(FailureKind::Internal, path, err);
    let raw: Value = serde_json::from_str(&text).map_err(wrong)?;
    let config: LlamaConfig = serde_json::from_value(raw.clone()).map_err(wrong)?;
    // What Candle would silently ignore, and then compute another model.
    let hidden = config.hidden_size / config.num_attention_heads.max(1);
    let head_dim = raw.get("head_dim").and_then(Value::as_u64);
    let ignored = if head_dim.is_some_and(|dim| dim != hidden as u64) {
        Some("a head_dim other than hidden_size / num_attention_heads")
    } else if ["attention_bias", "mlp_bias"]
        .iter()
        .any(|key| raw[key] == true)
    {
        Some("biases")
    } else if raw.get("rope_parameters").is_some() && raw.get("rope_theta").is_none() {
        Some("rope_parameters (it wants rope_theta and rope_scaling)")
    } else {
        None
    };
    match ignored {
        Some(what) => {
            let message = format!("Candle's Llama knows no {what}");
            Err(in_file(FailureKind::Unsupported, path, message))
        }
        None => Ok(config.into_config(flash)),
    }
}

/// The file itself, or the shards of an index.
fn files(path: &Path) -> Result<Vec<PathBuf>, EngineError> {
    // A large model's weights are in shards, which an index beside them lists.
    let index = path.with_extension("safetensors.index.json");
    let path = if !path.exists() && index.exists() {
        &index
    } else {
        path
    };
    let fault = |message: String| in_file(FailureKind::Internal, path, message);
    if path
        .extension()
        .is_some_and(|extension| extension == "safetensors")
    {
        return Ok(vec![path.to_path_buf()]);
    }
    if path.extension().is_none_or(|extension| extension != "json") {
        let message = "neither .safetensors, nor its .index.json, nor .gguf";
        return Err(in_file(FailureKind::Unsupported, path, message));
    }
    let text = std::fs::read_to_string(path).map_err(|err| fault(err.to_string()))?;
    let index: Value = serde_json::from_str(&text).map_err(|err| fault(err.to_string()))?;
    let map = index["weight_map"]
        .as_object()
        .ok_or_else(|| fault("no weight_map".to_string()))?;
    let shards: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    Ok(shards
        .into_iter()
        .map(|shard| path.with_file_name(shard))
        .collect())
}

/// What a decode step reads: every weight, but of an embedding that is not also
/// the output head only single rows.
fn weight_bytes(tensors: &MmapedSafetensors, config: &Config, dtype: DType) -> u64 {
    let unread = if config.tie_word_embeddings {
        "lm_head.weight"
    } else {
        "model.embed_tokens.weight"
    };
    let read = tensors.tensors().into_iter();
    let read = read.filter(|(name, _)| name.ends_with(".weight") && name != unread);
    let elements: usize = read
        .map(|(_, view)| view.shape().iter().product::<usize>())
        .sum();
    (elements * dtype.size_in_bytes()) as u64
}
