//! A small, slow forward pass in f32 with transformers' semantics. The scales of the weights were
//! tuned with it, and the tests measure models with it.
//!
//! It is not the reference of the parity gate (that is PyTorch) and it is not timed. It uses plain
//! loops over whole matrices. Its only optimisations are threads, and dot products of two rows at a
//! time with sixteen partial sums each.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::gguf::tensor_type;
use crate::quant::GgmlType;
use crate::spec::{ModelFile, ModelSpec};
use crate::trained::Origin;
use crate::weights::{TensorDef, tensors};

/// The weights of one transformer block, each `[rows, cols]`, row by row, named as in safetensors.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Norm before attention, `[hidden]`.
    pub input_layernorm: Vec<f32>,
    /// Query projection, `[heads · head_dim, hidden]`.
    pub q_proj: Vec<f32>,
    /// Norm of each query head, `[head_dim]`, where queries are normalised head by head.
    pub q_norm: Option<Vec<f32>>,
    /// Key projection, `[kv_heads · head_dim, hidden]`.
    pub k_proj: Vec<f32>,
    /// Norm of each key head, `[head_dim]`, where keys are normalised head by head.
    pub k_norm: Option<Vec<f32>>,
    /// Value projection, `[kv_heads · head_dim, hidden]`.
    pub v_proj: Vec<f32>,
    /// Projection of the attention's output, `[hidden, heads · head_dim]`.
    pub o_proj: Vec<f32>,
    /// Norm before the MLP, `[hidden]`.
    pub post_attention_layernorm: Vec<f32>,
    /// MLP gate projection, `[intermediate, hidden]`.
    pub gate_proj: Vec<f32>,
    /// MLP up projection, `[intermediate, hidden]`.
    pub up_proj: Vec<f32>,
    /// MLP down projection, `[hidden, intermediate]`.
    pub down_proj: Vec<f32>,
}

/// A model in memory. The fields are public so that a test can break it.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The model's shape.
    pub spec: ModelSpec,
    /// Token embeddings, `[vocab, hidden]`; also the output matrix where `output` is `None`.
    pub embed: Vec<f32>,
    /// Output matrix, `[vocab, hidden]`, where the embeddings are not tied to it.
    pub output: Option<Vec<f32>>,
    /// The transformer blocks.
    pub layers: Vec<Layer>,
    /// Norm before the output matrix, `[hidden]`.
    pub norm: Vec<f32>,
    /// RoPE frequencies after scaling, radians per position, `[head_dim / 2]`.
    pub frequencies: Vec<f64>,
    /// Whether every matrix product's input is rounded to int8 per 32 values, as in the quantised
    /// engines.
    pub int8_activations: bool,
}

