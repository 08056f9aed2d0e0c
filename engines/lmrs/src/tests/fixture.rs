//! Tiny models with random weights, written as safetensors and as GGUF.

use crate::kernels::Kernels;
use crate::model::{Model, Options};
use crate::mutation::Mutation;
use crate::weights::Precision;
use half::{bf16, f16};
use protocol::engine::EngineError;
use splitmix::SplitMix64;
use std::path::Path;

/// A generator of random numbers that are the same on every machine.
pub struct Random(SplitMix64);

impl Random {
    /// Create a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// Return the next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Return roughly normal numbers (sums of four uniform ones) of a given standard deviation.
    pub fn normals(&mut self, count: usize, deviation: f32) -> Vec<f32> {
        let uniform = |bits: u64| (bits >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
        let mut one = || (0..4).map(|_| uniform(self.next())).sum::<f32>() * 1.732 * deviation;
        (0..count).map(|_| one()).collect()
    }
}

pub const VOCABULARY: usize = 72;
const DIM: usize = 64;
const HIDDEN: usize = 96;
const LAYERS: usize = 3;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 16;

/// The type in which a safetensors file stores its numbers.
#[derive(Clone, Copy)]
pub enum Storage {
    F32,
    F16,
    Bf16,
}

/// A tiny Llama, with its tensors by their Hugging Face names.
pub struct Tiny {
    tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
    scaled_rope: bool,
    tied: bool,
}

impl Tiny {
    /// Create a model with or without Llama 3's RoPE scaling, with tied embeddings or not.
    pub fn new(scaled_rope: bool, tied: bool) -> Self {
        let mut random = Random::new(42);
        let mut tensors = Vec::new();
        let mut matrix = |name: String, rows: usize, cols: usize, gain: f32| {
            // Rounded to Q8_0, so that both files hold exactly the same weights.
            let values = random.normals(rows * cols, gain / (cols as f32).sqrt());
            let values = values.chunks(32).flat_map(|block| {
                let scale = f16::from_f32(block.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0);
                let scale = scale.to_f32();
                block
                    .iter()
                    .map(move |v| (v / scale).round().clamp(-127.0, 127.0) * scale)
            });
            tensors.push((format!("{name}.weight"), vec![rows, cols], values.collect()));
        };
        let (q_dim, kv_dim) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        matrix("model.embed_tokens".into(), VOCABULARY, DIM, 2.0);
        if !tied {
            matrix("lm_head".into(), VOCABULARY, DIM, 2.0);
        }
        for layer in 0..LAYERS {
            let at = |name: &str| format!("model.layers.{layer}.{name}");
            matrix(at("self_attn.q_proj"), q_dim, DIM, 1.8);
            matrix(at("self_attn.k_proj"), kv_dim, DIM, 1.8);
            matrix(at("self_attn.v_proj"), kv_dim, DIM, 1.5);
            matrix(at("self_attn.o_proj"), DIM, q_dim, 1.5);
            matrix(at("mlp.gate_proj"), HIDDEN, DIM, 1.5);
            matrix(at("mlp.up_proj"), HIDDEN, DIM, 1.5);
            matrix(at("mlp.down_proj"), DIM, HIDDEN, 1.5);
        }
        let mut norm = |name: String| {
            let values = random
                .normals(DIM, 0.1)
                .into_iter()
                .map(|v| bf16::from_f32(1.0 + v).to_f32());
            tensors.push((format!("{name}.weight"), vec![DIM], values.collect()));
        };
        for layer in 0..LAYERS {
            norm(format!("model.layers.{layer}.input_layernorm"));
            norm(format!("model.layers.{layer}.post_attention_layernorm"));
        }
        norm("model.norm".into());
        Self {
            tensors,
            scaled_rope,
            tied,
        }
    }

