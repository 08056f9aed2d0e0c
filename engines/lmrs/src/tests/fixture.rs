//! Tiny models with random weights, written as safetensors and as GGUF.

use crate::kernels::Kernels;
use crate::model::{Model, Options};
use crate::mutation::Mutation;
use crate::weights::Precision;
use half::{bf16, f16};
use models::checkpoint::Conversion;
use models::config::config_json;
use models::quant::GgmlType;
use models::tensors::{Role, TensorDef, tensors};
use models::{Llama3RopeScaling, ModelFile, ModelSpec};
use protocol::engine::EngineError;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use splitmix::SplitMix64;
use std::path::Path;
use tempfile::TempDir;

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

/// Return the shape of a tiny Llama, with or without Llama 3's RoPE scaling, with tied embeddings
/// or not.
fn spec(scaled_rope: bool, tied: bool) -> ModelSpec {
    let scaling = Llama3RopeScaling {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position: 16,
    };
    ModelSpec {
        tied,
        vocab_size: VOCABULARY,
        hidden_size: 64,
        intermediate_size: 96,
        num_layers: 3,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        rope_scaling: scaled_rope.then_some(scaling),
        ..ModelSpec::tiny_llama()
    }
}

/// Draw the weights of a tensor. Matrices are rounded to Q8_0, so that the GGUF file holds exactly
/// the same weights as one of f32, and one in half precision does not.
fn weights(def: &TensorDef, random: &mut Random) -> Vec<f32> {
    if def.is_vector() {
        let spread = random.normals(def.cols, 0.1).into_iter();
        return spread.map(|v| bf16::from_f32(1.0 + v).to_f32()).collect();
    }
    let gain = match def.role {
        Role::Embedding | Role::Output => 2.0,
        Role::Query | Role::Key => 1.8,
        _ => 1.5,
    };
    let values = random.normals(def.len(), gain / (def.cols as f32).sqrt());
    let mut blocks = Vec::new();
    GgmlType::Q8_0.encode(&values, &mut blocks);
    GgmlType::Q8_0.decode(&blocks)
}

/// Write a tiny Llama: `config.json`, `model.safetensors` in f32 and `model-q8_0.gguf`.
pub fn tiny(scaled_rope: bool, tied: bool) -> TempDir {
    tiny_stored_as(Dtype::F32, scaled_rope, tied)
}

/// Write a tiny Llama whose `model.safetensors` stores its numbers as `dtype`.
pub fn tiny_stored_as(dtype: Dtype, scaled_rope: bool, tied: bool) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let spec = spec(scaled_rope, tied);
    std::fs::write(path("config.json"), config_json(&spec)).unwrap();

    let mut defs = tensors(&spec);
    // The limits in the tests were found with weights that are drawn in this order.
    defs.sort_by_key(|def| (def.is_vector(), def.role == Role::FinalNorm, def.layer));
    let mut random = Random::new(42);
    let encode: fn(f32) -> Vec<u8> = match dtype {
        Dtype::F16 => |v| f16::from_f32(v).to_le_bytes().to_vec(),
        Dtype::BF16 => |v| bf16::from_f32(v).to_le_bytes().to_vec(),
        _ => |v| v.to_le_bytes().to_vec(),
    };
    let stored = defs.iter().map(|def| {
        let values = weights(def, &mut random).into_iter();
        (def, values.flat_map(encode).collect::<Vec<u8>>())
    });
    let stored: Vec<_> = stored.collect();
    let views = stored.iter().map(|(def, bytes)| {
        let view = TensorView::new(dtype, def.shape(), bytes).unwrap();
        (&def.name, view)
    });
    safetensors::serialize_to_file(views, None, &path("model.safetensors")).unwrap();

    // The tests ask with ids, so the vocabulary needs no tokens.
    std::fs::write(path("tokenizer.json"), r#"{"model": {"vocab": {}}}"#).unwrap();
    let model = Conversion::open(dir.path(), &[path("model.safetensors")], "tiny").unwrap();
    let (mut bytes, file) = (Vec::new(), ModelFile::GgufQ8_0);
    model.write(file, &mut bytes, &mut |_| true).unwrap();
    std::fs::write(path(file.name()), bytes).unwrap();
    dir
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
