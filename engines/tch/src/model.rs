//! The forward pass of a Llama, made of libtorch's operators, with a key/value cache that is
//! allocated once. It rounds where transformers rounds (norms and softmax in f32), so that both
//! are the same model at bf16. Joined weights (q, k, v; gate, up) and one fused attention operator
//! are its only optimisations.

use crate::weights::Weights;
use protocol::engine::EngineError;
use shape::Shape;
use tch::{Device, Kind, TchError, Tensor};

/// A loaded model with its key/value cache. The rows of a batch have equal lengths.
pub struct Model {
    shape: Shape,
    embedding: Tensor, // vocabulary × dim
    layers: Vec<Layer>,
    norm: Tensor, // dim
    head: Tensor, // vocabulary × dim; the embedding itself, where they are tied
    cos: Tensor,  // positions × 1 × head_dim
    sin: Tensor,  // positions × 1 × head_dim, negative in the first half
    rows: i64,
    positions: i64,
    device: Device,
}

struct Layer {
    attention_norm: Tensor, // dim
    qkv: Tensor,            // (heads + 2 · kv_heads) · head_dim × dim
    /// The norms of the query and key heads, if the model has them: heads + kv_heads × head_dim.
    qk_norm: Option<Tensor>,
    output: Tensor,   // dim × heads · head_dim
    mlp_norm: Tensor, // dim
    gate_up: Tensor,  // 2 · inner × dim
    down: Tensor,     // dim × inner
    keys: Tensor,     // rows × kv_heads × positions × head_dim
    values: Tensor,   // rows × kv_heads × positions × head_dim
}

/// The device and limits that a model is loaded for.
pub struct Place {
    /// The device that the model runs on.
    pub device: Device,
    /// Precision of the weights, the activations and the cache.
    pub kind: Kind,
    /// Largest number of rows in a batch.
    pub rows: i64,
    /// Longest sequence, in tokens.
    pub positions: i64,
}

impl Model {
    /// Load all weights, converted to `at.kind`, and allocate the cache.
    pub fn load(shape: Shape, weights: &mut Weights, at: &Place) -> Result<Self, EngineError> {
        let mut loader = Loader {
            shape: &shape,
            weights,
            at,
        };
        let [vocabulary, dim] = sizes([shape.vocabulary, shape.dim]);
        let embedding = loader.joined(&[("model.embed_tokens".to_string(), vocabulary)], dim)?;
        let head = if shape.tied {
            embedding.shallow_clone()
        } else {
            loader.joined(&[("lm_head".to_string(), vocabulary)], dim)?
        };
        let layers = (0..shape.layers).map(|layer| loader.layer(layer));
        let layers = layers.collect::<Result<_, _>>()?;
        let norm = loader.vector("model.norm", dim)?;
        let (cos, sin) = loader.rope().map_err(EngineError::of_library)?;
        Ok(Self {
            embedding,
            layers,
            norm,
            head,
            cos,
            sin,
            rows: at.rows,
            positions: at.positions,
            device: at.device,
            shape,
        })
    }

    /// Return the bytes of weights that one decode step reads. Of an embedding that is not also
    /// the output head, a step reads only one line per row.
    pub fn weight_bytes(&self) -> u64 {
        let of_layers = self.layers.iter().flat_map(|layer| {
            let always = [
                &layer.attention_norm,
                &layer.qkv,
                &layer.output,
                &layer.mlp_norm,
                &layer.gate_up,
                &layer.down,
            ];
            always.into_iter().chain(&layer.qk_norm)
        });
        of_layers
            .chain([&self.norm, &self.head])
            .map(|weight| (weight.numel() * weight.kind().elt_size_in_bytes()) as u64)
            .sum()
    }

    /// Feed `ids` (rows × tokens) from `position` on; return the logits after the last token (rows
    /// × vocabulary). More than one token per row is supported only at position 0.
    pub fn forward(&self, ids: &[u32], rows: i64, position: i64) -> Result<Tensor, EngineError> {
        let tokens = ids.len() as i64 / rows;
        if rows > self.rows || position + tokens > self.positions {
            return Err(EngineError::internal(format!(
                "{rows} rows up to position {}, where the cache was made for {} up to {}",
                position + tokens,
                self.rows,
                self.positions
            )));
        }
        // Nothing here needs gradients; this saves a check in every operator.
        tch::no_grad(|| self.step(ids, rows, tokens, position)).map_err(EngineError::of_library)
    }

