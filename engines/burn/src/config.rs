//! The shape of a model, from a Hugging Face `config.json`: Llama, Mistral, Phi-3
//! and Qwen3, which are one architecture with small differences. Whatever would
//! silently be another computation is refused by name.

use protocol::engine::EngineError;
use rope::Rope;
use serde_json::Value;
use std::path::Path;

/// The shape of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Dimension of a head.
    pub head_dim: usize,
    /// Token ids.
    pub vocabulary: usize,
    /// ε of the RMS norms.
    pub eps: f64,
    /// Position embeddings.
    pub rope: Rope,
    /// The output head is the embedding.
    pub tied: bool,
    /// The attention's projections have biases.
    pub attention_bias: bool,
    /// The feed-forward projections have biases.
    pub mlp_bias: bool,
    /// Phi-3 stores `qkv_proj` and `gate_up_proj`; the others store the parts.
    pub fused: bool,
    /// Each query and key head is normalised, as Qwen3's are.
    pub has_qk_norm: bool,
    /// Positions a token sees, where that is limited.
    pub window: Option<usize>,
}

/// Larger than any model, small enough that no product of sizes overflows.
const LARGEST: u64 = 1 << 24;

impl Config {
    /// Read and check `path`.
    ///
    /// # Errors
    /// If it is no JSON, lacks a field, makes no sense, or asks for what this
    /// engine does not compute.
    pub fn read(path: &Path) -> Result<Self, EngineError> {
        let fault = |err: &dyn std::fmt::Display| {
            EngineError::internal(format!("{}: {err}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|err| fault(&err))?;
        let json: Value = serde_json::from_str(&text).map_err(|err| fault(&err))?;
        let fields = Fields { json: &json, path };
        fields.config()
    }

    /// Elements of all weights that a decode step reads: of an embedding that is
    /// not also the output head only single rows.
    pub fn weights_read(&self) -> u64 {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let products = self.hidden * (2 * q + 2 * kv + 3 * self.inner);
        let of_heads = if self.has_qk_norm {
            2 * self.head_dim
        } else {
            0
        };
        let norms = 2 * self.hidden + of_heads;
        let mut biases = 0;
        if self.attention_bias {
            biases += q + 2 * kv + self.hidden;
        }
        if self.mlp_bias {
            biases += 2 * self.inner + self.hidden;
        }
        let layers = self.layers * (products + norms + biases);
        (layers + self.hidden + self.vocabulary * self.hidden) as u64
    }
}

struct Fields<'a> {
    json: &'a Value,
    path: &'a Path,
}

impl Fields<'_> {
    fn config(&self) -> Result<Config, EngineError> {
        let kind = self.json["model_type"].as_str().unwrap_or("llama");
        if !["llama", "mistral", "phi3", "qwen3"].contains(&kind) {
            return Err(self.unsupported(&format!(
                "model_type `{kind}`; there are llama, mistral, phi3, qwen3"
            )));
        }
        let act = self.json["hidden_act"].as_str().unwrap_or("silu");
        if act != "silu" {
            return Err(self.unsupported(&format!("hidden_act `{act}`, only silu")));
        }
        let rotated = self.json["partial_rotary_factor"].as_f64().unwrap_or(1.0);
        if rotated != 1.0 {
            return Err(self.unsupported(&format!(
                "RoPE over a part of the head (partial_rotary_factor {rotated})"
            )));
        }
        let (hidden, heads) = (self.size("hidden_size")?, self.size("num_attention_heads")?);
        let config = Config {
            hidden,
            inner: self.size("intermediate_size")?,
            layers: self.size("num_hidden_layers")?,
            heads,
            kv_heads: self.size_or("num_key_value_heads", heads)?,
            head_dim: self.size_or("head_dim", hidden / heads)?,
            vocabulary: self.size("vocab_size")?,
            eps: self.number(self.json, "rms_norm_eps")?,
            rope: self.rope()?,
            tied: self.json["tie_word_embeddings"] == true,
            attention_bias: self.json["attention_bias"] == true,
            mlp_bias: self.json["mlp_bias"] == true,
            fused: kind == "phi3",
            has_qk_norm: kind == "qwen3",
            window: self.window(),
        };
        if !config.heads.is_multiple_of(config.kv_heads) {
            return Err(self.nonsense(&format!(
                "{} heads cannot share {} key/value heads",
                config.heads, config.kv_heads
            )));
        }
        if config.head_dim == 0 || !config.head_dim.is_multiple_of(2) {
            return Err(self.nonsense(&format!("a head dimension of {}", config.head_dim)));
        }
        if !(config.eps > 0.0 && config.eps < 1.0) {
            return Err(self.nonsense(&format!("an rms_norm_eps of {}", config.eps)));
        }
        if !(config.rope.theta > 1.0 && config.rope.theta.is_finite()) {
            return Err(self.nonsense(&format!("a rope_theta of {}", config.rope.theta)));
        }
        Ok(config)
    }

    /// Qwen3 says beside the window whether it has one.
    fn window(&self) -> Option<usize> {
        let window = self.json["sliding_window"].as_u64()?;
        (self.json["use_sliding_window"] != false).then_some(window as usize)
    }

    fn rope(&self) -> Result<Rope, EngineError> {
        let number = |json: &Value, key: &str| self.number(json, key);
        Rope::read(self.json, number, |kind| {
            let kind = kind.unwrap_or("without a type");
            self.unsupported(&format!("RoPE scaling `{kind}`, only llama3"))
        })
    }

    fn size(&self, key: &str) -> Result<usize, EngineError> {
        match self.json[key].as_u64() {
            Some(number) if (1..=LARGEST).contains(&number) => Ok(number as usize),
            _ => Err(self.nonsense(&format!("`{key}` is {}", self.json[key]))),
        }
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize, EngineError> {
        match &self.json[key] {
            Value::Null => Ok(default),
            _ => self.size(key),
        }
    }

    fn number(&self, json: &Value, key: &str) -> Result<f64, EngineError> {
        json[key]
            .as_f64()
            .ok_or_else(|| self.nonsense(&format!("`{key}` is {}", json[key])))
    }

    fn unsupported(&self, what: &str) -> EngineError {
        EngineError::unsupported(format!("{}: {what}", self.path.display()))
    }

    fn nonsense(&self, what: &str) -> EngineError {
        EngineError::internal(format!(
            "{}: {what}; this describes no Llama",
            self.path.display()
        ))
    }
}
