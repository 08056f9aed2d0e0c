//! The memory of a model between layers and between steps: the activations of a chunk of tokens,
//! and the key/value cache.
//!
//! All of it is allocated while loading, for the largest batch and context, so that no request
//! pays for memory. This module deliberately computes nothing but addresses (and the quantisation
//! of a product's input).

use crate::kernels::Kernels;
use crate::kernels::attention::KEY_BLOCK;
use crate::kernels::portable::LANES;
use crate::kernels::quant::{Activations, BLOCK, TokenMut};
use crate::matrix::Input;
use crate::memory::Buffer;
use crate::pool::{Pool, SharedMut};
use crate::weights::Precision;
use shape::Shape;

/// Number of tokens that a prefill feeds through a layer together. It is large enough that reading
/// the weights is hidden behind the arithmetic, and small enough that the chunk's activations stay
/// in the last-level cache.
pub const CHUNK_TOKENS: usize = 256;

/// Buffers for a chunk of `n ≤ room` tokens.
pub struct State {
    /// Largest number of tokens in a chunk.
    pub room: usize,
    /// Residual stream, `[n, dim]`.
    pub x: Buffer<f32>,
    /// The input of the next product, `[n, dim | q_dim | hidden]`.
    pub operand: Operand,
    /// Queries, keys and values side by side, `[n, q_dim + 2 · kv_dim]`.
    pub qkv: Buffer<f32>,
    /// The output of attention, `[n, q_dim]`.
    pub attended: Buffer<f32>,
    /// The output of a block, which is added to the residual stream, `[n, dim]`.
    pub delta: Buffer<f32>,
    /// Gate and up side by side, `[n, 2 · hidden]`.
    pub gate_up: Buffer<f32>,
    /// Logits of each row's last token, `[rows, vocabulary]`.
    pub logits: Buffer<f32>,
    /// Attention scores, `[threads, group · capacity]`.
    pub scores: Buffer<f32>,
}

impl State {
    /// Allocate buffers for `rows` sequences, `capacity` cached positions and `threads` threads,
    /// with resident memory.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(
        config: &Shape,
        precision: Precision,
        rows: usize,
        capacity: usize,
        threads: usize,
    ) -> std::io::Result<Self> {
        let room = CHUNK_TOKENS.min(rows * capacity).max(rows);
        let widest = config.dim.max(config.q_dim()).max(config.hidden);
        Ok(Self {
            room,
            x: present(room * config.dim)?,
            operand: Operand::new(precision, room, widest)?,
            qkv: present(room * (config.q_dim() + 2 * config.kv_dim()))?,
            attended: present(room * config.q_dim())?,
            delta: present(room * config.dim)?,
            gate_up: present(room * 2 * config.hidden)?,
            logits: present(rows * config.vocabulary)?,
            scores: present(threads * config.group() * capacity)?,
        })
    }
}

/// Allocate `len` zeros whose memory is resident, not only reserved.
fn present(len: usize) -> std::io::Result<Buffer<f32>> {
    let mut buffer = Buffer::zeroed(len)?;
    buffer.touch();
    Ok(buffer)
}

/// The input of a product: f32, and additionally int8 if the weights are quantised.
pub struct Operand {
    values: Buffer<f32>,            // [n, cols]
    quantised: Option<Activations>, // [n, cols]
}

impl Operand {
    fn new(precision: Precision, tokens: usize, cols: usize) -> std::io::Result<Self> {
        let quantised = precision == Precision::Q8_0;
        Ok(Self {
            values: present(tokens * cols)?,
            quantised: quantised.then(|| Activations::with_room(tokens, cols)),
        })
    }

    /// Call `write(token, row)` to write each token's `cols` values, in parallel; quantise them if
    /// the weights are quantised.
    pub fn fill(
        &mut self,
        pool: &Pool,
        kernels: Kernels,
        tokens: usize,
        cols: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Input<'_> {
        let Self { values, quantised } = self;
        let rows = SharedMut::new(values);
        let Some(quantised) = quantised else {
            pool.run(tokens, |_, t| {
                // SAFETY: tokens' rows do not overlap.
                let row = unsafe { rows.part(t * cols, cols) };
                write(t, row);
            });
            return Input::F32(&self.values[..tokens * cols]);
        };
        quantised.reset(tokens, cols);
        let depth = quantised.depth();
        let blocks = depth / BLOCK;
        let (ints, scales, corrections) = quantised.parts_mut();
        let (ints, scales) = (SharedMut::new(ints), SharedMut::new(scales));
        let corrections = SharedMut::new(corrections);
        pool.run(tokens, |_, t| {
            // SAFETY: tokens' parts do not overlap.
            let (row, out) = unsafe {
                let out = TokenMut {
                    values: ints.part(t * depth, depth),
                    scales: scales.part(t * blocks, blocks),
                    corrections: corrections.part(t * blocks, blocks),
                };
                (rows.part(t * cols, cols), out)
            };
            write(t, row);
            kernels.quantise(row, out);
        });
        Input::Q8(quantised)
    }
}

