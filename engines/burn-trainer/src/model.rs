//! The Llama that is trained: the forward pass of `models::reference`, differentiable, over whole
//! windows. Weights have the layout of the files (`out × in`), so that exporting only copies them.
//!
//! It has no key/value cache, because generating is done by the engines.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use models::weights::{Role, TensorDef, tensors};
use models::{ModelSpec, prng, reference};

/// The score of a masked position. Finite, because not every shading language can write an
/// infinity; e to the power of it is 0 all the same.
const HIDDEN: f32 = -1e30;
/// Number of queries whose scores are computed at once: the intermediate results of a block stay
/// in the cache, and nearly half of a long window's scores are never computed.
const BLOCK: usize = 128;

/// The model's weights and shape.
#[derive(Module, Debug)]
pub struct Llama {
    embedding: Param<Tensor<2>>, // vocabulary × hidden, also the output matrix
    layers: Vec<Layer>,
    norm: Param<Tensor<1>>, // hidden
    #[module(skip)]
    shape: Shape,
}

#[derive(Module, Debug)]
struct Layer {
    attention_norm: Param<Tensor<1>>, // hidden
    query: Param<Tensor<2>>,          // heads·head_dim × hidden
    key: Param<Tensor<2>>,            // kv_heads·head_dim × hidden
    value: Param<Tensor<2>>,
    output: Param<Tensor<2>>,   // hidden × heads·head_dim
    mlp_norm: Param<Tensor<1>>, // hidden
    gate: Param<Tensor<2>>,     // intermediate × hidden
    up: Param<Tensor<2>>,
    down: Param<Tensor<2>>, // hidden × intermediate
}

/// The parts of the model that are not learned.
#[derive(Clone, Debug)]
struct Shape {
    spec: Arc<ModelSpec>,
    /// Positions × head_dim, with both halves of a row alike; the sines of the first half are
    /// negated.
    cos: Arc<Vec<f32>>,
    sin: Arc<Vec<f32>>,
}

/// The constants for a batch.
struct Positions {
    cos: Tensor<4>,  // 1 × 1 × tokens × head_dim
    sin: Tensor<4>,  // 1 × 1 × tokens × head_dim
    mask: Tensor<4>, // 1 × 1 × tokens × tokens: 0 or HIDDEN
}

impl Llama {
    /// Create a model with initial weights from `seed`: the same on every backend, because no
    /// backend's random generator is used. `context`: the longest window.
    pub fn new(spec: &ModelSpec, seed: u64, context: usize, device: &Device) -> Self {
        let defs = tensors(spec);
        let first = |def: &TensorDef| first_weights(spec, seed, def);
        let matrix = |def: &TensorDef| {
            let data = TensorData::new(first(def), [def.rows, def.cols]);
            Param::from_data(data, device)
        };
        let vector = |def: &TensorDef| {
            let data = TensorData::new(first(def), [def.cols]);
            Param::from_data(data, device)
        };
        // In the order of the files: the embedding, nine tensors per layer, the last norm.
        let layers = defs[1..defs.len() - 1].chunks_exact(9);
        let layers = layers.map(|defs| Layer {
            attention_norm: vector(&defs[0]),
            query: matrix(&defs[1]),
            key: matrix(&defs[2]),
            value: matrix(&defs[3]),
            output: matrix(&defs[4]),
            mlp_norm: vector(&defs[5]),
            gate: matrix(&defs[6]),
            up: matrix(&defs[7]),
            down: matrix(&defs[8]),
        });
        Self {
            embedding: matrix(&defs[0]),
            layers: layers.collect(),
            norm: vector(&defs[defs.len() - 1]),
            shape: Shape::new(spec, context),
        }
    }

