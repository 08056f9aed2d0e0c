//! Opens GGUF files of any type, describes them from their header, and checks that they have the
//! precision asked for. [`crate::quantised`] chooses Candle's model for a file.

use crate::model::Model;
use crate::quantised::Header;
use crate::{config, quantised};
use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Content;
use protocol::engine::EngineError;
use protocol::panicked::catching;
use protocol::wire::{Batching, Capabilities, Load, Loaded};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Add to `capabilities` what the GGUF file's header says. An unreadable file adds nothing: `load`
/// will report what is wrong with it.
pub fn describe(load: &Load, capabilities: &mut Capabilities) {
    let Ok((_, content)) = open(&load.weights_path()) else {
        return;
    };
    let header = Header::new(&content);
    let mut gaps = header.gaps();
    // Mistral's GGUF files don't say that it has a sliding window.
    gaps.extend(config::window_gap_of(Path::new(&load.model_dir)));
    capabilities.position_gap = (!gaps.is_empty()).then(|| gaps.join("; "));
    let is_quantised = !matches!(main_type(&content).as_deref(), Some("F32" | "F16" | "BF16"));
    if !is_quantised {
        let note = "Unquantised GGUF weights are f32 in memory.".to_string();
        capabilities.notes.push(note);
    }
    if let Some(why) = header.reason_not_to_batch(is_quantised) {
        capabilities.batching = Batching::None;
        capabilities.notes.push(why);
    }
    if let Ok(positions) = header.positions() {
        let note = format!("GGUF: at most {positions} positions.");
        capabilities.notes.push(note);
    }
}

/// Load a GGUF file.
pub fn load(load: &Load, device: &Device) -> Result<(Box<dyn Model>, Loaded), EngineError> {
    let path = load.weights_path();
    let fault = |why: String| EngineError::of_library(why).in_file(&path);
    let unsupported = |why: String| EngineError::unsupported(why).in_file(&path);
    let (mut reader, content) =
        open(&path).map_err(|why| EngineError::unavailable(why).in_file(&path))?;
    check_precision(&content, &load.precision).map_err(unsupported)?;
    let header = Header::new(&content);
    if let Some(why) = header.refused() {
        return Err(unsupported(why));
    }
    let loaded = Loaded {
        weight_bytes: weight_bytes(&content),
        kv_bytes_per_token: kv_bytes_per_token(&header).map_err(fault)?,
        ..Loaded::default()
    };
    let positions = header.positions().map_err(fault)?;
    let architecture = header.architecture.to_owned();
    let model =
        catching(|| quantised::load(&architecture, positions, content, &mut reader, device));
    Ok((model.map_err(fault)?, loaded))
}

fn open(path: &Path) -> Result<(BufReader<File>, Content), String> {
    let mut reader = BufReader::new(File::open(path).map_err(|err| err.to_string())?);
    let content = catching(|| Content::read(&mut reader))?;
    Ok((reader, content))
}

/// Return the type of most of the layers' weights, as Candle names it (`Q8_0`, `Q4K`).
fn main_type(content: &Content) -> Option<String> {
    let matrices = content.tensor_infos.iter();
    let matrices = matrices.filter(|(_, info)| info.shape.rank() == 2);
    protocol::main_type(matrices.map(|(name, info)| {
        let kind = format!("{:?}", info.ggml_dtype);
        (name.as_str(), kind, info.shape.elem_count() as u64)
    }))
}

/// Check that a file has the precision asked for, by the type of most of its weights.
fn check_precision(content: &Content, precision: &str) -> Result<(), String> {
    let held = main_type(content).ok_or("the file has no layer weights")?;
    protocol::check_precision(&held, precision)
}

/// Bytes of weights that a decode step reads. Of an embedding that is not also the output head,
/// only single rows are read; weights that are not quantised are held as f32.
fn weight_bytes(content: &Content) -> u64 {
    let untied = content.tensor_infos.contains_key("output.weight");
    let unread = |name: &str| name.starts_with("rope_") || untied && name == "token_embd.weight";
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

/// Bytes of key/value cache per token. Keys and values are f32, whatever the weights are.
fn kv_bytes_per_token(header: &Header) -> Result<u64, String> {
    let heads = header.number("attention.head_count_kv")?;
    Ok(2 * 4 * header.number("block_count")? * heads * header.head_dim()?)
}
