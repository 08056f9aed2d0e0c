//! Opens Burn's device for a backend's name, with gradients. A backend that this build lacks is an
//! error that says how to build with it.

use anyhow::{Result, bail};
use burn::tensor::Device;

/// Return the device of `backend`, ready to train on.
///
/// # Errors
/// Fails if this program was built without that backend.
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