    /// Return the logits after each token: `rows × tokens` ids give `rows·tokens × vocabulary`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<2> {
        let [rows, tokens] = ids.dims();
        let embedding = self.embedding.val();
        let positions = self.shape.positions(tokens, &ids.device());
        let mut x = embedding.clone().select(0, ids.reshape([rows * tokens]));
        for layer in &self.layers {
            x = layer.forward(x, &self.shape.spec, rows, &positions);
        }
        let x = norm(x, self.norm.val(), self.shape.spec.rms_norm_eps);
        x.matmul(embedding.transpose())
    }

    /// Return the mean cross-entropy (nats) of `targets` (`rows·tokens`) after `ids`, a single
    /// number.
    pub fn loss(&self, ids: Tensor<2, Int>, targets: Tensor<1, Int>) -> Tensor<1> {
        let logits = self.forward(ids);
        let count = targets.dims()[0];
        let logprobs = activation::log_softmax(logits, 1);
        let picked = logprobs.gather(1, targets.reshape([count, 1]));
        picked.mean().neg()
    }

    /// Return every weight as f32, with its name in safetensors and its shape.
    pub fn weights(&self) -> Vec<(TensorDef, Vec<f32>)> {
        let mut values = vec![read(self.embedding.val())];
        for layer in &self.layers {
            values.push(read(layer.attention_norm.val()));
            for matrix in [&layer.query, &layer.key, &layer.value, &layer.output] {
                values.push(read(matrix.val()));
            }
            values.push(read(layer.mlp_norm.val()));
            for matrix in [&layer.gate, &layer.up, &layer.down] {
                values.push(read(matrix.val()));
            }
        }
        values.push(read(self.norm.val()));
        tensors(&self.shape.spec).into_iter().zip(values).collect()
    }
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data_as::<f32>();
    data.try_to_vec().expect("it was just made f32")
}

impl Layer {
    /// Apply the layer to `x`: rows·tokens × hidden.
    fn forward(&self, x: Tensor<2>, spec: &ModelSpec, rows: usize, at: &Positions) -> Tensor<2> {
        let eps = spec.rms_norm_eps;
        let normed = norm(x.clone(), self.attention_norm.val(), eps);
        let x = x + linear(self.attention(normed, spec, rows, at), &self.output);
        let normed = norm(x.clone(), self.mlp_norm.val(), eps);
        let gate = activation::silu(linear(normed.clone(), &self.gate));
        x + linear(gate * linear(normed, &self.up), &self.down)
    }

    fn attention(&self, x: Tensor<2>, spec: &ModelSpec, rows: usize, at: &Positions) -> Tensor<2> {
        let (heads, kv, dim) = (spec.num_heads, spec.num_kv_heads, spec.head_dim);
        let tokens = x.dims()[0] / rows;
        let split = |matrix: &Param<Tensor<2>>, heads: usize| {
            let y = linear(x.clone(), matrix).reshape([rows, tokens, heads, dim]);
            y.swap_dims(1, 2) // rows × heads × tokens × dim
        };
        let q = rotate(split(&self.query, heads), at) / (dim as f64).sqrt();
        let k = rotate(split(&self.key, kv), at);
        let v = split(&self.value, kv);
        // A block of queries attends to no key after it, so the scores of those keys are not
        // computed.
        let blocks = (0..tokens).step_by(BLOCK).map(|from| {
            let to = (from + BLOCK).min(tokens);
            let queries = to - from;
            // The query heads that share a key/value head are rows of one product.
            let grouped = heads / kv * queries;
            let q = q.clone().slice([0..rows, 0..heads, from..to, 0..dim]);
            let q = q.reshape([rows, kv, grouped, dim]);
            let read = |x: &Tensor<4>| x.clone().slice([0..rows, 0..kv, 0..to, 0..dim]);
            let scores = q.matmul(read(&k).swap_dims(2, 3));
            let mask = at.mask.clone().slice([0..1, 0..1, from..to, 0..to]);
            let scores = scores.reshape([rows, heads, queries, to]) + mask;
            let shares = activation::softmax(scores, 3);
            let mixed = shares.reshape([rows, kv, grouped, to]).matmul(read(&v));
            mixed.reshape([rows, heads, queries, dim])
        });
        let mixed = Tensor::cat(blocks.collect(), 2);
        mixed.swap_dims(1, 2).reshape([rows * tokens, heads * dim])
    }
}

/// Compute x · Wᵀ.
fn linear(x: Tensor<2>, weight: &Param<Tensor<2>>) -> Tensor<2> {
    x.matmul(weight.val().transpose())
}