    /// Write `config.json` and `model.safetensors`.
    pub fn write_safetensors(&self, dir: &Path, storage: Storage) {
        let scaling = if self.scaled_rope {
            r#"{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 16}"#
        } else {
            "null"
        };
        let tied = self.tied;
        let config = format!(
            r#"{{"model_type": "llama", "hidden_act": "silu", "hidden_size": {DIM},
            "intermediate_size": {HIDDEN}, "num_hidden_layers": {LAYERS},
            "num_attention_heads": {HEADS}, "num_key_value_heads": {KV_HEADS},
            "vocab_size": {VOCABULARY}, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "rope_scaling": {scaling}, "tie_word_embeddings": {tied}}}"#
        );
        std::fs::write(dir.join("config.json"), config).unwrap();
        let (dtype, encode): (&str, fn(f32) -> Vec<u8>) = match storage {
            Storage::F32 => ("F32", |v| v.to_le_bytes().to_vec()),
            Storage::F16 => ("F16", |v| f16::from_f32(v).to_le_bytes().to_vec()),
            Storage::Bf16 => ("BF16", |v| bf16::from_f32(v).to_le_bytes().to_vec()),
        };
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, shape, values) in &self.tensors {
            let bytes: Vec<u8> = values.iter().flat_map(|v| encode(*v)).collect();
            let range = [data.len(), data.len() + bytes.len()];
            let info = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": range});
            header.insert(name.clone(), info);
            data.extend(bytes);
        }
        let mut header = serde_json::to_vec(&header).unwrap();
        header.resize(header.len().next_multiple_of(8), b' ');
        let length = (header.len() as u64).to_le_bytes();
        let file = [&length[..], &header, &data].concat();
        std::fs::write(dir.join("model.safetensors"), file).unwrap();
    }

    /// Write `model-q8_0.gguf`.
    pub fn write_gguf(&self, dir: &Path) {
        let mut gguf = GgufFile::default();
        gguf.text("general.architecture", "llama");
        gguf.number("llama.embedding_length", DIM);
        gguf.number("llama.feed_forward_length", HIDDEN);
        gguf.number("llama.block_count", LAYERS);
        gguf.number("llama.attention.head_count", HEADS);
        gguf.number("llama.attention.head_count_kv", KV_HEADS);
        gguf.number("llama.rope.dimension_count", HEAD_DIM);
        gguf.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
        gguf.float("llama.rope.freq_base", 10_000.0);
        gguf.texts("tokenizer.ggml.tokens", VOCABULARY);
        for (name, shape, values) in &self.tensors {
            let (name, permuted) = gguf_name(name);
            let cols = *shape.last().unwrap();
            let mut rows: Vec<&[f32]> = values.chunks(cols).collect();
            if permuted {
                // As in llama.cpp, reorder (2, half) → (half, 2) within each head.
                let plain = rows.clone();
                for (row, out) in rows.iter_mut().enumerate() {
                    let (head, within) = (row / HEAD_DIM, row % HEAD_DIM);
                    *out = plain[head * HEAD_DIM + within % 2 * HEAD_DIM / 2 + within / 2];
                }
            }
            gguf.tensor(&name, shape, &rows.concat());
        }
        if self.scaled_rope {
            // The same scaling as in `config.json`, as divisors of the frequencies.
            let config = dir.join("config.json");
            let rope = shape::Shape::read(&config, &crate::weights::COMPUTES)
                .unwrap()
                .rope;
            let scaled = rope.frequencies(HEAD_DIM);
            let plain = shape::Rope {
                scaling: shape::Scaling::None,
                ..rope
            };
            let plain = plain.frequencies(HEAD_DIM);
            let divisors: Vec<f32> = plain.iter().zip(&scaled).map(|(p, s)| p / s).collect();
            gguf.tensor("rope_freqs.weight", &[HEAD_DIM / 2], &divisors);
        }
        std::fs::write(dir.join("model-q8_0.gguf"), gguf.finish()).unwrap();
    }
}

