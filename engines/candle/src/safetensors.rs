//! Loads unquantised weights from safetensors, in one file or in shards, at f32, f16 or bf16. They
//! are converted to the precision asked for while loading; [`crate::plain`] chooses Candle's model
//! for them.

use crate::config;
use crate::model::Model;
use crate::plain::Config;
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use protocol::engine::EngineError;
use protocol::panicked::catching;
use protocol::wire::{Batching, Capabilities, Load, Loaded};
use std::path::Path;

/// Add to `capabilities` what is known of the model before it is loaded. A `config.json` that
/// can't be read adds nothing: `load` will report what is wrong with it.
pub fn describe(load: &Load, capabilities: &mut Capabilities) {
    let dir = Path::new(&load.model_dir);
    let Ok(json) = config::read(dir) else {
        return;
    };
    let kind = config::architecture(&json);
    // Candle's phi3 doesn't use flash attention.
    if uses_flash_attention(&load.backend, &load.precision) && kind != "phi3" {
        let note = "Attention by candle-flash-attn.".to_string();
        capabilities.notes.push(note);
    }
    // Measured with tiny-llama on two cores: a step of one row takes 1.1 ms, of two to eight rows
    // 12 to 14 ms.
    if load.backend == "cpu" && load.precision == "f16" {
        capabilities.batching = Batching::None;
        let note = "One request at a time: on a processor, a step of several rows in f16 takes \
                    Candle longer than the rows one after another.";
        capabilities.notes.push(note.to_string());
    }
    if load.backend == "cpu" && !cfg!(feature = "mkl") {
        let note = "A product of one row runs on one thread, however many there are, and a token of \
                    one request is made of such products: the crate gemm, which Candle calls for \
                    them, does it so (`gemv` in gemm-common 0.19).";
        capabilities.notes.push(note.to_string());
    }
    let mut gaps: Vec<String> = config::window_gap_of(dir).into_iter().collect();
    if kind == "phi3" && load.precision != "f32" {
        gaps.push(format!(
            "Candle's phi3 computes its RoPE angles in {}, which is too coarse for far positions",
            load.precision
        ));
    }
    capabilities.position_gap = (!gaps.is_empty()).then(|| gaps.join("; "));
}

/// Load `config.json` and the weights beside it.
pub fn load(load: &Load, device: &Device) -> Result<(Box<dyn Model>, Loaded), EngineError> {
    let dtype = dtype(&load.precision, device)?;
    let dir = Path::new(&load.model_dir);
    let flash = uses_flash_attention(&load.backend, &load.precision);
    let config = Config::read(&config::read(dir)?, flash)
        .map_err(|err| err.in_file(&dir.join("config.json")))?;
    let files = protocol::only_safetensors(dir, &load.weights)?;
    // With several files, it isn't known which of them an error is about.
    let path = match files.as_slice() {
        [file] => file.clone(),
        _ => load.weights_path(),
    };
    let fault = |why: String| EngineError::of_library(why).in_file(&path);

    // SAFETY: the benchmark's weight files are not written to while it runs.
    let tensors = catching(|| unsafe { MmapedSafetensors::multi(&files) }).map_err(fault)?;
    let loaded = Loaded {
        weight_bytes: weight_bytes(&tensors, config.is_tied(), dtype),
        kv_bytes_per_token: (config.kv_elements() * dtype.size_in_bytes()) as u64,
        ..Loaded::default()
    };
    let model = catching(|| {
        let weights = VarBuilder::from_backend(Box::new(tensors), dtype, device.clone());
        config.load(weights, dtype, device)
    })
    .map_err(fault)?;
    Ok((model, loaded))
}

/// Whether flash attention is used: its kernels need 16-bit numbers on CUDA, and the Cargo
/// feature.
fn uses_flash_attention(backend: &str, precision: &str) -> bool {
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

/// Bytes that a decode step reads: all weights, except that of an embedding that is not also the
/// output head only single rows are read.
fn weight_bytes(tensors: &MmapedSafetensors, tied: bool, dtype: DType) -> u64 {
    let unread = if tied {
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
