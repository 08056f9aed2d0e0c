//! Tiny models with random weights, one of each architecture, as safetensors and as GGUF.

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;

pub const HIDDEN: usize = 64;
pub const INNER: usize = 96;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const LAYERS: usize = 2;
pub const VOCABULARY: usize = 128;
/// The architectures, by their `model_type`.
pub const ALL: [&str; 4] = ["llama", "mistral", "phi3", "qwen3"];

/// Return the head dimension, which differs from hidden / heads where the architecture allows it.
fn head_dim(kind: &str) -> usize {
    match kind {
        "qwen3" => 32,
        _ => HIDDEN / HEADS,
    }
}

fn is_tied(kind: &str) -> bool {
    matches!(kind, "llama" | "qwen3")
}

/// Return each tensor's name in safetensors, name in GGUF, and shape; norms have one dimension.
pub fn tensors(kind: &str) -> Vec<(String, String, Vec<usize>)> {
    let (q, kv) = (head_dim(kind) * HEADS, head_dim(kind) * KV_HEADS);
    let mut all = Vec::new();
    let mut add = |plain: String, gguf: String, shape: Vec<usize>| all.push((plain, gguf, shape));
    let table = vec![VOCABULARY, HIDDEN];
    add(
        "model.embed_tokens".into(),
        "token_embd".into(),
        table.clone(),
    );
    add("model.norm".into(), "output_norm".into(), vec![HIDDEN]);
    if !is_tied(kind) {
        add("lm_head".into(), "output".into(), table);
    }
    let mut parts = vec![
        ("input_layernorm", "attn_norm", vec![HIDDEN]),
        ("self_attn.o_proj", "attn_output", vec![HIDDEN, q]),
        ("post_attention_layernorm", "ffn_norm", vec![HIDDEN]),
        ("mlp.down_proj", "ffn_down", vec![HIDDEN, INNER]),
    ];
    if kind == "phi3" {
        parts.push(("self_attn.qkv_proj", "attn_qkv", vec![q + 2 * kv, HIDDEN]));
        parts.push(("mlp.gate_up_proj", "ffn_up", vec![2 * INNER, HIDDEN]));
    } else {
        parts.push(("self_attn.q_proj", "attn_q", vec![q, HIDDEN]));
        parts.push(("self_attn.k_proj", "attn_k", vec![kv, HIDDEN]));
        parts.push(("self_attn.v_proj", "attn_v", vec![kv, HIDDEN]));
        parts.push(("mlp.gate_proj", "ffn_gate", vec![INNER, HIDDEN]));
        parts.push(("mlp.up_proj", "ffn_up", vec![INNER, HIDDEN]));
    }
    if kind == "qwen3" {
        parts.push(("self_attn.q_norm", "attn_q_norm", vec![head_dim(kind)]));
        parts.push(("self_attn.k_norm", "attn_k_norm", vec![head_dim(kind)]));
    }
    for layer in 0..LAYERS {
        for (plain, gguf, shape) in &parts {
            let plain = format!("model.layers.{layer}.{plain}");
            add(plain, format!("blk.{layer}.{gguf}"), shape.clone());
        }
    }
    all
}

/// Random numbers within ±0.3 from a linear congruential generator; around 1 for norms.
fn values(seed: u64, shape: &[usize]) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 * 0.6 - 0.3
    };
    let offset = if shape.len() == 1 { 1.0 } else { 0.0 };
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| next() + offset)
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Reorder rows: Llama's GGUF pairs neighbouring dimensions for RoPE, all other files pair the two
/// halves.
fn interleaved(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, columns) = weight.dims2().unwrap();
    let halves = weight.reshape((heads, 2, rows / heads / 2, columns));
    let pairs = halves.unwrap().transpose(1, 2).unwrap();
    let pairs = pairs.contiguous().unwrap();
    pairs.reshape((rows, columns)).unwrap()
}

fn config(kind: &str) -> serde_json::Value {
    let mut config = json!({
        "model_type": kind, "hidden_act": "silu", "eos_token_id": [1, 2],
        "hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 32, "tie_word_embeddings": is_tied(kind),
    });
    if kind == "qwen3" {
        config["head_dim"] = json!(head_dim(kind));
        config["attention_bias"] = json!(false);
        config["use_sliding_window"] = json!(false);
        config["max_window_layers"] = json!(LAYERS);
    }
    config
}

