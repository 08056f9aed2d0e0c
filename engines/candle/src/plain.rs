//! Candle's models of plain weights: `llama`, `mistral`, `phi3` and `qwen3` of
//! `candle_transformers::models`, each as one [`Model`]. They differ in who keeps the
//! key/value cache, and in the shape and type of the logits.

use crate::config;
use crate::model::Model;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use candle_transformers::models::{llama, mistral, phi3, qwen3};
use protocol::wire::FailureKind;
use serde_json::Value;

/// A `config.json` as the model of its architecture reads it.
pub enum Config {
    /// `llama`
    Llama(llama::Config),
    /// `mistral`
    Mistral(mistral::Config),
    /// `phi3`
    Phi3(phi3::Config),
    /// `qwen3`
    Qwen3(qwen3::Config),
}

impl Config {
    /// Read it. `flash`: use flash attention where the model can.
    ///
    /// # Errors
    /// What sort and why, where Candle has no such model, or its model would ignore
    /// something that `json` says.
    pub fn read(json: &Value, flash: bool) -> Result<Self, (FailureKind, String)> {
        let kind = config::architecture(json);
        if let Some(what) = config::ignored(json) {
            let message = format!("Candle's {kind} knows no {what}");
            return Err((FailureKind::Unsupported, message));
        }
        // Of one id or several, which not every model reads, and none needs.
        let mut json = json.clone();
        if let Some(fields) = json.as_object_mut() {
            fields.retain(|key, _| !matches!(key.as_str(), "bos_token_id" | "eos_token_id"));
        }
        let wrong = |err: serde_json::Error| (FailureKind::Internal, err.to_string());
        match kind {
            "llama" => {
                let config: LlamaConfig = serde_json::from_value(json).map_err(wrong)?;
                Ok(Self::Llama(config.into_config(flash)))
            }
            "mistral" => {
                let mut config: mistral::Config = serde_json::from_value(json).map_err(wrong)?;
                config.use_flash_attn = flash;
                Ok(Self::Mistral(config))
            }
            "phi3" => Ok(Self::Phi3(serde_json::from_value(json).map_err(wrong)?)),
            "qwen3" => Ok(Self::Qwen3(serde_json::from_value(json).map_err(wrong)?)),
            other => Err((
                FailureKind::Unsupported,
                format!("no model_type {other:?} here; there are llama, mistral, phi3, qwen3"),
            )),
        }
    }

    /// Whether the output head is the embedding.
    pub fn is_tied(&self) -> bool {
        match self {
            Self::Llama(config) => config.tie_word_embeddings,
            Self::Mistral(_) => false,
            Self::Phi3(config) => config.tie_word_embeddings,
            Self::Qwen3(config) => config.tie_word_embeddings,
        }
    }

    /// Keys and values of all layers for one position.
    pub fn kv_elements(&self) -> usize {
        let (layers, kv_heads, head_dim) = match self {
            Self::Llama(c) => (
                c.num_hidden_layers,
                c.num_key_value_heads,
                c.hidden_size / c.num_attention_heads.max(1),
            ),
            Self::Mistral(c) => (
                c.num_hidden_layers,
                c.num_key_value_heads,
                c.head_dim
                    .unwrap_or(c.hidden_size / c.num_attention_heads.max(1)),
            ),
            Self::Phi3(c) => (
                c.num_hidden_layers,
                c.num_key_value_heads,
                c.hidden_size / c.num_attention_heads.max(1),
            ),
            Self::Qwen3(c) => (c.num_hidden_layers, c.num_key_value_heads, c.head_dim),
        };
        2 * layers * kv_heads * head_dim
    }

    /// Load the model of these weights.
    pub fn load(
        self,
        weights: VarBuilder,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Box<dyn Model>> {
        let model: Box<dyn Model> = match self {
            Self::Llama(config) => {
                let fresh = Cache::new(true, dtype, &config, device)?;
                Box::new(PlainLlama {
                    llama: Llama::load(weights, &config)?,
                    cache: fresh.clone(),
                    fresh,
                    positions: config.max_position_embeddings,
                })
            }
            Self::Mistral(config) => Box::new(Plain {
                model: mistral::Model::new(&config, weights)?,
                positions: config.max_position_embeddings,
            }),
            Self::Phi3(config) => Box::new(Plain {
                model: phi3::Model::new(&config, weights)?,
                positions: config.max_position_embeddings,
            }),
            Self::Qwen3(config) => Box::new(Plain {
                model: qwen3::ModelForCausalLM::new(&config, weights)?,
                positions: config.max_position_embeddings,
            }),
        };
        Ok(model)
    }
}

/// Its cache is the caller's.
struct PlainLlama {
    llama: Llama,
    /// Never used, only cloned: its RoPE tables are shared by every clone, and
    /// are the costly part of a `Cache` (there is no way to empty one).
    fresh: Cache,
    cache: Cache,
    positions: usize,
}

impl Model for PlainLlama {
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

/// A model that keeps its own cache.
struct Plain<M> {
    model: M,
    positions: usize,
}

/// The logits of the last token, rows × 1 × vocabulary at the weights' precision, as the
/// adapter wants them: rows × vocabulary, f32.
fn last(logits: &Tensor) -> candle_core::Result<Tensor> {
    logits.squeeze(1)?.to_dtype(DType::F32)
}

/// The three of them have the same methods, and no trait in common.
macro_rules! own_cache {
    ($model:ty) => {
        impl Model for Plain<$model> {
            fn forget(&mut self) {
                self.model.clear_kv_cache();
            }

            fn forward(&mut self, ids: &Tensor, position: usize) -> candle_core::Result<Tensor> {
                last(&self.model.forward(ids, position)?)
            }

            fn positions(&self) -> usize {
                self.positions
            }
        }
    };
}

own_cache!(mistral::Model);
own_cache!(phi3::Model);
own_cache!(qwen3::ModelForCausalLM);
