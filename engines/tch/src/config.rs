//! The shape of a model, from its `config.json`. It accepts only what
//! [`crate::model`] computes: whatever would change the arithmetic without
//! changing a shape (biases, another activation, a window, another RoPE) is
//! refused by name. It knows nothing of libtorch.

use protocol::engine::EngineError;
use protocol::wire::FailureKind;
use rope::Rope;
use serde_json::Value;

/// How the weights of a layer are named and cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Llama, Mistral and Qwen3: `q_proj`, `k_proj`, `v_proj`; `gate_proj`, `up_proj`.
    Split,
    /// Phi-3: `qkv_proj`; `gate_up_proj`, in the order in which we join the others.
    Fused,
}

/// The shape of a model; sizes as libtorch takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Names of the weights.
    pub layout: Layout,
    /// Width of the residual stream.
    pub dim: i64,
    /// Width of the feed-forward layers.
    pub inner: i64,
    /// Layers.
    pub layers: i64,
    /// Query heads.
    pub heads: i64,
    /// Key/value heads.
    pub kv_heads: i64,
    /// Dimension of a head.
    pub head_dim: i64,
    /// Token ids.
    pub vocabulary: i64,
    /// ε of the norms.
    pub eps: f64,
    /// Whether the output head is the embedding.
    pub tied: bool,
    /// Whether each query and key head is normalised, as Qwen3's are.
    pub has_qk_norm: bool,
    /// Position embeddings.
    pub rope: Rope,
}

impl Config {
    /// From the text of a `config.json`, for sequences of up to `max_context`
    /// tokens; `name` is for messages.
    pub fn from_json(text: &str, name: &str, max_context: u32) -> Result<Self, EngineError> {
        let json = serde_json::from_str(text).map_err(|err| {
            let message = format!("{name}: no JSON ({err}); fetch the model again");
            EngineError::new(FailureKind::Unavailable, message)
        })?;
        Fields { json: &json, name }.config(max_context)
    }

    /// Query heads that share a key/value head.
    pub fn group(&self) -> i64 {
        self.heads / self.kv_heads
    }

    /// Query, key and value heads of a layer.
    pub fn all_heads(&self) -> i64 {
        self.heads + 2 * self.kv_heads
    }

    /// Keys and values of all layers for one position.
    pub fn kv_elements(&self) -> i64 {
        2 * self.layers * self.kv_heads * self.head_dim
    }
}

/// A parsed `config.json` with its name for messages.
struct Fields<'a> {
    json: &'a Value,
    name: &'a str,
}

