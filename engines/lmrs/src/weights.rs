//! Loads the weights of a model, from safetensors files (f32) or a GGUF file (q8_0).
//!
//! In the GGUF files of a Llama for llama.cpp, the rows of `attn_q` and `attn_k` are permuted so
//! that RoPE rotates neighbouring pairs. The permutation is undone while packing, so that
//! [`crate::model`] needs only one kind of RoPE, Hugging Face's. Files of other architectures are
//! not permuted. A Phi-3's fused tensors are split.
//!
//! It deliberately doesn't convert between precisions: a file of another type is refused, because
//! the engine would otherwise be measured with weights that weren't verified.

use crate::gguf::{Gguf, Tensor, Type};
use crate::gguf_shape;
use crate::matrix::Matrix;
use crate::pool::Pool;
use crate::safetensors;
use memmap2::{Mmap, MmapOptions};
use protocol::engine::EngineError;
use shape::{Architecture, Computes, Shape};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Biases of projections are refused, because this engine doesn't add them.
const COMPUTES: Computes = Computes {
    engine: "lmrs",
    biases: false,
};

/// How weights are stored and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// F32 weights and activations.
    F32,
    /// Int8 weights and activations, with one scale per 32 values.
    Q8_0,
}

/// The weights of one layer.
pub struct Layer {
    /// Norm before attention, `dim`.
    pub attention_norm: Vec<f32>,
    /// Query projection, `q_dim × dim`.
    pub wq: Matrix,
    /// Key projection, `kv_dim × dim`.
    pub wk: Matrix,
    /// Value projection, `kv_dim × dim`.
    pub wv: Matrix,
    /// Norms of the query and key heads, if the model has them.
    pub head_norms: Option<HeadNorms>,
    /// Output projection of the attention, `dim × q_dim`.
    pub wo: Matrix,
    /// Norm before the feed-forward block, `dim`.
    pub feed_forward_norm: Vec<f32>,
    /// Gate projection, `hidden × dim`.
    pub gate: Matrix,
    /// Up projection, `hidden × dim`.
    pub up: Matrix,
    /// Down projection, `dim × hidden`.
    pub down: Matrix,
}

/// The weights of the norms that are applied to each query and key head, before RoPE.
pub struct HeadNorms {
    /// Norm of the query heads, `head_dim` weights.
    pub query: Vec<f32>,
    /// Norm of the key heads, `head_dim` weights.
    pub key: Vec<f32>,
}

/// All weights of a model.
pub struct Weights {
    /// Token embeddings, `vocabulary × dim`; `None` if `output` serves as both.
    pub untied_embedding: Option<Matrix>,
    /// The layers, in their order.
    pub layers: Vec<Layer>,
    /// The last norm, `dim`.
    pub norm: Vec<f32>,
    /// Output projection, `vocabulary × dim`.
    pub output: Matrix,
}

impl Weights {
    /// Return the token embeddings.
    pub fn embedding(&self) -> &Matrix {
        self.untied_embedding.as_ref().unwrap_or(&self.output)
    }

    /// Return the bytes that one decode step reads: everything, except the embeddings if they are
    /// not also the output projection.
    pub fn decode_bytes(&self) -> u64 {
        let layers = self.layers.iter().map(|layer| {
            let Layer {
                attention_norm,
                wq,
                wk,
                wv,
                head_norms,
                wo,
                feed_forward_norm,
                gate,
                up,
                down,
            } = layer;
            let matrices = [wq, wk, wv, wo, gate, up, down].map(Matrix::bytes);
            let norms = size_of_val(&attention_norm[..]) + size_of_val(&feed_forward_norm[..]);
            let of_heads = head_norms.as_ref().map_or(0, |norms| {
                size_of_val(&norms.query[..]) + size_of_val(&norms.key[..])
            });
            matrices.iter().sum::<usize>() + norms + of_heads
        });
        let bytes = layers.sum::<usize>() + size_of_val(&self.norm[..]) + self.output.bytes();
        bytes as u64
    }
}

