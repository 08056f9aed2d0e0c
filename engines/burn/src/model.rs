//! The model: embedding, layers of attention and feed-forward, output head, and the key/value
//! cache. It consists of plain tensor operations of Burn's public interface, arranged so that a
//! step allocates no cache, copies no weights and reads nothing back.
//!
//! Between layers all activations are `rows·tokens × hidden`, so that each product is one matrix
//! product for any number of rows. `reader` reads the parts from files.

mod reader;

use crate::backend::{Backend, Kind};
use crate::linear::{Linear, upload};
use crate::weights::Tensors;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, DType, Device, IndexingUpdateOp, Int, Tensor, TensorData, activation};
use protocol::engine::EngineError;
use reader::Reader;
use shape::Shape;

/// Largest number of scores (rows × heads × queries × keys) computed at once; longer prompts are
/// processed in pieces.
const SCORES_AT_ONCE: usize = 1 << 26;

/// Compiled kernels depend on whether lengths are multiples of the vector width, so on CubeCL the
/// visible cache grows in steps of this many positions.
const CUBE_STEP: usize = 64;

/// The score of a masked position. Finite, because not every shading language can write an
/// infinity; e to the power of it is 0 all the same.
pub(crate) const HIDDEN: f32 = -1e30;

/// A model and its key/value cache.
#[derive(Clone)]
pub struct Llama {
    embedding: Tensor<2>, // vocabulary × hidden
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
    cos: Tensor<4>, // 1 × 1 × positions × head_dim
    sin: Tensor<4>,
    columns: Tensor<4, Int>, // 1 × 1 × 1 × positions: 0, 1, 2, …
    config: Shape,
    device: Device,
    kind: Kind,
    positions: usize,
}

#[derive(Clone)]
struct Layer {
    attention_norm: Norm,
    qkv: Linear,
    /// The norms of the query and key heads, if the model has them: 1 × heads + kv_heads × 1 ×
    /// head_dim.
    qk_norm: Option<Tensor<4>>,
    output: Linear,
    mlp_norm: Norm,
    gate_up: Linear,
    down: Linear,
    /// The cache, max_batch × kv_heads × positions × head_dim. It is taken out while it is
    /// written, because a tensor with one owner is changed in place.
    keys: Option<Tensor<4>>,
    values: Option<Tensor<4>>,
}

#[derive(Clone)]
struct Norm {
    weight: Tensor<2>, // 1 × hidden
    eps: f64,
}

impl Norm {
    fn forward(&self, x: &Tensor<2>) -> Tensor<2> {
        normalised(x.clone(), &self.weight, self.eps)
    }
}

/// Normalise the last dimension of `x` and multiply it by `weight`. Computed in f32, whatever the
/// precision is, because squares can exceed f16's range.
fn normalised<const D: usize>(x: Tensor<D>, weight: &Tensor<D>, eps: f64) -> Tensor<D> {
    let dtype = x.dtype();
    let wide = widen(x);
    let mean = (wide.clone() * wide.clone()).mean_dim(D - 1);
    let normed = wide / (mean + eps).sqrt();
    narrow(normed, dtype) * weight.clone()
}

/// The position of a step's first token.
enum Position {
    /// A number on the host; a kernel is launched with it.
    At(usize),
    /// A number on the device, so that a launch which is recorded once serves every position.
    OnDevice(Tensor<1, Int>),
}

/// The rows, tokens and positions of a step.
struct Step {
    rows: usize,
    tokens: usize,
    first: Position,
    cos: Tensor<4>,
    sin: Tensor<4>,
    /// Number of cached positions that the step reads, and the mask of those to hide.
    visible: usize,
    hidden: Option<Tensor<4, Bool>>,
}

