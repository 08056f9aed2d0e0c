//! Opens the Burn device that a backend's name means, with the facts that the model needs about
//! it. A backend that isn't compiled in, or whose device is absent, is `unavailable`: Burn's
//! bindings panic for an absent device, and the panic is caught here.

use crate::caught::caught;
use burn::tensor::{DType, Device, Tensor};
use protocol::engine::EngineError;
use protocol::wire::Load;

/// An open device and its settings.
pub struct Backend {
    /// The device that holds all tensors.
    pub device: Device,
    /// Type of the weights, the activations and the cache.
    pub dtype: DType,
    /// Which of Burn's implementations runs on the device.
    pub kind: Kind,
    /// Number of compute threads, for the implementations that take one.
    pub threads: usize,
}

/// Burn's implementations, as far as the model distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// burn-flex: Rust on the CPU.
    Flex,
    /// burn-ndarray: the predecessor of burn-flex.
    NdArray,
    /// burn-tch: the operators of libtorch.
    LibTorch,
    /// CubeCL: kernels compiled at run time, for CUDA, Vulkan, Metal or the CPU.
    Cube,
}

/// Whether this build links libtorch. It is then `burn-tch-bench` and serves no other backend, so
/// that none is timed with that library loaded.
pub const WITH_LIBTORCH: bool = cfg!(feature = "tch");

/// The backends that are compiled into this build, GPU backends first.
pub const BUILT: &[&str] = &[
    #[cfg(all(feature = "cuda", not(feature = "tch")))]
    "cuda",
    #[cfg(all(feature = "metal", not(feature = "tch")))]
    "metal",
    #[cfg(all(feature = "vulkan", not(feature = "tch")))]
    "vulkan",
    #[cfg(all(feature = "wgpu", not(feature = "vulkan"), not(feature = "tch")))]
    "wgpu",
    #[cfg(all(feature = "flex", not(feature = "tch")))]
    "flex",
    #[cfg(all(feature = "ndarray", not(feature = "tch")))]
    "ndarray",
    #[cfg(feature = "tch")]
    "tch",
];

impl Backend {
    /// Open the device of `load`. `product_threads`: the number of threads that a single matrix
    /// product of ndarray may start. If a layer is a batch of products, rayon's threads already
    /// work on it, and a product must not start more.
    ///
    /// # Errors
    /// `unavailable` if the backend is not compiled in or its device is absent, `unsupported` if
    /// there is no such backend or it cannot compute in that precision.
    pub fn open(load: &Load, product_threads: u32) -> Result<Self, EngineError> {
        let kind = kind(&load.backend)?;
        let dtype = dtype(&load.precision)?;
        if let Some(why) = refused(kind, dtype) {
            return Err(EngineError::unsupported(format!(
                "{} on Burn's {} backend: {why}; use f32",
                load.precision, load.backend
            )));
        }
        set_threads(kind, load.threads.max(1), product_threads.max(1));
        let index = load.device as usize;
        let device = caught(|| connect(&load.backend, index)).map_err(|message| {
            EngineError::unavailable(format!("no {} device {index}: {message}", load.backend))
        })??;
        if !device.supports_dtype(dtype) {
            return Err(EngineError::unsupported(format!(
                "{} on this {} device, which cannot compute in it",
                load.precision, load.backend
            )));
        }
        Ok(Self {
            device,
            dtype,
            kind,
            threads: load.threads.max(1) as usize,
        })
    }
}

/// Set the number of threads. flex takes rayon's, which the runtime has set; these two have
/// settings of their own.
fn set_threads(kind: Kind, threads: u32, product_threads: u32) {
    match kind {
        Kind::NdArray => {
            // SAFETY: as in the runtime: no thread that reads the environment runs.
            unsafe { std::env::set_var("MATMUL_NUM_THREADS", product_threads.to_string()) };
        }
        #[cfg(feature = "tch")]
        Kind::LibTorch => {
            tch::set_num_threads(threads as i32);
            tch::set_num_interop_threads(1);
        }
        _ => {
            let _ = threads;
        }
    }
}

/// Why an implementation in Rust isn't run in `dtype`, by its source (0.22.1); `None` if it is.
fn refused(kind: Kind, dtype: DType) -> Option<&'static str> {
    match (kind, dtype) {
        (Kind::NdArray, DType::F16 | DType::BF16) => Some("it has no half precision"),
        (Kind::Flex, DType::F16) => Some(
            "on x86-64 its products convert f16 to f32 as they read it, and whether that is \
             faster than f32 was not tried",
        ),
        (Kind::Flex, DType::BF16) => {
            Some("every product converts both matrices to f32, and its result back")
        }
        _ => None,
    }
}