/// Keys and values so far: per layer, `[position, kv_heads · head_dim]`.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    /// One (keys, values) pair per layer; keys are rotated.
    pub layers: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Reference {
    /// The model of `spec` with weights from its seed, as they are in `file`, dequantised.
    /// Quantised files come with [`Reference::int8_activations`].
    pub fn new(spec: &ModelSpec, file: ModelFile) -> Self {
        Self::with_origin(spec, Origin::Seed, file)
    }

    /// The same as [`Reference::new`] with weights from `origin`.
    pub fn with_origin(spec: &ModelSpec, origin: Origin, file: ModelFile) -> Self {
        let mut weights: HashMap<String, Vec<f32>> = tensors(spec)
            .into_par_iter()
            .flat_map_iter(|def| {
                let fill = origin.rows(spec, &def);
                let mut exact = vec![0.0; def.len()];
                let rows = exact.chunks_exact_mut(def.cols).enumerate();
                rows.for_each(|(row, out)| fill(row, out));
                let kind = tensor_type(spec, &def, file);
                if kind == GgmlType::F32 {
                    return parts(def, exact);
                }
                let mut bytes = Vec::new();
                kind.encode(&exact, &mut bytes);
                parts(def, kind.decode(&bytes))
            })
            .collect();
        let mut find = |name: &str| weights.remove(&format!("{name}.weight"));
        let layers = (0..spec.num_layers).map(|i| {
            let mut find = |name: &str| find(&format!("model.layers.{i}.{name}"));
            let (q_norm, k_norm) = (find("self_attn.q_norm"), find("self_attn.k_norm"));
            let mut take = |name: &str| find(name).expect("a tensor");
            Layer {
                input_layernorm: take("input_layernorm"),
                q_proj: take("self_attn.q_proj"),
                q_norm,
                k_proj: take("self_attn.k_proj"),
                k_norm,
                v_proj: take("self_attn.v_proj"),
                o_proj: take("self_attn.o_proj"),
                post_attention_layernorm: take("post_attention_layernorm"),
                gate_proj: take("mlp.gate_proj"),
                up_proj: take("mlp.up_proj"),
                down_proj: take("mlp.down_proj"),
            }
        });
        let layers = layers.collect();
        Self {
            spec: spec.clone(),
            layers,
            embed: find("model.embed_tokens").expect("a tensor"),
            output: find("lm_head"),
            norm: find("model.norm").expect("a tensor"),
            frequencies: frequencies(spec),
            int8_activations: matches!(file, ModelFile::GgufQ8_0 | ModelFile::GgufQ4KM),
        }
    }

    /// Feeds `ids`, which stand at `positions`, after what is in `cache`, and returns the logits
    /// after each of the last `wanted` ids: `[wanted, vocab]`.
    pub fn forward(
        &self,
        ids: &[u32],
        positions: &[usize],
        cache: &mut Cache,
        wanted: usize,
    ) -> Vec<f32> {
        let (spec, hidden) = (&self.spec, self.spec.hidden_size);
        cache.layers.resize(spec.num_layers, Default::default());
        let rows = ids
            .iter()
            .map(|&id| &self.embed[id as usize * hidden..][..hidden]);
        let mut x: Vec<f32> = rows.flatten().copied().collect();
        for (layer, (keys, values)) in self.layers.iter().zip(&mut cache.layers) {
            let normed = self.rms_norm(&x, &layer.input_layernorm);
            let mut q = self.matmul(&normed, &layer.q_proj, hidden);
            let mut k = self.matmul(&normed, &layer.k_proj, hidden);
            // Heads are contiguous, so rows of head_dim are heads.
            if let Some(weight) = &layer.q_norm {
                q = self.rms_norm(&q, weight);
            }
            if let Some(weight) = &layer.k_norm {
                k = self.rms_norm(&k, weight);
            }
            self.rotate(&mut q, positions);
            self.rotate(&mut k, positions);
            keys.extend(k);
            values.extend(self.matmul(&normed, &layer.v_proj, hidden));
            let mixed = self.attend(&q, keys, values);
            let width = spec.num_heads * spec.head_dim;
            add(&mut x, &self.matmul(&mixed, &layer.o_proj, width));

            let normed = self.rms_norm(&x, &layer.post_attention_layernorm);
            let mut gated = self.matmul(&normed, &layer.gate_proj, hidden);
            let up = self.matmul(&normed, &layer.up_proj, hidden);
            for (gate, up) in gated.iter_mut().zip(up) {
                *gate = *gate / (1.0 + (-*gate).exp()) * up;
            }
            add(
                &mut x,
                &self.matmul(&gated, &layer.down_proj, spec.intermediate_size),
            );
        }
        let last = &x[(ids.len() - wanted) * hidden..];
        let output = self.output.as_ref().unwrap_or(&self.embed);
        self.matmul(&self.rms_norm(last, &self.norm), output, hidden)
    }

    /// `x / rms(x) · weight` for each row of `x`, `[tokens, hidden]`.
    fn rms_norm(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let rows = x.chunks_exact(weight.len());
        rows.flat_map(|row| {
            let square = row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32;
            let scale = 1.0 / (square + self.spec.rms_norm_eps as f32).sqrt();
            row.iter().zip(weight).map(move |(x, w)| x * scale * w)
        })
        .collect()
    }

    /// `x · wᵀ`: `[tokens, cols]` by `[rows, cols]` gives `[tokens, rows]`.
    fn matmul(&self, x: &[f32], w: &[f32], cols: usize) -> Vec<f32> {
        const ROWS: usize = 32;
        let rounded;
        let x = if self.int8_activations {
            let mut bytes = Vec::new();
            GgmlType::Q8_0.encode(x, &mut bytes);
            rounded = GgmlType::Q8_0.decode(&bytes);
            &rounded
        } else {
            x
        };
        let (tokens, rows) = (x.len() / cols, w.len() / cols);
        let blocks: Vec<Vec<f32>> = w
            .par_chunks(ROWS * cols)
            .map(|block| {
                let tokens = x.chunks_exact(cols);
                tokens.flat_map(|x| products(x, block)).collect()
            })
            .collect();
        let mut out = vec![0.0; tokens * rows];
        for (b, block) in blocks.iter().enumerate() {
            let width = block.len() / tokens;
            for (t, part) in block.chunks_exact(width).enumerate() {
                out[t * rows + b * ROWS..][..width].copy_from_slice(part);
            }
        }
        out
    }

    /// Rotates each pair (i, i + head_dim/2) of every head by `position · frequency`, in place.
    fn rotate(&self, x: &mut [f32], positions: &[usize]) {
        let half = self.spec.head_dim / 2;
        let width = x.len() / positions.len();
        for (row, &position) in x.chunks_exact_mut(width).zip(positions) {
            for head in row.chunks_exact_mut(2 * half) {
                for (i, frequency) in self.frequencies.iter().enumerate() {
                    let (sin, cos) = (position as f64 * frequency).sin_cos();
                    let (sin, cos) = (sin as f32, cos as f32);
                    let (a, b) = (head[i], head[i + half]);
                    head[i] = a * cos - b * sin;
                    head[i + half] = b * cos + a * sin;
                }
            }
        }
    }

    /// Causal attention of the newest tokens, `q`: `[tokens, heads · head_dim]`, over everything in
    /// `keys` and `values`. Query head h reads key head h / (heads / kv_heads).
    fn attend(&self, q: &[f32], keys: &[f32], values: &[f32]) -> Vec<f32> {
        let (dim, group) = (
            self.spec.head_dim,
            self.spec.num_heads / self.spec.num_kv_heads,
        );
        let (width, kv_width) = (self.spec.num_heads * dim, self.spec.num_kv_heads * dim);
        let (tokens, total) = (q.len() / width, keys.len() / kv_width);
        let mut mixed = vec![0.0; q.len()];
        mixed
            .par_chunks_exact_mut(dim)
            .enumerate()
            .for_each(|(i, out)| {
                let (token, head) = (i / self.spec.num_heads, i % self.spec.num_heads);
                let seen = total - tokens + token + 1;
                let at = |position: usize| position * kv_width + head / group * dim;
                let query = &q[i * dim..][..dim];
                let mut scores: Vec<f32> = (0..seen)
                    .map(|p| dot(query, &keys[at(p)..][..dim]) / (dim as f32).sqrt())
                    .collect();
                softmax(&mut scores);
                for (p, score) in scores.iter().enumerate() {
                    let value = &values[at(p)..][..dim];
                    out.iter_mut().zip(value).for_each(|(o, v)| *o += score * v);
                }
            });
        mixed
    }
}