impl Llama {
    /// Load the weights and allocate the cache.
    ///
    /// # Errors
    /// Fails if a tensor is missing or has another shape.
    pub fn load(
        config: Shape,
        tensors: &Tensors<'_>,
        backend: &Backend,
        positions: usize,
        max_batch: usize,
    ) -> Result<Self, EngineError> {
        // On CubeCL the cache is read in whole steps.
        let positions = match backend.kind {
            Kind::Cube => positions.next_multiple_of(CUBE_STEP),
            _ => positions,
        };
        let Shape {
            dim: hidden,
            vocabulary,
            head_dim,
            kv_heads,
            ..
        } = config;
        let reader = Reader {
            tensors,
            backend,
            config: &config,
        };
        let table = tensors.read("model.embed_tokens.weight", &[vocabulary, hidden])?;
        let (embedding, head) = if config.tied {
            let embedding = upload(table.clone(), [vocabulary, hidden], backend);
            let head = Linear::tied(&embedding, backend);
            let head = head.unwrap_or_else(|| Linear::new(table, vocabulary, None, backend));
            (embedding, head)
        } else {
            let head = reader.linear("lm_head", vocabulary, hidden, false)?;
            (upload(table, [vocabulary, hidden], backend), head)
        };

        let cache = [max_batch, kv_heads, positions, head_dim];
        let options = (&backend.device, backend.dtype);
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            let mut layer = reader.layer(&format!("model.layers.{index}"))?;
            layer.keys = Some(Tensor::zeros(cache, options));
            layer.values = Some(Tensor::zeros(cache, options));
            layers.push(layer);
        }
        let (cos, sin) = config.rope.tables(head_dim, positions);
        let columns = Tensor::<1, Int>::arange(0..positions as i64, &backend.device);
        Ok(Self {
            embedding,
            layers,
            norm: reader.norm("model.norm", hidden)?,
            head,
            cos: upload(cos, [1, 1, positions, head_dim], backend),
            sin: upload(sin, [1, 1, positions, head_dim], backend),
            columns: columns.reshape([1, 1, 1, positions]),
            device: backend.device.clone(),
            kind: backend.kind,
            config,
            positions,
        })
    }

    /// Feed `ids` (`rows × tokens`) from position `start` on; return the logits after the last
    /// token of each row, `rows × vocabulary`.
    pub fn forward(&mut self, ids: &[u32], rows: usize, start: usize) -> Tensor<2> {
        let tokens = ids.len() / rows;
        let step = self.step(rows, tokens, start);
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [rows * tokens]), &self.device);
        self.run(ids, &step)
    }

    /// Feed one token per row (`ids`: rows) at `position` (one number), which must be below
    /// `visible`; return the logits, `rows × vocabulary`. Nothing except `ids` and `position`
    /// depends on the position.
    pub fn decode_at(
        &mut self,
        ids: Tensor<1, Int>,
        position: Tensor<1, Int>,
        visible: usize,
    ) -> Tensor<2> {
        let columns = self.columns.clone().slice([0..1, 0..1, 0..1, 0..visible]);
        let here = position
            .clone()
            .reshape([1, 1, 1, 1])
            .expand([1, 1, 1, visible]);
        let step = Step {
            rows: ids.dims()[0],
            tokens: 1,
            cos: self.cos.clone().select(2, position.clone()),
            sin: self.sin.clone().select(2, position.clone()),
            visible,
            hidden: Some(columns.greater(here)),
            first: Position::OnDevice(position),
        };
        self.run(ids, &step)
    }

    /// Return how many positions a step at `position` reads, on backends with compiled kernels.
    pub fn visible_at(&self, position: usize) -> usize {
        (position + 1)
            .next_multiple_of(CUBE_STEP)
            .min(self.positions)
    }

    /// Return a model that shares the weights, with a cache of its own for `rows` rows.
    pub fn with_own_cache(&self, rows: usize) -> Self {
        let own = |cache: &Option<Tensor<4>>| {
            let cache = cache
                .as_ref()
                .expect("the cache is put back after each write");
            let [_, heads, positions, dim] = cache.dims();
            let options = (&self.device, cache.dtype());
            Some(Tensor::zeros([rows, heads, positions, dim], options))
        };
        let mut model = self.clone();
        for layer in &mut model.layers {
            (layer.keys, layer.values) = (own(&layer.keys), own(&layer.values));
        }
        model
    }

    fn run(&mut self, ids: Tensor<1, Int>, step: &Step) -> Tensor<2> {
        let Step { rows, tokens, .. } = *step;
        let mut x = self.embedding.clone().select(0, ids);
        for layer in &mut self.layers {
            x = layer.forward(x, &self.config, self.kind, step);
        }
        if tokens > 1 {
            let hidden = self.config.dim;
            let last = x
                .reshape([rows, tokens, hidden])
                .slice([0..rows, tokens - 1..tokens]);
            x = last.reshape([rows, hidden]);
        }
        self.head.forward(self.norm.forward(&x))
    }

    fn step(&self, rows: usize, tokens: usize, start: usize) -> Step {
        let end = start + tokens;
        let rotation = |table: &Tensor<4>| {
            let head_dim = self.config.head_dim;
            table.clone().slice([0..1, 0..1, start..end, 0..head_dim])
        };
        let visible = match self.kind {
            Kind::Cube if tokens == 1 => self.visible_at(start),
            _ => end,
        };
        let hidden = (visible > end).then(|| {
            let columns = self.columns.clone().slice([0..1, 0..1, 0..1, 0..visible]);
            columns.greater_equal_elem(end as i64)
        });
        Step {
            rows,
            tokens,
            first: Position::At(start),
            cos: rotation(&self.cos),
            sin: rotation(&self.sin),
            visible,
            hidden,
        }
    }
}