/// Apply RMSNorm to each row.
fn norm(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> {
    let mean = (x.clone() * x.clone()).mean_dim(1);
    x / (mean + eps).sqrt() * weight.unsqueeze::<2>()
}

/// Rotate `x` (rows × heads × tokens × dim) by its positions' angles.
fn rotate(x: Tensor<4>, at: &Positions) -> Tensor<4> {
    let [rows, heads, tokens, dim] = x.dims();
    let half = |from: usize, to: usize| x.clone().slice([0..rows, 0..heads, 0..tokens, from..to]);
    let swapped = Tensor::cat(vec![half(dim / 2, dim), half(0, dim / 2)], 3);
    x * at.cos.clone() + swapped * at.sin.clone()
}

impl Shape {
    fn new(spec: &ModelSpec, context: usize) -> Self {
        let frequencies = reference::frequencies(spec);
        let half = frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for position in 0..context {
            for i in 0..2 * half {
                let (s, c) = (position as f64 * frequencies[i % half]).sin_cos();
                cos.push(c as f32);
                sin.push(if i < half { -s as f32 } else { s as f32 });
            }
        }
        Self {
            spec: Arc::new(spec.clone()),
            cos: Arc::new(cos),
            sin: Arc::new(sin),
        }
    }

    fn positions(&self, tokens: usize, device: &Device) -> Positions {
        let dim = self.spec.head_dim;
        let table = |values: &[f32]| {
            let values = values[..tokens * dim].to_vec();
            Tensor::from_data(TensorData::new(values, [1, 1, tokens, dim]), device)
        };
        let hidden = |i: usize| if i % tokens > i / tokens { HIDDEN } else { 0.0 };
        let mask: Vec<f32> = (0..tokens * tokens).map(hidden).collect();
        Positions {
            cos: table(&self.cos),
            sin: table(&self.sin),
            mask: Tensor::from_data(TensorData::new(mask, [1, 1, tokens, tokens]), device),
        }
    }
}

/// Return initial weights: normal, scaled so that the sum of a row's products has about the size
/// of one of its inputs. The weights of outputs into the residual stream are smaller the more
/// layers there are (Radford et al. 2019). An embedding has length one, so that the layers'
/// outputs don't drown the token.
fn first_weights(spec: &ModelSpec, seed: u64, def: &TensorDef) -> Vec<f32> {
    let std = match def.role {
        Role::Norm | Role::FinalNorm => return vec![1.0; def.cols],
        Role::Embedding => 1.0 / (def.cols as f32).sqrt(),
        Role::AttnOutput | Role::Down => {
            0.5 / (def.cols as f32).sqrt() / (2.0 * spec.num_layers as f32).sqrt()
        }
        _ => 0.5 / (def.cols as f32).sqrt(),
    };
    let key = prng::stream_key(seed, &def.name);
    (0..def.len() as u64)
        .map(|index| prng::normal(key, index, std))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::reference::{Cache, Layer as ReferenceLayer, Reference};

    /// Return the reference with the same weights as `model`.
    fn reference(spec: &ModelSpec, model: &Llama) -> Reference {
        let mut values = model.weights().into_iter().map(|(_, values)| values);
        let mut next = || values.next().unwrap();
        let embed = next();
        let layers = (0..spec.num_layers).map(|_| ReferenceLayer {
            input_layernorm: next(),
            q_proj: next(),
            q_norm: None,
            k_proj: next(),
            k_norm: None,
            v_proj: next(),
            o_proj: next(),
            post_attention_layernorm: next(),
            gate_proj: next(),
            up_proj: next(),
            down_proj: next(),
        });
        let layers = layers.collect();
        Reference {
            spec: spec.clone(),
            embed,
            output: None,
            layers,
            norm: next(),
            frequencies: reference::frequencies(spec),
            int8_activations: false,
        }
    }

    #[test]
    #[cfg(feature = "flex")]
    fn it_computes_what_the_reference_computes() {
        let spec = ModelSpec::tiny_stories();
        let (rows, tokens) = (2, BLOCK + 40);
        let model = Llama::new(&spec, 3, tokens, &Device::flex());
        let ids: Vec<u32> = (0..rows * tokens).map(|i| (i * i % 700) as u32).collect();
        let data: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
        let data = TensorData::new(data, [rows, tokens]);
        let logits = read(model.forward(Tensor::from_data(data, &Device::flex())));
        let reference = reference(&spec, &model);
        let positions: Vec<usize> = (0..tokens).collect();
        for (row, ids) in ids.chunks_exact(tokens).enumerate() {
            let truth = reference.forward(ids, &positions, &mut Cache::default(), tokens);
            let ours = &logits[row * truth.len()..][..truth.len()];
            let pairs = truth.iter().zip(ours);
            let worst = pairs.fold(0.0f32, |worst, (a, b)| worst.max((a - b).abs()));
            assert!(worst < 1e-4, "row {row}: {worst}");
        }
    }
}
