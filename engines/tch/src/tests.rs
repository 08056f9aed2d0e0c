//! Tests of the engine with tiny random weights: that rows of a batch do not see each other, that
//! feeding a prompt at once or token by token gives the same, and that joined and split weights
//! are the same model. Whether the model's output is right is checked by the parity gate, not
//! here.

use crate::engine::Tch;
use protocol::engine::testing::{self, request};
use protocol::engine::{Engine, EngineError};
use protocol::wire::{FailureKind, Load, Loaded};
use serde_json::json;
use std::path::Path;
use tch::{Kind, Tensor};

const DIM: i64 = 64;
const INNER: i64 = 96;
const VOCABULARY: i64 = 128;
const LAYERS: i64 = 2;
const Q: i64 = 64;
const KV: i64 = 32;

/// Random numbers within ±0.3 from a linear congruential generator; around 1 for norms.
fn values(seed: u64, shape: &[i64]) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let offset = if shape.len() == 1 { 1.0 } else { 0.0 };
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 * 0.6 - 0.3 + offset
        })
        .collect();
    Tensor::from_slice(&values).view(shape)
}

/// Create a model of `model_type`, with the same weights however they are split into tensors.
fn model(model_type: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({
        "model_type": model_type, "hidden_size": DIM, "intermediate_size": INNER,
        "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    });
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let mut tensors = vec![
        (
            "model.embed_tokens".to_string(),
            values(1, &[VOCABULARY, DIM]),
        ),
        ("lm_head".to_string(), values(2, &[VOCABULARY, DIM])),
        ("model.norm".to_string(), values(3, &[DIM])),
    ];
    for layer in 0..LAYERS {
        let seed = |n: u64| 10 * (layer as u64 + 1) + n;
        let qkv = values(seed(0), &[Q + 2 * KV, DIM]);
        let gate_up = values(seed(1), &[2 * INNER, DIM]);
        let mut parts = vec![
            ("self_attn.o_proj", values(seed(2), &[DIM, Q])),
            ("mlp.down_proj", values(seed(3), &[DIM, INNER])),
            ("input_layernorm", values(seed(4), &[DIM])),
            ("post_attention_layernorm", values(seed(5), &[DIM])),
        ];
        if model_type == "phi3" {
            parts.push(("self_attn.qkv_proj", qkv));
            parts.push(("mlp.gate_up_proj", gate_up));
        } else {
            parts.push(("self_attn.q_proj", qkv.narrow(0, 0, Q)));
            parts.push(("self_attn.k_proj", qkv.narrow(0, Q, KV)));
            parts.push(("self_attn.v_proj", qkv.narrow(0, Q + KV, KV)));
            parts.push(("mlp.gate_proj", gate_up.narrow(0, 0, INNER)));
            parts.push(("mlp.up_proj", gate_up.narrow(0, INNER, INNER)));
        }
        if model_type == "qwen3" {
            parts.push(("self_attn.q_norm", values(seed(6), &[Q / 4])));
            parts.push(("self_attn.k_norm", values(seed(7), &[KV / 2])));
        }
        for (part, tensor) in parts {
            tensors.push((format!("model.layers.{layer}.{part}"), tensor));
        }
    }
    for (name, tensor) in &mut tensors {
        name.push_str(".weight");
        *tensor = tensor.contiguous();
    }
    Tensor::write_safetensors(&tensors, dir.path().join("model.safetensors")).unwrap();
    dir
}

fn load(dir: &Path, precision: &str) -> Result<(Tch, Loaded), EngineError> {
    Tch::load(&Load {
        threads: 2,
        max_context: 32,
        max_batch: 3,
        ..request(dir, "model.safetensors", precision)
    })
}

fn assert_close(a: &[f32], b: &[f32], limit: f32) {
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < limit, "{a} and {b}");
    }
}

/// Generate `new_tokens` greedy tokens for each prompt; return them and the last logits.
fn generate(engine: &mut Tch, prompts: &[&[u32]], new_tokens: usize) -> Vec<(Vec<u32>, Vec<f32>)> {
    let rows = testing::generate(engine, prompts, new_tokens);
    let rows = rows.into_iter().enumerate();
    rows.map(|(row, tokens)| (tokens, engine.logits(row).unwrap()))
        .collect()
}

const PROMPTS: [&[u32]; 3] = [&[1, 2, 3, 4, 5], &[90, 2, 70, 4, 127], &[6, 6, 6, 6, 6]];

