//! The device that computes for a backend, and what a backend requires of a machine.
//!
//! A record holds the backend of each target, and nothing else that says which device computed. The
//! meaning of a record must not change with the registry, so the backend's name alone decides, by
//! the lists below. A registry that contradicts them is refused.

use super::Registry;
use serde::{Deserialize, Serialize};

/// A requirement of a backend when it runs: a kind of device, or the driver that stands for it. It
/// is checked before anything is compiled for the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A Vulkan device that is no software rasteriser.
    VulkanDevice,
    /// NVIDIA's driver with a GPU.
    CudaDriver,
    /// Metal, which every Mac has.
    Metal,
}

/// Backends that compute on a GPU. A name is never removed, because older records have it.
const ON_GPU: [&str; 6] = ["cuda", "hip", "metal", "rocm", "vulkan", "wgpu"];

/// Backends that ask a server, which may compute on any machine and device.
const ON_SERVER: [&str; 1] = ["http"];

/// The kind of device that a backend computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor that the harness runs on.
    Processor,
    /// A GPU of this machine.
    Gpu,
    /// An unknown device, because a server computes.
    Unknown,
}

impl DeviceKind {
    /// The kind of device of a backend, by its name. A name in neither list is the processor's.
    pub fn of_backend(backend: &str) -> Self {
        if ON_GPU.contains(&backend) {
            Self::Gpu
        } else if ON_SERVER.contains(&backend) {
            Self::Unknown
        } else {
            Self::Processor
        }
    }
}

impl Registry {
    /// Check that a backend that needs a device has a name that stands for a GPU, and that only
    /// such a backend has limits that a program of its own measures.
    pub(super) fn check_devices(&self) -> Result<(), String> {
        let is_without = |backend: &&String| !self.backends.contains_key(*backend);
        if let Some(backend) = self.limits.keys().find(is_without) {
            return Err(format!(
                "[limits] has {backend:?}, but [backend] doesn't say that it needs a device: the processor's limits are measured by the harness itself"
            ));
        }
        let is_no_gpu = |backend: &&String| DeviceKind::of_backend(backend) != DeviceKind::Gpu;
        match self.backends.keys().find(is_no_gpu) {
            None => Ok(()),
            Some(backend) => Err(format!(
                "[backend] says that {backend:?} needs a device, but that name is not known as a GPU's: use one of {}, or add it to `ON_GPU` in crates/schema/src/registry/device.rs",
                ON_GPU.join(", ")
            )),
        }
    }
}
