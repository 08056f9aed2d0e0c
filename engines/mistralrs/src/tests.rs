//! Tests of the whole adapter with one tiny model: that forced logits, tokens generated alone and
//! tokens generated together with other requests agree, and that what `hello` declares is true.
//! Whether the model's output is right is checked by the parity gate, not here.

use crate::engine::MistralRs;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use protocol::engine::{EngineError, testing};
use protocol::scheduler::{Job, Scheduler};
use protocol::wire::{Done, Event, FailureKind, Generate, Load, Loaded};
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

/// A temporary directory, which is removed when the value is dropped.
pub struct TempDir(PathBuf);

impl TempDir {
    /// Create a new, empty directory.
    pub fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("mistralrs-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // a leftover does no harm
    }
}

const HIDDEN: usize = 64;
const INNER: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const LAYERS: usize = 2;
const VOCABULARY: usize = 320;

/// Return each tensor's name in safetensors, name in GGUF, and shape; norms have one dimension.
fn tensors() -> Vec<(String, String, Vec<usize>)> {
    let kv = HIDDEN / HEADS * KV_HEADS;
    let whole = [
        ("model.embed_tokens", "token_embd", vec![VOCABULARY, HIDDEN]),
        ("model.norm", "output_norm", vec![HIDDEN]),
    ];
    let layer = [
        ("input_layernorm", "attn_norm", vec![HIDDEN]),
        ("self_attn.q_proj", "attn_q", vec![HIDDEN, HIDDEN]),
        ("self_attn.k_proj", "attn_k", vec![kv, HIDDEN]),
        ("self_attn.v_proj", "attn_v", vec![kv, HIDDEN]),
        ("self_attn.o_proj", "attn_output", vec![HIDDEN, HIDDEN]),
        ("post_attention_layernorm", "ffn_norm", vec![HIDDEN]),
        ("mlp.gate_proj", "ffn_gate", vec![INNER, HIDDEN]),
        ("mlp.up_proj", "ffn_up", vec![INNER, HIDDEN]),
        ("mlp.down_proj", "ffn_down", vec![HIDDEN, INNER]),
    ];
    let mut all = Vec::new();
    let mut add = |a: &str, b: &str, (plain, gguf, shape): &(&str, &str, Vec<usize>)| {
        all.push((format!("{a}{plain}"), format!("{b}{gguf}"), shape.clone()));
    };
    whole.iter().for_each(|tensor| add("", "", tensor));
    for index in 0..LAYERS {
        let (a, b) = (format!("model.layers.{index}."), format!("blk.{index}."));
        layer.iter().for_each(|tensor| add(&a, &b, tensor));
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

/// Reorder rows: GGUF pairs neighbouring dimensions for RoPE, safetensors the two halves.
fn interleaved(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, columns) = weight.dims2().unwrap();
    let halves = weight.reshape((heads, 2, rows / heads / 2, columns));
    let pairs = halves.unwrap().transpose(1, 2).unwrap();
    let pairs = pairs.contiguous().unwrap();
    pairs.reshape((rows, columns)).unwrap()
}

/// Create a model directory with `model.safetensors`, `model-f32.gguf`, `model-q8_0.gguf` and, as
/// for Llama 3, `scaled.gguf` with RoPE factors.
fn model() -> TempDir {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name);
    let config = json!({
        "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": INNER,
        "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 64, "tie_word_embeddings": true,
    });
    std::fs::write(path("config.json"), config.to_string()).unwrap();
    std::fs::write(path("tokenizer.json"), tokenizer()).unwrap();
    let special = json!({"bos_token": "aa", "eos_token": "ab"});
    std::fs::write(path("tokenizer_config.json"), special.to_string()).unwrap();

    let mut plain = HashMap::new();
    let mut paired = Vec::new();
    for (seed, (plain_name, gguf_name, shape)) in (1u64..).zip(tensors()) {
        let weight = values(seed, &shape);
        let in_gguf = match gguf_name.rsplit('.').next() {
            Some("attn_q") => interleaved(&weight, HEADS),
            Some("attn_k") => interleaved(&weight, KV_HEADS),
            _ => weight.clone(),
        };
        plain.insert(format!("{plain_name}.weight"), weight);
        paired.push((format!("{gguf_name}.weight"), in_gguf));
    }
    candle_core::safetensors::save(&plain, path("model.safetensors")).unwrap();
    write_gguf(&path("model-f32.gguf"), &paired, GgmlDType::F32);
    write_gguf(&path("model-q8_0.gguf"), &paired, GgmlDType::Q8_0);
    let factors = values(99, &[HIDDEN / HEADS / 2]);
    paired.push(("rope_freqs.weight".to_string(), factors));
    write_gguf(&path("scaled.gguf"), &paired, GgmlDType::Q8_0);
    dir
}