impl Fields<'_> {
    fn config(&self, max_context: u32) -> Result<Config, EngineError> {
        let kind = self.json["model_type"].as_str();
        let layout = match kind {
            Some("llama" | "mistral" | "qwen3") => Layout::Split,
            Some("phi3") => Layout::Fused,
            other => {
                let other = other.unwrap_or("nothing");
                return Err(self.unsupported(format!(
                    "`model_type` is {other}; tch-bench computes llama, mistral, phi3, qwen3"
                )));
            }
        };
        self.refuse(max_context)?;
        let dim = self.size("hidden_size")?;
        let heads = self.size("num_attention_heads")?;
        let config = Config {
            layout,
            dim,
            inner: self.size("intermediate_size")?,
            layers: self.size("num_hidden_layers")?,
            heads,
            kv_heads: self.size_or("num_key_value_heads", heads)?,
            head_dim: self.size_or("head_dim", dim / heads)?,
            vocabulary: self.size("vocab_size")?,
            eps: self.float(self.json, "rms_norm_eps")?,
            tied: self.json["tie_word_embeddings"] == true,
            has_qk_norm: kind == Some("qwen3"),
            rope: self.rope()?,
        };
        if config.heads % config.kv_heads != 0 {
            let (heads, kv_heads) = (config.heads, config.kv_heads);
            let message = format!("{heads} heads cannot share {kv_heads} key/value heads");
            return Err(self.unsupported(message));
        }
        if config.head_dim % 2 != 0 {
            let message = format!("a head dimension of {} is odd", config.head_dim);
            return Err(self.unsupported(message));
        }
        Ok(config)
    }

    /// What would be another model with the same shapes.
    fn refuse(&self, max_context: u32) -> Result<(), EngineError> {
        match self.json["hidden_act"].as_str() {
            None | Some("silu") => {}
            Some(other) => {
                let message = format!("`hidden_act` is {other}; tch-bench computes silu");
                return Err(self.unsupported(message));
            }
        }
        for flag in ["attention_bias", "mlp_bias"] {
            if self.json[flag] == true {
                let message = format!("`{flag}` is true; tch-bench has no biases");
                return Err(self.unsupported(message));
            }
        }
        // Qwen3 says beside the window whether it has one.
        let is_used = self.json["use_sliding_window"] != false;
        if let Some(window) = self.json["sliding_window"].as_u64()
            && is_used
            && window < u64::from(max_context)
        {
            return Err(self.unsupported(format!(
                "a sliding window of {window} is shorter than the {max_context} tokens asked \
                 for; tch-bench attends to all of them: ask for fewer"
            )));
        }
        let part = |json: &Value| json["partial_rotary_factor"].as_f64().unwrap_or(1.0);
        if part(self.json) != 1.0 || part(&self.json["rope_parameters"]) != 1.0 {
            let message = "RoPE over a part of each head; tch-bench rotates all of it";
            return Err(self.unsupported(message.to_string()));
        }
        Ok(())
    }

    fn rope(&self) -> Result<Rope, EngineError> {
        let number = |json: &Value, key: &str| self.float(json, key);
        Rope::read(self.json, number, |kind| {
            let kind = kind.unwrap_or("of no type");
            self.unsupported(format!("RoPE scaling {kind}; tch-bench computes llama3"))
        })
    }

    fn size(&self, key: &str) -> Result<i64, EngineError> {
        // Larger than any model, and small enough that products of sizes fit.
        let valid = |&size: &i64| (1..1 << 24).contains(&size);
        self.json[key]
            .as_i64()
            .filter(valid)
            .ok_or_else(|| self.wrong(key))
    }

    fn size_or(&self, key: &str, default: i64) -> Result<i64, EngineError> {
        match &self.json[key] {
            Value::Null => Ok(default),
            _ => self.size(key),
        }
    }

    fn float(&self, json: &Value, key: &str) -> Result<f64, EngineError> {
        json[key]
            .as_f64()
            .filter(|value| *value > 0.0)
            .ok_or_else(|| self.wrong(key))
    }

    fn wrong(&self, key: &str) -> EngineError {
        let message = format!(
            "{}: `{key}` is missing or no such number; fetch the model again",
            self.name
        );
        EngineError::new(FailureKind::Unavailable, message)
    }

    fn unsupported(&self, what: String) -> EngineError {
        EngineError::unsupported(format!("{}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::Scaling;
    use serde_json::json;

    fn with(change: Value) -> Result<Config, EngineError> {
        let mut config = json!({
            "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
            "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 100, "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0,
        });
        for (key, value) in change.as_object().unwrap() {
            config[key] = value.clone();
        }
        Config::from_json(&config.to_string(), "config.json", 1000)
    }

    #[test]
    fn absent_fields_have_the_defaults_of_transformers() {
        let config = with(json!({"num_key_value_heads": null})).unwrap();
        assert_eq!((config.kv_heads, config.head_dim), (4, 16));
        assert!(!config.tied);
        let config = with(json!({"head_dim": 32, "tie_word_embeddings": true})).unwrap();
        assert_eq!(
            (config.head_dim, config.group(), config.all_heads()),
            (32, 2, 8)
        );
        assert_eq!(config.kv_elements(), 2 * 2 * 2 * 32);
        assert!(config.tied);
    }

    #[test]
    fn both_spellings_of_rope_scaling_mean_the_same() {
        let mut scaling = json!({
            "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        });
        let old = with(json!({ "rope_scaling": scaling })).unwrap();
        scaling["rope_theta"] = json!(500000.0);
        let new = with(json!({"rope_theta": null, "rope_parameters": scaling})).unwrap();
        assert_eq!(old, new);
        assert!(matches!(old.rope.scaling, Scaling::Llama3 { .. }));
    }

    #[test]
    fn mistral_phi3_and_qwen3_are_llamas_here() {
        let mistral = with(json!({"model_type": "mistral", "sliding_window": 4096})).unwrap();
        assert_eq!(mistral.layout, Layout::Split);
        let phi3 = with(json!({"model_type": "phi3", "sliding_window": null})).unwrap();
        assert_eq!(phi3.layout, Layout::Fused);
        assert!(!mistral.has_qk_norm && !phi3.has_qk_norm);
        let unused = json!({
            "model_type": "qwen3", "head_dim": 32, "sliding_window": 16,
            "use_sliding_window": false,
        });
        let qwen3 = with(unused).unwrap();
        assert_eq!((qwen3.layout, qwen3.head_dim), (Layout::Split, 32));
        assert!(qwen3.has_qk_norm);
    }

    #[test]
    fn what_it_does_not_compute_is_refused_by_name() {
        let longrope = json!({"rope_scaling": {"type": "longrope", "short_factor": [1.0]}});
        for (change, word) in [
            (json!({"model_type": "qwen2"}), "qwen2"),
            (json!({"hidden_act": "gelu"}), "gelu"),
            (json!({"attention_bias": true}), "attention_bias"),
            (json!({"mlp_bias": true}), "mlp_bias"),
            (json!({"sliding_window": 999}), "sliding window of 999"),
            (json!({"partial_rotary_factor": 0.75}), "part of each head"),
            (longrope, "longrope"),
            (json!({"num_key_value_heads": 3}), "share"),
            (json!({"head_dim": 15}), "odd"),
        ] {
            let error = with(change.clone()).unwrap_err();
            assert_eq!(error.kind, FailureKind::Unsupported, "{change}");
            assert!(error.message.contains(word), "{change}: {}", error.message);
        }
        for change in [
            json!({"hidden_size": 0}),
            json!({"vocab_size": "many"}),
            json!({"rms_norm_eps": null}),
        ] {
            let error = with(change.clone()).unwrap_err();
            assert_eq!(error.kind, FailureKind::Unavailable, "{change}");
        }
        assert!(Config::from_json("{", "config.json", 1).is_err());
    }
}
