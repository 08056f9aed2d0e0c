//! Counts what a model computes per token, from its `config.json`: the numerator of MFU. Knows only
//! the dense decoders that the engines run; for other models there are no facts.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The work facts for a run's provenance: `model_params_per_token` (weights that every token is
/// multiplied with, without the output head), `model_params_head`, `model_attention_width` (layers
/// × query heads × head size) and `model_kv_values_per_token` (keys and values that a cache keeps
/// per token).
pub fn facts(model_dir: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read(model_dir.join("config.json")).unwrap_or_default();
    let config: Value = serde_json::from_slice(&text).unwrap_or_default();
    of_config(&config).unwrap_or_default()
}

fn of_config(config: &Value) -> Option<BTreeMap<String, String>> {
    // Models of these types have a gated feed-forward, grouped-query attention and no experts.
    let known = ["llama", "mistral", "phi3", "qwen3"];
    if !known.contains(&config["model_type"].as_str()?) {
        return None;
    }
    let number = |key: &str| config[key].as_u64();
    let (hidden, layers) = (number("hidden_size")?, number("num_hidden_layers")?);
    let heads = number("num_attention_heads")?;
    let kv_heads = number("num_key_value_heads").unwrap_or(heads);
    let head = number("head_dim").unwrap_or(hidden.checked_div(heads)?);
    // Projections of query and output, key and value; then gate, up and down.
    let attention = 2 * hidden * heads * head + 2 * hidden * kv_heads * head;
    let feed_forward = 3 * hidden * number("intermediate_size")?;
    let facts = [
        (
            "model_params_per_token",
            layers * (attention + feed_forward),
        ),
        ("model_params_head", hidden * number("vocab_size")?),
        ("model_attention_width", layers * heads * head),
        ("model_kv_values_per_token", 2 * layers * kv_heads * head),
    ];
    let facts = facts.map(|(key, value)| (key.to_owned(), value.to_string()));
    Some(facts.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_llama_is_counted() {
        // Llama 3.2 1B: 1 235 814 400 parameters with its tied embedding once, of
        // which 33 × 2048 are norms.
        let config = json!({
            "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
            "intermediate_size": 8192, "vocab_size": 128_256
        });
        let facts = of_config(&config).unwrap();
        let number = |key: &str| facts[key].parse::<u64>().unwrap();
        let (per_token, head) = (
            number("model_params_per_token"),
            number("model_params_head"),
        );
        assert_eq!(per_token + head + 33 * 2048, 1_235_814_400);
        assert_eq!(number("model_attention_width"), 16 * 2048);
        assert_eq!(number("model_kv_values_per_token"), 2 * 16 * 8 * 64);
    }

    #[test]
    fn of_another_kind_nothing_is_said() {
        assert_eq!(of_config(&json!({ "model_type": "mixtral" })), None);
        assert_eq!(of_config(&json!({ "model_type": "llama" })), None);
        assert!(facts(Path::new("/nonexistent")).is_empty());
    }
}
