//! Candle's models of unquantised weights: `llama`, `mistral`, `phi3` and `qwen3` of
//! `candle_transformers::models`, each wrapped as a [`Model`]. They differ in whether the model or
//! its caller holds the key/value cache, and in the shape and type of the logits.

use crate::config;
use crate::model::{Model, Owned};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use candle_transformers::models::{llama, mistral, phi3, qwen3};
use protocol::engine::EngineError;
use serde_json::{Value, from_value};

/// A `config.json`, parsed for Candle's model of its architecture.
pub enum Config {
    /// Configuration of `llama`.
    Llama(llama::Config),
    /// Configuration of `mistral`.
    Mistral(mistral::Config),
    /// Configuration of `phi3`.
    Phi3(phi3::Config),
    /// Configuration of `qwen3`.
    Qwen3(qwen3::Config),
}

impl Config {
    /// Parse a `config.json`. `flash`: use flash attention if the model can.
    ///
    /// # Errors
    /// `unsupported` if Candle has no such model, or if its model would ignore a setting in `json`.
    pub fn read(json: &Value, flash: bool) -> Result<Self, EngineError> {
        let kind = config::architecture(json);
        if let Some(what) = config::ignored(json) {
            let message = format!("Candle's {kind} knows no {what}");
            return Err(EngineError::unsupported(message));
        }
        // These hold one id or several. Not every model's parser accepts both forms, and none
        // needs them.
        let mut json = json.clone();
        if let Some(fields) = json.as_object_mut() {
            fields.retain(|key, _| !matches!(key.as_str(), "bos_token_id" | "eos_token_id"));
        }
        match kind {
            "llama" => {
                let config: LlamaConfig = from_value(json).map_err(EngineError::internal)?;
                Ok(Self::Llama(config.into_config(flash)))
            }
            "mistral" => {
                let mut config: mistral::Config =
                    from_value(json).map_err(EngineError::internal)?;
                config.use_flash_attn = flash;
                Ok(Self::Mistral(config))
            }
            "phi3" => Ok(Self::Phi3(from_value(json).map_err(EngineError::internal)?)),
            "qwen3" => Ok(Self::Qwen3(
                from_value(json).map_err(EngineError::internal)?,
            )),
            other => Err(EngineError::unsupported(format!(
                "no model_type {other:?} here; there are llama, mistral, phi3, qwen3"
            ))),
        }
    }

    /// Whether the output head shares the embedding's weights.
    pub fn is_tied(&self) -> bool {
        match self {
            Self::Llama(config) => config.tie_word_embeddings,
            Self::Mistral(_) => false,
            Self::Phi3(config) => config.tie_word_embeddings,
            Self::Qwen3(config) => config.tie_word_embeddings,
        }
    }

    /// Elements in the keys and values of all layers for one position.
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

    /// Load the model from its weights.
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
            Self::Mistral(config) => Box::new(Owned {
                model: mistral::Model::new(&config, weights)?,
                positions: config.max_position_embeddings,
                forget: mistral::Model::clear_kv_cache,
                forward: |model, ids, position| last(&model.forward(ids, position)?),
            }),
            Self::Phi3(config) => Box::new(Owned {
                model: phi3::Model::new(&config, weights)?,
                positions: config.max_position_embeddings,
                forget: phi3::Model::clear_kv_cache,
                forward: |model, ids, position| last(&model.forward(ids, position)?),
            }),
            Self::Qwen3(config) => Box::new(Owned {
                model: qwen3::ModelForCausalLM::new(&config, weights)?,
                positions: config.max_position_embeddings,
                forget: qwen3::ModelForCausalLM::clear_kv_cache,
                forward: |model, ids, position| last(&model.forward(ids, position)?),
            }),
        };
        Ok(model)
    }
}

/// Candle's Llama, whose key/value cache the caller holds.
struct PlainLlama {
    llama: Llama,
    /// An empty cache, only cloned: its RoPE tables, which every clone shares, are the costly part
    /// of a `Cache`, and a `Cache` can't be emptied.
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

/// Convert the logits of the last token from rows × 1 × vocabulary at the weights' precision to
/// rows × vocabulary, f32.
fn last(logits: &Tensor) -> candle_core::Result<Tensor> {
    logits.squeeze(1)?.to_dtype(DType::F32)
}
