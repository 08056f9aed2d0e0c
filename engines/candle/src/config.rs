//! Reads what the adapter must know of `config.json`: which of Candle's models to use, and which
//! settings that model would silently ignore, and so compute another model.

use protocol::engine::EngineError;
use serde_json::Value;
use std::path::Path;

/// Read a model's `config.json`.
///
/// # Errors
/// Fails if the file is missing or is not JSON.
pub fn read(model_dir: &Path) -> Result<Value, EngineError> {
    let path = model_dir.join("config.json");
    let text =
        std::fs::read_to_string(&path).map_err(|err| EngineError::internal(err).in_file(&path))?;
    serde_json::from_str(&text).map_err(|err| EngineError::internal(err).in_file(&path))
}

/// Return the model's architecture. Old files name none; they are Llamas.
pub fn architecture(json: &Value) -> &str {
    json["model_type"].as_str().unwrap_or("llama")
}

/// Return the first setting that Candle's model of this architecture would ignore, worded to
/// follow "Candle's phi3 knows no …".
pub fn ignored(json: &Value) -> Option<String> {
    let kind = architecture(json);
    let number = |key: &str| json[key].as_u64();
    let is = |key: &str| json[key] == true;
    let hidden = number("hidden_size").unwrap_or(0);
    let head_dim = hidden / number("num_attention_heads").unwrap_or(1).max(1);
    if matches!(kind, "llama" | "phi3") && number("head_dim").is_some_and(|dim| dim != head_dim) {
        return Some("head_dim other than hidden_size / num_attention_heads".into());
    }
    if kind != "qwen3" && is("attention_bias") || is("mlp_bias") {
        return Some("biases".into());
    }
    if kind == "llama" && json["hidden_act"].as_str().is_some_and(|act| act != "silu") {
        return Some(format!(
            "hidden_act other than silu, not {}",
            json["hidden_act"]
        ));
    }
    if kind == "mistral" && is("tie_word_embeddings") {
        return Some("output head that is the embedding (tie_word_embeddings)".into());
    }
    if kind == "qwen3" && is("use_sliding_window") {
        return Some("sliding window (use_sliding_window)".into());
    }
    let part = json["partial_rotary_factor"].as_f64().unwrap_or(1.0);
    if kind != "phi3" && part != 1.0 {
        return Some("RoPE over a part of each head (partial_rotary_factor)".into());
    }
    if json.get("rope_parameters").is_some() && json.get("rope_theta").is_none() {
        return Some("rope_parameters (it wants rope_theta and rope_scaling)".into());
    }
    let scaling = &json["rope_scaling"];
    let scaled = scaling["rope_type"].as_str().or(scaling["type"].as_str());
    match scaled {
        None | Some("default") => None,
        Some("llama3") if kind == "llama" => None,
        // Candle's phi3 reads this scaling, but multiplies the frequencies by the factors that the
        // model was trained to divide them by.
        Some("longrope") if kind == "phi3" => Some("longrope as the reference computes it".into()),
        Some(other) => Some(format!("RoPE scaling {other:?}")),
    }
}

/// Describe the error of Candle's model of an architecture beyond a sliding window of `window`
/// positions; `None` if there is none.
pub fn window_gap(architecture: &str, window: u64) -> Option<String> {
    match architecture {
        "mistral" => Some(format!(
            "Candle's mistral applies the sliding window of {window} positions to prompts alone \
             (from safetensors) or not at all (from GGUF): beyond it, it attends to too much"
        )),
        "phi3" => Some(format!(
            "Candle's phi3 has no sliding window, and this model's is {window} positions: beyond \
             it, it attends to too much"
        )),
        _ => None,
    }
}

/// Describe that error for the model in a directory, like [`window_gap`].
pub fn window_gap_of(model_dir: &Path) -> Option<String> {
    let window = protocol::sliding_window(model_dir)?;
    window_gap(&protocol::architecture(model_dir)?, window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(kind: &str, change: Value) -> Value {
        let mut config = json!({
            "model_type": kind, "hidden_size": 64, "num_attention_heads": 4,
            "hidden_act": "silu", "rope_theta": 10000.0, "max_position_embeddings": 32,
        });
        for (key, value) in change.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    }

    #[test]
    fn what_would_be_ignored_is_named() {
        let scaled = |kind: &str| json!({"rope_scaling": {"rope_type": kind}});
        for (kind, change, word) in [
            ("llama", json!({"head_dim": 32}), "head_dim"),
            ("phi3", json!({"head_dim": 32}), "head_dim"),
            ("mistral", json!({"attention_bias": true}), "biases"),
            ("llama", json!({"hidden_act": "gelu"}), "gelu"),
            ("mistral", json!({"tie_word_embeddings": true}), "embedding"),
            ("qwen3", json!({"use_sliding_window": true}), "window"),
            ("qwen3", json!({"partial_rotary_factor": 0.5}), "part"),
            ("mistral", scaled("llama3"), "llama3"),
            ("llama", scaled("yarn"), "yarn"),
            (
                "phi3",
                json!({"rope_scaling": {"type": "longrope"}}),
                "longrope",
            ),
        ] {
            let what = ignored(&with(kind, change.clone()));
            let what = what.unwrap_or_else(|| panic!("{kind} {change} passes"));
            assert!(what.contains(word), "{what}");
        }
        let mut newer = with("llama", json!({"rope_parameters": {"rope_theta": 10000.0}}));
        newer.as_object_mut().unwrap().remove("rope_theta");
        assert!(ignored(&newer).is_some_and(|what| what.contains("rope_parameters")));
    }

    #[test]
    fn what_it_computes_passes() {
        for (kind, change) in [
            (
                "llama",
                json!({"rope_scaling": {"rope_type": "llama3"}, "head_dim": 16}),
            ),
            ("llama", json!({"tie_word_embeddings": true})),
            ("mistral", json!({"head_dim": 32, "sliding_window": 16})),
            (
                "phi3",
                json!({"partial_rotary_factor": 0.5, "rope_scaling": null}),
            ),
            ("qwen3", json!({"head_dim": 32, "attention_bias": true})),
        ] {
            assert_eq!(
                ignored(&with(kind, change.clone())),
                None,
                "{kind} {change}"
            );
        }
        assert_eq!(architecture(&json!({})), "llama");
    }

    #[test]
    fn a_window_is_a_gap_where_candle_has_none() {
        for kind in ["mistral", "phi3"] {
            let gap = window_gap(kind, 16);
            assert!(gap.is_some_and(|gap| gap.contains("16 positions")));
        }
        assert_eq!(window_gap("qwen3", 16), None);
    }
}
