//! Writes a tensor in any encoding, piece by piece: with bounded memory whatever the model's size,
//! and on all cores.
//!
//! It does not know file formats; it appends a tensor's bytes to a writer.

use std::io::Write;

use rayon::prelude::*;

/// Weights per piece of work: 1 MiB of f32.
const PIECE: usize = 1 << 18;
/// Pieces in memory at a time.
const PIECES_AT_ONCE: usize = 16;

/// Returns an error, which ends the writing, unless `go_on` is true.
pub fn stop_unless(go_on: bool) -> std::io::Result<()> {
    match go_on {
        true => Ok(()),
        false => Err(std::io::Error::other("interrupted")),
    }
}

/// Writes a matrix of `(rows, cols)` to `out`: its row `r` is what `fill(r, …)` writes, encoded by
/// `encode` (which must accept any whole number of rows). Calls `done` with the number of weights
/// of each part it has written; an error of `done` ends the writing.
pub fn write_rows(
    (rows, cols): (usize, usize),
    fill: impl Fn(usize, &mut [f32]) + Sync,
    encode: impl Fn(&[f32], &mut Vec<u8>) + Sync,
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize) -> std::io::Result<()>,
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
            done(count)?;
        }
    }
    Ok(())
}