/// A tokenizer of all tokens: first those of two letters, then those of one. mistral.rs must be
/// able to decode every id.
fn tokenizer() -> String {
    let letters = || b'a'..=b'z';
    let pairs = letters().flat_map(|a| letters().map(move |b| vec![a, b]));
    let texts = letters().map(|a| vec![a]).rev();
    let texts = pairs.take(VOCABULARY - 26).chain(texts);
    let vocabulary: serde_json::Map<String, serde_json::Value> = texts
        .enumerate()
        .map(|(id, text)| (String::from_utf8(text).unwrap(), json!(id)))
        .collect();
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocabulary, "merges": [],
        },
    });
    tokenizer.to_string()
}

fn write_gguf(path: &Path, tensors: &[(String, Tensor)], dtype: GgmlDType) {
    let number = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("general.architecture", Value::String("llama".to_string())),
        ("llama.attention.head_count", number(HEADS)),
        ("llama.attention.head_count_kv", number(KV_HEADS)),
        ("llama.block_count", number(LAYERS)),
        ("llama.context_length", number(64)),
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
        max_batch: 8,
        ..testing::request(dir, weights, precision)
    }
}

fn load(dir: &Path, weights: &str, precision: &str) -> Result<(MistralRs, Loaded), EngineError> {
    MistralRs::load(&request(dir, weights, precision))
}

/// Most lengths occur more than once, so that some prompts share a step and some do not.
const PROMPTS: [&[u32]; 6] = [
    &[11, 12, 13, 14, 15],
    &[190, 13, 117, 164, 108],
    &[70, 71, 72],
    &[33; 9],
    &[70, 71, 73],
    &[250, 9, 40, 41, 42, 43, 44, 45, 46],
];

