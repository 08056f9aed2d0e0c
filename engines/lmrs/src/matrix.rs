//! Weight matrices in the form that the kernels read: f32 rows as in the file, or int8 tiles that
//! are packed while loading.
//!
//! The layout of the tiles is described in [`crate::kernels::quant`].
//!
//! A product multiplies several matrices with one input, split over the pool.
//!
//! Matrices that share an input (query, key and value; gate and up) are multiplied in one parallel
//! phase, with their outputs side by side. A task is a stripe of rows of one matrix with all
//! tokens, so that weights are read from memory once for any number of tokens, and no element of
//! the output depends on the split.

use crate::kernels::quant::{
    Activations, BLOCK, GGUF_BLOCK_BYTES, TILE_BYTES, TILE_DEPTH, TILE_ROWS, pack_tile_row,
    unpack_row,
};
use crate::kernels::{F32Job, Kernels, Q8Job};
use crate::memory::Buffer;
use crate::pool::{Pool, SharedMut};
use memmap2::Mmap;
use std::sync::Arc;

/// F32 numbers, in a mapped file or in memory of their own.
pub struct F32Data(Source);

enum Source {
    /// A number of aligned elements (`count`) from byte `start` of a mapping.
    Mapped {
        map: Arc<Mmap>,
        start: usize,
        count: usize,
    },
    Owned(Buffer<f32>),
}

impl F32Data {
    /// Wrap `count` little-endian numbers from byte `start` of a mapping, in place. `None` if they
    /// are misaligned or out of bounds, or if this machine is big-endian.
    pub fn mapped(map: &Arc<Mmap>, start: usize, count: usize) -> Option<Self> {
        let end = start.checked_add(count.checked_mul(4)?)?;
        let aligned = (map.get(start..end)?.as_ptr() as usize).is_multiple_of(4);
        (aligned && cfg!(target_endian = "little")).then(|| {
            Self(Source::Mapped {
                map: Arc::clone(map),
                start,
                count,
            })
        })
    }

    /// Wrap numbers in memory of their own.
    pub fn owned(values: Buffer<f32>) -> Self {
        Self(Source::Owned(values))
    }

    /// Return the numbers.
    pub fn values(&self) -> &[f32] {
        match &self.0 {
            Source::Mapped { map, start, count } => {
                // SAFETY: `mapped` checked bounds, alignment and byte order; any
                // bits are a float; the mapping lives as long as `self`.
                unsafe { std::slice::from_raw_parts(map.as_ptr().add(*start).cast(), *count) }
            }
            Source::Owned(values) => values,
        }
    }
}

/// A weight matrix, `rows × cols`; the input of a token has `cols` values.
pub struct Matrix {
    /// Number of rows, which is the number of values in the output.
    pub rows: usize,
    /// Number of columns, which is the number of values in the input.
    pub cols: usize,
    /// The weights, as the kernels read them.
    pub weights: Weights,
}

/// The weights of a matrix.
pub enum Weights {
    /// F32 rows, one after the other.
    F32(F32Data),
    /// Rows of int8 tiles, see [`crate::kernels::quant`].
    Q8(Buffer<u8>),
}

impl Matrix {
    /// Create a matrix of f32.
    ///
    /// # Panics
    /// If there are not `rows · cols` numbers.
    pub fn f32(rows: usize, cols: usize, values: F32Data) -> Self {
        assert_eq!(values.values().len(), rows * cols);
        Self {
            rows,
            cols,
            weights: Weights::F32(values),
        }
    }

    /// Pack rows of Q8_0 blocks as they are in a GGUF file. Row `r` of the matrix is row
    /// `source(r)` of the file.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    ///
    /// # Panics
    /// If `bytes` is not exactly `rows × cols` in Q8_0, or `source` returns a row outside it.
    pub fn q8(
        rows: usize,
        cols: usize,
        bytes: &[u8],
        source: impl Fn(usize) -> usize + Sync,
        pool: &Pool,
    ) -> std::io::Result<Self> {
        let file_row = cols / BLOCK * GGUF_BLOCK_BYTES;
        assert!(cols.is_multiple_of(BLOCK) && bytes.len() == rows * file_row);
        let tile_rows = rows.div_ceil(TILE_ROWS);
        let row_bytes = cols.div_ceil(TILE_DEPTH) * TILE_BYTES;
        let mut tiles = Buffer::<u8>::zeroed(tile_rows * row_bytes)?;
        let out = SharedMut::new(&mut tiles);
        pool.run(tile_rows, |_, tile_row| {
            // SAFETY: tile rows do not overlap.
            let out = unsafe { out.part(tile_row * row_bytes, row_bytes) };
            pack_tile_row(out, |r| {
                let row = tile_row * TILE_ROWS + r;
                (row < rows).then(|| &bytes[source(row) * file_row..][..file_row])
            });
        });
        Ok(Self {
            rows,
            cols,
            weights: Weights::Q8(tiles),
        })
    }

