//! Reads a `config.json` into the shape of a model, and checks it before anything is sized by it.
//! A setting that would change the arithmetic without changing a shape is refused by name, unless
//! the engine says that it computes it.

use crate::{Rope, Scaling};
use protocol::engine::EngineError;
use serde_json::Value;
use std::path::Path;

/// The optional parts of the arithmetic that an engine computes.
#[derive(Clone, Copy, Debug)]
pub struct Computes {
    /// The engine's name, for messages.
    pub engine: &'static str,
    /// Whether it computes biases of the attention and feed-forward projections.
    pub biases: bool,
}

/// The shape of a model, and the settings that change its arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Which tensors the model has, and how they are used.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub dim: usize,
    /// Width of the feed-forward layers.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// Dimension of a head, even.
    pub head_dim: usize,
    /// Number of token ids.
    pub vocabulary: usize,
    /// ε of the RMS norms.
    pub eps: f64,
    /// The settings of the position embeddings.
    pub rope: Rope,
    /// Number of positions that a token attends to, if it doesn't attend to all.
    pub window: Option<usize>,
    /// Whether the output head shares the embedding's weights.
    pub tied: bool,
    /// Whether the attention's projections have biases.
    pub attention_bias: bool,
    /// Whether the feed-forward projections have biases.
    pub mlp_bias: bool,
}

/// The supported architectures, by the differences that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama, or Mistral, which has the same tensors and arithmetic.
    Llama,
    /// Phi-3: one tensor for query, key and value, another for gate and up.
    Phi3,
    /// Qwen3: queries and keys are normalised per head.
    Qwen3,
}