/// A tensor's weights by name; a fused tensor is split into its parts, by their names.
fn parts(def: TensorDef, weights: Vec<f32>) -> Vec<(String, Vec<f32>)> {
    if def.parts.is_empty() {
        return vec![(def.name, weights)];
    }
    let mut rest = weights.as_slice();
    let mut all = Vec::new();
    for part in def.parts {
        let (own, others) = rest.split_at(part.len());
        all.push((part.name, own.to_vec()));
        rest = others;
    }
    all
}

/// RoPE frequencies of `spec` after its scaling.
pub fn frequencies(spec: &ModelSpec) -> Vec<f64> {
    let plain = spec.rope_frequencies();
    match spec.rope_factors() {
        Some(factors) => plain.iter().zip(factors).map(|(f, s)| f / s).collect(),
        None => plain,
    }
}

/// Turns scores into probabilities, in place.
pub fn softmax(scores: &mut [f32]) {
    let max = scores.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - max).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// The products of `x` with each of `rows`, each as [`dot`] computes it. Two rows are computed at a
/// time: while an addition to one row's sums waits for the one before, the other row can go on.
fn products(x: &[f32], rows: &[f32]) -> Vec<f32> {
    let cols = x.len();
    let mut out = Vec::with_capacity(rows.len() / cols);
    let mut pairs = rows.chunks_exact(2 * cols);
    for pair in &mut pairs {
        let (a, b) = pair.split_at(cols);
        let (mut of_a, mut of_b) = ([0.0f32; 16], [0.0f32; 16]);
        let (chunks, rest) = x.as_chunks();
        let ((a, rest_a), (b, rest_b)) = (a.as_chunks(), b.as_chunks());
        for (x, (a, b)) in chunks.iter().zip(a.iter().zip(b)) {
            add_products(&mut of_a, x, a);
            add_products(&mut of_b, x, b);
        }
        add_rest(&mut of_a, rest, rest_a);
        add_rest(&mut of_b, rest, rest_b);
        out.extend([of_a, of_b].map(|sums| sums.iter().sum::<f32>()));
    }
    let last = pairs.remainder().chunks_exact(cols);
    out.extend(last.map(|row| dot(x, row)));
    out
}

fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let ((chunks, rest), (others, other_rest)) = (x.as_chunks(), y.as_chunks());
    for (x, y) in chunks.iter().zip(others) {
        add_products(&mut sums, x, y);
    }
    add_rest(&mut sums, rest, other_rest);
    sums.iter().sum()
}

/// Adds products to sixteen partial sums, so that the compiler can use vector instructions.
#[inline]
fn add_products(sums: &mut [f32; 16], x: &[f32; 16], y: &[f32; 16]) {
    for i in 0..16 {
        sums[i] += x[i] * y[i];
    }
}

/// Adds the products of the last elements, fewer than sixteen, to the first sums.
fn add_rest(sums: &mut [f32; 16], x: &[f32], y: &[f32]) {
    let products = x.iter().zip(y).map(|(x, y)| x * y);
    sums.iter_mut()
        .zip(products)
        .for_each(|(sum, xy)| *sum += xy);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_row_and_pairs_of_rows_are_computed_alike() {
        let values = |n: usize| -> Vec<f32> { (0..n).map(|i| (i * 7 % 13) as f32 * 0.3).collect() };
        let (x, rows) = (values(48), values(5 * 48));
        let alone: Vec<f32> = rows.chunks_exact(48).map(|row| dot(&x, row)).collect();
        assert_eq!(products(&x, &rows), alone);
        assert_eq!(alone.len(), 5);
    }

    #[test]
    fn what_fills_no_chunk_is_added_too() {
        for cols in [8, 16, 24] {
            let x = vec![1.0; cols];
            assert_eq!(dot(&x, &x), cols as f32);
            assert_eq!(products(&x, &x.repeat(3)), [cols as f32; 3]);
        }
    }
}
