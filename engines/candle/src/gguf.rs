//! `candle_transformers::models::quantized_llama`: GGUF files of any type. What
//! that model cannot do is declared in `hello`, from the file's header.

use crate::engine::{Loading, Model, catching, in_file};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::{MAX_SEQ_LEN, ModelWeights};
use protocol::engine::EngineError;
use protocol::wire::{Batching, Capabilities, FailureKind, Load};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

impl Model for ModelWeights {
    fn forget(&mut self) {
        self.clear_kv_cache();
    }

    fn forward(&mut self, ids: &Tensor, position: usize) -> candle_core::Result<Tensor> {
        ModelWeights::forward(self, ids, position)
    }

    fn positions(&self) -> usize {
        MAX_SEQ_LEN
    }
}

/// Add to `capabilities` what a GGUF file brings with it. An unreadable file
/// adds nothing: `load` will say what is wrong with it.
pub fn describe(load: &Load, capabilities: &mut Capabilities) {
    let Ok((_, content)) = open(&path(load)) else {
        return;
    };
    if content.tensor_infos.contains_key("rope_freqs.weight") {
        capabilities.position_gap = Some(
            "Candle's quantized_llama ignores rope_freqs.weight (Llama 3's RoPE scaling): \
             far positions are wrong"
                .to_string(),
        );
    }
    if matches!(
        main_type(&content),
        Some(GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16)
    ) {
        capabilities
            .notes
            .push("Unquantised GGUF weights are f32 in memory.".to_string());
    } else {
        // The last position's activations of several rows are strided, which
        // Candle's quantised product refuses ("input tensor is not contiguous").
        capabilities.batching = Batching::None;
        capabilities.notes.push(
            "One request at a time: Candle's quantized_llama cannot prefill several rows."
                .to_string(),
        );
    }
    capabilities
        .notes
        .push(format!("GGUF: at most {MAX_SEQ_LEN} positions."));
}

/// Load a GGUF file.
pub fn load(load: &Load, device: &Device) -> Result<Loading, EngineError> {
    let path = path(load);
    let fault = |message: String| in_file(FailureKind::Internal, &path, message);
    let (mut reader, content) = open(&path).map_err(fault)?;
    check_precision(&content, &load.precision)
        .map_err(|message| in_file(FailureKind::Unsupported, &path, message))?;
    let weight_bytes = weight_bytes(&content);
    let kv_bytes_per_token = kv_bytes_per_token(&content).map_err(fault)?;
    let model =
        catching(|| ModelWeights::from_gguf(content, &mut reader, device)).map_err(fault)?;
    Ok(Loading {
        model: Box::new(model),
        weight_bytes,
        kv_bytes_per_token,
    })
}

fn path(load: &Load) -> PathBuf {
    Path::new(&load.model_dir).join(&load.weights)
}

fn open(path: &Path) -> Result<(BufReader<File>, Content), String> {
    let mut reader = BufReader::new(File::open(path).map_err(|err| err.to_string())?);
    let content = catching(|| Content::read(&mut reader))?;
    Ok((reader, content))
}

/// The type of most weights in the layers.
fn main_type(content: &Content) -> Option<GgmlDType> {
    let mut elements: BTreeMap<String, (usize, GgmlDType)> = BTreeMap::new();
    for (name, info) in &content.tensor_infos {
        if name.starts_with("blk.") && info.shape.rank() == 2 {
            let key = format!("{:?}", info.ggml_dtype);
            elements.entry(key).or_insert((0, info.ggml_dtype)).0 += info.shape.elem_count();
        }
    }
    elements
        .into_values()
        .max_by_key(|(elements, _)| *elements)
        .map(|(_, dtype)| dtype)
}

/// A file of another precision would be timed under a wrong name. Mixtures like
/// `q4_k_m` go by what most of their weights are.
fn check_precision(content: &Content, precision: &str) -> Result<(), String> {
    let dtype = main_type(content).ok_or("no weights of a Llama in it")?;
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    let held = format!("{dtype:?}");
    if plain(precision).starts_with(&plain(&held)) {
        return Ok(());
    }
    Err(format!("its weights are {held}, not {precision}"))
}

/// What a decode step reads: of an embedding that is not also the output head
/// only single rows; what is not quantised is held as f32.
fn weight_bytes(content: &Content) -> u64 {
    let untied = content.tensor_infos.contains_key("output.weight");
    let unread = |name: &str| name == "rope_freqs.weight" || untied && name == "token_embd.weight";
    let read = content
        .tensor_infos
        .iter()
        .filter(|(name, _)| !unread(name));
    read.map(|(_, info)| {
        let dtype = match info.ggml_dtype {
            GgmlDType::F16 | GgmlDType::BF16 => GgmlDType::F32,
            quantised => quantised,
        };
        (info.shape.elem_count() / dtype.block_size() * dtype.type_size()) as u64
    })
    .sum()
}

/// Keys and values are f32 whatever the weights are.
fn kv_bytes_per_token(content: &Content) -> Result<u64, String> {
    let number = |key: &str| {
        let value = content.metadata.get(key).map(Value::to_u32);
        let value = value.ok_or_else(|| format!("no {key} in it"))?;
        value.map(u64::from).map_err(|err| format!("{key}: {err}"))
    };
    let head_dim = number("llama.embedding_length")? / number("llama.attention.head_count")?.max(1);
    Ok(2 * 4 * number("llama.block_count")? * number("llama.attention.head_count_kv")? * head_dim)
}