impl Shape {
    /// Read a `config.json`.
    ///
    /// # Errors
    /// `unavailable` if the file can't be read, and the errors of [`Shape::from_json`].
    pub fn read(path: &Path, computes: &Computes) -> Result<Self, EngineError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            EngineError::unavailable(format!("{name}: {error}; fetch the model again"))
        })?;
        Self::from_json(&text, &name, computes)
    }

    /// Parse the text of a `config.json`; `name` is used in messages.
    ///
    /// # Errors
    /// `internal` if it is not JSON, lacks a field or is inconsistent; `unsupported` if it asks
    /// for something that the engine does not compute.
    pub fn from_json(text: &str, name: &str, computes: &Computes) -> Result<Self, EngineError> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| EngineError::internal(format!("{name}: not valid JSON: {error}")))?;
        let fields = Fields {
            json: &json,
            name,
            engine: computes.engine,
        };
        let shape = fields.shape()?;
        for (flag, has) in [
            ("attention_bias", shape.attention_bias),
            ("mlp_bias", shape.mlp_bias),
        ] {
            if has && !computes.biases {
                let what = format!("`{flag}` is true; {} has no biases", computes.engine);
                return Err(fields.unsupported(&what));
            }
        }
        shape.checked(name)
    }

    /// Check that the shape is consistent, and return it: every later size is a product of its
    /// numbers.
    ///
    /// # Errors
    /// `internal`, with the number that is wrong.
    pub fn checked(self, name: &str) -> Result<Self, EngineError> {
        let bad = |what: String| {
            Err(EngineError::internal(format!(
                "{name}: {what}; it does not describe a Llama"
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

    /// Check, for an engine that attends to all positions, that this gives the same result for
    /// contexts of up to `max_context` tokens.
    ///
    /// # Errors
    /// `unsupported` if the sliding window is shorter.
    pub fn within_window(&self, max_context: usize) -> Result<(), EngineError> {
        match self.window.filter(|window| *window < max_context) {
            None => Ok(()),
            Some(window) => Err(EngineError::unsupported(format!(
                "the model attends to the last {window} positions only (`sliding_window`), and this \
                 engine to all of {max_context}; ask for a max_context of at most {window}"
            ))),
        }
    }

    /// Width of all query heads together.
    pub fn q_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads together.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Number of query heads that share a key/value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Elements in the keys and values of all layers for one position.
    pub fn kv_elements(&self) -> usize {
        2 * self.layers * self.kv_dim()
    }

    /// Whether projections of the same input are stored as one tensor.
    pub fn is_fused(&self) -> bool {
        self.architecture == Architecture::Phi3
    }

    /// Whether each query and key head is normalised (RMS norm).
    pub fn has_qk_norm(&self) -> bool {
        self.architecture == Architecture::Qwen3
    }
}

/// A parsed `config.json`, with the file's and the engine's name for messages.
struct Fields<'a> {
    json: &'a Value,
    name: &'a str,
    engine: &'a str,
}

impl Fields<'_> {
    fn shape(&self) -> Result<Shape, EngineError> {
        let architecture = match self.json["model_type"].as_str() {
            None | Some("llama" | "mistral") => Architecture::Llama,
            Some("phi3") => Architecture::Phi3,
            Some("qwen3") => Architecture::Qwen3,
            Some(other) => {
                return Err(self.unsupported(&format!(
                    "`model_type` is `{other}`; {} computes only `llama`, `mistral`, `phi3` and `qwen3`",
                    self.engine
                )));
            }
        };
        let act = self.json["hidden_act"].as_str().unwrap_or("silu");
        if act != "silu" {
            return Err(self.unsupported(&format!(
                "`hidden_act` is `{act}`; {} computes only `silu`",
                self.engine
            )));
        }
        let part = |json: &Value| json["partial_rotary_factor"].as_f64().unwrap_or(1.0);
        if part(self.json) != 1.0 || part(&self.json["rope_parameters"]) != 1.0 {
            return Err(self.unsupported(&format!(
                "`partial_rotary_factor` is not 1; {} rotates all of a head",
                self.engine
            )));
        }
        let dim = self.size("hidden_size")?;
        let heads = self.size("num_attention_heads")?;
        Ok(Shape {
            architecture,
            dim,
            hidden: self.size("intermediate_size")?,
            layers: self.size("num_hidden_layers")?,
            heads,
            kv_heads: self.optional("num_key_value_heads")?.unwrap_or(heads),
            head_dim: self.optional("head_dim")?.unwrap_or(dim / heads),
            vocabulary: self.size("vocab_size")?,
            eps: self.float(self.json, "rms_norm_eps")?,
            rope: self.rope()?,
            window: self.window()?,
            tied: self.json["tie_word_embeddings"] == true,
            attention_bias: self.json["attention_bias"] == true,
            mlp_bias: self.json["mlp_bias"] == true,
        })
    }

    /// Return the number of positions that a token attends to, with the defaults of transformers:
    /// a Mistral has a window unless it says null, a Phi-3 if the field is present, a Qwen3 only
    /// if `use_sliding_window` is true.
    fn window(&self) -> Result<Option<usize>, EngineError> {
        const DEFAULT: usize = 4096;
        let windowed = match self.json["model_type"].as_str() {
            Some("mistral") => true,
            Some("qwen3") => self.json["use_sliding_window"] == true,
            Some("phi3") => self.json.get("sliding_window").is_some(),
            _ => false,
        };
        match self.json.get("sliding_window") {
            None if windowed => Ok(Some(DEFAULT)),
            Some(_) if windowed => self.optional("sliding_window"),
            _ => Ok(None),
        }
    }

    /// Read `rope_theta` and `rope_scaling`, or the newer `rope_parameters` that holds both.
    fn rope(&self) -> Result<Rope, EngineError> {
        let parameters = &self.json["rope_parameters"];
        let scaling = match &self.json["rope_scaling"] {
            Value::Null => parameters,
            scaling => scaling,
        };
        let theta = match (&parameters["rope_theta"], &self.json["rope_theta"]) {
            (Value::Null, Value::Null) => 10_000.0,
            (Value::Null, _) => self.float(self.json, "rope_theta")?,
            _ => self.float(parameters, "rope_theta")?,
        };
        let number = |key: &str| self.float(scaling, key).map(|value| value as f32);
        // Older configurations call it `type`.
        let kind = scaling["rope_type"].as_str().or(scaling["type"].as_str());
        let scaling = match kind {
            None if scaling["factor"].is_null() => Scaling::None,
            Some("default") => Scaling::None,
            Some("llama3") => Scaling::Llama3 {
                factor: number("factor")?,
                low_freq_factor: number("low_freq_factor")?,
                high_freq_factor: number("high_freq_factor")?,
                original_context: number("original_max_position_embeddings")?,
            },
            other => {
                let kind = other.unwrap_or("without a type");
                return Err(self.unsupported(&format!(
                    "RoPE scaling `{kind}`; {} computes only `llama3`",
                    self.engine
                )));
            }
        };
        Ok(Rope {
            theta: theta as f32,
            scaling,
        })
    }

    fn size(&self, key: &str) -> Result<usize, EngineError> {
        self.optional(key)?.ok_or_else(|| self.missing(key))
    }

    /// Return a size, or `None` if the key is absent or null. 0 is an error.
    fn optional(&self, key: &str) -> Result<Option<usize>, EngineError> {
        match &self.json[key] {
            Value::Null => Ok(None),
            value => match value.as_u64() {
                Some(number) if number > 0 => Ok(Some(number as usize)),
                _ => Err(self.missing(key)),
            },
        }
    }

    fn float(&self, json: &Value, key: &str) -> Result<f64, EngineError> {
        json[key].as_f64().ok_or_else(|| self.missing(key))
    }

    fn missing(&self, key: &str) -> EngineError {
        EngineError::internal(format!(
            "{}: `{key}` is missing or no such number; fetch the model again",
            self.name
        ))
    }

    fn unsupported(&self, what: &str) -> EngineError {
        EngineError::unsupported(format!("{}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests;
