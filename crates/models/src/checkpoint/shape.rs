//! Reads config.json: the architecture of a model, and its dimensions.

use crate::architecture::Architecture;
use crate::spec::{Llama3RopeScaling, ModelSpec, Storage};
use crate::tensors::{TensorDef, tensors};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The shape of a model, from its config.json.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Architecture and dimensions, in the type of the models that are made here. Its other fields
    /// (seed, corpus, files) have no meaning for a model that the user brought.
    pub spec: ModelSpec,
    /// Context length before it was extended, in positions; the declared length where it wasn't.
    pub original_max_position: usize,
    /// Share of a head's dimensions that RoPE rotates, 0 to 1.
    pub rotary_share: f64,
    /// Name of a RoPE scaling that nothing here computes. Llama 3's scaling is in `spec`.
    pub other_scaling: Option<String>,
    /// Number of positions that attention looks back, where that is limited.
    pub sliding_window: Option<usize>,
    /// Id of the token that a text begins with.
    pub bos_id: Option<usize>,
    /// Id of the token that a text ends with; the first of several.
    pub eos_id: Option<usize>,
}

impl Shape {
    /// Read the text of config.json.
    ///
    /// # Errors
    /// In one line: the text is no JSON, the architecture isn't one of [`Architecture::ALL`], a
    /// number is missing or impossible, or the model has something that nothing here supports
    /// (biases, quantised weights).
    pub fn read(config: &str) -> Result<Self> {
        let config: Value =
            serde_json::from_str(config).context("config.json is not valid JSON")?;
        let model_type = config["model_type"]
            .as_str()
            .context("config.json has no `model_type`, so nothing says which architecture it is")?;
        let Some(architecture) = Architecture::named(model_type) else {
            let known = Architecture::ALL.map(Architecture::model_type).join(", ");
            bail!("architecture {model_type:?} is not known here: known are {known}");
        };
        let optional = |name: &str| config[name].as_u64().map(|n| n as usize);
        let number = |name: &str| -> Result<usize> {
            let found = optional(name).filter(|n| (1..1 << 31).contains(n));
            found.with_context(|| format!("config.json has no positive number `{name}`"))
        };
        let (num_heads, hidden_size) = (number("num_attention_heads")?, number("hidden_size")?);
        let num_kv_heads = optional("num_key_value_heads").unwrap_or(num_heads);
        let head_dim = optional("head_dim").unwrap_or(hidden_size / num_heads);
        ensure!(
            num_kv_heads > 0 && num_heads % num_kv_heads == 0 && head_dim > 0 && head_dim % 2 == 0,
            "config.json gives {num_heads} heads of {head_dim} dimensions and {num_kv_heads} key-value heads, which don't fit together"
        );
        for name in ["attention_bias", "mlp_bias"] {
            ensure!(
                config[name] != Value::Bool(true),
                "config.json has `{name}`, and biases are not known here"
            );
        }
        if !config["quantization_config"].is_null() {
            bail!(
                "config.json has a `quantization_config`: bring the model that it was quantised from"
            );
        }
        // Since version 5, transformers writes base and scaling into `rope_parameters`.
        let rope = &config["rope_parameters"];
        let theta = config["rope_theta"]
            .as_f64()
            .or(rope["rope_theta"].as_f64());
        let scaling = match config["rope_scaling"].is_object() {
            true => &config["rope_scaling"],
            false => rope,
        };
        let max_position = number("max_position_embeddings")?;
        let original = optional("original_max_position_embeddings").or(
            scaling["original_max_position_embeddings"]
                .as_u64()
                .map(|n| n as usize),
        );
        let window = optional("sliding_window");
        let uses_window = config["use_sliding_window"] != Value::Bool(false);
        let token = |name: &str| {
            let value = &config[name];
            let id = value.as_u64().or(value[0].as_u64());
            id.map(|id| id as usize)
        };
        let (rope_scaling, other_scaling) = rope_scaling(scaling)?;
        let spec = ModelSpec {
            architecture,
            tied: config["tie_word_embeddings"].as_bool().unwrap_or(false),
            vocab_size: number("vocab_size")?,
            hidden_size,
            intermediate_size: number("intermediate_size")?,
            num_layers: number("num_hidden_layers")?,
            num_heads,
            num_kv_heads,
            head_dim,
            max_position,
            rope_theta: theta.unwrap_or(10_000.0),
            rms_norm_eps: config["rms_norm_eps"].as_f64().unwrap_or(1e-6),
            rope_scaling,
            storage: Storage::F32,
            files: Vec::new(),
            ..ModelSpec::tiny_llama()
        };
        Ok(Self {
            spec,
            original_max_position: original.unwrap_or(max_position),
            rotary_share: config["partial_rotary_factor"].as_f64().unwrap_or(1.0),
            other_scaling,
            sliding_window: window.filter(|_| uses_window),
            bos_id: token("bos_token_id"),
            eos_id: token("eos_token_id"),
        })
    }

