//! The kernel: it processes a tile of queries against one tile of keys and values after the other
//! (FlashAttention: Dao et al. 2022; order of loops as in FlashAttention-2: Dao 2023, algorithm
//! 1), with a running softmax (Milakov & Gimelshein 2018).
//!
//! Sums are f32, whatever the tensors hold. It uses no plane operations, so that it also runs on
//! devices where units can't communicate that way, such as a software rasteriser.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Queries per cube, and keys processed between two barriers.
pub(super) const TILE: usize = 32;

/// Units in the x dimension: they share queries, and divide keys and dimensions.
pub(super) const COLUMNS: usize = 8;

/// Units in the y dimension: they divide the queries.
pub(super) const LINES: usize = 8;

/// Values per vector that is moved at once.
pub(super) const WIDTH: usize = 4;

/// Queries per unit: `line`, `line + LINES`, …
const QUERIES: usize = TILE / LINES;

/// Keys per unit, one vector of them; the next unit has the keys that follow.
const KEYS: usize = TILE / COLUMNS;

/// The score of a masked position. Finite, because WGSL has no infinity; e to the power of it is 0
/// all the same.
const HIDDEN: f32 = -1e30;

type Four<E> = Vector<E, Const<4>>;

/// Bytes of shared memory for a head dimension of this many vectors.
pub(super) fn shared_bytes(vectors: usize) -> usize {
    let rows = 2 * (vectors + 1) + vectors + (KEYS_IN_VECTORS + 1);
    (TILE * rows * WIDTH + TILE * COLUMNS) * size_of::<f32>()
}

/// Vectors in a row of a tile's attention weights.
const KEYS_IN_VECTORS: usize = TILE / WIDTH;

