//! Candle's models of GGUF files: `quantized_llama`, `quantized_phi3` and `quantized_qwen3`, each
//! wrapped as a [`Model`]. From a file's header, this module also tells what each of them can't do
//! or would silently compute wrongly.

use crate::model::{Model, Owned};
use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_transformers::models::quantized_llama::{self, MAX_SEQ_LEN};
use candle_transformers::models::{quantized_phi3, quantized_qwen3};
use std::io::{Read, Seek};

/// The RoPE base that `quantized_phi3` uses, whatever the file says.
const PHI3_ROPE_BASE: f32 = 10_000.0;
/// The value of a file's `general.dtype` with which `quantized_qwen3` computes in f32.
const DTYPE_F32: u32 = 0;

/// A file's header, whose keys are looked up under the name of its architecture.
pub struct Header<'a> {
    content: &'a Content,
    /// The file's `general.architecture`. Mistral's files say `llama` too.
    pub architecture: &'a str,
}

impl<'a> Header<'a> {
    /// Wrap the header of a file. A file that names no architecture is treated as a Llama.
    pub fn new(content: &'a Content) -> Self {
        let named = content.metadata.get("general.architecture");
        let architecture = named.and_then(|value| value.to_string().ok());
        Self {
            content,
            architecture: architecture.map_or("llama", String::as_str),
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        let key = format!("{}.{key}", self.architecture);
        self.content.metadata.get(&key)
    }

    /// Return a number that the header must have.
    ///
    /// # Errors
    /// The key that is missing or whose value is not a number.
    pub fn number(&self, key: &str) -> Result<u64, String> {
        let full = format!("{}.{key}", self.architecture);
        let value = self.value(key).ok_or_else(|| format!("no {full} in it"))?;
        let number = value.to_u32().map_err(|err| format!("{full}: {err}"))?;
        Ok(u64::from(number))
    }

    fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    /// Dimension of a head.
    ///
    /// # Errors
    /// The same as those of [`Header::number`].
    pub fn head_dim(&self) -> Result<u64, String> {
        match self.value("attention.key_length") {
            Some(_) => self.number("attention.key_length"),
            None => self.narrow_head_dim(),
        }
    }

    /// Return the head's dimension for a file that doesn't give one.
    fn narrow_head_dim(&self) -> Result<u64, String> {
        Ok(self.number("embedding_length")? / self.number("attention.head_count")?.max(1))
    }

    /// Return why Candle's model can't run the file, or would compute another model from it, if
    /// so.
    pub fn refused(&self) -> Option<String> {
        let named = format!("Candle's quantized_{}", self.architecture);
        match self.architecture {
            "llama" | "phi3" => {}
            "qwen3" => return None,
            other => {
                return Some(format!(
                    "no architecture {other:?} here; there are llama, phi3, qwen3"
                ));
            }
        }
        let narrow = self.narrow_head_dim().ok();
        if self.head_dim().ok() != narrow {
            return Some(format!(
                "{named} knows no key_length other than embedding / heads"
            ));
        }
        let rotated = self.number("rope.dimension_count").ok();
        if rotated.is_some() && rotated != narrow {
            return Some(format!("{named} can't rotate a part of each head"));
        }
        if self.architecture == "llama" {
            return None;
        }
        let base = self.value("rope.freq_base").and_then(|v| v.to_f32().ok());
        if let Some(base) = base.filter(|base| *base != PHI3_ROPE_BASE) {
            return Some(format!(
                "{named} takes a RoPE base of {PHI3_ROPE_BASE}, the model's is {base}"
            ));
        }
        (!self.has("output.weight"))
            .then(|| format!("{named} knows no output head that is the embedding"))
    }

    /// Return the errors of Candle's model that affect only far positions.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.architecture == "llama" && self.has("rope_freqs.weight") {
            gaps.push(
                "Candle's quantized_llama ignores rope_freqs.weight (Llama 3's RoPE scaling): \
                 far positions are wrong",
            );
        }
        if self.architecture == "phi3" && self.has("rope_factors_long.weight") {
            gaps.push(
                "Candle's quantized_phi3 ignores rope_factors_long.weight (its RoPE scaling): \
                 far positions are wrong",
            );
        }
        let dtype = self.content.metadata.get("general.dtype");
        let dtype = dtype.and_then(|dtype| dtype.to_u32().ok());
        if self.architecture == "qwen3" && dtype != Some(DTYPE_F32) {
            gaps.push(
                "Candle's quantized_qwen3 computes its RoPE angles in f16, which is too coarse \
                 for far positions",
            );
        }
        gaps.into_iter().map(str::to_owned).collect()
    }

    /// Return why requests must run one at a time, or `None` if several rows can be computed
    /// together. `is_quantised`: whether the weights are quantised.
    pub fn reason_not_to_batch(&self, is_quantised: bool) -> Option<String> {
        if self.architecture == "qwen3" {
            return Some(
                "One request at a time: on the processor Candle's quantized_qwen3 has a cache \
                 for one row alone."
                    .to_owned(),
            );
        }
        // With several rows, the last position's activations are strided, which Candle's quantised
        // product refuses ("input tensor is not contiguous").
        is_quantised.then(|| {
            format!(
                "One request at a time: Candle's quantized_{} cannot prefill several rows.",
                self.architecture
            )
        })
    }

    /// Number of positions in the model's RoPE table.
    ///
    /// # Errors
    /// The same as those of [`Header::number`].
    pub fn positions(&self) -> Result<usize, String> {
        match self.architecture {
            "llama" => Ok(MAX_SEQ_LEN),
            _ => Ok(self.number("context_length")? as usize),
        }
    }
}

/// Load the model of a file; `architecture` and `positions` are those of its [`Header`].
pub fn load<R: Read + Seek>(
    architecture: &str,
    positions: usize,
    content: Content,
    reader: &mut R,
    device: &Device,
) -> candle_core::Result<Box<dyn Model>> {
    let model: Box<dyn Model> = match architecture {
        "llama" => {
            use quantized_llama::ModelWeights;
            Box::new(Owned {
                model: ModelWeights::from_gguf(content, reader, device)?,
                positions,
                forget: ModelWeights::clear_kv_cache,
                forward: ModelWeights::forward,
            })
        }
        "phi3" => {
            use quantized_phi3::ModelWeights;
            Box::new(Owned {
                // Flash attention in bf16 would not be the precision that the file's name says.
                model: ModelWeights::from_gguf(false, content, reader, device)?,
                positions,
                // The model discards its cache when it is fed from position 0.
                forget: |_| (),
                forward: ModelWeights::forward,
            })
        }
        "qwen3" => {
            use quantized_qwen3::ModelWeights;
            Box::new(Owned {
                model: ModelWeights::from_gguf(content, reader, device)?,
                positions,
                forget: ModelWeights::clear_kv_cache,
                forward: ModelWeights::forward,
            })
        }
        other => candle_core::bail!("no architecture {other:?} here"),
    };
    Ok(model)
}