    /// Number of weights; tied embeddings count once.
    pub fn parameters(&self) -> u64 {
        let all = tensors(&self.spec);
        all.iter().map(TensorDef::len).sum::<usize>() as u64
    }

    /// The divisors of RoPE's frequencies, one per pair of dimensions (`rope_freqs.weight`); `None`
    /// where RoPE isn't scaled as Llama 3's. Heads may have any width; the last digit may differ
    /// between machines.
    pub fn rope_factors(&self) -> Option<Vec<f64>> {
        let scaling = self.spec.rope_scaling?;
        let head_dim = self.spec.head_dim;
        let factors = (0..head_dim / 2).map(|pair| {
            let exponent = 2.0 * pair as f64 / head_dim as f64;
            scaling.divisor(2.0 * std::f64::consts::PI * self.spec.rope_theta.powf(exponent))
        });
        Some(factors.collect())
    }
}

/// Reads a RoPE scaling: Llama 3's, or the name of another one.
fn rope_scaling(scaling: &Value) -> Result<(Option<Llama3RopeScaling>, Option<String>)> {
    // Older files call it `type`.
    let kind = scaling["rope_type"].as_str().or(scaling["type"].as_str());
    let number = |name: &str| {
        let found = scaling[name].as_f64().filter(|x| *x > 0.0);
        found.with_context(|| format!("config.json's RoPE scaling has no `{name}`"))
    };
    Ok(match kind {
        None | Some("default") => (None, None),
        Some("llama3") => {
            let scaling = Llama3RopeScaling {
                factor: number("factor")?,
                low_freq_factor: number("low_freq_factor")?,
                high_freq_factor: number("high_freq_factor")?,
                original_max_position: number("original_max_position_embeddings")? as usize,
            };
            (Some(scaling), None)
        }
        Some(other) => (None, Some(other.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::config_json;

    /// Qwen3 0.6B's published config.json, in part.
    const QWEN3: &str = r#"{"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
        "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
        "rope_theta": 1000000, "rope_scaling": null, "rms_norm_eps": 1e-06,
        "sliding_window": null, "use_sliding_window": false, "tie_word_embeddings": true,
        "attention_bias": false, "bos_token_id": 151643, "eos_token_id": 151645}"#;

    #[test]
    fn parameters_are_those_that_the_models_are_known_by() {
        let qwen = Shape::read(QWEN3).unwrap();
        assert_eq!(qwen.parameters(), 596_049_920);
        let untied = QWEN3.replace("\"tie_word_embeddings\": true", "\"x\": 0");
        let output = 151_936 * 1024;
        assert_eq!(
            Shape::read(&untied).unwrap().parameters(),
            596_049_920 + output
        );
        // Phi-3 mini.
        let phi = r#"{"model_type": "phi3", "vocab_size": 32064, "hidden_size": 3072,
            "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 32, "max_position_embeddings": 4096, "sliding_window": 2047,
            "original_max_position_embeddings": 4096, "eos_token_id": [32000, 32007]}"#;
        let phi = Shape::read(phi).unwrap();
        assert_eq!(phi.parameters(), 3_821_079_552);
        assert_eq!((phi.spec.head_dim, phi.eos_id), (96, Some(32000)));
        assert_eq!(phi.sliding_window, Some(2047));
    }

    #[test]
    fn what_we_write_is_read_as_it_was_meant() {
        let spec = ModelSpec::tiny_llama3();
        let shape = Shape::read(&config_json(&spec)).unwrap();
        assert_eq!(shape.parameters(), 9_966_080);
        assert!(shape.spec.tied);
        let ours = shape.rope_factors().unwrap();
        for (a, b) in ours.iter().zip(spec.rope_factors().unwrap()) {
            assert!((a - b).abs() < 1e-9 * b, "{a} {b}");
        }
        let scaled = |kind: &str| {
            let scaling = format!(r#""rope_scaling": {{"type": "{kind}", "factor": 4.0}}"#);
            Shape::read(&QWEN3.replace("\"rope_scaling\": null", &scaling))
        };
        let yarn = scaled("yarn").unwrap().other_scaling;
        assert_eq!(yarn.as_deref(), Some("yarn"));
        let error = scaled("llama3").unwrap_err().to_string();
        assert!(error.contains("no `low_freq_factor`"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_line() {
        let cases: [(&str, &str); 8] = [
            ("{", "is not valid JSON"),
            ("{}", "no `model_type`"),
            (
                r#"{"model_type": "mamba"}"#,
                "known are llama, mistral, phi3, qwen3",
            ),
            (
                r#"{"model_type": "llama"}"#,
                "no positive number `num_attention_heads`",
            ),
            (
                &QWEN3.replace("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 3"),
                "don't fit together",
            ),
            (
                &QWEN3.replace("\"attention_bias\": false", "\"attention_bias\": true"),
                "biases",
            ),
            (
                &QWEN3.replace("\"bos_token_id\": 151643", "\"quantization_config\": {}"),
                "quantised from",
            ),
            (&QWEN3.replace("28", "0"), "`num_hidden_layers`"),
        ];
        for (config, why) in cases {
            let error = Shape::read(config).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }
}
