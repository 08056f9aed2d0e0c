//! The shape of a model (Llama, Mistral, Phi-3, Qwen3), from a Hugging Face `config.json`
//! or from the metadata of a GGUF file, checked before anything is sized by it.
//!
//! It deliberately accepts only what [`crate::model`] computes: anything that
//! would silently change the arithmetic (biases, another activation, experts,
//! other RoPE scalings) is refused by name. A sliding window is passed on: it
//! changes nothing for contexts that are no longer than it.

use crate::gguf::{Gguf, Value};
use protocol::engine::EngineError;
use rope::{Rope, Scaling};
use serde_json::Value as Json;

/// The shape of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Width of the residual stream.
    pub dim: usize,
    /// Width of the feed-forward layers.
    pub hidden: usize,
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
    pub eps: f32,
    /// Position embeddings.
    pub rope: Rope,
    /// Which tensors there are, and what is computed of them.
    pub architecture: Architecture,
    /// Positions that a token attends to, where these are not all.
    pub window: Option<usize>,
}

/// In what architectures differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// A Llama, or a Mistral, which is one under another name.
    Llama,
    /// Query, key and value are one tensor, gate and up another.
    Phi3,
    /// Queries and keys are normalised head by head.
    Qwen3,
}

/// What this engine computes, for messages.
const ARCHITECTURES: &str = "`llama`, `mistral`, `phi3` and `qwen3`";

impl Config {
    /// Width of all query heads.
    pub fn q_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Query heads that share a key/value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// From the text of a `config.json`; `name` is for messages.
    ///
    /// # Errors
    /// If it is no JSON, lacks a field, makes no sense, or asks for what this
    /// engine does not compute.
    pub fn from_json(text: &str, name: &str) -> Result<Self, EngineError> {
        let json: Json = serde_json::from_str(text)
            .map_err(|error| EngineError::internal(format!("{name}: not valid JSON: {error}")))?;
        let json = JsonConfig { json: &json, name };
        let architecture = match json.json["model_type"].as_str() {
            None | Some("llama" | "mistral") => Architecture::Llama,
            Some("phi3") => Architecture::Phi3,
            Some("qwen3") => Architecture::Qwen3,
            Some(other) => {
                return Err(json.unsupported(format!(
                    "`model_type` is `{other}`; lmrs computes only {ARCHITECTURES}"
                )));
            }
        };
        json.require("hidden_act", "silu")?;
        if json.json["partial_rotary_factor"].as_f64().unwrap_or(1.0) != 1.0 {
            return Err(json.unsupported(
                "`partial_rotary_factor` is not 1; lmrs rotates all of a head".to_owned(),
            ));
        }
        for flag in ["attention_bias", "mlp_bias"] {
            if json.json[flag].as_bool() == Some(true) {
                return Err(json.unsupported(format!("`{flag}` is true; lmrs has no biases")));
            }
        }
        let dim = json.number("hidden_size")?;
        let heads = json.number("num_attention_heads")?;
        let config = Self {
            dim,
            hidden: json.number("intermediate_size")?,
            layers: json.number("num_hidden_layers")?,
            heads,
            kv_heads: json.optional("num_key_value_heads")?.unwrap_or(heads),
            head_dim: json.optional("head_dim")?.unwrap_or(dim / heads),
            vocabulary: json.number("vocab_size")?,
            eps: json.float(json.json, "rms_norm_eps")?,
            rope: json.rope()?,
            architecture,
            window: json.window()?,
        };
        config.checked(name)
    }