    fn step(&self, ids: &[u32], rows: i64, tokens: i64, position: i64) -> Result<Tensor, TchError> {
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        let ids = Tensor::f_from_slice(&ids)?
            .f_reshape([rows, tokens])?
            .f_to_device(self.device)?;
        let span = Span {
            rows,
            tokens,
            position,
            cos: self.cos.f_narrow(0, position, tokens)?,
            sin: self.sin.f_narrow(0, position, tokens)?,
        };
        let mut x = Tensor::f_embedding(&self.embedding, &ids, -1, false, false)?;
        for layer in &self.layers {
            let attended = layer.attend(
                &self.shape,
                &self.norm_of(&x, &layer.attention_norm)?,
                &span,
            )?;
            x = x.f_add(&attended)?;
            let fed = layer.feed(&self.shape, &self.norm_of(&x, &layer.mlp_norm)?)?;
            x = x.f_add(&fed)?;
        }
        let last = x.f_narrow(1, tokens - 1, 1)?.f_reshape([rows, -1])?;
        linear(&self.norm_of(&last, &self.norm)?, &self.head)
    }

    fn norm_of(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor, TchError> {
        normalised(x, self.shape.dim as i64, weight, self.shape.eps)
    }
}

/// Return sizes of a model in the integers that libtorch takes. All are far below 2⁶³.
fn sizes<const N: usize>(sizes: [usize; N]) -> [i64; N] {
    sizes.map(|size| size as i64)
}

/// Normalise the last dimension, `width` wide, in f32, round, then multiply by `weight`: given the
/// weight, libtorch would round only once, and at bf16 that is another model than transformers'.
fn normalised(x: &Tensor, width: i64, weight: &Tensor, eps: f64) -> Result<Tensor, TchError> {
    x.f_rms_norm([width], None::<&Tensor>, eps)?.f_mul_(weight)
}

/// The rows, tokens and positions of a step.
struct Span {
    rows: i64,
    tokens: i64,
    position: i64,
    cos: Tensor, // tokens × 1 × head_dim
    sin: Tensor, // tokens × 1 × head_dim
}

impl Layer {
    fn attend(&self, shape: &Shape, x: &Tensor, span: &Span) -> Result<Tensor, TchError> {
        let [heads, kv_heads, head_dim] = sizes([shape.heads, shape.kv_heads, shape.head_dim]);
        let all_heads = heads + 2 * kv_heads;
        let &Span {
            rows,
            tokens,
            position,
            ..
        } = span;
        let qkv = linear(x, &self.qkv)?.f_view([rows, tokens, all_heads, head_dim])?;
        // Queries and keys are normalised and rotated in one tensor.
        let mut unrotated = qkv.f_narrow(2, 0, heads + kv_heads)?;
        if let Some(weight) = &self.qk_norm {
            unrotated = normalised(&unrotated, head_dim, weight, shape.eps)?;
        }
        let mut swapped = unrotated.f_roll([head_dim / 2], [-1])?;
        let swapped = swapped.f_mul_(&span.sin)?;
        let rotated = unrotated.f_mul(&span.cos)?.f_add_(&swapped)?;

        let end = position + tokens;
        let new = |heads_of: &Tensor, first: i64| {
            heads_of.f_narrow(2, first, kv_heads)?.f_transpose(1, 2)
        };
        let keys = self.keys.f_narrow(0, 0, rows)?.f_narrow(2, 0, end)?;
        let values = self.values.f_narrow(0, 0, rows)?.f_narrow(2, 0, end)?;
        keys.f_narrow(2, position, tokens)?
            .f_copy_(&new(&rotated, heads)?)?;
        values
            .f_narrow(2, position, tokens)?
            .f_copy_(&new(&qkv, heads + kv_heads)?)?;

        let queries = rotated.f_narrow(2, 0, heads)?;
        let out = if tokens == 1 {
            // The heads that share keys are passed as if they were positions: nothing is masked at
            // the end of a sequence, and each key is read once for all of them.
            let queries = queries.f_reshape([rows, kv_heads, heads / kv_heads, head_dim])?;
            attention(&queries, &keys, &values, false)?
        } else {
            attention(&queries.f_transpose(1, 2)?, &keys, &values, true)?.f_transpose(1, 2)?
        };
        linear(
            &out.f_reshape([rows, tokens, heads * head_dim])?,
            &self.output,
        )
    }

    fn feed(&self, shape: &Shape, x: &Tensor) -> Result<Tensor, TchError> {
        let inner = shape.hidden as i64;
        let both = linear(x, &self.gate_up)?;
        let gate = both.f_narrow(-1, 0, inner)?.f_silu()?;
        let up = both.f_narrow(-1, inner, inner)?;
        linear(&{ gate }.f_mul_(&up)?, &self.down)
    }
}

fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor, TchError> {
    x.f_linear(weight, None::<&Tensor>)
}

/// Compute attention, scaled by 1/√head_dim; if there are fewer key heads, query heads share them
/// in order.
fn attention(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    causal: bool,
) -> Result<Tensor, TchError> {
    let shared = queries.size()[1] != keys.size()[1];
    let mask = None::<&Tensor>;
    Tensor::f_scaled_dot_product_attention(queries, keys, values, mask, 0.0, causal, None, shared)
}

/// Reads weights directly into the tensors that keep them.
struct Loader<'a> {
    shape: &'a Shape,
    weights: &'a mut Weights,
    at: &'a Place,
}