fn kind(backend: &str) -> Result<Kind, EngineError> {
    let kind = match backend {
        // CubeCL's CPU backend has a name of its own, so that `cpu` means the same in every build.
        "cpu" | "flex" => Kind::Flex,
        "ndarray" => Kind::NdArray,
        "tch" => Kind::LibTorch,
        "cubecl-cpu" | "cuda" | "metal" | "vulkan" | "wgpu" => Kind::Cube,
        other => {
            return Err(EngineError::unsupported(format!(
                "no backend {other:?}; there are flex, ndarray, tch, vulkan, wgpu, cuda, metal, \
                 cubecl-cpu"
            )));
        }
    };
    match (kind == Kind::LibTorch, WITH_LIBTORCH) {
        (true, false) => Err(EngineError::unavailable(
            "tch is burn-tch-bench's, another binary",
        )),
        (false, true) => Err(EngineError::unavailable(format!(
            "{backend} is burn-bench's, another binary"
        ))),
        _ => Ok(kind),
    }
}

fn dtype(precision: &str) -> Result<DType, EngineError> {
    match precision {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        "bf16" => Ok(DType::BF16),
        other => Err(EngineError::unsupported(format!(
            "{other}: this Llama computes in f32, f16 or bf16. Burn's own int8 rounds otherwise \
             than GGUF's q8_0, and its processor backends unpack it before every product"
        ))),
    }
}

/// Connect to the device, and check with an addition that it works.
#[allow(unused_variables, deprecated, reason = "depends on the features")]
fn connect(backend: &str, index: usize) -> Result<Device, EngineError> {
    let missing = |feature: &str| {
        Err(EngineError::unavailable(format!(
            "this binary was built without Burn's {feature}; build with \
             `--no-default-features --features {feature}`"
        )))
    };
    let device = match backend {
        #[cfg(feature = "flex")]
        "cpu" | "flex" => Device::flex(),
        #[cfg(feature = "ndarray")]
        "ndarray" => Device::ndarray(),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::vulkan(graphics(index)),
        // With the feature `vulkan`, wgpu would be another name for Vulkan and SPIR-V.
        #[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
        "wgpu" => Device::wgpu(graphics(index)),
        #[cfg(feature = "vulkan")]
        "wgpu" => {
            return Err(EngineError::unavailable(
                "wgpu means WGSL here, and this binary writes SPIR-V wherever there is Vulkan; \
                 build with `--no-default-features --features wgpu`",
            ));
        }
        #[cfg(feature = "tch")]
        "tch" => Device::libtorch(),
        #[cfg(feature = "cuda")]
        "cuda" => Device::cuda(index),
        #[cfg(feature = "metal")]
        "metal" => Device::metal(graphics(index)),
        #[cfg(feature = "cpu")]
        "cubecl-cpu" => Device::cpu(),
        #[cfg(not(feature = "cpu"))]
        "cubecl-cpu" => return missing("cpu"),
        #[cfg(not(feature = "flex"))]
        "cpu" => return missing("flex"),
        other => return missing(other),
    };
    #[cfg(feature = "vulkan")]
    if let Some(name) = device.identity().and_then(crashing) {
        return Err(EngineError::unavailable(format!(
            "no {backend} device {index} but {name}: the shader compiler of this software \
             rasteriser crashes on CubeCL's SPIR-V (Mesa 22.3 and 25.0); use a GPU, or the \
             backend wgpu, whose kernels are WGSL"
        )));
    }
    let one = Tensor::<1>::ones([1], &device);
    let two: f32 = (one.clone() + one).into_scalar();
    device.sync().map_err(EngineError::internal)?;
    debug_assert_eq!(two, 2.0);
    Ok(device)
}

/// Return the name of a device on which this process would crash. lavapipe ends in a segmentation
/// fault, which can't be caught. (CubeCL's fingerprint of a device begins with `spirv` even if it
/// writes WGSL.)
#[cfg(feature = "vulkan")]
fn crashing(identity: burn::tensor::DeviceIdentity) -> Option<String> {
    identity.name.contains("llvmpipe").then_some(identity.name)
}

/// Return the adapter that wgpu prefers for index 0, else the discrete GPU of that index.
#[cfg(any(feature = "wgpu", feature = "metal"))]
fn graphics(index: usize) -> burn::tensor::DeviceKind {
    match index {
        0 => burn::tensor::DeviceKind::DefaultDevice,
        further => burn::tensor::DeviceKind::DiscreteGpu(further),
    }
}
