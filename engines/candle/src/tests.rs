//! Both of Candle's Llamas over one tiny model with made-up weights: that they
//! are the same model, that rows of a batch do not see each other, and that what
//! `hello` declares is so. Not here: whether the model is right, which is the
//! parity gate's to say.

use crate::engine::Candle;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, FailureKind, Hello, Load, Loaded};
use std::collections::HashMap;
use std::path::Path;

const HIDDEN: usize = 64;
const INNER: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const LAYERS: usize = 2;
const VOCABULARY: usize = 128;

/// Name in safetensors, name in GGUF, shape; norms have one dimension.
fn tensors() -> Vec<(String, String, Vec<usize>)> {
    let kv = HIDDEN / HEADS * KV_HEADS;
    let mut all = vec![
        (
            "model.embed_tokens".to_string(),
            "token_embd".to_string(),
            vec![VOCABULARY, HIDDEN],
        ),
        (
            "model.norm".to_string(),
            "output_norm".to_string(),
            vec![HIDDEN],
        ),
    ];
    for layer in 0..LAYERS {
        for (plain, gguf, shape) in [
            ("input_layernorm", "attn_norm", vec![HIDDEN]),
            ("self_attn.q_proj", "attn_q", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", "attn_k", vec![kv, HIDDEN]),
            ("self_attn.v_proj", "attn_v", vec![kv, HIDDEN]),
            ("self_attn.o_proj", "attn_output", vec![HIDDEN, HIDDEN]),
            ("post_attention_layernorm", "ffn_norm", vec![HIDDEN]),
            ("mlp.gate_proj", "ffn_gate", vec![INNER, HIDDEN]),
            ("mlp.up_proj", "ffn_up", vec![INNER, HIDDEN]),
            ("mlp.down_proj", "ffn_down", vec![HIDDEN, INNER]),
        ] {
            all.push((
                format!("model.layers.{layer}.{plain}"),
                format!("blk.{layer}.{gguf}"),
                shape,
            ));
        }
    }
    all
}

/// Numbers within ±0.3 from a linear congruential generator; norms around 1.
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

/// GGUF pairs neighbouring dimensions for RoPE, safetensors the two halves.
fn interleaved(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, columns) = weight.dims2().unwrap();
    let halves = weight
        .reshape((heads, 2, rows / heads / 2, columns))
        .unwrap();
    halves
        .transpose(1, 2)
        .unwrap()
        .contiguous()
        .unwrap()
        .reshape((rows, columns))
        .unwrap()
}

/// A model directory with `config.json`, `model.safetensors`, `model-f32.gguf`,
/// `model-q8_0.gguf` and, for Llama 3, `scaled.gguf` with RoPE factors.
fn model() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({
        "hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 32, "tie_word_embeddings": true,
    });
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();

    let mut plain = HashMap::new();
    let mut paired = Vec::new();
    for (seed, (plain_name, gguf_name, shape)) in tensors().into_iter().enumerate() {
        let weight = values(seed as u64 + 1, &shape);
        let in_gguf = match gguf_name.rsplit('.').next() {
            Some("attn_q") => interleaved(&weight, HEADS),
            Some("attn_k") => interleaved(&weight, KV_HEADS),
            _ => weight.clone(),
        };
        plain.insert(format!("{plain_name}.weight"), weight);
        paired.push((format!("{gguf_name}.weight"), in_gguf));
    }
    candle_core::safetensors::save(&plain, dir.path().join("model.safetensors")).unwrap();
    write_gguf(&dir.path().join("model-f32.gguf"), &paired, GgmlDType::F32);
    write_gguf(
        &dir.path().join("model-q8_0.gguf"),
        &paired,
        GgmlDType::Q8_0,
    );
    paired.push((
        "rope_freqs.weight".to_string(),
        values(99, &[HIDDEN / HEADS / 2]),
    ));
    write_gguf(&dir.path().join("scaled.gguf"), &paired, GgmlDType::Q8_0);
    dir
}