/// Generate `new_tokens` for each prompt, all in flight together.
fn run(engine: &mut MistralRs, prompts: &[&[u32]], new_tokens: u32) -> Vec<Done> {
    let waiting: Vec<_> = (0u64..)
        .zip(prompts)
        .map(|(id, prompt)| {
            let generate = Generate {
                id,
                prompt_ids: prompt.to_vec(),
                new_tokens,
                together: 1,
            };
            let (reply, answer) = channel();
            engine.submit(Job::new(generate, 1, move |event| {
                reply.send(event).unwrap();
            }));
            answer
        })
        .collect();
    let answers = waiting.into_iter().map(|answer| answer.recv().unwrap());
    answers
        .map(|event| match event {
            Event::Done(done) => done,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn forced_logits_are_those_that_generate_goes_by() {
    let dir = model();
    for (weights, precision) in [("model.safetensors", "f32"), ("model-q8_0.gguf", "q8_0")] {
        let (mut engine, _) = load(dir.path(), weights, precision).unwrap();
        let done = run(&mut engine, &PROMPTS[..1], 7).remove(0);
        assert_eq!((done.output_ids.len(), done.token_ns.len()), (7, 7));
        assert!(done.started_ns <= done.token_ns[0]);
        assert!(done.token_ns.is_sorted());
        assert_eq!(done.batch, 1);
        let rows = engine
            .forced_logits(PROMPTS[0], &done.output_ids[..6])
            .unwrap();
        let argmax = |row: &Vec<f32>| {
            assert_eq!(row.len(), VOCABULARY);
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            best.unwrap().0 as u32
        };
        let chosen: Vec<u32> = rows.iter().map(argmax).collect();
        assert_eq!(chosen, done.output_ids, "{weights}");
        let one = run(&mut engine, &PROMPTS[..1], 1).remove(0);
        assert_eq!(one.output_ids, done.output_ids[..1]);
        assert_eq!(engine.forced_logits(PROMPTS[0], &[]).unwrap(), rows[..1]);
        assert!(
            engine
                .forced_logits(PROMPTS[0], &[VOCABULARY as u32])
                .is_err()
        );
        // A refused step does not end the engine.
        assert_eq!(
            run(&mut engine, &PROMPTS[..1], 7)[0].output_ids,
            done.output_ids
        );
    }
}

#[test]
fn company_changes_nothing() {
    let dir = model();
    for (weights, precision) in [("model.safetensors", "f32"), ("model-q8_0.gguf", "q8_0")] {
        let (mut engine, _) = load(dir.path(), weights, precision).unwrap();
        let alone: Vec<_> = PROMPTS
            .iter()
            .map(|prompt| run(&mut engine, &[prompt], 12).remove(0).output_ids)
            .collect();
        let together = run(&mut engine, &PROMPTS, 12);
        // Batches of one, as declared; if this holds for larger batches one day, `batching` must
        // be updated.
        assert!(together.iter().all(|done| done.batch == 1));
        let together: Vec<_> = together.into_iter().map(|done| done.output_ids).collect();
        assert_eq!(together, alone, "{weights}");
    }
}

#[test]
fn safetensors_and_gguf_are_one_model() {
    let dir = model();
    let (mut plain, from_plain) = load(dir.path(), "model.safetensors", "f32").unwrap();
    let (mut gguf, from_gguf) = load(dir.path(), "model-f32.gguf", "f32").unwrap();
    assert_eq!(from_plain.weight_bytes, from_gguf.weight_bytes);
    assert_eq!(
        from_plain.kv_bytes_per_token,
        (2 * LAYERS * KV_HEADS * HIDDEN / HEADS * 4) as u64
    );
    let tokens = |engine: &mut MistralRs| run(engine, &PROMPTS[..1], 8).remove(0).output_ids;
    assert_eq!(tokens(&mut plain), tokens(&mut gguf));
}

#[test]
fn what_is_quantised_in_place_is_smaller() {
    let dir = model();
    let (_, plain) = load(dir.path(), "model.safetensors", "f16").unwrap();
    let mut wanted = request(dir.path(), "model.safetensors", "q8_0");
    assert_eq!(
        MistralRs::load(&wanted).err().unwrap().kind,
        FailureKind::Unsupported
    );
    wanted.variant = "isq".to_string();
    let (mut engine, quantised) = MistralRs::load(&wanted).unwrap();
    assert!(quantised.weight_bytes < plain.weight_bytes);
    assert_eq!(run(&mut engine, &PROMPTS[..1], 3)[0].output_ids.len(), 3);
}

#[test]
fn a_file_that_is_not_what_it_is_called_is_refused() {
    let dir = model();
    let refused = |weights, precision| load(dir.path(), weights, precision).err().unwrap();
    assert_eq!(
        refused("model-q8_0.gguf", "q4_k_m").kind,
        FailureKind::Unsupported
    );
    assert_eq!(
        refused("model.safetensors", "q4_k_m").kind,
        FailureKind::Unsupported
    );
    assert!(
        refused("missing.gguf", "q8_0")
            .message
            .contains("missing.gguf")
    );
}

#[test]
fn rope_scaling_that_a_gguf_path_ignores_is_declared() {
    let dir = model();
    let gap = |weights: &str| {
        let hello = MistralRs::hello(&request(dir.path(), weights, "q8_0"));
        hello.capabilities.position_gap
    };
    assert!(gap("scaled.gguf").is_some());
    assert!(gap("model-q8_0.gguf").is_none());
    assert!(gap("model.safetensors").is_none());
}

#[test]
fn what_is_kept_of_prompts_changes_no_token() {
    let dir = model();
    let prompts: [&[u32]; 5] = [
        &[11, 12, 13, 14, 15, 16],
        &[11, 12, 13, 14, 90, 91],
        // Extends the first prompt, whose end the second must not have overwritten.
        &[11, 12, 13, 14, 15, 16, 17],
        &[11, 12, 13, 14, 90, 91],
        &[11, 12],
    ];
    for (weights, precision) in [("model.safetensors", "f32"), ("model-q8_0.gguf", "q8_0")] {
        let outputs = |prefix_cache| -> Vec<Vec<u32>> {
            let load = Load {
                prefix_cache,
                ..request(dir.path(), weights, precision)
            };
            let (mut engine, _) = MistralRs::load(&load).unwrap();
            let alone = prompts.map(|prompt| run(&mut engine, &[prompt], 8).remove(0).output_ids);
            alone.into()
        };
        assert_eq!(outputs(true), outputs(false), "{weights}");
    }
}
