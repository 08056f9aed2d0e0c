//! Tiny models with random weights, in every layout that the engine reads.

use half::bf16;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub const HIDDEN: usize = 64;
pub const INNER: usize = 96;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
/// Deliberately not hidden / heads, because the two may differ.
pub const HEAD_DIM: usize = 24;
pub const LAYERS: usize = 2;
pub const VOCABULARY: usize = 128;

/// A model: its `config.json`, and its tensors by their Hugging Face names.
#[derive(Clone)]
pub struct Tiny {
    pub config: Value,
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Tiny {
    /// Create a tied Llama without biases, with the changes in `config`.
    pub fn new(config: Value) -> Self {
        let mut whole = json!({
            "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
            "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "tie_word_embeddings": true,
        });
        for (key, value) in config.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let mut tiny = Self {
            config: whole,
            tensors: BTreeMap::new(),
        };
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        tiny.add("model.embed_tokens.weight", &[VOCABULARY, HIDDEN]);
        tiny.add("model.norm.weight", &[HIDDEN]);
        if tiny.config["tie_word_embeddings"] == false {
            tiny.add("lm_head.weight", &[VOCABULARY, HIDDEN]);
        }
        let has_qk_norm = tiny.config["model_type"] == "qwen3";
        for layer in 0..LAYERS {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            if has_qk_norm {
                tiny.add(&name("self_attn.q_norm.weight"), &[HEAD_DIM]);
                tiny.add(&name("self_attn.k_norm.weight"), &[HEAD_DIM]);
            }
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                tiny.add(&name(&format!("{norm}.weight")), &[HIDDEN]);
            }
            for (part, out, input, flag) in [
                ("self_attn.q_proj", q, HIDDEN, "attention_bias"),
                ("self_attn.k_proj", kv, HIDDEN, "attention_bias"),
                ("self_attn.v_proj", kv, HIDDEN, "attention_bias"),
                ("self_attn.o_proj", HIDDEN, q, "attention_bias"),
                ("mlp.gate_proj", INNER, HIDDEN, "mlp_bias"),
                ("mlp.up_proj", INNER, HIDDEN, "mlp_bias"),
                ("mlp.down_proj", HIDDEN, INNER, "mlp_bias"),
            ] {
                tiny.add(&name(&format!("{part}.weight")), &[out, input]);
                if tiny.config[flag] == true {
                    tiny.add(&name(&format!("{part}.bias")), &[out]);
                }
            }
        }
        tiny
    }

    /// Add a tensor of random numbers within ±0.3 from a linear congruential generator seeded by
    /// the name; norms lie around 1.
    fn add(&mut self, name: &str, shape: &[usize]) {
        let mut state = name.bytes().fold(7u64, |state, byte| {
            state.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(byte)
        });
        let offset = if name.contains("norm") { 1.0 } else { 0.0 };
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 * 0.6 - 0.3 + offset
        };
        let values = (0..shape.iter().product()).map(|_| next()).collect();
        self.tensors
            .insert(name.to_string(), (shape.to_vec(), values));
    }

    /// Return the same model with the fused tensors of a Phi-3.
    pub fn fused(&self) -> Self {
        let mut fused = self.clone();
        fused.config["model_type"] = json!("phi3");
        for layer in 0..LAYERS {
            for (block, whole, parts) in [
                ("self_attn", "qkv_proj", &["q_proj", "k_proj", "v_proj"][..]),
                ("mlp", "gate_up_proj", &["gate_proj", "up_proj"][..]),
            ] {
                let name = |part: &str| format!("model.layers.{layer}.{block}.{part}.weight");
                let (mut rows, mut values) = (0, Vec::new());
                for part in parts {
                    let (shape, part) = fused.tensors.remove(&name(part)).unwrap();
                    rows += shape[0];
                    values.extend(part);
                }
                fused
                    .tensors
                    .insert(name(whole), (vec![rows, HIDDEN], values));
            }
        }
        fused
    }

    /// Round every weight to bf16, the precision of most published files.
    pub fn rounded(mut self) -> Self {
        for (_, values) in self.tensors.values_mut() {
            values
                .iter_mut()
                .for_each(|v| *v = bf16::from_f32(*v).to_f32());
        }
        self
    }

    /// Write `config.json` and `model.safetensors` into a temporary directory.
    pub fn write(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), self.config.to_string()).unwrap();
        self.write_tensors(&dir.path().join("model.safetensors"), Dtype::F32, |_| true);
        dir
    }

    /// Write the tensors whose names pass, as `dtype` (f32 or bf16).
    pub fn write_tensors(&self, path: &Path, dtype: Dtype, passes: impl Fn(&str) -> bool) {
        let bytes = |values: &[f32]| -> Vec<u8> {
            match dtype {
                Dtype::BF16 => values
                    .iter()
                    .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
                    .collect(),
                _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            }
        };
        let chosen = self.tensors.iter().filter(|(name, _)| passes(name));
        let chosen: Vec<_> = chosen
            .map(|(name, (shape, v))| (name, shape, bytes(v)))
            .collect();
        let views = chosen.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
            (name.as_str(), view)
        });
        safetensors::serialize_to_file(views, None, path).unwrap();
    }
}