#[test]
fn rows_of_a_batch_do_not_see_each_other() {
    for model_type in ["llama", "qwen3"] {
        let dir = model(model_type);
        let (mut engine, _) = load(dir.path(), "f32").unwrap();
        let together = generate(&mut engine, &PROMPTS, 8);
        for (prompt, (tokens, logits)) in PROMPTS.iter().zip(together) {
            // The cache still holds the batch here.
            let alone = generate(&mut engine, &[prompt], 8).remove(0);
            assert_eq!(alone.0, tokens);
            assert_close(&alone.1, &logits, 1e-4);
        }
    }
}

#[test]
fn a_prompt_at_once_or_token_by_token_is_the_same() {
    let dir = model("llama");
    for (precision, limit) in [("f32", 1e-4), ("bf16", 0.2)] {
        let (mut engine, _) = load(dir.path(), precision).unwrap();
        let prompt = PROMPTS[1];
        engine.prefill(&[prompt]).unwrap();
        let at_once = engine.logits(0).unwrap();
        engine.prefill(&[&prompt[..1]]).unwrap();
        for &token in &prompt[1..] {
            engine.decode(&[token]).unwrap();
        }
        assert_close(&at_once, &engine.logits(0).unwrap(), limit);
    }
}

#[test]
fn joined_weights_are_the_same_model() {
    let logits = |model_type| {
        let dir = model(model_type);
        let (mut engine, _) = load(dir.path(), "f32").unwrap();
        generate(&mut engine, &PROMPTS[..1], 4).remove(0).1
    };
    assert_eq!(logits("llama"), logits("phi3"));
}

/// Without its norms a Qwen3 would be a Llama, so each norm must change the output; and a query
/// norm that is twice as large doubles the scores, which a key norm of half the size undoes.
#[test]
fn query_and_key_heads_are_normalised() {
    let logits = |q_times: f64, k_times: f64| {
        let dir = model("qwen3");
        let path = dir.path().join("model.safetensors");
        let mut tensors = Tensor::read_safetensors(&path).unwrap();
        for (name, tensor) in &mut tensors {
            let times = match name.rsplit('.').nth(1) {
                Some("q_norm") => q_times,
                Some("k_norm") => k_times,
                _ => continue,
            };
            *tensor = tensor.shallow_clone() * times;
        }
        Tensor::write_safetensors(&tensors, &path).unwrap();
        let (mut engine, _) = load(dir.path(), "f32").unwrap();
        engine.prefill(&PROMPTS[1..2]).unwrap();
        engine.logits(0).unwrap()
    };
    let plain = logits(1.0, 1.0);
    assert_close(&plain, &logits(2.0, 0.5), 1e-4);
    let differs = |other: Vec<f32>| plain.iter().zip(other).any(|(a, b)| (a - b).abs() > 1e-2);
    assert!(differs(logits(2.0, 1.0)) && differs(logits(1.0, 2.0)));

    // A norm undoes the scaling of a projection.
    let scaled = |model_type: &str| {
        let dir = model(model_type);
        let path = dir.path().join("model.safetensors");
        let mut tensors = Tensor::read_safetensors(&path).unwrap();
        let q_proj = tensors
            .iter_mut()
            .filter(|(name, _)| name.contains("q_proj"));
        q_proj.for_each(|(_, tensor)| *tensor = tensor.shallow_clone() * 3.0);
        Tensor::write_safetensors(&tensors, &path).unwrap();
        let (mut engine, _) = load(dir.path(), "f32").unwrap();
        engine.prefill(&PROMPTS[1..2]).unwrap();
        engine.logits(0).unwrap()
    };
    assert_close(&plain, &scaled("qwen3"), 1e-3);
}

#[test]
fn sizes() {
    let dir = model("llama");
    let layer = (Q + 2 * KV) * DIM + DIM * Q + 3 * INNER * DIM + 2 * DIM;
    let elements = LAYERS * layer + DIM + VOCABULARY * DIM;
    for (precision, kind) in [("f32", Kind::Float), ("bf16", Kind::BFloat16)] {
        let (_, loaded) = load(dir.path(), precision).unwrap();
        let bytes = kind.elt_size_in_bytes() as u64;
        assert_eq!(loaded.weight_bytes, elements as u64 * bytes);
        assert_eq!(loaded.kv_bytes_per_token, (2 * LAYERS * KV) as u64 * bytes);
    }
}

#[test]
fn what_cannot_be_is_said_and_the_engine_lives_on() {
    let dir = model("llama");
    let error = load(dir.path(), "q8_0").err().unwrap();
    assert_eq!(error.kind, FailureKind::Unsupported);
    let (mut engine, _) = load(dir.path(), "f32").unwrap();
    assert!(engine.prefill(&[&[1; 33]]).is_err());
    assert!(engine.prefill(&[&[VOCABULARY as u32]]).is_err());
    assert!(engine.prefill(&[&[1; 32]]).is_ok());
    assert!(engine.decode(&[1]).is_err());
}
