//! The kernel against the f64 reference, on whichever CubeCL device there is. Without a
//! GPU that is Mesa's lavapipe, which takes WGSL alone:
//! `cargo test --release -p burn-bench --no-default-features --features wgpu flash`.

use super::{DIM_STEP, flash_attention};
use crate::backend::Backend;
use crate::caught::caught;
use crate::linear::upload;
use micro_inputs::reference;
use micro_inputs::sdpa::{Inputs, Shape};
use protocol::wire::Load;

const SEED: u64 = 7;

/// The first CubeCL device that opens at this precision; `None`, said aloud, where there
/// is none. Not CubeCL's processor runtime: its cubes are smaller than the kernel's.
fn device(precision: &str) -> Option<Backend> {
    let mut reasons = Vec::new();
    for backend in ["cuda", "metal", "vulkan", "wgpu"] {
        let load = Load {
            model_dir: String::new(),
            weights: String::new(),
            precision: precision.to_string(),
            backend: backend.to_string(),
            variant: String::new(),
            device: 0,
            threads: 2,
            max_context: 0,
            max_batch: 0,
            prefix_cache: false,
        };
        match Backend::open(&load, 1) {
            Ok(opened) => {
                let identity = opened.device.identity();
                eprintln!("on {backend} in {precision}: {identity:?}");
                return Some(opened);
            }
            Err(error) => reasons.push(format!("{backend}: {}", error.message)),
        }
    }
    eprintln!("skipped in {precision}, no device: {}", reasons.join("; "));
    None
}

/// The largest error of any value, relative to the largest of the reference's.
fn error(shape: Shape, backend: &Backend) -> f64 {
    let inputs = Inputs::draw(SEED, &shape);
    let expected = reference::sdpa(&inputs, &shape);
    let Inputs { q, k, v } = inputs;
    let [q, k, v] = [q, k, v].map(|values| upload(values, shape.dims(), backend));
    let got = flash_attention(q, k, v, shape.causal);
    let got = got.try_into_vec_as::<f32>().unwrap();
    assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let pairs = got.iter().zip(&expected);
    let worst = pairs.map(|(got, expected)| (f64::from(*got) - expected).abs());
    // A NaN is no error of 0.
    worst.fold(0.0, |most: f64, x| if x <= most { most } else { x }) / largest
}

/// Lengths of one position, below, at and beyond a tile, of several tiles and a part.
fn shapes() -> impl Iterator<Item = Shape> {
    let lengths = [1, 31, 32, 33, 128, 200];
    let shape = |seq, causal| Shape {
        batch: 2,
        heads: 3,
        seq,
        dim: 64,
        causal,
    };
    let both = lengths.map(|seq| [shape(seq, false), shape(seq, true)]);
    let narrow = Shape {
        dim: DIM_STEP,
        ..shape(70, true)
    };
    both.into_iter().flatten().chain([narrow])
}

#[test]
fn it_is_the_reference_in_f32() {
    let Some(backend) = device("f32") else { return };
    for shape in shapes() {
        let error = error(shape, &backend);
        eprintln!("{shape:?}: {error:.1e}");
        assert!(error < 1e-5, "{shape:?}: {error:e}");
    }
}

#[test]
fn it_is_the_reference_in_f16() {
    let Some(backend) = device("f16") else { return };
    for shape in shapes() {
        let error = error(shape, &backend);
        eprintln!("{shape:?}: {error:.1e}");
        // Half precision holds the inputs to 5e-4.
        assert!(error < 5e-3, "{shape:?}: {error:e}");
    }
}

#[test]
fn views_are_read_as_what_they_show() {
    let Some(backend) = device("f32") else { return };
    let shape = Shape {
        batch: 2,
        heads: 3,
        seq: 40,
        dim: 64,
        causal: true,
    };
    let inputs = Inputs::draw(SEED, &shape);
    let [q, k, v] = [inputs.q, inputs.k, inputs.v];
    let [q, k, v] = [q, k, v].map(|values| upload::<4>(values, shape.dims(), &backend));
    let straight = flash_attention(q.clone(), k.clone(), v.clone(), true);
    // positions × heads in memory, and dimension × positions, as views of the same shape.
    let [b, h, s, d] = shape.dims();
    let by_position = q.swap_dims(1, 2).reshape([b, s, h * d]);
    let q = by_position.reshape([b, s, h, d]).swap_dims(1, 2);
    let by_dimension = k.swap_dims(2, 3).reshape([b, h * d * s]);
    let k = by_dimension.reshape([b, h, d, s]).swap_dims(2, 3);
    let viewed = flash_attention(q, k, v, true);
    let [straight, viewed] = [straight, viewed].map(|x| x.try_into_vec_as::<f32>().unwrap());
    assert_eq!(straight, viewed);
}

#[test]
fn a_head_it_has_no_tiles_for_is_refused_with_the_reason() {
    let Some(backend) = device("f32") else { return };
    let x = upload::<4>(vec![0.0; 48], [1, 1, 1, 48], &backend);
    let told = caught(|| flash_attention(x.clone(), x.clone(), x.clone(), true)).err();
    let told = told.expect("it computed");
    assert!(told.contains("multiples of 32"), "{told}");
}
