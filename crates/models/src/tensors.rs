//! The tensors of a model: their names, shapes and roles.
//!
//! The numbers in them are defined in [`weights`](crate::weights); how they are stored is up to the
//! file formats.

use crate::spec::ModelSpec;

/// The role of a tensor in the model, which decides its scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Token embeddings; the output matrix too, where the two are tied.
    Embedding,
    /// The output matrix of a model whose embeddings are not tied to it.
    Output,
    /// A norm inside a layer.
    Norm,
    /// The norm before the output matrix.
    FinalNorm,
    /// Query projection.
    Query,
    /// Key projection.
    Key,
    /// Value projection.
    Value,
    /// Query, key and value projections in one.
    QueryKeyValue,
    /// The norm of a query's or a key's heads.
    HeadNorm,
    /// Projection of the attention's output into the residual stream.
    AttnOutput,
    /// MLP gate, before SiLU.
    Gate,
    /// MLP up projection.
    Up,
    /// MLP gate and up projections in one.
    GateUp,
    /// MLP down projection into the residual stream.
    Down,
}

/// A tensor of the model: its names, shape and role.
#[derive(Debug, Clone)]
pub struct TensorDef {
    /// Name in safetensors (Hugging Face's).
    pub name: String,
    /// Name in GGUF (llama.cpp's).
    pub gguf_name: String,
    /// Index of the layer, or `None` outside the layers.
    pub layer: Option<usize>,
    /// Role in the model, which decides the scale.
    pub role: Role,
    /// Number of output features; 1 for a vector.
    pub rows: usize,
    /// Number of input features.
    pub cols: usize,
    /// The tensors whose rows a fused tensor has, top to bottom; empty for any other tensor.
    pub parts: Vec<TensorDef>,
}

impl TensorDef {
    /// True for a norm's weight, whose shape is `[cols]` and not `[rows, cols]`.
    pub fn is_vector(&self) -> bool {
        matches!(self.role, Role::Norm | Role::FinalNorm | Role::HeadNorm)
    }

    /// This tensor as a fused one, with the rows of `parts`.
    fn made_of(self, parts: Vec<TensorDef>) -> Self {
        let rows = parts.iter().map(|part| part.rows).sum();
        Self {
            rows,
            parts,
            ..self
        }
    }

    /// The shape in safetensors: `[rows, cols]`, or `[cols]` for a vector.
    pub fn shape(&self) -> Vec<usize> {
        match self.is_vector() {
            true => vec![self.cols],
            false => vec![self.rows, self.cols],
        }
    }

    /// Number of weights.
    pub fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Always false, because no tensor is empty. Clippy wants it beside `len`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All tensors of `spec`, in the order of the files.
pub fn tensors(spec: &ModelSpec) -> Vec<TensorDef> {
    let (hidden, inner) = (spec.hidden_size, spec.intermediate_size);
    let (q, kv) = (
        spec.num_heads * spec.head_dim,
        spec.num_kv_heads * spec.head_dim,
    );
    let top = |name: &str, gguf: &str, role, rows, cols| TensorDef {
        name: format!("{name}.weight"),
        gguf_name: format!("{gguf}.weight"),
        layer: None,
        role,
        rows,
        cols,
        parts: Vec::new(),
    };
    let vocabulary = spec.vocab_size;
    let embedding = Role::Embedding;
    let mut all = vec![top(
        "model.embed_tokens",
        "token_embd",
        embedding,
        vocabulary,
        hidden,
    )];
    let architecture = spec.architecture;
    for layer in 0..spec.num_layers {
        let part = |name: &str, gguf: &str, role, rows, cols| TensorDef {
            layer: Some(layer),
            ..top(
                &format!("model.layers.{layer}.{name}"),
                &format!("blk.{layer}.{gguf}"),
                role,
                rows,
                cols,
            )
        };
        // The rows of a fused tensor come from these parts.
        let fused = |name, gguf, role, parts: Vec<TensorDef>| match architecture.fuses_projections()
        {
            true => vec![part(name, gguf, role, 0, hidden).made_of(parts)],
            false => parts,
        };
        let query_key_value = vec![
            part("self_attn.q_proj", "attn_q", Role::Query, q, hidden),
            part("self_attn.k_proj", "attn_k", Role::Key, kv, hidden),
            part("self_attn.v_proj", "attn_v", Role::Value, kv, hidden),
        ];
        let gate_up = vec![
            part("mlp.gate_proj", "ffn_gate", Role::Gate, inner, hidden),
            part("mlp.up_proj", "ffn_up", Role::Up, inner, hidden),
        ];
        let norm = |name, gguf| part(name, gguf, Role::Norm, 1, hidden);
        let head_norm = |name, gguf| part(name, gguf, Role::HeadNorm, 1, spec.head_dim);

        all.push(norm("input_layernorm", "attn_norm"));
        all.extend(fused(
            "self_attn.qkv_proj",
            "attn_qkv",
            Role::QueryKeyValue,
            query_key_value,
        ));
        if architecture.normalises_heads() {
            all.push(head_norm("self_attn.q_norm", "attn_q_norm"));
            all.push(head_norm("self_attn.k_norm", "attn_k_norm"));
        }
        let output = Role::AttnOutput;
        all.push(part("self_attn.o_proj", "attn_output", output, hidden, q));
        all.push(norm("post_attention_layernorm", "ffn_norm"));
        // llama.cpp calls Phi-3's fused gate and up projections `ffn_up`.
        all.extend(fused("mlp.gate_up_proj", "ffn_up", Role::GateUp, gate_up));
        all.push(part("mlp.down_proj", "ffn_down", Role::Down, hidden, inner));
    }
    all.push(top("model.norm", "output_norm", Role::FinalNorm, 1, hidden));
    if !spec.tied {
        all.push(top("lm_head", "output", Role::Output, vocabulary, hidden));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_norms_follow_the_architecture() {
        let phi3 = tensors(&ModelSpec::tiny_phi3());
        let qwen3 = tensors(&ModelSpec::tiny_qwen3());
        for (defs, name, gguf, shape) in [
            (&phi3, "self_attn.qkv_proj", "attn_qkv", &[1024, 512][..]),
            (&phi3, "mlp.gate_up_proj", "ffn_up", &[1536, 512]),
            (&qwen3, "self_attn.q_proj", "attn_q", &[1024, 512]),
            (&qwen3, "self_attn.k_norm", "attn_k_norm", &[128]),
        ] {
            let name = format!("model.layers.0.{name}.weight");
            let def = defs.iter().find(|def| def.name == name).expect(&name);
            assert_eq!(def.gguf_name, format!("blk.0.{gguf}.weight"));
            assert_eq!(def.shape(), shape, "{name}");
        }
        let output = phi3.last().unwrap();
        assert_eq!(output.name, "lm_head.weight");
        assert_eq!(output.gguf_name, "output.weight");
        assert_eq!(output.shape(), [2048, 512]);
        assert_eq!(phi3.len(), 4 * 6 + 3);
        assert_eq!(qwen3.len(), 4 * 11 + 2);
    }
}
