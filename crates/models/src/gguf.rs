//! Writes GGUF v3 files, as llama.cpp's `convert_hf_to_gguf.py` and `llama-quantize` would.
//!
//! It writes only what these models need: little-endian, one file; and it doesn't read.
//! [`checkpoint`](crate::checkpoint) writes models that the user brought by this module. With tied
//! embeddings there is no `output.weight`: every reader falls back to `token_embd.weight`.

use std::io::Write;

use anyhow::Result;

use crate::architecture::Architecture;
use crate::bpe::Bpe;
use crate::quant::GgmlType;
use crate::spec::{ModelFile, ModelSpec};
use crate::stream;
use crate::tokenizer::{BOS_ID, EOS_ID, SPECIAL};
use crate::trained::Origin;
use crate::weights::{Role, TensorDef, tensors};

/// Tensor data begin at multiples of this, GGUF's default.
pub(crate) const ALIGNMENT: usize = 32;

/// The type of a tensor in `file`, by llama.cpp's rules (`llama_tensor_get_type`).
pub fn tensor_type(spec: &ModelSpec, def: &TensorDef, file: ModelFile) -> GgmlType {
    if def.is_vector() {
        return GgmlType::F32;
    }
    let wanted = match file {
        ModelFile::Safetensors | ModelFile::GgufF32 => GgmlType::F32,
        ModelFile::GgufF16 => GgmlType::F16,
        ModelFile::GgufQ8_0 => GgmlType::Q8_0,
        ModelFile::GgufQ4KM => {
            let more_bits = def
                .layer
                .is_some_and(|layer| use_more_bits(layer, spec.num_layers));
            match def.role {
                Role::Output => GgmlType::Q6K,
                Role::Embedding if spec.tied => GgmlType::Q6K,
                Role::QueryKeyValue => GgmlType::Q5K,
                Role::Value | Role::Down if more_bits => GgmlType::Q6K,
                _ => GgmlType::Q4K,
            }
        }
    };
    // Where rows don't fill a format's blocks, a format with smaller blocks is used, or else f16,
    // which always fits.
    let coarser = match wanted {
        GgmlType::Q4K => GgmlType::Q5_0,
        GgmlType::Q5K | GgmlType::Q6K => GgmlType::Q8_0,
        other => other,
    };
    let fits = |kind: &GgmlType| def.cols.is_multiple_of(kind.block().0);
    let found = [wanted, coarser].into_iter().find(fits);
    found.unwrap_or(GgmlType::F16)
}

/// llama.cpp's `use_more_bits`: true for the first and the last eighth of the layers, and every
/// third between.
fn use_more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// The row in Hugging Face's order that row `row` of the GGUF tensor comes from. llama.cpp rotates
/// neighbouring dimensions of a Llama and Hugging Face the two halves of a head, so the rows of
/// query and key are interleaved.
pub(crate) fn source_row(spec: &ModelSpec, role: Role, row: usize) -> usize {
    match role {
        Role::Query | Role::Key if spec.architecture.interleaves_in_gguf() => {
            let head_dim = spec.head_dim;
            let (head, within) = (row / head_dim, row % head_dim);
            head * head_dim + within % 2 * (head_dim / 2) + within / 2
        }
        _ => row,
    }
}

/// Writes the whole file to `out`. Calls `done` with the number of weights of each part it has
/// written; an error of `done` ends the writing.
pub fn write(
    spec: &ModelSpec,
    origin: Origin,
    bpe: &Bpe,
    file: ModelFile,
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize) -> std::io::Result<()>,
) -> Result<()> {
    let metadata = metadata(spec, bpe, file);
    write_head(spec, file, &metadata, spec.rope_factors(), out)?;
    for def in tensors(spec) {
        write_tensor(spec, file, &def, origin.rows(spec, &def), out, done)?;
    }
    Ok(())
}

