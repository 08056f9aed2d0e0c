//! What a backend needs of a machine when it runs. It is looked for before anything is
//! compiled for the backend.

use serde::{Deserialize, Serialize};

/// A kind of device, or the driver that stands for it.
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