    /// From the metadata of a GGUF file; `divisors` is its `rope_freqs.weight`.
    ///
    /// # Errors
    /// As for [`Config::from_json`].
    pub fn from_gguf(gguf: &Gguf<'_>, divisors: Option<Vec<f32>>) -> Result<Self, EngineError> {
        let name = gguf.name();
        // A Mistral is a `llama` here.
        let found = gguf.value("general.architecture").and_then(Value::as_str);
        let (prefix, architecture) = match found {
            Some("llama") => ("llama", Architecture::Llama),
            Some("phi3") => ("phi3", Architecture::Phi3),
            Some("qwen3") => ("qwen3", Architecture::Qwen3),
            _ => {
                let found = found.unwrap_or("none");
                return Err(EngineError::unsupported(format!(
                    "{name}: architecture `{found}`; lmrs computes only {ARCHITECTURES}"
                )));
            }
        };
        let missing = |key: &str| {
            EngineError::internal(format!(
                "{name}: metadata `{prefix}.{key}` is missing or no such number; \
                 fetch the file again"
            ))
        };
        let find = |key: &str| gguf.value(&format!("{prefix}.{key}"));
        let number = |key: &str| {
            find(key)
                .and_then(Value::as_u64)
                .map(|n| n as usize)
                .ok_or_else(|| missing(key))
        };
        let float = |key: &str| {
            find(key)
                .and_then(Value::as_f32)
                .ok_or_else(|| missing(key))
        };
        if find("expert_count")
            .and_then(Value::as_u64)
            .is_some_and(|count| count > 0)
        {
            return Err(EngineError::unsupported(format!(
                "{name}: experts; lmrs has none"
            )));
        }
        if gguf.find("rope_factors_long.weight").is_some() {
            return Err(EngineError::unsupported(format!(
                "{name}: RoPE scaling `longrope`"
            )));
        }
        if let Some(kind) = find("rope.scaling.type").and_then(Value::as_str)
            && kind != "none"
            && divisors.is_none()
        {
            return Err(EngineError::unsupported(format!(
                "{name}: RoPE scaling `{kind}`"
            )));
        }
        let dim = number("embedding_length")?;
        let heads = number("attention.head_count")?;
        if heads == 0 {
            return Err(missing("attention.head_count"));
        }
        let or = |key: &str, default: usize| match find(key) {
            Some(_) => number(key),
            None => Ok(default),
        };
        let head_dim = or("attention.key_length", dim / heads)?;
        if or("rope.dimension_count", head_dim)? != head_dim {
            return Err(EngineError::unsupported(format!(
                "{name}: RoPE over a part of the head; lmrs rotates all of it"
            )));
        }
        let config = Self {
            dim,
            hidden: number("feed_forward_length")?,
            layers: number("block_count")?,
            heads,
            kv_heads: or("attention.head_count_kv", heads)?,
            head_dim,
            vocabulary: gguf.rows("token_embd.weight")?,
            eps: float("attention.layer_norm_rms_epsilon")?,
            rope: Rope {
                theta: match find("rope.freq_base") {
                    Some(_) => float("rope.freq_base")?,
                    None => 10_000.0,
                },
                scaling: divisors.map_or(Scaling::None, Scaling::Divisors),
            },
            architecture,
            window: match find("attention.sliding_window") {
                Some(_) => Some(number("attention.sliding_window")?).filter(|window| *window > 0),
                None => None,
            },
        };
        config.checked(name)
    }