fn gguf_name(name: &str) -> (String, bool) {
    let fixed = match name {
        "model.embed_tokens.weight" => Some("token_embd.weight"),
        "lm_head.weight" => Some("output.weight"),
        "model.norm.weight" => Some("output_norm.weight"),
        _ => None,
    };
    if let Some(fixed) = fixed {
        return (fixed.to_owned(), false);
    }
    let rest = name.strip_prefix("model.layers.").unwrap();
    let (layer, part) = rest.split_once('.').unwrap();
    let part = match part {
        "self_attn.q_proj.weight" => "attn_q",
        "self_attn.k_proj.weight" => "attn_k",
        "self_attn.v_proj.weight" => "attn_v",
        "self_attn.o_proj.weight" => "attn_output",
        "mlp.gate_proj.weight" => "ffn_gate",
        "mlp.up_proj.weight" => "ffn_up",
        "mlp.down_proj.weight" => "ffn_down",
        "input_layernorm.weight" => "attn_norm",
        "post_attention_layernorm.weight" => "ffn_norm",
        other => panic!("no name for {other}"),
    };
    (
        format!("blk.{layer}.{part}.weight"),
        matches!(part, "attn_q" | "attn_k"),
    )
}

/// A minimal GGUF writer.
#[derive(Default)]
struct GgufFile {
    values: Vec<u8>,
    value_count: u64,
    infos: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

impl GgufFile {
    fn key(&mut self, key: &str, kind: u32) {
        self.values.extend(string(key));
        self.values.extend(kind.to_le_bytes());
        self.value_count += 1;
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        self.values.extend(string(value));
    }

    fn number(&mut self, key: &str, value: usize) {
        self.key(key, 4);
        self.values.extend((value as u32).to_le_bytes());
    }

    fn float(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.values.extend(value.to_le_bytes());
    }

    fn texts(&mut self, key: &str, count: usize) {
        self.key(key, 9);
        self.values.extend(8u32.to_le_bytes());
        self.values.extend((count as u64).to_le_bytes());
        for index in 0..count {
            self.values.extend(string(&format!("t{index}")));
        }
    }

    /// Add a tensor: vectors as F32, matrices as Q8_0.
    fn tensor(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let quantised = shape.len() == 2;
        self.infos.extend(string(name));
        self.infos.extend((shape.len() as u32).to_le_bytes());
        for length in shape.iter().rev() {
            self.infos.extend((*length as u64).to_le_bytes());
        }
        self.infos
            .extend(if quantised { 8u32 } else { 0 }.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.tensor_count += 1;
        if !quantised {
            self.data
                .extend(values.iter().flat_map(|v| v.to_le_bytes()));
        }
        for block in values.chunks(32).filter(|_| quantised) {
            let scale = f16::from_f32(block.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0);
            self.data.extend(scale.to_le_bytes());
            let scale = scale.to_f32();
            let rounded = block
                .iter()
                .map(|v| (v / scale).round().clamp(-127.0, 127.0) as i8);
            self.data.extend(rounded.map(|value| value as u8));
        }
        self.data.resize(self.data.len().next_multiple_of(32), 0);
    }

    fn finish(self) -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(self.tensor_count.to_le_bytes());
        file.extend(self.value_count.to_le_bytes());
        file.extend(self.values);
        file.extend(self.infos);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(self.data);
        file
    }
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// The options with which a test loads a tiny model.
#[derive(Clone, Copy)]
pub struct How {
    pub precision: Precision,
    pub threads: usize,
    pub prefix_cache: bool,
    pub mutation: Option<Mutation>,
    pub kernels: Kernels,
}

impl How {
    pub fn plain(precision: Precision) -> Self {
        Self {
            precision,
            threads: 2,
            prefix_cache: false,
            mutation: None,
            kernels: Kernels::choose(None).unwrap(),
        }
    }

    pub fn load(self, dir: &Path) -> Result<Model, EngineError> {
        Model::load(&Options {
            model_dir: dir,
            weights: match self.precision {
                Precision::F32 => "model.safetensors",
                Precision::Q8_0 => "model-q8_0.gguf",
            },
            precision: self.precision,
            threads: self.threads,
            max_context: 300,
            max_batch: 4,
            prefix_cache: self.prefix_cache,
            mutation: self.mutation,
            kernels: self.kernels,
        })
    }
}