impl Layer {
    fn forward(&mut self, x: Tensor<2>, config: &Shape, kind: Kind, step: &Step) -> Tensor<2> {
        let attended = self.attention(self.attention_norm.forward(&x), config, kind, step);
        let x = x + self.output.forward(attended);

        let both = self.gate_up.forward(self.mlp_norm.forward(&x));
        let [n, width] = both.dims();
        let gate = both.clone().slice([0..n, 0..width / 2]);
        let up = both.slice([0..n, width / 2..width]);
        x + self.down.forward(activation::silu(gate) * up)
    }

    fn attention(&mut self, x: Tensor<2>, config: &Shape, kind: Kind, step: &Step) -> Tensor<2> {
        let Step { rows, tokens, .. } = *step;
        let (heads, kv_heads, dim) = (config.heads, config.kv_heads, config.head_dim);
        let all = heads + 2 * kv_heads;
        let qkv = self.qkv.forward(x).reshape([rows, tokens, all, dim]);
        let qkv = qkv.swap_dims(1, 2); // rows × heads × tokens × dim
        let part =
            |from: usize, to: usize| qkv.clone().slice([0..rows, from..to, 0..tokens, 0..dim]);
        let mut qk = part(0, heads + kv_heads);
        if let Some(weight) = &self.qk_norm {
            qk = normalised(qk, weight, config.eps);
        }
        let qk = rotate(qk, step);
        let q = qk.clone().slice([0..rows, 0..heads, 0..tokens, 0..dim]);
        let k = qk.slice([0..rows, heads..heads + kv_heads, 0..tokens, 0..dim]);
        let v = part(heads + kv_heads, all);

        let keys = write(&mut self.keys, k, rows, &step.first);
        let values = write(&mut self.values, v, rows, &step.first);
        let seen = [0..rows, 0..kv_heads, 0..step.visible, 0..dim];
        let (keys, values) = (keys.slice(seen.clone()), values.slice(seen));
        let out = match (tokens, kind) {
            (1, _) => attend(q, keys, values, kv_heads, step.hidden.clone()),
            // flex shares key/value heads itself, and skips masked positions.
            (_, Kind::Flex) => attention(q, keys, values, None, None, causal()),
            // libtorch wants a key/value head for each query head.
            (_, Kind::LibTorch) => {
                let [keys, values] = [keys, values].map(|shared| repeated(shared, heads));
                attention(q, keys, values, None, None, causal())
            }
            _ => attend_causally(q, keys, values, kv_heads),
        };
        out.swap_dims(1, 2).reshape([rows * tokens, heads * dim])
    }
}

/// The options of Burn's attention of a prompt: each position sees those up to its own.
fn causal() -> AttentionModuleOptions {
    AttentionModuleOptions {
        is_causal: true,
        ..Default::default()
    }
}

