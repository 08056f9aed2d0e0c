//! Which tensors a model of a shape has, and what each is called in safetensors and in GGUF: the
//! one place that knows the architectures' names.

use super::shape::{Architecture, Shape};
use crate::quant::GgmlType;
use crate::spec::ModelFile;

/// What a tensor is, as far as its format in a file depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A norm's weight: a vector.
    Norm,
    /// Token embeddings.
    Embedding,
    /// The output matrix, where it is one of its own.
    Output,
    /// Query or key projection, whose rows llama.cpp keeps in another order, with so many heads.
    Rotated {
        /// Heads that its rows are divided into.
        heads: usize,
    },
    /// Value projection.
    Value,
    /// Query, key and value in one matrix.
    QueryKeyValue,
    /// MLP down projection.
    Down,
    /// Any other matrix.
    Matrix,
}

/// One tensor of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name in safetensors.
    pub name: String,
    /// Name in GGUF.
    pub gguf_name: String,
    /// Layer, or `None` outside the layers.
    pub layer: Option<usize>,
    /// What it is.
    pub part: Part,
    /// Output features; 1 for a vector.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
}

impl Tensor {
    /// Its shape in safetensors: `[rows, cols]`, or `[cols]` for a vector.
    pub fn shape(&self) -> Vec<usize> {
        match self.part {
            Part::Norm => vec![self.cols],
            _ => vec![self.rows, self.cols],
        }
    }

    /// Which row of the safetensors' tensor is row `row` of GGUF's. llama.cpp rotates neighbouring
    /// dimensions where Hugging Face rotates the two halves of a head.
    pub fn source_row(&self, row: usize) -> usize {
        match self.part {
            Part::Rotated { heads } => {
                let head_dim = self.rows / heads;
                let (head, within) = (row / head_dim, row % head_dim);
                head * head_dim + within % 2 * (head_dim / 2) + within / 2
            }
            _ => row,
        }
    }

    /// The format it has in `file`, by llama.cpp's rules (`llama_tensor_get_type`). They differ in
    /// one thing: for a matrix of query, key and value q4_k_m has Q5_K there and Q6_K here.
    pub fn format(&self, shape: &Shape, file: ModelFile) -> GgmlType {
        let wanted = match (self.part, file) {
            (Part::Norm, _) => GgmlType::F32,
            (_, ModelFile::Safetensors | ModelFile::GgufF32) => GgmlType::F32,
            (_, ModelFile::GgufF16) => GgmlType::F16,
            (_, ModelFile::GgufQ8_0) => GgmlType::Q8_0,
            (part, ModelFile::GgufQ4KM) => match part {
                Part::Output | Part::QueryKeyValue => GgmlType::Q6K,
                // It is the output matrix too.
                Part::Embedding if shape.tied => GgmlType::Q6K,
                Part::Value | Part::Down if self.has_more_bits(shape.num_layers) => GgmlType::Q6K,
                _ => GgmlType::Q4K,
            },
        };
        self.fallback(wanted)
    }

    /// llama.cpp's `use_more_bits`: the first and the last eighth of the layers, and every third
    /// between.
    fn has_more_bits(&self, layers: usize) -> bool {
        self.layer.is_some_and(|layer| {
            layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
        })
    }

    /// What llama.cpp takes where rows don't fill a format's blocks.
    fn fallback(&self, wanted: GgmlType) -> GgmlType {
        let fits = |kind: GgmlType| self.cols % kind.block().0 == 0;
        let coarser = match wanted {
            GgmlType::Q4K => GgmlType::Q5_0,
            GgmlType::Q6K => GgmlType::Q8_0,
            other => other,
        };
        [wanted, coarser, GgmlType::F16]
            .into_iter()
            .find(|kind| fits(*kind))
            .unwrap_or(GgmlType::F16)
    }
}