impl Loader<'_> {
    fn layer(&mut self, layer: usize) -> Result<Layer, EngineError> {
        let shape = self.shape;
        let [dim, inner] = sizes([shape.dim, shape.hidden]);
        let [q, kv] = sizes([shape.q_dim(), shape.kv_dim()]);
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        // Phi-3's tensors have the order in which this engine joins the others'.
        let (qkv, gate_up) = match shape.is_fused() {
            false => (
                vec![
                    (name("self_attn.q_proj"), q),
                    (name("self_attn.k_proj"), kv),
                    (name("self_attn.v_proj"), kv),
                ],
                vec![(name("mlp.gate_proj"), inner), (name("mlp.up_proj"), inner)],
            ),
            true => (
                vec![(name("self_attn.qkv_proj"), q + 2 * kv)],
                vec![(name("mlp.gate_up_proj"), 2 * inner)],
            ),
        };
        Ok(Layer {
            attention_norm: self.vector(&name("input_layernorm"), dim)?,
            qkv: self.joined(&qkv, dim)?,
            qk_norm: self.qk_norm(&name("self_attn"))?,
            output: self.joined(&[(name("self_attn.o_proj"), dim)], q)?,
            mlp_norm: self.vector(&name("post_attention_layernorm"), dim)?,
            gate_up: self.joined(&gate_up, dim)?,
            down: self.joined(&[(name("mlp.down_proj"), dim)], inner)?,
            keys: self.cache()?,
            values: self.cache()?,
        })
    }

    /// Stack matrices of `columns` columns, each of its number of rows, on top of one another.
    fn joined(&mut self, parts: &[(String, i64)], columns: i64) -> Result<Tensor, EngineError> {
        let rows = parts.iter().map(|(_, rows)| rows).sum();
        let options = (self.at.kind, self.at.device);
        let whole = Tensor::f_empty([rows, columns], options).map_err(EngineError::of_library)?;
        let mut first = 0;
        for (name, rows) in parts {
            let part = self
                .weights
                .read(&format!("{name}.weight"), &[*rows, columns])?;
            whole
                .f_narrow(0, first, *rows)
                .and_then(|mut place| place.f_copy_(&part))
                .map_err(EngineError::of_library)?;
            first += rows;
        }
        Ok(whole)
    }

    fn vector(&mut self, name: &str, width: i64) -> Result<Tensor, EngineError> {
        let vector = self.weights.read(&format!("{name}.weight"), &[width])?;
        vector
            .f_to_kind(self.at.kind)
            .and_then(|vector| vector.f_to_device(self.at.device))
            .map_err(EngineError::of_library)
    }

    /// Load the norms of the query heads, one under another, and then those of the key heads.
    fn qk_norm(&mut self, attention: &str) -> Result<Option<Tensor>, EngineError> {
        let shape = self.shape;
        if !shape.has_qk_norm() {
            return Ok(None);
        }
        let [heads, kv_heads, head_dim] = sizes([shape.heads, shape.kv_heads, shape.head_dim]);
        let q = self.vector(&format!("{attention}.q_norm"), head_dim)?;
        let k = self.vector(&format!("{attention}.k_norm"), head_dim)?;
        let repeated = |norm: Tensor, heads: i64| norm.f_expand([heads, head_dim], false);
        let joined = || Tensor::f_cat(&[repeated(q, heads)?, repeated(k, kv_heads)?], 0);
        joined().map(Some).map_err(EngineError::of_library)
    }

    /// Allocate a cache. Zeroing it makes the memory resident before the first request.
    fn cache(&self) -> Result<Tensor, EngineError> {
        let [kv_heads, head_dim] = sizes([self.shape.kv_heads, self.shape.head_dim]);
        let cache = [self.at.rows, kv_heads, self.at.positions, head_dim];
        Tensor::f_zeros(cache, (self.at.kind, self.at.device)).map_err(EngineError::of_library)
    }

    fn rope(&self) -> Result<(Tensor, Tensor), TchError> {
        let (positions, head_dim) = (self.at.positions, self.shape.head_dim);
        let (cos, sin) = self.shape.rope.tables(head_dim, positions as usize);
        let tensor = |values: &[f32]| {
            Tensor::f_from_slice(values)?
                .f_reshape([positions, 1, head_dim as i64])?
                .f_to_kind(self.at.kind)?
                .f_to_device(self.at.device)
        };
        Ok((tensor(&cos)?, tensor(&sin)?))
    }
}
