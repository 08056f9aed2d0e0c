//! Measures the best rate of arithmetic of the card, with cuBLAS matrix products in every number
//! format.

use crate::card::{Card, describe};
use cudarc::cublas::CudaBlas;
use cudarc::cublas::result::{CublasError, gemm_ex};
use cudarc::cublas::sys::{
    self, cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cudaDataType_t,
};
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut};
use half::{bf16, f16};
use splitmix::SplitMix64;
use std::ffi::c_void;

/// Rows and columns of the square matrices: large enough to keep every multiprocessor busy.
const SIZE: usize = 8192;
/// Number of random elements of a matrix; the rest of it repeats them.
const DRAWN: usize = 1 << 16;

/// A number format, as cuBLAS takes it.
pub struct Format {
    /// The limit's name in the output of this program.
    pub limit: &'static str,
    /// Type of the factors, and the conversion of a value between -1 and 1 to the bytes of this
    /// type.
    of: cudaDataType_t,
    bytes: fn(f32) -> Vec<u8>,
    /// Type of the result, and its size in bytes.
    to: cudaDataType_t,
    to_bytes: usize,
    /// Type of the computation.
    within: cublasComputeType_t,
}

pub const FORMATS: [Format; 5] = [
    Format {
        limit: "flops_f32_per_s",
        of: cudaDataType_t::CUDA_R_32F,
        bytes: |value| value.to_ne_bytes().into(),
        to: cudaDataType_t::CUDA_R_32F,
        to_bytes: 4,
        within: cublasComputeType_t::CUBLAS_COMPUTE_32F,
    },
    Format {
        limit: "flops_tf32_per_s",
        of: cudaDataType_t::CUDA_R_32F,
        bytes: |value| value.to_ne_bytes().into(),
        to: cudaDataType_t::CUDA_R_32F,
        to_bytes: 4,
        within: cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
    },
    Format {
        limit: "flops_f16_per_s",
        of: cudaDataType_t::CUDA_R_16F,
        bytes: |value| f16::from_f32(value).to_ne_bytes().into(),
        to: cudaDataType_t::CUDA_R_16F,
        to_bytes: 2,
        within: cublasComputeType_t::CUBLAS_COMPUTE_32F,
    },
    Format {
        limit: "flops_bf16_per_s",
        of: cudaDataType_t::CUDA_R_16BF,
        bytes: |value| bf16::from_f32(value).to_ne_bytes().into(),
        to: cudaDataType_t::CUDA_R_16BF,
        to_bytes: 2,
        within: cublasComputeType_t::CUBLAS_COMPUTE_32F,
    },
    Format {
        limit: "ops_int8_per_s",
        of: cudaDataType_t::CUDA_R_8I,
        bytes: |value| ((127.0 * value) as i8).to_ne_bytes().into(),
        to: cudaDataType_t::CUDA_R_32I,
        to_bytes: 4,
        within: cublasComputeType_t::CUBLAS_COMPUTE_32I,
    },
];

/// Open cuBLAS on the card; the error is the reason why it can't be opened.
pub fn library(card: &Card) -> Result<CudaBlas, String> {
    // SAFETY: opening the library runs its own initialisers and nothing else.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "cuBLAS (libcublas.so) can't be loaded: put its directory on LD_LIBRARY_PATH".into(),
        );
    }
    CudaBlas::new(card.stream.clone()).map_err(refused)
}

fn refused(error: CublasError) -> String {
    format!("cuBLAS says {error:?}")
}

/// Return the multiply-adds per second, counted as two each.
pub fn rate(card: &Card, blas: &CudaBlas, format: &Format) -> Result<f64, String> {
    let memory = |error| describe("three matrices", &error);
    let a = upload(card, format, 1)?;
    let b = upload(card, format, 2)?;
    let mut c: CudaSlice<u8> = card
        .stream
        .alloc_zeros(SIZE * SIZE * format.to_bytes)
        .map_err(memory)?;
    let size = SIZE as i32;
    // Integers are scaled by integers, everything else by f32.
    let one = match format.to {
        cudaDataType_t::CUDA_R_32I => 1_u32,
        _ => 1_f32.to_bits(),
    };
    let none = 0_u32;
    let seconds = card.best_s(|| {
        let (a, _read_a) = a.device_ptr(&card.stream);
        let (b, _read_b) = b.device_ptr(&card.stream);
        let (c, _written) = c.device_ptr_mut(&card.stream);
        // SAFETY: the three are on this card and hold SIZE × SIZE numbers of their formats; the
        // scales are on the host, where cuBLAS looks for them unless told otherwise.
        unsafe {
            gemm_ex(
                *blas.handle(),
                // The only order of rows and columns for which tensor cores accept 8-bit integers.
                cublasOperation_t::CUBLAS_OP_T,
                cublasOperation_t::CUBLAS_OP_N,
                size,
                size,
                size,
                (&raw const one).cast(),
                a as *const c_void,
                format.of,
                size,
                b as *const c_void,
                format.of,
                size,
                (&raw const none).cast(),
                c as *mut c_void,
                format.to,
                size,
                format.within,
                cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(refused)
    })?;
    Ok(2.0 * (SIZE as f64).powi(3) / seconds)
}

/// Upload a matrix of random numbers between -1 and 1: zeros would draw less power, and so be
/// multiplied faster than real weights.
fn upload(card: &Card, format: &Format, seed: u64) -> Result<CudaSlice<u8>, String> {
    let mut random = SplitMix64(seed);
    let drawn = (0..DRAWN).map(|_| random.below(255) as f32 / 127.0 - 1.0);
    let drawn: Vec<u8> = drawn.flat_map(format.bytes).collect();
    let matrix = drawn.repeat(SIZE * SIZE / DRAWN);
    let uploaded = card.stream.clone_htod(&matrix);
    uploaded.map_err(|error| describe("a matrix", &error))
}
