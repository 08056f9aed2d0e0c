//! Tests of every kernel against the scalar one, or against its definition, on random numbers, for
//! every instruction set that this CPU has.

use super::quant::{
    Activations, BLOCK, GGUF_BLOCK_BYTES, TILE_BYTES, TILE_ROWS, TokenMut, pack_tile_row,
    tile_value, unpack_row,
};
use super::{F32Job, Isa, Kernels, Q8Job};
use crate::tests::Random;
use half::f16;

fn all() -> impl Iterator<Item = Kernels> {
    Isa::ALL.into_iter().filter_map(Kernels::new)
}

fn scalar() -> Kernels {
    Kernels::new(Isa::Scalar).unwrap()
}

fn f32_product(kernels: Kernels, w: &[f32], x: &[f32], (rows, cols, tokens): Shape) -> Vec<f32> {
    let mut out = vec![f32::NAN; tokens * rows];
    // Two stripes, so that a split in the middle of a register tile is tested.
    for part in [0..rows / 3, rows / 3..rows] {
        let job = F32Job {
            weights: w,
            cols,
            rows: part,
            x,
            tokens,
            out: out.as_mut_ptr(),
            out_stride: rows,
        };
        // SAFETY: `out` holds `tokens × rows`.
        unsafe { kernels.f32(&job) };
    }
    out
}

type Shape = (usize, usize, usize);

#[test]
fn f32_products_agree_with_the_definition() {
    let mut random = Random::new(1);
    for shape in [
        (1, 1, 1),
        (5, 16, 1),
        (7, 35, 3),
        (16, 64, 6),
        (9, 100, 7),
        (13, 256, 13),
    ] {
        let (rows, cols, tokens) = shape;
        let (w, x) = (
            random.normals(rows * cols, 1.0),
            random.normals(tokens * cols, 1.0),
        );
        for kernels in all() {
            let out = f32_product(kernels, &w, &x, shape);
            for (index, out) in out.iter().enumerate() {
                let (token, row) = (index / rows, index % rows);
                let expected: f64 = (0..cols)
                    .map(|c| f64::from(w[row * cols + c]) * f64::from(x[token * cols + c]))
                    .sum();
                let error = (f64::from(*out) - expected).abs();
                assert!(
                    error < 1e-5 * (cols as f64).sqrt(),
                    "{:?} {shape:?}",
                    kernels.isa()
                );
            }
        }
    }
}

#[test]
fn a_token_gives_the_same_bits_alone_and_in_a_batch() {
    let mut random = Random::new(2);
    let (rows, cols, tokens) = (21, 80, 11);
    let (w, x) = (
        random.normals(rows * cols, 1.0),
        random.normals(tokens * cols, 1.0),
    );
    for kernels in all() {
        let together = f32_product(kernels, &w, &x, (rows, cols, tokens));
        for (token, together) in together.chunks(rows).enumerate() {
            let x = &x[token * cols..][..cols];
            assert_eq!(f32_product(kernels, &w, x, (rows, cols, 1)), together);
        }
    }
}

/// Return random Q8_0 rows as in a file, extreme values included.
fn q8_rows(random: &mut Random, rows: usize, cols: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rows * cols / BLOCK {
        bytes.extend(f16::from_f32(random.normals(1, 0.05)[0].abs()).to_le_bytes());
        bytes.extend((0..BLOCK).map(|_| random.next() as u8));
    }
    bytes
}

fn pack(bytes: &[u8], rows: usize, cols: usize) -> Vec<u8> {
    let file_row = cols / BLOCK * GGUF_BLOCK_BYTES;
    let mut tiles = Vec::new();
    for first in (0..rows).step_by(TILE_ROWS) {
        let mut row = vec![0; cols.div_ceil(64) * TILE_BYTES];
        pack_tile_row(&mut row, |r| {
            (first + r < rows).then(|| &bytes[(first + r) * file_row..][..file_row])
        });
        tiles.extend(row);
    }
    tiles
}