/// Writes everything that stands before the model's tensors: the keys, the table of the tensors,
/// and RoPE's divisors where there are any.
pub(crate) fn write_head(
    spec: &ModelSpec,
    file: ModelFile,
    metadata: &Metadata,
    rope_factors: Option<Vec<f64>>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut infos = Infos::default();
    if let Some(factors) = &rope_factors {
        infos.add("rope_freqs.weight", &[factors.len()], GgmlType::F32);
    }
    for def in tensors(spec) {
        let mut shape = def.shape();
        shape.reverse();
        infos.add(&def.gguf_name, &shape, tensor_type(spec, &def, file));
    }
    out.write_all(&head(&infos, metadata))?;
    if let Some(factors) = rope_factors {
        let factors: Vec<f32> = factors.iter().map(|f| *f as f32).collect();
        let mut bytes = Vec::new();
        GgmlType::F32.encode(&factors, &mut bytes);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Writes a tensor, of which `fill(r, …)` writes Hugging Face's row `r`. Calls `done` with the
/// number of weights of each part it has written; an error of `done` ends the writing.
pub(crate) fn write_tensor(
    spec: &ModelSpec,
    file: ModelFile,
    def: &TensorDef,
    fill: impl Fn(usize, &mut [f32]) + Sync,
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let kind = tensor_type(spec, def, file);
    let fill = |row: usize, out: &mut [f32]| fill(source_row(spec, def.role, row), out);
    let encode = |weights: &[f32], bytes: &mut Vec<u8>| kind.encode(weights, bytes);
    stream::write_rows((def.rows, def.cols), fill, encode, out, done)?;
    let size = kind.bytes(def.len());
    out.write_all(&vec![0; size.next_multiple_of(ALIGNMENT) - size])
}

/// Makes everything that stands before the tensors' data.
fn head(infos: &Infos, metadata: &Metadata) -> Vec<u8> {
    let mut head = b"GGUF".to_vec();
    head.extend_from_slice(&3u32.to_le_bytes());
    head.extend_from_slice(&infos.count.to_le_bytes());
    head.extend_from_slice(&metadata.count.to_le_bytes());
    head.extend_from_slice(&metadata.bytes);
    head.extend_from_slice(&infos.bytes);
    head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
    head
}

/// The tensor table: name, shape (fastest dimension first), type, offset from the start of the
/// data.
#[derive(Default)]
struct Infos {
    bytes: Vec<u8>,
    count: u64,
    offset: usize,
}

impl Infos {
    fn add(&mut self, name: &str, shape: &[usize], kind: GgmlType) {
        push_string(&mut self.bytes, name);
        self.bytes.extend((shape.len() as u32).to_le_bytes());
        for &dim in shape {
            self.bytes.extend((dim as u64).to_le_bytes());
        }
        self.bytes.extend((kind as u32).to_le_bytes());
        self.bytes.extend((self.offset as u64).to_le_bytes());
        let size = kind.bytes(shape.iter().product());
        self.offset += size.next_multiple_of(ALIGNMENT);
        self.count += 1;
    }
}

/// Key-value pairs. The numbers given as `kind` are GGUF's value types.
#[derive(Default)]
pub(crate) struct Metadata {
    bytes: Vec<u8>,
    count: u64,
}

impl Metadata {
    fn key(&mut self, key: &str, kind: u32) {
        push_string(&mut self.bytes, key);
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.count += 1;
    }

    pub(crate) fn u32(&mut self, key: &str, value: usize) {
        self.key(key, 4);
        let value = u32::try_from(value).expect("metadata numbers fit in 32 bits");
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, key: &str, value: f64) {
        self.key(key, 6);
        self.bytes.extend_from_slice(&(value as f32).to_le_bytes());
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        self.key(key, 7);
        self.bytes.push(u8::from(value));
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        push_string(&mut self.bytes, value);
    }

    fn array(&mut self, key: &str, kind: u32, len: usize) {
        self.key(key, 9);
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&(len as u64).to_le_bytes());
    }

    pub(crate) fn strings<S: AsRef<str>>(&mut self, key: &str, values: &[S]) {
        self.array(key, 8, values.len());
        for value in values {
            push_string(&mut self.bytes, value.as_ref());
        }
    }

    pub(crate) fn f32s(&mut self, key: &str, values: &[f32]) {
        self.array(key, 6, values.len());
        for value in values {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn i32s(&mut self, key: &str, values: &[i32]) {
        self.array(key, 5, values.len());
        for value in values {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }
}

fn push_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// The value of `llama_ftype` in llama.h for a file.
fn file_type(file: ModelFile) -> usize {
    match file {
        ModelFile::Safetensors | ModelFile::GgufF32 => 0,
        ModelFile::GgufF16 => 1,
        ModelFile::GgufQ8_0 => 7,
        ModelFile::GgufQ4KM => 15,
    }
}

fn metadata(spec: &ModelSpec, bpe: &Bpe, file: ModelFile) -> Metadata {
    let mut m = model_metadata(spec, &spec.id, file, spec.max_position, 0);
    m.string("tokenizer.ggml.model", "gpt2");
    m.string("tokenizer.ggml.pre", "gpt-2");
    m.strings("tokenizer.ggml.tokens", &bpe.tokens);
    // `llama_token_type`: 1 normal, 3 control.
    let types: Vec<i32> = (0..bpe.tokens.len())
        .map(|id| if id < SPECIAL.len() { 3 } else { 1 })
        .collect();
    m.i32s("tokenizer.ggml.token_type", &types);
    let merges: Vec<String> = bpe.merges.iter().map(|(a, b)| format!("{a} {b}")).collect();
    m.strings("tokenizer.ggml.merges", &merges);
    m.u32("tokenizer.ggml.bos_token_id", BOS_ID as usize);
    m.u32("tokenizer.ggml.eos_token_id", EOS_ID as usize);
    m.u32("tokenizer.ggml.padding_token_id", 0);
    m.bool("tokenizer.ggml.add_bos_token", true);
    m.bool("tokenizer.ggml.add_eos_token", false);
    m
}

/// The keys that say something of the model: the general ones, and those that begin with the
/// architecture's name, as the converter writes them for each. `original` is the context length
/// before it was extended (positions), and `window` the number of positions that attention looks
/// back (0 = all), for the architectures whose keys state them.
pub(crate) fn model_metadata(
    spec: &ModelSpec,
    name: &str,
    file: ModelFile,
    original: usize,
    window: usize,
) -> Metadata {
    let mut m = Metadata::default();
    let architecture = spec.architecture.gguf_name();
    m.string("general.architecture", architecture);
    m.string("general.name", name);
    m.string("general.type", "model");
    m.u32("general.file_type", file_type(file));
    m.u32("general.quantization_version", 2);
    let key = |key: &str| format!("{architecture}.{key}");
    let phi3 = spec.architecture == Architecture::Phi3;
    m.u32(&key("context_length"), spec.max_position);
    if phi3 {
        m.u32(&key("rope.scaling.original_context_length"), original);
    }
    m.u32(&key("embedding_length"), spec.hidden_size);
    m.u32(&key("block_count"), spec.num_layers);
    m.u32(&key("feed_forward_length"), spec.intermediate_size);
    m.u32(&key("attention.head_count"), spec.num_heads);
    m.u32(&key("attention.head_count_kv"), spec.num_kv_heads);
    if !phi3 {
        m.u32(&key("attention.key_length"), spec.head_dim);
        m.u32(&key("attention.value_length"), spec.head_dim);
    }
    let eps = key("attention.layer_norm_rms_epsilon");
    m.f32(&eps, spec.rms_norm_eps);
    if spec.architecture != Architecture::Qwen3 {
        m.u32(&key("rope.dimension_count"), spec.head_dim);
    }
    m.f32(&key("rope.freq_base"), spec.rope_theta);
    match spec.architecture {
        Architecture::Llama | Architecture::Mistral => {
            m.u32(&key("vocab_size"), spec.vocab_size);
        }
        // 0: none. Without the key, llama.cpp's older releases make one up or refuse the file.
        Architecture::Phi3 => m.u32(&key("attention.sliding_window"), window),
        Architecture::Qwen3 => {}
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_llama_are_interleaved_within_each_head() {
        let mut spec = ModelSpec {
            head_dim: 4,
            ..ModelSpec::tiny_mistral()
        };
        let rows: Vec<usize> = (0..8).map(|r| source_row(&spec, Role::Query, r)).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(source_row(&spec, Role::Value, 1), 1);
        spec.architecture = Architecture::Qwen3;
        assert_eq!(source_row(&spec, Role::Query, 1), 1);
    }

    #[test]
    fn types_are_those_that_llama_quantize_chooses() {
        let kind = |spec: &ModelSpec, name: &str| {
            let defs = tensors(spec);
            let def = defs.iter().find(|def| def.gguf_name == name).unwrap();
            tensor_type(spec, def, ModelFile::GgufQ4KM)
        };
        let (tied, own) = (ModelSpec::tiny_qwen3(), ModelSpec::tiny_phi3());
        assert_eq!(kind(&tied, "token_embd.weight"), GgmlType::Q6K);
        assert_eq!(kind(&tied, "blk.0.attn_q_norm.weight"), GgmlType::F32);
        assert_eq!(kind(&own, "token_embd.weight"), GgmlType::Q4K);
        assert_eq!(kind(&own, "output.weight"), GgmlType::Q6K);
        assert_eq!(kind(&own, "blk.0.attn_qkv.weight"), GgmlType::Q5K);
        assert_eq!(kind(&own, "blk.0.ffn_up.weight"), GgmlType::Q4K);
        assert_eq!(kind(&own, "blk.3.ffn_down.weight"), GgmlType::Q6K);
    }

    #[test]
    fn rows_that_fill_no_block_have_a_coarser_type() {
        let of = |cols, file| {
            let spec = ModelSpec::tiny_llama();
            let mut def = tensors(&spec).remove(2);
            def.cols = cols;
            tensor_type(&spec, &def, file)
        };
        assert_eq!(of(512, ModelFile::GgufQ4KM), GgmlType::Q4K);
        assert_eq!(of(576, ModelFile::GgufQ4KM), GgmlType::Q5_0);
        assert_eq!(of(576, ModelFile::GgufQ8_0), GgmlType::Q8_0);
        assert_eq!(of(100, ModelFile::GgufQ4KM), GgmlType::F16);
        assert_eq!(of(100, ModelFile::GgufQ8_0), GgmlType::F16);
    }

    #[test]
    fn keys_begin_with_the_architecture_s_name() {
        for (spec, has, lacks) in [
            (
                ModelSpec::tiny_mistral(),
                "llama.vocab_size",
                "mistral.vocab_size",
            ),
            (
                ModelSpec::tiny_phi3(),
                "phi3.attention.sliding_window",
                "phi3.attention.key_length",
            ),
            (
                ModelSpec::tiny_qwen3(),
                "qwen3.attention.key_length",
                "qwen3.rope.dimension_count",
            ),
        ] {
            let keys = model_metadata(&spec, "m", ModelFile::GgufF16, 1, 0);
            let text = String::from_utf8_lossy(&keys.bytes);
            assert!(text.contains(has) && !text.contains(lacks), "{}", spec.id);
        }
    }

    #[test]
    fn more_bits_go_where_llama_cpp_puts_them() {
        let layers = |n| (0..n).filter(|&l| use_more_bits(l, n)).collect::<Vec<_>>();
        assert_eq!(layers(4), [2, 3]);
        assert_eq!(layers(16), [0, 1, 4, 7, 10, 13, 14, 15]);
    }

    #[test]
    fn the_head_of_a_file_is_what_the_format_says() {
        let spec = ModelSpec {
            num_layers: 1,
            vocab_size: 256,
            ..ModelSpec::tiny_llama3()
        };
        let bpe = Bpe {
            tokens: vec!["x".into(); 256],
            merges: vec![("a".into(), "b".into())],
        };
        let mut bytes = Vec::new();
        let (file, mut ignore) = (ModelFile::GgufF16, |_| Ok(()));
        write(&spec, Origin::Seed, &bpe, file, &mut bytes, &mut ignore).unwrap();
        assert_eq!(bytes[..8], *b"GGUF\x03\0\0\0");
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(u64_at(8), 12, "rope_freqs and eleven tensors");
        assert_eq!(u64_at(24), "general.architecture".len() as u64);
        assert_eq!(&bytes[32..52], b"general.architecture");
        let weights: usize = tensors(&spec).iter().map(|d| d.len()).sum();
        let norms = 3 * spec.hidden_size;
        let data = 2 * (weights - norms) + 4 * norms + 4 * 32;
        assert!(bytes.len() > data && bytes.len() < data + 20_000);
        assert_eq!((bytes.len() - data) % ALIGNMENT, 0);
    }
}
