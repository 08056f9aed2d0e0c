//! This project's flash attention: one kernel in CubeCL for every backend of CubeCL, as an
//! operation of Burn's. It never stores the scores of more than one tile, so its memory grows with
//! the number of positions and not with its square.
//!
//! It does not support queries and keys of different lengths, masks other than the causal one,
//! heads that share keys, or gradients. The tile sizes are fixed, not tuned.

mod kernel;
/// Tests of the kernel against the f64 reference, on any CubeCL device. On a machine without a GPU,
/// that device is Mesa's lavapipe, which works only with WGSL:
/// `cargo test --release -p burn-bench --no-default-features --features wgpu flash`.
#[cfg(test)]
mod tests {
    use super::{DIM_STEP, flash_attention};
    use crate::backend::Backend;
    use crate::caught::caught;
    use crate::linear::upload;
    use micro_inputs::reference;
    use micro_inputs::sdpa::{Inputs, Shape};
    use protocol::wire::Load;

    const SEED: u64 = 7;

    /// Open the first CubeCL device that supports this precision; if there is none, print why and
    /// return `None`. CubeCL's CPU runtime is left out, because its cubes are smaller than the
    /// kernel's.
    fn device(precision: &str) -> Option<Backend> {
        let mut reasons = Vec::new();
        for backend in ["cuda", "metal", "vulkan", "wgpu"] {
            let load = Load {
                precision: precision.to_string(),
                backend: backend.to_string(),
                threads: 2,
                ..Load::default()
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

    /// Return the largest absolute error of any value, relative to the largest value of the
    /// reference.
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
        // A NaN must not count as an error of 0.
        worst.fold(0.0, |most: f64, x| if x <= most { most } else { x }) / largest
    }

    /// Shapes of one position; below, at and beyond a tile; and of several tiles and a part.
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
            // Half precision represents the inputs to 5e-4.
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
        // Views of the same shape over positions × heads, and over dimension × positions, in
        // memory.
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
}

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use kernel::{COLUMNS, LINES, TILE, WIDTH};

/// The head dimension must be a multiple of this: one vector for each of the units that share a
/// query.
pub const DIM_STEP: usize = COLUMNS * WIDTH;

/// Check that the kernel has tiles for heads of dimension `dim`.
///
/// # Errors
/// Fails with the reason if it has none.
pub fn check(dim: usize) -> Result<(), String> {
    match dim > 0 && dim.is_multiple_of(DIM_STEP) {
        true => Ok(()),
        false => Err(format!(
            "flash attention over heads of {dim}: the kernel takes multiples of {DIM_STEP}"
        )),
    }
}

/// Compute `softmax(q·kᵀ/√dim)·v`, each batch × heads × positions × dimension. If `causal`, a
/// position attends only to itself and those before it.
///
/// # Panics
/// If shapes or types differ, [`check`] refuses the dimension, or the tensors are not on a backend
/// of CubeCL's; when it runs, if a tile doesn't fit the device.
pub fn flash_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, causal: bool) -> Tensor<4> {
    for (name, other) in [("keys", &k), ("values", &v)] {
        assert!(
            other.dims() == q.dims() && other.dtype() == q.dtype(),
            "flash attention of {:?} {:?} with {name} of {:?} {:?}: they must be alike",
            q.dims(),
            q.dtype(),
            other.dims(),
            other.dtype(),
        );
    }
    if let Err(reason) = check(q.dims()[3]) {
        panic!("{reason}");
    }
    let [q, k, v] = [q, k, v].map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::flash_attention(q, k, v, causal))
}

/// The operation, implemented for CubeCL and under Burn's fusion.
#[backend_extension(Cube, Fusion)]
trait FlashAttention: Backend {
    #[fusion(dtype = q, shape = q)]
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        causal: bool,
    ) -> FloatTensor<Self>;
}

impl FlashAttention for CubeBackend {
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        causal: bool,
    ) -> FloatTensor<Self> {
        let [q, k, v] = [q, k, v].map(in_vectors);
        let shape = q.meta.shape().clone();
        let [batch, heads, positions, dim] = shape.dims::<4>();
        let vectors = dim / WIDTH;
        let client = q.client.clone();
        let hardware = &client.properties().hardware;
        let shared = kernel::shared_bytes(vectors);
        assert!(
            shared <= hardware.max_shared_memory_size,
            "flash attention over heads of {dim} takes {shared} bytes of shared memory; this \
             device has {}",
            hardware.max_shared_memory_size
        );
        // CubeCL's CPU runtime has one unit per core.
        assert!(
            COLUMNS * LINES <= hardware.max_units_per_cube as usize,
            "flash attention works with {} units at once; this device has {}",
            COLUMNS * LINES,
            hardware.max_units_per_cube
        );
        assert!(
            batch * heads <= hardware.max_cube_count.1 as usize,
            "flash attention of {batch} × {heads} heads; this device starts {} at once",
            hardware.max_cube_count.1
        );
        let (device, dtype) = (q.device.clone(), q.dtype);
        let out = empty_device_contiguous_dtype(client.clone(), device, shape, dtype);
        let cubes = CubeCount::Static(positions.div_ceil(TILE) as u32, (batch * heads) as u32, 1);
        let units = CubeDim::new_2d(COLUMNS as u32, LINES as u32);
        // SAFETY: the four tensors have one shape, which the only caller checks, and strides of
        // whole vectors. A unit reads and writes positions below theirs and vectors below a
        // dimension's; in shared memory it stays in the sizes that `attend` asks for.
        unsafe {
            kernel::attend::launch_unchecked(
                &client,
                cubes,
                units,
                q.into_tensor_arg(),
                k.into_tensor_arg(),
                v.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                1.0 / (dim as f32).sqrt(),
                vectors,
                causal,
                dtype_to_storage_type(dtype),
            );
        }
        out
    }
}

/// Return the same values with each row stored as a sequence of whole vectors.
fn in_vectors(tensor: CubeTensor) -> CubeTensor {
    let [outer @ .., inner] = &tensor.meta.strides()[..] else {
        unreachable!("a tensor of four dimensions")
    };
    let is_whole = *inner == 1 && outer.iter().all(|stride| stride.is_multiple_of(WIDTH));
    match is_whole && !tensor.meta.is_tiled() {
        true => tensor,
        false => into_contiguous(tensor),
    }
}
