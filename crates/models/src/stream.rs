//! Writes a tensor in any encoding, piece by piece: with bounded memory whatever the model's size,
//! and on all cores.
//!
//! It does not know file formats; it appends a tensor's bytes to a writer.

use std::io::Write;

use rayon::prelude::*;

use crate::spec::ModelSpec;
use crate::trained::Origin;
use crate::weights::TensorDef;

/// Weights per piece of work: 1 MiB of f32.
const PIECE: usize = 1 << 18;
/// Pieces in memory at a time.
const PIECES_AT_ONCE: usize = 16;

/// Writes the tensor `def` to `out`: its row `r` is Hugging Face's row `source_row(r)`, encoded by
/// `encode` (which must accept any whole number of rows). Calls `done` with the number of weights
/// of each part it has written.
pub fn write_tensor(
    spec: &ModelSpec,
    origin: Origin,
    def: &TensorDef,
    source_row: impl Fn(usize) -> usize + Sync,
    encode: impl Fn(&[f32], &mut Vec<u8>) + Sync,
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize),
) -> std::io::Result<()> {
    let maker = origin.rows(spec, def);
    let fill = |row: usize, out: &mut [f32]| maker.fill(source_row(row), out);
    write_rows((def.rows, def.cols), fill, encode, out, done)
}

/// Writes a matrix of `(rows, cols)` as [`write_tensor`] does; its row `r` is what `fill(r, …)`
/// writes.
pub fn write_rows(
    (rows, cols): (usize, usize),
    fill: impl Fn(usize, &mut [f32]) + Sync,
    encode: impl Fn(&[f32], &mut Vec<u8>) + Sync,
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize),
) -> std::io::Result<()> {
    let rows_per_piece = (PIECE / cols).max(1);
    let starts: Vec<usize> = (0..rows).step_by(rows_per_piece).collect();
    for batch in starts.chunks(PIECES_AT_ONCE) {
        let encoded: Vec<(usize, Vec<u8>)> = batch
            .par_iter()
            .map(|&start| {
                let rows = rows_per_piece.min(rows - start);
                let mut weights = vec![0.0; rows * cols];
                for (i, row) in weights.chunks_exact_mut(cols).enumerate() {
                    fill(start + i, row);
                }
                let mut bytes = Vec::new();
                encode(&weights, &mut bytes);
                (weights.len(), bytes)
            })
            .collect();
        for (count, bytes) in encoded {
            out.write_all(&bytes)?;
            done(count);
        }
    }
    Ok(())
}
