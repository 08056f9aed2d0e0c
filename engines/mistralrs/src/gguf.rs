//! Reads a GGUF file's header: its architecture and precision, and which of its settings
//! mistral.rs' model would ignore. mistral.rs itself loads the weights.

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Content;
use protocol::panicked::catching;
use protocol::wire::Capabilities;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Add to `capabilities` what the GGUF file's header says. An unreadable file adds nothing: `load`
/// will report what is wrong with it.
pub fn describe(path: &Path, capabilities: &mut Capabilities) {
    let Ok(content) = open(path) else {
        return;
    };
    let mut gaps = Vec::new();
    if content.tensor_infos.contains_key("rope_freqs.weight") {
        gaps.push(
            "mistral.rs' GGUF Llama ignores rope_freqs.weight (Llama 3's RoPE scaling): \
             far positions are wrong"
                .to_string(),
        );
    }
    if content
        .tensor_infos
        .contains_key("rope_factors_long.weight")
    {
        gaps.push(
            "mistral.rs' GGUF Phi-3 ignores rope_factors_long.weight (its RoPE scaling): \
             far positions are wrong"
                .to_string(),
        );
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    if let Some(window) = protocol::sliding_window(dir) {
        gaps.push(format!(
            "mistral.rs' GGUF models have no sliding window, and this model's is {window} \
             positions: beyond it, they attend to too much"
        ));
    }
    capabilities.position_gap = (!gaps.is_empty()).then(|| gaps.join("; "));
}

/// Read a file's header.
pub fn open(path: &Path) -> Result<Content, String> {
    let mut reader = BufReader::new(File::open(path).map_err(|err| err.to_string())?);
    catching(|| Content::read(&mut reader))
}

/// Check that a file has the precision asked for, by the type of most of its weights.
pub fn check_precision(content: &Content, precision: &str) -> Result<(), String> {
    let matrices = content.tensor_infos.iter();
    let matrices = matrices.filter(|(_, info)| info.shape.rank() == 2);
    let held = protocol::main_type(matrices.map(|(name, info)| {
        let kind = format!("{:?}", info.ggml_dtype);
        (name.as_str(), kind, info.shape.elem_count() as u64)
    }));
    protocol::check_precision(&held.ok_or("the file has no layer weights")?, precision)
}

/// Check that mistral.rs has a model of the file's architecture. It would mistake other
/// architectures for one that it has, or panic. Its Phi-3 uses a RoPE base of 10000, whatever the
/// file says.
pub fn check_architecture(content: &Content) -> Result<(), String> {
    let value = |key: &str| content.metadata.get(key);
    let named = value("general.architecture").and_then(|value| value.to_string().ok());
    match named.map(String::as_str) {
        Some("llama" | "qwen3") => Ok(()),
        Some("phi3") => {
            let base = value("phi3.rope.freq_base").and_then(|base| base.to_f32().ok());
            match base.filter(|base| *base != 10_000.0) {
                None => Ok(()),
                Some(base) => Err(format!(
                    "mistral.rs' GGUF Phi-3 takes a RoPE base of 10000, the model's is {base}"
                )),
            }
        }
        other => Err(format!(
            "no architecture {:?} here; there are llama, phi3, qwen3",
            other.unwrap_or("none")
        )),
    }
}

/// Bytes of weights that a decode step reads. Of an embedding that is not also the output head,
/// only single rows are read; weights that are not quantised are held as f32.
pub fn weight_bytes(content: &Content) -> u64 {
    let untied = content.tensor_infos.contains_key("output.weight");
    let unread = |name: &str| name.starts_with("rope_") || untied && name == "token_embd.weight";
    let read = content
        .tensor_infos
        .iter()
        .filter(|(name, _)| !unread(name));
    read.map(|(_, info)| {
        let dtype = match info.ggml_dtype {
            GgmlDType::F16 | GgmlDType::BF16 => GgmlDType::F32,
            held => held,
        };
        (info.shape.elem_count() / dtype.block_size() * dtype.type_size()) as u64
    })
    .sum()
}