fn quantise(kernels: Kernels, x: &[f32], tokens: usize) -> Activations {
    let cols = x.len() / tokens;
    let mut out = Activations::with_room(tokens, cols);
    out.reset(tokens, cols);
    let depth = out.depth();
    let (values, scales, corrections) = out.parts_mut();
    for token in 0..tokens {
        let blocks = token * depth / BLOCK..(token + 1) * depth / BLOCK;
        let part = TokenMut {
            values: &mut values[token * depth..(token + 1) * depth],
            scales: &mut scales[blocks.clone()],
            corrections: &mut corrections[blocks],
        };
        kernels.quantise(&x[token * cols..(token + 1) * cols], part);
    }
    out
}

fn q8_product(kernels: Kernels, tiles: &[u8], rows: usize, x: &Activations) -> Vec<f32> {
    let mut out = vec![f32::NAN; rows * x.tokens()];
    let tile_rows = rows.div_ceil(TILE_ROWS);
    for part in [0..tile_rows / 3, tile_rows / 3..tile_rows] {
        let job = Q8Job {
            tiles,
            tiles_per_row: x.depth() / 64,
            rows,
            tile_rows: part,
            x,
            out: out.as_mut_ptr(),
            out_stride: rows,
        };
        // SAFETY: `out` holds `tokens × rows`.
        unsafe { kernels.q8(&job) };
    }
    out
}

#[test]
fn packing_keeps_every_weight() {
    let mut random = Random::new(3);
    let (rows, cols) = (19, 96);
    let bytes = q8_rows(&mut random, rows, cols);
    let tiles = pack(&bytes, rows, cols);
    let mut out = vec![0.0; cols];
    for row in 0..rows {
        unpack_row(
            &tiles[row / TILE_ROWS * 2 * TILE_BYTES..],
            row % TILE_ROWS,
            &mut out,
        );
        for (column, out) in out.iter().enumerate() {
            let block = &bytes[(row * cols + column) / BLOCK * GGUF_BLOCK_BYTES..];
            let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
            assert_eq!(*out, f32::from(block[2 + column % BLOCK] as i8) * scale);
        }
    }
    assert_eq!(
        tile_value(&tiles[2 * TILE_BYTES..], 0, 15, 0),
        0,
        "absent rows are zero"
    );
}

#[test]
fn int8_products_have_the_same_bits_on_every_instruction_set() {
    let mut random = Random::new(4);
    for (rows, cols, tokens) in [
        (1, 32, 1),
        (64, 64, 1),
        (70, 96, 2),
        (80, 128, 3),
        (33, 64, 4),
        (50, 160, 7),
        (48, 64, 13),
    ] {
        let tiles = pack(&q8_rows(&mut random, rows, cols), rows, cols);
        let x = quantise(scalar(), &random.normals(tokens * cols, 1.0), tokens);
        let expected = q8_product(scalar(), &tiles, rows, &x);
        assert!(expected.iter().all(|value| value.is_finite()));
        for kernels in all() {
            let out = q8_product(kernels, &tiles, rows, &x);
            assert_eq!(out, expected, "{:?} {rows} {cols} {tokens}", kernels.isa());
        }
    }
}

#[test]
fn int8_products_survive_the_extremes() {
    // The product −128 · ±127 in every place, where a 16-bit intermediate would saturate.
    let (rows, cols) = (16, 64);
    for sign in [1.0, -1.0] {
        let block: Vec<u8> = f16::from_f32(1.0)
            .to_le_bytes()
            .into_iter()
            .chain([0x80; BLOCK])
            .collect();
        let tiles = pack(&block.repeat(rows * 2), rows, cols);
        let x = quantise(scalar(), &vec![sign * 127.0; cols], 1);
        for kernels in all() {
            let out = q8_product(kernels, &tiles, rows, &x);
            assert_eq!(
                out,
                vec![sign * -128.0 * 127.0 * 64.0; rows],
                "{:?}",
                kernels.isa()
            );
        }
    }
}

