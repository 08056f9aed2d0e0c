//! The memory layouts of quantised numbers: weights in tiles, activations in blocks.
//!
//! **Weights.** A tile is 16 rows × 64 columns: two Q8_0 blocks of each row. First come the int8
//! values, for each block in eight groups of four columns, where a group is 16 rows × 4 columns
//! (64 bytes, one `vpdpbusd` operand); then the 2 × 16 scales as f16. A tile has 1088 bytes, a
//! multiple of the cache line, so that every load is aligned; that is 1.0625 bytes per weight, as
//! in the file. Values are stored with 128 added, because `vpdpbusd` multiplies unsigned by
//! signed. Absent rows and columns have scale 0.
//!
//! **Activations.** Each block of 32 has int8 values in −127..=127, a scale in f32, and a
//! correction, `−128 · Σ values`, which cancels the weights' offset.
//!
//! This module deliberately knows no file format and computes no product.

use half::f16;

/// Number of rows of a tile.
pub const TILE_ROWS: usize = 16;
/// Number of columns of a tile.
pub const TILE_DEPTH: usize = 64;
/// Number of columns that share a scale.
pub const BLOCK: usize = 32;
/// Number of bytes of a tile: values, then scales.
pub const TILE_BYTES: usize = TILE_ROWS * TILE_DEPTH + SCALE_BYTES;
/// Offset of the scales in a tile, in bytes.
pub const TILE_SCALES: usize = TILE_ROWS * TILE_DEPTH;
const SCALE_BYTES: usize = 2 * TILE_ROWS * (TILE_DEPTH / BLOCK);
/// Bytes of a Q8_0 block in a GGUF file: an f16 scale and 32 int8 values.
pub const GGUF_BLOCK_BYTES: usize = 2 + BLOCK;

/// Write 16 rows of Q8_0 blocks as a row of tiles.
///
/// `row(r)` returns the blocks of row `r` of this tile row as they are in the file, or `None` if
/// the matrix has no such row.
///
/// # Panics
/// If the length of `tiles` is not a multiple of a tile's.
pub fn pack_tile_row<'a>(tiles: &mut [u8], row: impl Fn(usize) -> Option<&'a [u8]>) {
    assert!(tiles.len().is_multiple_of(TILE_BYTES));
    for r in 0..TILE_ROWS {
        let blocks = row(r).unwrap_or(&[]);
        let blocks: &[[u8; GGUF_BLOCK_BYTES]] = blocks.as_chunks().0;
        for (index, tile) in tiles.chunks_exact_mut(TILE_BYTES).enumerate() {
            for half in 0..TILE_DEPTH / BLOCK {
                let values = half * TILE_ROWS * BLOCK;
                let scale = TILE_SCALES + (half * TILE_ROWS + r) * 2;
                let block = blocks.get(index * (TILE_DEPTH / BLOCK) + half);
                tile[scale..scale + 2].copy_from_slice(block.map_or(&[0, 0], |b| &b[..2]));
                for group in 0..BLOCK / 4 {
                    let at = values + (group * TILE_ROWS + r) * 4;
                    for column in 0..4 {
                        let value = block.map_or(0, |b| b[2 + group * 4 + column]);
                        tile[at + column] = value ^ 0x80;
                    }
                }
            }
        }
    }
}

/// Convert `out.len()` columns of row `r` of a tile row back to f32.
///
/// # Panics
/// If the tile row has fewer columns.
pub fn unpack_row(tiles: &[u8], r: usize, out: &mut [f32]) {
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let tile = &tiles[block / 2 * TILE_BYTES..][..TILE_BYTES];
        let half = block % 2;
        let scale = tile_scale(tile, half, r);
        for (column, out) in out.iter_mut().enumerate() {
            *out = f32::from(tile_value(tile, half, r, column)) * scale;
        }
    }
}

/// Return the scale of row `r` in block `half` of a tile.
#[inline]
pub fn tile_scale(tile: &[u8], half: usize, r: usize) -> f32 {
    let at = TILE_SCALES + (half * TILE_ROWS + r) * 2;
    f16::from_le_bytes([tile[at], tile[at + 1]]).to_f32()
}

/// Return the value of row `r` and `column` in block `half` of a tile.
#[inline]
pub fn tile_value(tile: &[u8], half: usize, r: usize, column: usize) -> i8 {
    let at = half * TILE_ROWS * BLOCK + (column / 4 * TILE_ROWS + r) * 4 + column % 4;
    (tile[at] ^ 0x80) as i8
}

/// Quantised inputs of up to a fixed number of tokens, in memory that is reused from step to step.
pub struct Activations {
    tokens: usize,
    depth: usize,
    values: Vec<i8>,
    scales: Vec<f32>,
    corrections: Vec<i32>,
}

/// The memory for one token's quantised input.
pub struct TokenMut<'a> {
    /// The int8 values, `depth` of them.
    pub values: &'a mut [i8],
    /// A scale for each block.
    pub scales: &'a mut [f32],
    /// The correction `−128 · Σ values` for each block.
    pub corrections: &'a mut [i32],
}

impl Activations {
    /// Create room for `tokens` inputs of up to `cols` values.
    pub fn with_room(tokens: usize, cols: usize) -> Self {
        let depth = cols.next_multiple_of(TILE_DEPTH);
        Self {
            tokens: 0,
            depth: 0,
            // Not 0, so that the memory is written, and therefore resident, at once.
            values: vec![1; tokens * depth],
            scales: vec![1.0; tokens * depth / BLOCK],
            corrections: vec![1; tokens * depth / BLOCK],
        }
    }

    /// Prepare to hold `tokens` inputs of `cols` values; their values are undefined until they are
    /// written.
    pub fn reset(&mut self, tokens: usize, cols: usize) {
        self.tokens = tokens;
        self.depth = cols.next_multiple_of(TILE_DEPTH);
        if self.values.len() < tokens * self.depth {
            *self = Self {
                tokens,
                depth: self.depth,
                ..Self::with_room(tokens, self.depth)
            };
        }
    }

    /// Return the number of tokens held.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Return the length of an input, rounded up to whole tiles.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Return all values (`tokens × depth`), scales and corrections (`tokens × depth / 32`).
    pub fn parts(&self) -> (&[i8], &[f32], &[i32]) {
        let blocks = self.tokens * self.depth / BLOCK;
        (
            &self.values[..self.tokens * self.depth],
            &self.scales[..blocks],
            &self.corrections[..blocks],
        )
    }

    /// Return the same three slices, to be written.
    pub fn parts_mut(&mut self) -> (&mut [i8], &mut [f32], &mut [i32]) {
        let blocks = self.tokens * self.depth / BLOCK;
        (
            &mut self.values[..self.tokens * self.depth],
            &mut self.scales[..blocks],
            &mut self.corrections[..blocks],
        )
    }
}
