//! Reads the part of a model's `config.json` that goes into an LMRS header, and finds the settings
//! that lm.rs would silently compute differently.

use serde_json::Value;
use std::path::Path;

/// Llama 3.2's RoPE scaling, which lm.rs has in its code and not in its files.
const BUILT_IN_SCALING: [(&str, f64); 4] = [
    ("factor", 32.0),
    ("low_freq_factor", 1.0),
    ("high_freq_factor", 4.0),
    ("original_max_position_embeddings", 8192.0),
];

/// The numbers of the header, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub hidden_size: u32,
    pub intermediate_size: u32,
    pub layers: u32,
    pub heads: u32,
    pub head_dim: u32,
    pub kv_heads: u32,
    pub vocab_size: u32,
    pub max_position: u32,
    pub rms_norm_eps: f32,
    pub rope_theta: f32,
    /// How lm.rs deviates at long positions, if it does.
    pub position_gap: Option<String>,
}

/// Read `config.json` in `model_dir`; `Err` is one line.
pub fn read(model_dir: &Path) -> Result<Config, String> {
    let path = model_dir.join("config.json");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let raw = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&raw).map_err(|e| format!("{}: {e}", path.display()))
}

fn parse(raw: &Value) -> Result<Config, String> {
    let number = |key: &str| {
        let value = raw.get(key).and_then(Value::as_u64);
        value
            .map(|n| n as u32)
            .ok_or_else(|| format!("no number {key:?} in it"))
    };
    // Newer configs keep all RoPE settings in one table.
    let rope = raw.get("rope_parameters").unwrap_or(raw);
    let theta = rope.get("rope_theta").and_then(Value::as_f64);
    let scaling = raw
        .get("rope_scaling")
        .filter(|scaling| !scaling.is_null())
        .or_else(|| {
            raw.get("rope_parameters")
                .filter(|p| p.get("factor").is_some())
        });
    let model_type = raw.get("model_type").and_then(Value::as_str);
    if model_type != Some("llama") {
        return Err(format!(
            "its model_type is {:?}; only Llama models are converted to lm.rs's format",
            model_type.unwrap_or("missing")
        ));
    }
    if raw.get("tie_word_embeddings") == Some(&Value::Bool(false)) {
        return Err(
            "lm.rs reads its Llama's output head from the embeddings; these aren't tied".into(),
        );
    }
    let (hidden_size, heads) = (number("hidden_size")?, number("num_attention_heads")?);
    Ok(Config {
        hidden_size,
        intermediate_size: number("intermediate_size")?,
        layers: number("num_hidden_layers")?,
        heads,
        head_dim: number("head_dim").unwrap_or(hidden_size / heads.max(1)),
        kv_heads: number("num_key_value_heads")?,
        vocab_size: number("vocab_size")?,
        max_position: number("max_position_embeddings")?,
        rms_norm_eps: raw
            .get("rms_norm_eps")
            .and_then(Value::as_f64)
            .ok_or("no number \"rms_norm_eps\" in it")? as f32,
        rope_theta: theta.ok_or("no number \"rope_theta\" in it")? as f32,
        position_gap: position_gap(scaling),
    })
}

fn position_gap(scaling: Option<&Value>) -> Option<String> {
    let has = |(key, value): &(&str, f64)| {
        scaling.and_then(|s| s.get(key)).and_then(Value::as_f64) == Some(*value)
    };
    if BUILT_IN_SCALING.iter().all(has) {
        return None;
    }
    Some(
        "lm.rs applies Llama 3.2's RoPE scaling (factor 32 from 8192 positions) to every Llama, \
         and this model has another: far positions are wrong"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(scaling: Value) -> Value {
        json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 128, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "rope_scaling": scaling, "tie_word_embeddings": true,
        })
    }

    #[test]
    fn only_the_scaling_in_its_code_has_no_gap() {
        let scaling = json!({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
        assert_eq!(parse(&config(scaling.clone())).unwrap().position_gap, None);
        let mut other = scaling;
        other["original_max_position_embeddings"] = json!(512);
        assert!(parse(&config(other)).unwrap().position_gap.is_some());
        assert!(parse(&config(Value::Null)).unwrap().position_gap.is_some());
    }

    #[test]
    fn what_it_would_compute_wrongly_is_refused() {
        let mut untied = config(Value::Null);
        untied["tie_word_embeddings"] = json!(false);
        assert!(parse(&untied).unwrap_err().contains("tied"));
        let mut other = config(Value::Null);
        other["model_type"] = json!("mistral");
        let error = parse(&other).unwrap_err();
        assert!(
            error.contains("only Llama") && error.contains("mistral"),
            "{error}"
        );
        assert_eq!(parse(&config(Value::Null)).unwrap().head_dim, 16);
    }
}