/// Create a model directory with `config.json`, `model.safetensors`, `model-f32.gguf`,
/// `model-q8_0.gguf` and, for a Llama, `scaled.gguf` with RoPE factors.
pub fn model(kind: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = config(kind).to_string();
    std::fs::write(dir.path().join("config.json"), config).unwrap();

    let architecture = match kind {
        "mistral" => "llama",
        other => other,
    };
    let mut plain = HashMap::new();
    let mut paired = Vec::new();
    for (seed, (plain_name, gguf_name, shape)) in tensors(kind).into_iter().enumerate() {
        let weight = values(seed as u64 + 1, &shape);
        let in_gguf = match (architecture, gguf_name.rsplit('.').next()) {
            ("llama", Some("attn_q")) => interleaved(&weight, HEADS),
            ("llama", Some("attn_k")) => interleaved(&weight, KV_HEADS),
            _ => weight.clone(),
        };
        plain.insert(format!("{plain_name}.weight"), weight);
        paired.push((format!("{gguf_name}.weight"), in_gguf));
    }
    candle_core::safetensors::save(&plain, dir.path().join("model.safetensors")).unwrap();
    let write = |name: &str, tensors: &[(String, Tensor)], dtype: GgmlDType| {
        write_gguf(&dir.path().join(name), kind, architecture, tensors, dtype);
    };
    write("model-f32.gguf", &paired, GgmlDType::F32);
    write("model-q8_0.gguf", &paired, GgmlDType::Q8_0);
    if kind == "llama" {
        let factors = values(99, &[HIDDEN / HEADS / 2]);
        paired.push(("rope_freqs.weight".to_string(), factors));
        write("scaled.gguf", &paired, GgmlDType::Q8_0);
    }
    dir
}

/// Split `model.safetensors` into two shards and their index.
pub fn shard(dir: &Path) {
    let whole = dir.join("model.safetensors");
    let tensors = candle_core::safetensors::load(&whole, &Device::Cpu).unwrap();
    let mut shards = [HashMap::new(), HashMap::new()];
    let mut map = serde_json::Map::new();
    for (number, (name, tensor)) in tensors.into_iter().enumerate() {
        let shard = number % 2;
        let file = format!("model-{}-of-2.safetensors", shard + 1);
        map.insert(name.clone(), json!(file));
        shards[shard].insert(name, tensor);
    }
    for (number, tensors) in shards.iter().enumerate() {
        let file = dir.join(format!("model-{}-of-2.safetensors", number + 1));
        candle_core::safetensors::save(tensors, file).unwrap();
    }
    let index = json!({ "weight_map": map }).to_string();
    std::fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
    std::fs::remove_file(whole).unwrap();
}

fn write_gguf(
    path: &Path,
    kind: &str,
    architecture: &str,
    tensors: &[(String, Tensor)],
    dtype: GgmlDType,
) {
    let number = |n: usize| Value::U32(n as u32);
    let named = Value::String(architecture.to_string());
    // The dtype 0 says f32, so that quantized_qwen3 doesn't compute in f16.
    let mut metadata = vec![
        ("general.architecture".to_string(), named),
        ("general.dtype".to_string(), number(0)),
    ];
    for (key, value) in [
        ("attention.head_count", number(HEADS)),
        ("attention.head_count_kv", number(KV_HEADS)),
        ("attention.key_length", number(head_dim(kind))),
        ("block_count", number(LAYERS)),
        ("context_length", number(32)),
        ("embedding_length", number(HIDDEN)),
        ("feed_forward_length", number(INNER)),
        ("rope.dimension_count", number(head_dim(kind))),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("rope.freq_base", Value::F32(10000.0)),
    ] {
        metadata.push((format!("{architecture}.{key}"), value));
    }
    let metadata: Vec<(&str, &Value)> = metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    let quantised: Vec<(&str, QTensor)> = tensors
        .iter()
        .map(|(name, tensor)| {
            let dtype = if tensor.rank() == 1 {
                GgmlDType::F32
            } else {
                dtype
            };
            (name.as_str(), QTensor::quantize(tensor, dtype).unwrap())
        })
        .collect();
    let quantised: Vec<(&str, &QTensor)> = quantised.iter().map(|(name, q)| (*name, q)).collect();
    let mut file = std::fs::File::create(path).unwrap();
    gguf_file::write(&mut file, &metadata, &quantised).unwrap();
}