/// Compute `softmax(q·kᵀ·scale)·v`, each batch × heads × positions × dimension, with the last
/// dimension contiguous. `vectors` of [`WIDTH`] make a head dimension and are a multiple of
/// [`COLUMNS`]; cubes: tiles of queries × (batch · heads), of [`COLUMNS`] × [`LINES`] units.
#[cube(launch_unchecked)]
pub(super) fn attend<E: Float>(
    queries: &Tensor<Four<E>>,
    keys: &Tensor<Four<E>>,
    values: &Tensor<Four<E>>,
    out: &mut Tensor<Four<E>>,
    scale: f32,
    #[comptime] vectors: usize,
    #[comptime] causal: bool,
    #[define(E)] _dtype: ElemType,
) {
    let column = UNIT_POS_X as usize;
    let line = UNIT_POS_Y as usize;
    let positions = queries.shape(2);
    let heads = queries.shape(1);
    let batch = CUBE_POS_Y as usize / heads;
    let head = CUBE_POS_Y as usize % heads;
    // Under a causal mask the last queries have the most work, so they begin first.
    let first_query = ((positions - 1) / TILE - CUBE_POS_X as usize) * TILE;

    // One vector of padding between two rows, so that the rows which a plane reads at once lie in
    // different banks.
    let padded = comptime!(vectors + 1);
    let shares_row = comptime!(KEYS_IN_VECTORS + 1);
    let mut q = Shared::<[Four<f32>]>::new_slice(comptime!(TILE * (vectors + 1)));
    let mut k = Shared::<[Four<f32>]>::new_slice(comptime!(TILE * (vectors + 1)));
    let mut v = Shared::<[Four<f32>]>::new_slice(comptime!(TILE * vectors));
    let mut shares = Shared::<[Four<f32>]>::new_slice(comptime!(TILE * (KEYS_IN_VECTORS + 1)));
    let mut peaks = Shared::<[f32]>::new_slice(comptime!(TILE * COLUMNS));

    // For each of this unit's queries: the largest score so far; the sum of this unit's weights;
    // and this unit's dimensions of the weighted sum of values, in groups of a vector.
    let groups = comptime!(vectors / COLUMNS);
    let mut peak = Array::<f32>::new(QUERIES);
    let mut total = Array::<f32>::new(QUERIES);
    let mut sums = Array::<Four<f32>>::new(comptime!(QUERIES * (vectors / COLUMNS)));
    #[unroll]
    for i in 0..QUERIES {
        peak[i] = f32::new(HIDDEN);
        total[i] = f32::new(0.0);
        #[unroll]
        for group in 0..groups {
            sums[i * groups + group] = Four::<f32>::new(0.0f32);
        }
    }

    fetch::<E>(
        queries,
        &mut q,
        batch,
        head,
        first_query,
        vectors,
        padded,
        false,
    );
    let mut end = positions;
    if comptime!(causal) {
        // No query attends to the tiles behind the last query.
        end = min(positions, first_query + TILE);
    }
    let mut first_key = 0usize;
    while first_key < end {
        fetch::<E>(keys, &mut k, batch, head, first_key, vectors, padded, true);
        fetch::<E>(
            values, &mut v, batch, head, first_key, vectors, vectors, false,
        );
        sync_cube();

        // q·kᵀ: four keys for each query.
        let mut scores = Array::<f32>::new(comptime!(QUERIES * KEYS));
        #[unroll]
        for i in 0..comptime!(QUERIES * KEYS) {
            scores[i] = f32::new(0.0);
        }
        for at in 0..vectors {
            let mut rows = Array::<Four<f32>>::new(QUERIES);
            #[unroll]
            for i in 0..QUERIES {
                rows[i] = q[(line + LINES * i) * padded + at];
            }
            #[unroll]
            for j in 0..KEYS {
                let key = k[(column + COLUMNS * j) * padded + at];
                #[unroll]
                for i in 0..QUERIES {
                    scores[i * KEYS + j] = dot_onto(rows[i], key, scores[i * KEYS + j]);
                }
            }
        }

        // The largest of each query's scores, over all units that have keys for it.
        #[unroll]
        for i in 0..QUERIES {
            let query = first_query + line + LINES * i;
            let mut visible = positions;
            if comptime!(causal) {
                visible = min(positions, query + 1);
            }
            let mut largest = f32::new(HIDDEN);
            #[unroll]
            for j in 0..KEYS {
                let key = first_key + column * KEYS + j;
                let score = scores[i * KEYS + j] * scale;
                let score = select(key < visible, score, f32::new(HIDDEN));
                scores[i * KEYS + j] = score;
                largest = max(largest, score);
            }
            peaks[(line + LINES * i) * COLUMNS + column] = largest;
        }
        sync_cube();

        #[unroll]
        for i in 0..QUERIES {
            let row = line + LINES * i;
            let mut largest = peak[i];
            #[unroll]
            for other in 0..COLUMNS {
                largest = max(largest, peaks[row * COLUMNS + other]);
            }
            // The sums so far are relative to the previous peak.
            let shrink = (peak[i] - largest).exp();
            peak[i] = largest;
            let mut sum = total[i] * shrink;
            let mut of_row = Four::<f32>::new(0.0f32);
            #[unroll]
            for j in 0..KEYS {
                let share = (scores[i * KEYS + j] - largest).exp();
                of_row.insert(j, share);
                sum += share;
            }
            total[i] = sum;
            shares[row * shares_row + column] = of_row;
            #[unroll]
            for group in 0..groups {
                sums[i * groups + group] *= Four::<f32>::new(shrink);
            }
        }
        sync_cube();

        // shares·v: this unit's dimensions for each query.
        for four in 0..comptime!(KEYS_IN_VECTORS) {
            let mut rows = Array::<Four<f32>>::new(QUERIES);
            #[unroll]
            for i in 0..QUERIES {
                rows[i] = shares[(line + LINES * i) * shares_row + four];
            }
            #[unroll]
            for lane in 0..WIDTH {
                #[unroll]
                for group in 0..groups {
                    let value = v[(four * WIDTH + lane) * vectors + column + COLUMNS * group];
                    #[unroll]
                    for i in 0..QUERIES {
                        let share = Four::<f32>::new(rows[i].extract(lane));
                        sums[i * groups + group] = fma(share, value, sums[i * groups + group]);
                    }
                }
            }
        }
        // No unit may overwrite what another one still reads.
        sync_cube();
        first_key += TILE;
    }

    #[unroll]
    for i in 0..QUERIES {
        peaks[(line + LINES * i) * COLUMNS + column] = total[i];
    }
    sync_cube();
    let start = (batch * out.stride(0) + head * out.stride(1)) / WIDTH;
    let stride = out.stride(2) / WIDTH;
    #[unroll]
    for i in 0..QUERIES {
        let row = line + LINES * i;
        let query = first_query + row;
        let mut sum = f32::new(0.0);
        #[unroll]
        for other in 0..COLUMNS {
            sum += peaks[row * COLUMNS + other];
        }
        if query < positions {
            #[unroll]
            for group in 0..groups {
                let mean = sums[i * groups + group] / Four::<f32>::new(sum);
                out[start + query * stride + column + COLUMNS * group] = Four::<E>::cast_from(mean);
            }
        }
    }
}

/// Copy a tile of rows, from position `first` of a head on, into shared memory, with zeros after
/// the last position. `as_keys`: key `KEYS·column + j` goes into row `column + COLUMNS·j`, so that
/// neighbouring units read neighbouring rows.
#[cube]
fn fetch<E: Float>(
    from: &Tensor<Four<E>>,
    to: &mut Shared<[Four<f32>]>,
    batch: usize,
    head: usize,
    first: usize,
    #[comptime] vectors: usize,
    #[comptime] padded: usize,
    #[comptime] as_keys: bool,
) {
    let start = (batch * from.stride(0) + head * from.stride(1)) / WIDTH;
    let stride = from.stride(2) / WIDTH;
    let positions = from.shape(2);
    for step in 0..comptime!(TILE * vectors / (COLUMNS * LINES)) {
        let place = step * comptime!(COLUMNS * LINES) + UNIT_POS as usize;
        let row = place / vectors;
        let at = place % vectors;
        let mut value = Four::<f32>::new(0.0f32);
        if first + row < positions {
            value = Four::<f32>::cast_from(from[start + (first + row) * stride + at]);
        }
        let mut target = row;
        if comptime!(as_keys) {
            target = row % KEYS * COLUMNS + row / KEYS;
        }
        to[target * padded + at] = value;
    }
}

/// Compute `a·b + sum`.
#[cube]
fn dot_onto(a: Four<f32>, b: Four<f32>, sum: f32) -> f32 {
    let mut sum = sum;
    #[unroll]
    for lane in 0..WIDTH {
        sum = fma(a.extract(lane), b.extract(lane), sum);
    }
    sum
}
