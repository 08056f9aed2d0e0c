//! Tiny models with random weights, in every layout that the engine reads.

use half::bf16;
use models::config::config_json;
use models::prng::{normal, stream_key};
use models::tensors::{Role, TensorDef, tensors};
use models::{Architecture, ModelSpec};
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
pub struct Tiny {
    pub config: Value,
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Tiny {
    /// Create a tied Llama without biases, with `changes` in its `config.json`. A tensor has the
    /// same weights in every model, and a fused one those of its parts.
    pub fn new(changes: Value) -> Self {
        let named = changes["model_type"].as_str().and_then(Architecture::named);
        let spec = ModelSpec {
            architecture: named.unwrap_or(Architecture::Llama),
            tied: changes["tie_word_embeddings"] != false,
            vocab_size: VOCABULARY,
            hidden_size: HIDDEN,
            intermediate_size: INNER,
            num_layers: LAYERS,
            num_heads: HEADS,
            num_kv_heads: KV_HEADS,
            head_dim: HEAD_DIM,
            ..ModelSpec::tiny_llama()
        };
        let mut config: Value = serde_json::from_str(&config_json(&spec)).unwrap();
        // The generator writes it for some architectures only.
        config["head_dim"] = json!(HEAD_DIM);
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let mut weights = BTreeMap::new();
        for def in tensors(&spec) {
            let has_bias = match def.role {
                Role::Query | Role::Key | Role::Value | Role::AttnOutput => {
                    config["attention_bias"] == true
                }
                Role::Gate | Role::Up | Role::Down => config["mlp_bias"] == true,
                _ => false,
            };
            if has_bias {
                let name = def.name.replace("weight", "bias");
                let bias = random(&name, def.rows, 0.0);
                weights.insert(name, (vec![def.rows], bias));
            }
            weights.insert(def.name.clone(), (def.shape(), values(&def)));
        }
        Self {
            config,
            tensors: weights,
        }
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

/// Return the weights of a tensor; norms lie around 1.
fn values(def: &TensorDef) -> Vec<f32> {
    if !def.parts.is_empty() {
        return def.parts.iter().flat_map(values).collect();
    }
    let mean = if def.is_vector() { 1.0 } else { 0.0 };
    random(&def.name, def.len(), mean)
}

/// Return roughly normal numbers around `mean`, the same for the same name.
fn random(name: &str, count: usize, mean: f32) -> Vec<f32> {
    let key = stream_key(0, name);
    let numbers = (0..count as u64).map(|index| mean + normal(key, index, 0.173));
    numbers.collect()
}
