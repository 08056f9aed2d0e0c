//! Flash attention of our own: one kernel in CubeCL for every backend that CubeCL has,
//! as an operation of Burn's. It never holds the scores of more than a tile, so its
//! memory grows with the positions and not with their square.
//!
//! What it does not do: other lengths of queries than of keys, masks but the causal one,
//! heads that share keys, a gradient. The tiles are fixed, not tuned.

mod kernel;
#[cfg(test)]
mod tests;

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

/// The dimension of a head is a multiple of this: a vector for each of the units that
/// share a query.
pub const DIM_STEP: usize = COLUMNS * WIDTH;

/// Whether the kernel has tiles for heads of `dim`.
///
/// # Errors
/// The reason why not.
pub fn check(dim: usize) -> Result<(), String> {
    match dim > 0 && dim.is_multiple_of(DIM_STEP) {
        true => Ok(()),
        false => Err(format!(
            "flash attention over heads of {dim}: the kernel takes multiples of {DIM_STEP}"
        )),
    }
}

/// `softmax(q·kᵀ/√dim)·v`, each batch × heads × positions × dimension; causal: a position
/// sees only itself and those before.
///
/// # Panics
/// Where shapes or types differ, [`check`] refuses the dimension, or the tensors are on a
/// backend that is not CubeCL's; when it runs, where a tile doesn't fit the device.
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

/// The operation, on CubeCL and under Burn's fusion.
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
        // CubeCL's processor runtime has a unit a core.
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

/// The same values, each row a sequence of whole vectors.
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