/// Load `file` in `model_dir`, or the shards of its index.
///
/// # Errors
/// Fails if a file is missing, damaged, of another model or another precision, or if there is not
/// enough memory.
pub fn load(
    model_dir: &Path,
    file: &str,
    precision: Precision,
    pool: &Pool,
) -> Result<(Shape, Weights), EngineError> {
    let path = model_dir.join(file);
    let name = path.display().to_string();
    // The f32 weights are read from the mapping in place, so its pages are made resident now.
    let in_place = precision == Precision::F32;
    let wanted = if in_place { "safetensors" } else { "gguf" };
    // A request by hand may also name the index of the shards.
    let plain = file.strip_suffix(".index.json").unwrap_or(file);
    if Path::new(plain).extension().and_then(|e| e.to_str()) != Some(wanted) {
        return Err(EngineError::unsupported(format!(
            "{name}: lmrs reads {precision:?} weights from a .{wanted} file"
        )));
    }
    match precision {
        Precision::F32 => {
            let mut maps = Vec::new();
            for path in protocol::safetensors_files(model_dir, file)? {
                let name = path.display().to_string();
                maps.push((Arc::new(map(&path, &name, in_place)?), name));
            }
            let config_path = model_dir.join("config.json");
            let config = Shape::read(&config_path, &COMPUTES)?;
            let weights = from_safetensors(&safetensors::Files::open(&maps)?, &config, pool)?;
            Ok((config, weights))
        }
        Precision::Q8_0 => {
            let map = map(&path, &name, in_place)?;
            let gguf = Gguf::open(&map, &name)?;
            let divisors = match gguf.find("rope_freqs.weight") {
                None => None,
                Some(tensor) => Some(vector(&gguf, "rope_freqs.weight", tensor.cols)?),
            };
            let config = gguf_shape::read(&gguf, divisors)?;
            let weights = from_gguf(&gguf, &config, pool)?;
            Ok((config, weights))
        }
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> EngineError {
    EngineError::unavailable(format!(
        "{name}: cannot be read ({error}); fetch the model, or correct model_dir"
    ))
}

fn map(path: &Path, name: &str, populate: bool) -> Result<Mmap, EngineError> {
    let file = std::fs::File::open(path).map_err(|error| unreadable(name, &error))?;
    let mut options = MmapOptions::new();
    if populate {
        options.populate();
    }
    // SAFETY: model files are not changed while an engine runs; the harness
    // records their hashes.
    unsafe { options.map(&file) }.map_err(|error| unreadable(name, &error))
}

fn from_safetensors(
    files: &safetensors::Files<'_>,
    config: &Shape,
    pool: &Pool,
) -> Result<Weights, EngineError> {
    let Shape {
        dim,
        hidden,
        vocabulary,
        ..
    } = *config;
    let (q_dim, kv_dim) = (config.q_dim(), config.kv_dim());
    let matrix = |name: &str, rows: usize, cols: usize| {
        let values = files.f32(&format!("{name}.weight"), &[rows, cols], pool)?;
        Ok(Matrix::f32(rows, cols, values))
    };
    let vector = |name: &str, length: usize| -> Result<Vec<f32>, EngineError> {
        let values = files.f32(&format!("{name}.weight"), &[length], pool)?;
        Ok(values.values().to_vec())
    };
    let norm = |name: &str| vector(name, dim);
    // Read rows of a tensor that Phi-3 fuses with others, and other architectures store by itself.
    let projection =
        |fused: &str, rows: Range<usize>, of: usize, own: &str| -> Result<Matrix, EngineError> {
            if config.architecture != Architecture::Phi3 {
                return matrix(own, rows.len(), dim);
            }
            let name = format!("{fused}.weight");
            let values = files.rows(&name, &[of, dim], rows.clone(), pool)?;
            Ok(Matrix::f32(rows.len(), dim, values))
        };
    let (qkv_dim, both) = (q_dim + 2 * kv_dim, 2 * hidden);
    let layers = (0..config.layers).map(|index| {
        let at = |name: &str| format!("model.layers.{index}.{name}");
        let qkv = |rows, own| projection(&at("self_attn.qkv_proj"), rows, qkv_dim, &at(own));
        let gate_up = |rows, own| projection(&at("mlp.gate_up_proj"), rows, both, &at(own));
        Ok(Layer {
            attention_norm: norm(&at("input_layernorm"))?,
            wq: qkv(0..q_dim, "self_attn.q_proj")?,
            wk: qkv(q_dim..q_dim + kv_dim, "self_attn.k_proj")?,
            wv: qkv(q_dim + kv_dim..qkv_dim, "self_attn.v_proj")?,
            head_norms: match config.architecture == Architecture::Qwen3 {
                true => Some(HeadNorms {
                    query: vector(&at("self_attn.q_norm"), config.head_dim)?,
                    key: vector(&at("self_attn.k_norm"), config.head_dim)?,
                }),
                false => None,
            },
            wo: matrix(&at("self_attn.o_proj"), dim, q_dim)?,
            feed_forward_norm: norm(&at("post_attention_layernorm"))?,
            gate: gate_up(0..hidden, "mlp.gate_proj")?,
            up: gate_up(hidden..both, "mlp.up_proj")?,
            down: matrix(&at("mlp.down_proj"), dim, hidden)?,
        })
    });
    let layers = layers.collect::<Result<_, EngineError>>()?;
    let embedding = matrix("model.embed_tokens", vocabulary, dim)?;
    // A tied model's file may hold the head too, as a copy that nobody reads.
    let (untied_embedding, output) = if config.tied {
        (None, embedding)
    } else {
        let head = matrix("lm_head", vocabulary, dim).map_err(|error| EngineError {
            message: format!(
                "{} (config.json doesn't tie it to the embeddings)",
                error.message
            ),
            ..error
        })?;
        (Some(embedding), head)
    };
    Ok(Weights {
        untied_embedding,
        layers,
        norm: norm("model.norm")?,
        output,
    })
}

fn from_gguf(gguf: &Gguf<'_>, config: &Shape, pool: &Pool) -> Result<Weights, EngineError> {
    let Shape {
        dim,
        hidden,
        vocabulary,
        ..
    } = *config;
    let (q_dim, kv_dim, head_dim) = (config.q_dim(), config.kv_dim(), config.head_dim);
    let architecture = config.architecture;
    let plain = |name: &str, rows: usize, cols: usize| {
        let name = format!("{name}.weight");
        packed(gguf, &name, (rows, cols), 0..rows, |row| row, pool)
    };
    let rotated = |name: &str, rows: usize| {
        let source = |row| match architecture {
            Architecture::Llama => file_row_of_rotated(row, head_dim),
            Architecture::Phi3 | Architecture::Qwen3 => row,
        };
        let name = format!("{name}.weight");
        packed(gguf, &name, (rows, dim), 0..rows, source, pool)
    };
    // Read some rows of one of Phi-3's fused tensors.
    let part = |name: &str, rows: Range<usize>, of: usize| {
        let name = format!("{name}.weight");
        packed(gguf, &name, (of, dim), rows, |row| row, pool)
    };
    let (qkv_dim, both) = (q_dim + 2 * kv_dim, 2 * hidden);
    let norm = |name: &str| vector(gguf, &format!("{name}.weight"), dim);
    let layers = (0..config.layers).map(|index| {
        let at = |name: &str| format!("blk.{index}.{name}");
        let (wq, wk, wv, gate, up) = if architecture == Architecture::Phi3 {
            // llama.cpp gives the fused gate and up the name `ffn_up`.
            let (qkv, gate_up) = (at("attn_qkv"), at("ffn_up"));
            (
                part(&qkv, 0..q_dim, qkv_dim)?,
                part(&qkv, q_dim..q_dim + kv_dim, qkv_dim)?,
                part(&qkv, q_dim + kv_dim..qkv_dim, qkv_dim)?,
                part(&gate_up, 0..hidden, both)?,
                part(&gate_up, hidden..both, both)?,
            )
        } else {
            (
                rotated(&at("attn_q"), q_dim)?,
                rotated(&at("attn_k"), kv_dim)?,
                plain(&at("attn_v"), kv_dim, dim)?,
                plain(&at("ffn_gate"), hidden, dim)?,
                plain(&at("ffn_up"), hidden, dim)?,
            )
        };
        Ok(Layer {
            attention_norm: norm(&at("attn_norm"))?,
            wq,
            wk,
            wv,
            head_norms: match architecture == Architecture::Qwen3 {
                true => Some(HeadNorms {
                    query: vector(gguf, &at("attn_q_norm.weight"), head_dim)?,
                    key: vector(gguf, &at("attn_k_norm.weight"), head_dim)?,
                }),
                false => None,
            },
            wo: plain(&at("attn_output"), dim, q_dim)?,
            feed_forward_norm: norm(&at("ffn_norm"))?,
            gate,
            up,
            down: plain(&at("ffn_down"), dim, hidden)?,
        })
    });
    let layers = layers.collect::<Result<_, EngineError>>()?;
    let embedding = plain("token_embd", vocabulary, dim)?;
    let (untied_embedding, output) = if gguf.find("output.weight").is_some() {
        (Some(embedding), plain("output", vocabulary, dim)?)
    } else {
        (None, embedding)
    };
    Ok(Weights {
        untied_embedding,
        layers,
        norm: norm("output_norm")?,
        output,
    })
}

/// Return the file's row that holds row `row` in Hugging Face's order: within a head, the pair
/// `(i, i + half)` is the file's `(2i, 2i + 1)`.
fn file_row_of_rotated(row: usize, head_dim: usize) -> usize {
    let (head, within) = (row / head_dim, row % head_dim);
    let (second, pair) = (within / (head_dim / 2), within % (head_dim / 2));
    head * head_dim + 2 * pair + second
}

/// Pack the rows `part` of a tensor of `(rows, cols)`; row `r` of the result is row `source(r)` of
/// the part.
fn packed(
    gguf: &Gguf<'_>,
    name: &str,
    (rows, cols): (usize, usize),
    part: Range<usize>,
    source: impl Fn(usize) -> usize + Sync,
    pool: &Pool,
) -> Result<Matrix, EngineError> {
    let tensor = of_shape(gguf, name, rows, cols, Type::Q8_0)?;
    let row_bytes = tensor.bytes.len() / rows;
    let bytes = &tensor.bytes[part.start * row_bytes..part.end * row_bytes];
    let matrix = Matrix::q8(part.len(), cols, bytes, source, pool).map_err(|error| {
        let file = gguf.name();
        EngineError::oom(format!(
            "{file}: tensor `{name}`: no memory to pack it ({error})"
        ))
    })?;
    // SAFETY: the bytes lie in the file's mapping.
    unsafe { crate::memory::release_file_pages(bytes) };
    Ok(matrix)
}

fn vector(gguf: &Gguf<'_>, name: &str, length: usize) -> Result<Vec<f32>, EngineError> {
    let tensor = of_shape(gguf, name, 1, length, Type::F32)?;
    Ok(tensor
        .bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect())
}

fn of_shape<'g, 'a>(
    gguf: &'g Gguf<'a>,
    name: &str,
    rows: usize,
    cols: usize,
    kind: Type,
) -> Result<&'g Tensor<'a>, EngineError> {
    let tensor = gguf.tensor(name)?;
    let file = gguf.name();
    if tensor.kind != kind {
        let found = tensor.kind;
        return Err(EngineError::unsupported(format!(
            "{file}: tensor `{name}` is stored as {found:?}, lmrs wants {kind:?}; use a pure q8_0 file"
        )));
    }
    if (tensor.rows, tensor.cols) != (rows, cols) {
        return Err(EngineError::internal(format!(
            "{file}: tensor `{name}` is {} × {}, but the metadata makes it {rows} × {cols}",
            tensor.rows, tensor.cols
        )));
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use super::file_row_of_rotated;

    #[test]
    fn the_permutation_is_llama_cpps() {
        // llama.cpp's converter reshapes each head to (2, half), swaps the two dimensions and
        // flattens.
        let rows: Vec<usize> = (8..16).map(|row| file_row_of_rotated(row, 8)).collect();
        assert_eq!(rows, [8, 10, 12, 14, 9, 11, 13, 15]);
    }
}