/// All tensors of a model, in the order of the file.
pub fn tensors(shape: &Shape) -> Vec<Tensor> {
    let (hidden, inner) = (shape.hidden_size, shape.intermediate_size);
    let q = shape.num_heads * shape.head_dim;
    let kv = shape.num_kv_heads * shape.head_dim;
    let one = |name: &str, gguf: &str, part, rows, cols| Tensor {
        name: format!("{name}.weight"),
        gguf_name: format!("{gguf}.weight"),
        layer: None,
        part,
        rows,
        cols,
    };
    let rotated = |heads: usize| match shape.architecture {
        Architecture::Llama | Architecture::Mistral => Part::Rotated { heads },
        Architecture::Qwen3 | Architecture::Phi3 => Part::Matrix,
    };
    let mut layer = vec![("input_layernorm", "attn_norm", Part::Norm, 1, hidden)];
    layer.extend(match shape.architecture {
        Architecture::Phi3 => vec![(
            "self_attn.qkv_proj",
            "attn_qkv",
            Part::QueryKeyValue,
            q + 2 * kv,
            hidden,
        )],
        _ => vec![
            ("self_attn.q_proj", "attn_q", rotated(shape.num_heads), q, hidden),
            ("self_attn.k_proj", "attn_k", rotated(shape.num_kv_heads), kv, hidden),
            ("self_attn.v_proj", "attn_v", Part::Value, kv, hidden),
        ],
    });
    if shape.architecture == Architecture::Qwen3 {
        layer.extend([
            ("self_attn.q_norm", "attn_q_norm", Part::Norm, 1, shape.head_dim),
            ("self_attn.k_norm", "attn_k_norm", Part::Norm, 1, shape.head_dim),
        ]);
    }
    layer.extend([
        ("self_attn.o_proj", "attn_output", Part::Matrix, hidden, q),
        ("post_attention_layernorm", "ffn_norm", Part::Norm, 1, hidden),
    ]);
    layer.extend(match shape.architecture {
        // Gate and up are one matrix, the gate's rows first, which llama.cpp calls up.
        Architecture::Phi3 => vec![("mlp.gate_up_proj", "ffn_up", Part::Matrix, 2 * inner, hidden)],
        _ => vec![
            ("mlp.gate_proj", "ffn_gate", Part::Matrix, inner, hidden),
            ("mlp.up_proj", "ffn_up", Part::Matrix, inner, hidden),
        ],
    });
    layer.push(("mlp.down_proj", "ffn_down", Part::Down, hidden, inner));

    let mut all = vec![one(
        "model.embed_tokens",
        "token_embd",
        Part::Embedding,
        shape.vocab_size,
        hidden,
    )];
    for index in 0..shape.num_layers {
        all.extend(layer.iter().map(|&(name, gguf, part, rows, cols)| Tensor {
            layer: Some(index),
            ..one(
                &format!("model.layers.{index}.{name}"),
                &format!("blk.{index}.{gguf}"),
                part,
                rows,
                cols,
            )
        }));
    }
    all.push(one("model.norm", "output_norm", Part::Norm, 1, hidden));
    if !shape.tied {
        all.push(one("lm_head", "output", Part::Output, shape.vocab_size, hidden));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::config_json;
    use crate::{ModelSpec, gguf, weights};

    fn shape(spec: &ModelSpec) -> Shape {
        Shape::read(&config_json(spec)).unwrap()
    }

    /// The embedded models' own tables say the same.
    #[test]
    fn names_shapes_and_formats_are_those_of_the_models_made_here() {
        let spec = ModelSpec::llama_3_2_1b_shape();
        let shape = shape(&spec);
        let ours = tensors(&shape);
        let theirs = weights::tensors(&spec);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.name, theirs.name);
            assert_eq!(ours.gguf_name, theirs.gguf_name);
            assert_eq!(ours.shape(), theirs.shape(), "{}", ours.name);
            for file in [ModelFile::GgufF16, ModelFile::GgufQ8_0, ModelFile::GgufQ4KM] {
                let expected = gguf::tensor_type(&spec, theirs, file);
                assert_eq!(ours.format(&shape, file), expected, "{}", ours.name);
            }
        }
    }

    #[test]
    fn rows_that_fill_no_block_have_the_format_that_llama_cpp_takes() {
        let of = |cols, file| {
            let matrix = Tensor {
                name: String::new(),
                gguf_name: String::new(),
                layer: None,
                part: Part::Matrix,
                rows: 4,
                cols,
            };
            matrix.format(&shape(&ModelSpec::tiny_llama()), file)
        };
        assert_eq!(of(512, ModelFile::GgufQ4KM), GgmlType::Q4K);
        assert_eq!(of(576, ModelFile::GgufQ4KM), GgmlType::Q5_0);
        assert_eq!(of(576, ModelFile::GgufQ8_0), GgmlType::Q8_0);
        assert_eq!(of(100, ModelFile::GgufQ4KM), GgmlType::F16);
        assert_eq!(of(100, ModelFile::GgufQ8_0), GgmlType::F16);
    }

    #[test]
    fn qwen3_has_norms_of_heads_and_keeps_the_order_of_its_rows() {
        let qwen = Shape {
            architecture: Architecture::Qwen3,
            tied: false,
            ..shape(&ModelSpec::tiny_llama())
        };
        let all = tensors(&qwen);
        let find = |name: &str| all.iter().find(|t| t.gguf_name == name).unwrap();
        assert_eq!(find("blk.1.attn_q_norm.weight").shape(), [64]);
        assert_eq!(find("blk.0.attn_q.weight").source_row(1), 1);
        assert_eq!(find("output.weight").name, "lm_head.weight");
        let llama = Shape {
            architecture: Architecture::Mistral,
            ..qwen.clone()
        };
        let rotated = tensors(&llama).into_iter().find(|t| t.name.contains("k_proj")).unwrap();
        let rows: Vec<usize> = [0, 1, 2, 64, 65].map(|row| rotated.source_row(row)).to_vec();
        assert_eq!(rows, [0, 32, 1, 64, 96]);
    }

    #[test]
    fn phi3_has_fused_matrices() {
        let phi = Shape {
            architecture: Architecture::Phi3,
            ..shape(&ModelSpec::tiny_llama())
        };
        let all = tensors(&phi);
        let find = |name: &str| all.iter().find(|t| t.gguf_name == name).unwrap();
        let qkv = find("blk.0.attn_qkv.weight");
        assert_eq!(qkv.shape(), [512 + 2 * 256, 512]);
        assert_eq!(qkv.name, "model.layers.0.self_attn.qkv_proj.weight");
        assert_eq!(find("blk.3.ffn_up.weight").shape(), [2 * 768, 512]);
        assert!(!all.iter().any(|t| t.gguf_name.contains("ffn_gate")));
    }
}