    /// Every later size is a product of these numbers, so they are bounded here.
    fn checked(self, name: &str) -> Result<Self, EngineError> {
        let bad = |what: String| {
            Err(EngineError::internal(format!(
                "{name}: {what}; it does not describe a model that lmrs computes"
            )))
        };
        for (what, value, limit) in [
            ("hidden size", self.dim, 1 << 20),
            ("intermediate size", self.hidden, 1 << 20),
            ("number of layers", self.layers, 1 << 12),
            ("number of heads", self.heads, 1 << 12),
            ("number of key/value heads", self.kv_heads, 1 << 12),
            ("head dimension", self.head_dim, 1 << 12),
            ("vocabulary", self.vocabulary, 1 << 24),
        ] {
            if value == 0 || value > limit {
                return bad(format!("{what} is {value}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, kv_heads) = (self.heads, self.kv_heads);
            return bad(format!(
                "{heads} heads cannot share {kv_heads} key/value heads"
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return bad(format!("the head dimension {} is odd", self.head_dim));
        }
        if !(self.eps > 0.0 && self.eps < 1.0) {
            return bad(format!("the norm's ε is {}", self.eps));
        }
        if !(self.rope.theta > 1.0 && self.rope.theta.is_finite()) {
            return bad(format!("the RoPE base is {}", self.rope.theta));
        }
        if let Scaling::Divisors(divisors) = &self.rope.scaling
            && divisors.len() != self.head_dim / 2
        {
            return bad(format!("{} RoPE divisors", divisors.len()));
        }
        Ok(self)
    }
}

/// A `config.json` with its name for messages.
struct JsonConfig<'a> {
    json: &'a Json,
    name: &'a str,
}

impl JsonConfig<'_> {
    fn unsupported(&self, what: String) -> EngineError {
        EngineError::unsupported(format!("{}: {what}", self.name))
    }

    fn require(&self, key: &str, wanted: &str) -> Result<(), EngineError> {
        match self.json[key].as_str() {
            None => Ok(()),
            Some(found) if found == wanted => Ok(()),
            Some(found) => Err(self.unsupported(format!(
                "`{key}` is `{found}`; lmrs computes only `{wanted}`"
            ))),
        }
    }

    fn missing(&self, key: &str) -> EngineError {
        EngineError::internal(format!(
            "{}: `{key}` is missing or no such number",
            self.name
        ))
    }

    fn number(&self, key: &str) -> Result<usize, EngineError> {
        self.optional(key)?.ok_or_else(|| self.missing(key))
    }

    /// `None` where the key is absent or null. 0 is never a size here.
    fn optional(&self, key: &str) -> Result<Option<usize>, EngineError> {
        match &self.json[key] {
            Json::Null => Ok(None),
            value => match value.as_u64() {
                Some(number) if number > 0 => Ok(Some(number as usize)),
                _ => Err(self.missing(key)),
            },
        }
    }

    fn float(&self, json: &Json, key: &str) -> Result<f32, EngineError> {
        json[key]
            .as_f64()
            .map(|value| value as f32)
            .ok_or_else(|| self.missing(key))
    }

    /// Positions that a token attends to, as transformers reads them: a Mistral has
    /// a window unless it says null, a Phi-3 if it has the number, a Qwen3 only
    /// where it says so.
    fn window(&self) -> Result<Option<usize>, EngineError> {
        const DEFAULT: usize = 4096;
        let windowed = match self.json["model_type"].as_str() {
            Some("mistral") => true,
            Some("qwen3") => self.json["use_sliding_window"].as_bool() == Some(true),
            Some("phi3") => self.json.get("sliding_window").is_some(),
            _ => false,
        };
        match self.json.get("sliding_window") {
            None if windowed => Ok(Some(DEFAULT)),
            Some(_) if windowed => self.optional("sliding_window"),
            _ => Ok(None),
        }
    }

    fn rope(&self) -> Result<Rope, EngineError> {
        let number = |json: &Json, key: &str| self.float(json, key).map(f64::from);
        Rope::read(self.json, number, |kind| {
            let kind = kind.unwrap_or("without a type");
            self.unsupported(format!(
                "RoPE scaling `{kind}`; lmrs computes only `llama3`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA: &str = r#"{
        "model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 100, "rms_norm_eps": 1e-5, "rope_theta": 500000.0 }"#;

    fn with(change: &str) -> Result<Config, EngineError> {
        let mut json: Json = serde_json::from_str(LLAMA).unwrap();
        let change: Json = serde_json::from_str(change).unwrap();
        for (key, value) in change.as_object().unwrap() {
            json[key] = value.clone();
        }
        Config::from_json(&json.to_string(), "config.json")
    }

    #[test]
    fn reads_a_plain_config() {
        let config = with("{}").unwrap();
        assert_eq!(
            (config.head_dim, config.group(), config.kv_dim()),
            (16, 2, 32)
        );
        assert_eq!(
            config.rope,
            Rope {
                theta: 500_000.0,
                scaling: Scaling::None
            }
        );
    }

    #[test]
    fn a_window_is_read_where_the_architecture_has_one() {
        let window = |change: &str| with(change).unwrap().window;
        assert_eq!(
            window(r#"{"sliding_window": 128}"#),
            None,
            "no Llama has one"
        );
        let mistral = |window: &str| format!(r#"{{"model_type": "mistral"{window}}}"#);
        assert_eq!(window(&mistral(r#", "sliding_window": null"#)), None);
        assert_eq!(window(&mistral(r#", "sliding_window": 128"#)), Some(128));
        assert_eq!(window(&mistral("")), Some(4096));
        let qwen3 = |used: bool| {
            format!(
                r#"{{"model_type": "qwen3", "use_sliding_window": {used}, "sliding_window": 128}}"#
            )
        };
        assert_eq!(window(&qwen3(false)), None);
        assert_eq!(window(&qwen3(true)), Some(128));
        let phi3 = r#"{"model_type": "phi3", "sliding_window": 2047}"#;
        assert_eq!(window(phi3), Some(2047));
        assert_eq!(window(r#"{"model_type": "phi3"}"#), None);
    }

    #[test]
    fn reads_rope_scaling_in_both_spellings() {
        let scaling = r#""factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192"#;
        let old = with(&format!(
            r#"{{"rope_scaling": {{"rope_type": "llama3", {scaling}}}}}"#
        ));
        let new = with(&format!(
            r#"{{"rope_theta": null, "rope_parameters":
                {{"rope_type": "llama3", "rope_theta": 500000.0, {scaling}}}}}"#
        ));
        assert_eq!(old.as_ref().unwrap(), new.as_ref().unwrap());
        assert!(matches!(old.unwrap().rope.scaling, Scaling::Llama3 { .. }));
        let plain = with(r#"{"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}"#);
        assert_eq!(
            plain.unwrap().rope,
            Rope {
                theta: 7.0,
                scaling: Scaling::None
            }
        );
    }

    #[test]
    fn refuses_what_it_does_not_compute_by_name() {
        for (change, word) in [
            (r#"{"model_type": "qwen2"}"#, "qwen2"),
            (r#"{"partial_rotary_factor": 0.5}"#, "partial_rotary_factor"),
            (r#"{"hidden_act": "gelu"}"#, "gelu"),
            (r#"{"attention_bias": true}"#, "attention_bias"),
            (
                r#"{"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}"#,
                "yarn",
            ),
            (r#"{"num_key_value_heads": 3}"#, "share"),
            (r#"{"num_attention_heads": 0}"#, "num_attention_heads"),
            (r#"{"hidden_size": 99999999999999}"#, "hidden size"),
            (r#"{"head_dim": 15}"#, "odd"),
            (r#"{"rms_norm_eps": null}"#, "rms_norm_eps"),
        ] {
            let message = with(change).unwrap_err().message;
            assert!(message.contains(word), "{change}: {message}");
            assert!(
                message.starts_with("config.json: ") && !message.contains('\n'),
                "{message}"
            );
        }
        assert!(Config::from_json("{", "config.json").is_err());
    }
}
