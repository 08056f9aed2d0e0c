//! From a backend's name to Burn's device, with gradients. One that this build lacks is an error
//! that says which build has it.

use anyhow::{Result, bail};
use burn::tensor::Device;

/// The device of `backend`, ready to train on.
///
/// # Errors
/// If this program was built for another one.
pub fn device(backend: &str) -> Result<Device> {
    Ok(connect(backend)?.autodiff())
}

#[allow(deprecated, reason = "ndarray is, and stays worth comparing with")]
fn connect(backend: &str) -> Result<Device> {
    Ok(match backend {
        #[cfg(feature = "flex")]
        "flex" => Device::flex(),
        #[cfg(feature = "ndarray")]
        "ndarray" => Device::ndarray(),
        #[cfg(feature = "tch")]
        "tch" => Device::libtorch(),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "wgpu")]
        "wgpu" => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        "cuda" => Device::cuda(0),
        other => bail!(
            "this program was built without the backend {other:?}: build it with `--features {other}`, or let `cargo xtask train --backend {other}` do so"
        ),
    })
}