#[test]
fn quantising_is_the_same_everywhere_and_close() {
    let mut random = Random::new(5);
    let mut x = random.normals(3 * 96, 3.0);
    x[..BLOCK].fill(0.0);
    let expected = quantise(scalar(), &x, 3);
    for kernels in all() {
        assert_eq!(
            quantise(kernels, &x, 3).parts(),
            expected.parts(),
            "{:?}",
            kernels.isa()
        );
    }
    let (values, scales, corrections) = expected.parts();
    for token in 0..3 {
        for column in 0..96 {
            let at = token * 128 + column;
            let back = f32::from(values[at]) * scales[at / BLOCK];
            assert!((back - x[token * 96 + column]).abs() <= scales[at / BLOCK] * 0.501);
        }
        assert!(
            values[token * 128 + 96..(token + 1) * 128]
                .iter()
                .all(|value| *value == 0)
        );
    }
    for (block, correction) in corrections.iter().enumerate() {
        let sum: i32 = values[block * BLOCK..][..BLOCK]
            .iter()
            .map(|v| i32::from(*v))
            .sum();
        assert_eq!(*correction, -128 * sum);
    }
}

#[test]
fn small_loops_agree_with_their_definitions() {
    let mut random = Random::new(6);
    let (x, y) = (random.normals(77, 4.0), random.normals(77, 1.0));
    for kernels in all() {
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-6 * (1.0 + b.abs());
        let mut out = vec![0.0; 77];
        kernels.rms_norm(&x, &y, 1e-5, &mut out);
        let mean: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / 77.0;
        for i in 0..77 {
            let expected = f64::from(x[i]) / (mean + 1e-5).sqrt() * f64::from(y[i]);
            assert!(close(out[i], expected));
        }
        let mut in_place = x.clone();
        kernels.rms_norm_in_place(&mut in_place, &y, 1e-5);
        assert_eq!(in_place, out);
        let mut gate = x.clone();
        kernels.silu_mul(&mut gate, &y);
        for i in 0..77 {
            let g = f64::from(x[i]);
            assert!(close(gate[i], g / (1.0 + (-g).exp()) * f64::from(y[i])));
        }
        let mut head = vec![1.0, 2.0, 3.0, 4.0];
        kernels.rotate(&mut head, &[0.0, 1.0], &[1.0, 0.0]);
        assert_eq!(head, [-3.0, 2.0, 1.0, 4.0]);
    }
}

#[test]
fn exp_is_good_to_the_last_bits() {
    for step in -8_700..8_800 {
        let x = step as f32 / 100.0;
        for value in [
            super::portable::exp::<true>(x),
            super::portable::exp::<false>(x),
        ] {
            let expected = f64::from(x).exp();
            assert!((f64::from(value) / expected - 1.0).abs() < 3e-7, "{x}");
        }
    }
    assert!(super::portable::exp::<true>(f32::NEG_INFINITY) < 1e-37);
}

#[test]
fn argmax_takes_the_lowest_of_equals_and_no_infinity() {
    for kernels in all() {
        let mut x = vec![0.0; 100];
        x[40] = 7.0;
        x[17] = 7.0;
        x[99] = 6.0;
        assert_eq!(kernels.argmax(&x), Some(17));
        x[99] = 8.0;
        assert_eq!(kernels.argmax(&x), Some(99));
        x[3] = f32::INFINITY;
        assert_eq!(kernels.argmax(&x), None);
        assert_eq!(kernels.argmax(&[f32::NAN; 3]), None);
    }
}

#[test]
fn choosing_refuses_what_does_not_exist() {
    assert_eq!(Kernels::choose(Some("scalar")).unwrap().isa(), Isa::Scalar);
    assert!(Kernels::choose(Some("neon")).unwrap_err().contains("neon"));
    assert!(Kernels::choose(None).unwrap().isa().is_available());
}