fn write_gguf(path: &Path, tensors: &[(String, Tensor)], dtype: GgmlDType) {
    let number = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("general.architecture", Value::String("llama".to_string())),
        ("llama.attention.head_count", number(HEADS)),
        ("llama.attention.head_count_kv", number(KV_HEADS)),
        ("llama.block_count", number(LAYERS)),
        ("llama.embedding_length", number(HIDDEN)),
        ("llama.rope.dimension_count", number(HIDDEN / HEADS)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.freq_base", Value::F32(10000.0)),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
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

fn request(dir: &Path, weights: &str, precision: &str) -> Load {
    Load {
        model_dir: dir.to_string_lossy().into_owned(),
        weights: weights.to_string(),
        precision: precision.to_string(),
        backend: "cpu".to_string(),
        variant: String::new(),
        device: 0,
        threads: 1,
        max_context: 32,
        max_batch: 4,
    }
}

fn load(dir: &Path, weights: &str, precision: &str) -> Result<(Candle, Loaded), EngineError> {
    Candle::load(&request(dir, weights, precision))
}

fn hello(dir: &Path, weights: &str, precision: &str) -> Hello {
    Candle::hello(&request(dir, weights, precision))
}

const PROMPTS: [&[u32]; 3] = [&[1, 2, 3, 4, 5], &[90, 3, 17, 64, 8], &[7, 7, 7, 7, 7]];

/// Six greedy tokens of each row, and row 0's logits after the last.
fn run(engine: &mut Candle, prompts: &[&[u32]]) -> (Vec<Vec<u32>>, Vec<f32>) {
    let mut next = engine.prefill(prompts).unwrap();
    let mut rows: Vec<Vec<u32>> = next.iter().map(|&id| vec![id]).collect();
    for _ in 1..6 {
        next = engine.decode(&next).unwrap();
        rows.iter_mut()
            .zip(&next)
            .for_each(|(row, &id)| row.push(id));
    }
    (rows, engine.logits(0).unwrap())
}

#[test]
fn safetensors_and_gguf_are_one_model() {
    let dir = model();
    let (mut plain, from_plain) = load(dir.path(), "model.safetensors", "f32").unwrap();
    let (mut gguf, from_gguf) = load(dir.path(), "model-f32.gguf", "f32").unwrap();
    assert_eq!(from_plain.weight_bytes, from_gguf.weight_bytes);
    assert_eq!(from_plain.kv_bytes_per_token, from_gguf.kv_bytes_per_token);
    let ((tokens, logits), (gguf_tokens, gguf_logits)) =
        (run(&mut plain, &PROMPTS), run(&mut gguf, &PROMPTS));
    assert_eq!(tokens, gguf_tokens);
    assert_eq!(logits.len(), VOCABULARY);
    assert!(
        logits
            .iter()
            .zip(&gguf_logits)
            .all(|(a, b)| (a - b).abs() < 1e-3)
    );
}

#[test]
fn rows_do_not_see_each_other_nor_the_last_batch() {
    let dir = model();
    for weights in ["model.safetensors", "model-f32.gguf"] {
        let (mut engine, _) = load(dir.path(), weights, "f32").unwrap();
        let (together, _) = run(&mut engine, &PROMPTS);
        let apart: Vec<_> = PROMPTS
            .iter()
            .map(|prompt| run(&mut engine, &[prompt]).0.remove(0))
            .collect();
        assert_eq!(together, apart, "{weights}");
    }
}

#[test]
fn quantised_rows_cannot_be_prefilled_together_as_declared() {
    let dir = model();
    let declared = hello(dir.path(), "model-q8_0.gguf", "q8_0").capabilities;
    assert_eq!(declared.batching, Batching::None);
    let (mut engine, loaded) = load(dir.path(), "model-q8_0.gguf", "q8_0").unwrap();
    // Where this succeeds one day, `gguf::describe` can say so.
    let refused = engine.prefill(&PROMPTS).unwrap_err();
    assert!(refused.message.contains("contiguous"), "{refused}");
    run(&mut engine, &PROMPTS[..1]);
    let weights: usize = tensors()
        .iter()
        .map(|(_, _, shape)| shape.iter().product::<usize>())
        .sum();
    let norms = (2 * LAYERS + 1) * HIDDEN;
    assert_eq!(
        loaded.weight_bytes,
        ((weights - norms) / 32 * 34 + norms * 4) as u64
    );
}

#[test]
fn ignored_rope_factors_are_declared() {
    let dir = model();
    let gap = |weights| hello(dir.path(), weights, "q8_0").capabilities.position_gap;
    assert!(gap("scaled.gguf").is_some_and(|gap| gap.contains("rope_freqs")));
    assert!(gap("model-q8_0.gguf").is_none());
}

#[test]
fn beyond_the_rope_table_is_unsupported() {
    let dir = model();
    let (mut engine, _) = load(dir.path(), "model.safetensors", "f32").unwrap();
    engine.prefill(&[&[1; 32]]).unwrap();
    assert_eq!(
        engine.decode(&[1]).unwrap_err().kind,
        FailureKind::Unsupported
    );
}

#[test]
fn a_bad_file_is_named() {
    let dir = model();
    for name in ["model.safetensors", "model-q8_0.gguf"] {
        let bytes = std::fs::read(dir.path().join(name)).unwrap();
        std::fs::write(
            dir.path().join(format!("half-{name}")),
            &bytes[..bytes.len() / 2],
        )
        .unwrap();
        let mut bytes = bytes;
        bytes[..64].fill(0xff);
        std::fs::write(dir.path().join(format!("bad-{name}")), &bytes).unwrap();
    }
    std::fs::write(dir.path().join("notes.txt"), "").unwrap();
    for (weights, precision) in [
        ("missing.safetensors", "f32"),
        ("missing.gguf", "q8_0"),
        ("half-model.safetensors", "f32"),
        ("half-model-q8_0.gguf", "q8_0"),
        ("bad-model.safetensors", "f32"),
        ("bad-model-q8_0.gguf", "q8_0"),
        ("model-q8_0.gguf", "q4_k_m"),
        ("notes.txt", "f32"),
    ] {
        let Err(err) = load(dir.path(), weights, precision) else {
            panic!("{weights} loaded")
        };
        assert!(err.message.contains(weights), "{err}");
        assert!(!err.message.contains('\n'), "{err}");
    }
    for precision in ["bf16", "q8_0"] {
        let Err(err) = load(dir.path(), "model.safetensors", precision) else {
            panic!()
        };
        assert_eq!(err.kind, FailureKind::Unsupported);
    }
    std::fs::remove_file(dir.path().join("config.json")).unwrap();
    let Err(err) = load(dir.path(), "model.safetensors", "f32") else {
        panic!()
    };
    assert!(err.message.contains("config.json"));
}