    /// Return the number of tiles in a tile row of an int8 matrix.
    pub fn tiles_per_row(&self) -> usize {
        self.cols.div_ceil(TILE_DEPTH)
    }

    /// Return the bytes that a product reads.
    pub fn bytes(&self) -> usize {
        match &self.weights {
            Weights::F32(values) => size_of_val(values.values()),
            Weights::Q8(tiles) => tiles.len(),
        }
    }

    /// Convert one row to f32, into `out`.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not `cols` long.
    pub fn read_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.cols);
        match &self.weights {
            Weights::F32(values) => {
                out.copy_from_slice(&values.values()[row * self.cols..][..self.cols]);
            }
            Weights::Q8(tiles) => {
                let row_bytes = self.tiles_per_row() * TILE_BYTES;
                unpack_row(&tiles[row / TILE_ROWS * row_bytes..], row % TILE_ROWS, out);
            }
        }
    }
}

/// The input of a product, in the type that matches the weights.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// `tokens × cols`, for f32 weights.
    F32(&'a [f32]),
    /// Quantised activations, for int8 weights.
    Q8(&'a Activations),
}

/// Rows of a stripe, unless it is made smaller for balance: a kernel streams at most four tile
/// rows at once.
const STRIPE_ROWS: usize = 4 * TILE_ROWS;

/// Compute `out[token] = matrices[0] · x[token], matrices[1] · x[token], …`
///
/// # Panics
/// If the sizes do not fit together, or the types of weights and input don't match.
pub fn matmul(
    pool: &Pool,
    kernels: Kernels,
    matrices: &[&Matrix],
    input: Input<'_>,
    tokens: usize,
    out: &mut [f32],
) {
    let out_stride: usize = matrices.iter().map(|matrix| matrix.rows).sum();
    assert_eq!(out.len(), tokens * out_stride, "output of another size");
    // At least four stripes per thread in the whole phase, so that little work is left to wait for
    // when a thread is late.
    let wanted = 4 * pool.threads();
    let mut stripe = STRIPE_ROWS;
    while stripe > TILE_ROWS && out_stride / stripe < wanted {
        stripe /= 2;
    }
    // A task is one (matrix, stripe); the stripes of one matrix follow those of the previous one.
    let stripes = |matrix: &Matrix| matrix.rows.div_ceil(stripe);
    let tasks: usize = matrices.iter().map(|matrix| stripes(matrix)).sum();
    let out = SharedMut::new(out);
    pool.run(tasks, |_, task| {
        let mut task = task;
        let mut first = 0; // of the matrix's columns in `out`
        for matrix in matrices {
            if task >= stripes(matrix) {
                task -= stripes(matrix);
                first += matrix.rows;
                continue;
            }
            let rows = task * stripe..(task * stripe + stripe).min(matrix.rows);
            // SAFETY: `first < out_stride ≤ out.len()`.
            let out = unsafe { out.as_ptr().add(first) };
            // SAFETY: row `r` of token `t` is `out[t · out_stride + first + r]`,
            // in bounds by the assertion above, and no two tasks share a row.
            unsafe { stripe_product(kernels, matrix, rows, input, tokens, out, out_stride) };
            return;
        }
    });
}

/// # Safety
/// `out` must be writable at `[t · out_stride + r]` for all tokens and `rows`,
/// and no other code may touch those elements meanwhile.
unsafe fn stripe_product(
    kernels: Kernels,
    matrix: &Matrix,
    rows: std::ops::Range<usize>,
    input: Input<'_>,
    tokens: usize,
    out: *mut f32,
    out_stride: usize,
) {
    match (&matrix.weights, input) {
        (Weights::F32(weights), Input::F32(x)) => {
            let weights = weights.values();
            let cols = matrix.cols;
            let job = F32Job {
                weights,
                cols,
                rows,
                x,
                tokens,
                out,
                out_stride,
            };
            // SAFETY: the caller's promise.
            unsafe { kernels.f32(&job) };
        }
        (Weights::Q8(tiles), Input::Q8(x)) => {
            assert_eq!(x.tokens(), tokens, "input of another number of tokens");
            let job = Q8Job {
                tiles,
                tiles_per_row: matrix.tiles_per_row(),
                rows: matrix.rows,
                tile_rows: rows.start / TILE_ROWS..rows.end.div_ceil(TILE_ROWS),
                x,
                out,
                out_stride,
            };
            // SAFETY: the caller's promise; stripes are whole tile rows.
            unsafe { kernels.q8(&job) };
        }
        _ => unreachable!("a model's matrices and inputs are of one kind"),
    }
}