/// The keys and values of every layer, row and position, in the layout of
/// [`crate::kernels::attention`].
pub struct Cache {
    /// Number of positions that there is room for, a multiple of [`KEY_BLOCK`].
    pub capacity: usize,
    keys: Buffer<f32>,   // [layer][row][kv head][position / 16][padded dim][16]
    values: Buffer<f32>, // [layer][row][kv head][position][padded dim]
    rows: usize,
    kv_heads: usize,
    padded: usize,
}

impl Cache {
    /// Allocate an empty cache, with resident memory.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(config: &Shape, rows: usize, positions: usize) -> std::io::Result<Self> {
        let capacity = positions.next_multiple_of(KEY_BLOCK);
        let padded = config.head_dim.next_multiple_of(LANES);
        let sizes = [config.layers, rows, config.kv_heads, capacity];
        let count = sizes
            .iter()
            .try_fold(padded, |count, size| count.checked_mul(*size));
        let count = count.ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            capacity,
            keys: present(count)?,
            values: present(count)?,
            rows,
            kv_heads: config.kv_heads,
            padded,
        })
    }

    /// Return the bytes that the keys and values of one position take, in all layers of one
    /// sequence. Zeros that fill a head up to whole vectors don't count.
    pub fn bytes_per_token(config: &Shape) -> u64 {
        (2 * config.layers * config.kv_dim() * size_of::<f32>()) as u64
    }

    /// Return the index at which a head's keys (or values) begin.
    fn start(&self, layer: usize, row: usize, head: usize) -> usize {
        ((layer * self.rows + row) * self.kv_heads + head) * self.capacity * self.padded
    }

    /// Return the keys and values of a head, at all positions.
    pub fn head(&self, layer: usize, row: usize, head: usize) -> (&[f32], &[f32]) {
        let start = self.start(layer, row, head);
        let range = start..start + self.capacity * self.padded;
        (&self.keys[range.clone()], &self.values[range])
    }

    /// Return a handle through which tasks write different positions of the cache at the same
    /// time.
    pub fn writer(&mut self) -> CacheWriter<'_> {
        let (rows, kv_heads) = (self.rows, self.kv_heads);
        let (capacity, padded) = (self.capacity, self.padded);
        CacheWriter {
            keys: SharedMut::new(&mut self.keys),
            values: SharedMut::new(&mut self.values),
            rows,
            kv_heads,
            capacity,
            padded,
        }
    }
}

/// A handle to write to the cache from several tasks, see [`Cache::writer`].
pub struct CacheWriter<'a> {
    keys: SharedMut<'a, f32>,
    values: SharedMut<'a, f32>,
    rows: usize,
    kv_heads: usize,
    capacity: usize,
    padded: usize,
}

impl CacheWriter<'_> {
    /// Store one head's key and value at a position.
    ///
    /// # Safety
    /// No other task may write the same layer, row, head and position meanwhile.
    ///
    /// # Panics
    /// If the position is beyond the capacity.
    pub unsafe fn store(
        &self,
        (layer, row, head): (usize, usize, usize),
        position: usize,
        key: &[f32],
        value: &[f32],
    ) {
        assert!(row < self.rows && head < self.kv_heads && position < self.capacity);
        let head = (layer * self.rows + row) * self.kv_heads + head;
        let start = head * self.capacity * self.padded;
        let block = start + position / KEY_BLOCK * KEY_BLOCK * self.padded;
        for (d, key) in key.iter().enumerate() {
            let at = block + d * KEY_BLOCK + position % KEY_BLOCK;
            // SAFETY: one element, of this position alone.
            unsafe { self.keys.part(at, 1)[0] = *key };
        }
        // SAFETY: the values of this position alone.
        let out = unsafe {
            self.values
                .part(start + position * self.padded, value.len())
        };
        out.copy_from_slice(value);
    }
}