/// Repeat each of the shared heads of `x` (rows × shared heads × tokens × dim), so that there are
/// `heads`.
fn repeated(x: Tensor<4>, heads: usize) -> Tensor<4> {
    let [rows, shared, tokens, dim] = x.dims();
    let each = x.unsqueeze_dim::<5>(2).repeat_dim(2, heads / shared);
    each.reshape([rows, heads, tokens, dim])
}

/// Rotate `x` (rows × heads × tokens × dim) by its positions' angles.
fn rotate(x: Tensor<4>, step: &Step) -> Tensor<4> {
    let [rows, heads, tokens, dim] = x.dims();
    let half = |from: usize, to: usize| x.clone().slice([0..rows, 0..heads, 0..tokens, from..to]);
    let swapped = Tensor::cat(vec![half(dim / 2, dim), half(0, dim / 2)], 3);
    x * step.cos.clone() + swapped * step.sin.clone()
}

/// Write `new` (rows × kv_heads × tokens × dim) into the cache from `first` on; return the whole
/// cache.
fn write(
    cache: &mut Option<Tensor<4>>,
    new: Tensor<4>,
    rows: usize,
    first: &Position,
) -> Tensor<4> {
    let [_, heads, tokens, dim] = new.dims();
    let old = cache
        .take()
        .expect("the cache is put back after each write");
    let written = match first {
        Position::At(start) => {
            old.slice_assign([0..rows, 0..heads, *start..start + tokens, 0..dim], new)
        }
        Position::OnDevice(at) => old.select_assign(2, at.clone(), new, IndexingUpdateOp::Assign),
    };
    *cache = Some(written.clone());
    written
}

/// Compute the causal attention of a prompt, in pieces whose scores fit in memory.
fn attend_causally(q: Tensor<4>, keys: Tensor<4>, values: Tensor<4>, kv_heads: usize) -> Tensor<4> {
    let [rows, heads, tokens, dim] = q.dims();
    let piece = (SCORES_AT_ONCE / (rows * heads * tokens)).clamp(1, tokens);
    let device = q.device();
    let pieces = (0..tokens).step_by(piece).map(|from| {
        let to = (from + piece).min(tokens);
        let before = [0..rows, 0..kv_heads, 0..to, 0..dim];
        let mask = Tensor::<2, Bool>::tril_mask([to - from, to], from as i64, &device);
        attend(
            q.clone().slice([0..rows, 0..heads, from..to, 0..dim]),
            keys.clone().slice(before.clone()),
            values.clone().slice(before),
            kv_heads,
            Some(mask.unsqueeze::<4>()),
        )
    });
    let mut pieces: Vec<_> = pieces.collect();
    match pieces.len() {
        1 => pieces.remove(0),
        _ => Tensor::cat(pieces, 2),
    }
}

/// Compute softmax(q·kᵀ / √dim) · v. The query heads that share a key/value head are rows of one
/// product, so nothing is repeated. `hidden` must broadcast to 1 × 1 × tokens × keys.
fn attend(
    q: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    kv_heads: usize,
    hidden: Option<Tensor<4, Bool>>,
) -> Tensor<4> {
    let [rows, heads, tokens, dim] = q.dims();
    let visible = keys.dims()[2];
    let grouped = [rows, kv_heads, heads / kv_heads * tokens];
    let [r, g, n] = grouped;
    let q = q.reshape([r, g, n, dim]) / (dim as f64).sqrt();
    let scores = q.matmul(keys.swap_dims(2, 3)); // rows × kv_heads × group·tokens × visible
    let dtype = scores.dtype();
    let mut scores = widen(scores);
    if let Some(hidden) = hidden {
        let masked = scores.reshape([rows, heads, tokens, visible]);
        let hidden = hidden.expand([rows, heads, tokens, visible]);
        scores = masked.mask_fill(hidden, HIDDEN).reshape([r, g, n, visible]);
    }
    let shares = narrow(activation::softmax(scores, 3), dtype);
    shares.matmul(values).reshape([rows, heads, tokens, dim])
}

fn widen<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    narrow(x, DType::F32)
}

fn narrow<const D: usize>(x: Tensor<D>, dtype: DType) -> Tensor<D> {
    if x.dtype() == dtype { x } else { x.cast(dtype) }
}
