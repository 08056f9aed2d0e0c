//! Tests of what is read from a `config.json`, and what is refused by name.

use super::*;
use protocol::wire::FailureKind;
use serde_json::json;

const PLAIN: Computes = Computes {
    engine: "this",
    biases: false,
};

fn read(change: Value, computes: &Computes) -> Result<Shape, EngineError> {
    let mut config = json!({
        "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 100, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
    });
    for (key, value) in change.as_object().unwrap() {
        config[key] = value.clone();
    }
    Shape::from_json(&config.to_string(), "config.json", computes)
}

fn with(change: Value) -> Result<Shape, EngineError> {
    read(change, &PLAIN)
}

#[test]
fn a_plain_config_is_read() {
    let shape = with(json!({})).unwrap();
    assert_eq!((shape.head_dim, shape.group()), (16, 2));
    assert_eq!((shape.q_dim(), shape.kv_dim()), (64, 32));
    assert_eq!(shape.kv_elements(), 2 * 2 * 32);
    let rope = Rope {
        theta: 500_000.0,
        scaling: Scaling::None,
    };
    assert_eq!(shape.rope, rope);
}

#[test]
fn absent_fields_have_the_defaults_of_transformers() {
    let shape = with(json!({"num_key_value_heads": null})).unwrap();
    assert_eq!((shape.kv_heads, shape.head_dim), (4, 16));
    assert!(!shape.tied);
    let shape = with(json!({"head_dim": 32, "tie_word_embeddings": true})).unwrap();
    assert_eq!((shape.head_dim, shape.q_dim()), (32, 128));
    assert!(shape.tied);
}

#[test]
fn mistral_phi3_and_qwen3_are_llamas_here() {
    let of = |kind: &str| with(json!({"model_type": kind})).unwrap();
    assert_eq!(of("mistral").architecture, Architecture::Llama);
    assert!(!of("mistral").is_fused() && !of("mistral").has_qk_norm());
    assert!(of("phi3").is_fused() && !of("phi3").has_qk_norm());
    assert!(of("qwen3").has_qk_norm() && !of("qwen3").is_fused());
}

#[test]
fn a_window_is_read_where_the_architecture_has_one() {
    let window = |change: Value| with(change).unwrap().window;
    assert_eq!(
        window(json!({"sliding_window": 128})),
        None,
        "no Llama has one"
    );
    let mistral = |window: Value| json!({"model_type": "mistral", "sliding_window": window});
    assert_eq!(window(mistral(json!(null))), None);
    assert_eq!(window(mistral(json!(128))), Some(128));
    assert_eq!(window(json!({"model_type": "mistral"})), Some(4096));
    let qwen3 = |used: bool| json!({"model_type": "qwen3", "use_sliding_window": used, "sliding_window": 128});
    assert_eq!(window(qwen3(false)), None);
    assert_eq!(window(qwen3(true)), Some(128));
    let phi3 = json!({"model_type": "phi3", "sliding_window": 2047});
    assert_eq!(window(phi3), Some(2047));
    assert_eq!(window(json!({"model_type": "phi3"})), None);
}

#[test]
fn a_window_matters_where_the_context_is_longer() {
    let shape = with(json!({"model_type": "mistral", "sliding_window": 999})).unwrap();
    assert!(shape.within_window(999).is_ok());
    let error = shape.within_window(1000).unwrap_err();
    assert_eq!(error.kind, FailureKind::Unsupported);
    assert!(error.message.contains("last 999 positions"), "{error}");
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
    let plain = json!({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}});
    let rope = Rope {
        theta: 7.0,
        scaling: Scaling::None,
    };
    assert_eq!(with(plain).unwrap().rope, rope);
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    let longrope = json!({"rope_scaling": {"type": "longrope", "short_factor": [1.0]}});
    let yarn = json!({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}});
    let in_parameters = json!({
        "rope_parameters": {"rope_theta": 7.0, "partial_rotary_factor": 0.75}
    });
    for (change, word) in [
        (json!({"model_type": "qwen2"}), "qwen2"),
        (json!({"hidden_act": "gelu"}), "gelu"),
        (json!({"attention_bias": true}), "attention_bias"),
        (json!({"mlp_bias": true}), "mlp_bias"),
        (
            json!({"partial_rotary_factor": 0.75}),
            "partial_rotary_factor",
        ),
        (in_parameters, "partial_rotary_factor"),
        (longrope, "longrope"),
        (yarn, "yarn"),
    ] {
        let error = with(change.clone()).unwrap_err();
        assert_eq!(error.kind, FailureKind::Unsupported, "{change}");
        assert!(error.message.contains(word), "{change}: {error}");
        assert!(error.message.starts_with("config.json: "), "{error}");
    }
    let biased = Computes {
        biases: true,
        ..PLAIN
    };
    let shape = read(json!({"attention_bias": true, "mlp_bias": true}), &biased).unwrap();
    assert!(shape.attention_bias && shape.mlp_bias);
}

#[test]
fn what_makes_no_sense_is_said_in_one_line() {
    for (change, word) in [
        (json!({"hidden_size": 0}), "hidden_size"),
        (
            json!({"hidden_size": 99_999_999_999_999_u64}),
            "hidden size",
        ),
        (json!({"num_attention_heads": 0}), "num_attention_heads"),
        (json!({"num_key_value_heads": 3}), "share"),
        (json!({"head_dim": 15}), "odd"),
        (json!({"vocab_size": "many"}), "vocab_size"),
        (json!({"rms_norm_eps": null}), "rms_norm_eps"),
        (json!({"rms_norm_eps": 1.5}), "ε"),
        (json!({"rope_theta": 0.5}), "RoPE base"),
    ] {
        let error = with(change.clone()).unwrap_err();
        assert_eq!(error.kind, FailureKind::Internal, "{change}");
        assert!(error.message.contains(word), "{change}: {error}");
        let is_a_line = !error.message.contains('\n');
        assert!(error.message.starts_with("config.json: ") && is_a_line);
    }
    assert!(Shape::from_json("{", "config.json", &PLAIN).is_err());
    let missing = Shape::read(Path::new("/nonexistent/config.json"), &PLAIN).unwrap_err();
    assert_eq!(missing.kind, FailureKind::Unavailable);
}
