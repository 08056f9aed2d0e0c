//! Finds out within milliseconds whether this machine has a device that a backend runs on: targets
//! that can't run here are not compiled, unless the user names them in full. The registry says
//! which devices each backend needs.

mod asked;
pub mod limits;
pub mod vulkan;

use crate::engine::EngineFailure;
use crate::machine::Gpu;
use schema::record::Status;
use schema::registry::{Device, Registry};
use std::collections::BTreeMap;

/// Targets and variants that the user named in full: compiled even if their device is missing.
#[derive(Clone, Debug, Default)]
pub struct Named(Vec<String>);

impl Named {
    /// The names in `words`: ids, or arguments that contain them (all that a resumed run has).
    pub fn new(words: &[String]) -> Self {
        let ids = words.iter().flat_map(|word| word.split([',', '=']));
        Self(ids.map(str::to_owned).collect())
    }

    fn has(&self, id: &str) -> bool {
        self.0.iter().any(|name| name == id)
    }

    /// Why nothing is to be compiled for `id`, a target or variant on `backend`; `None` where
    /// it can run here, or where the user named it.
    pub fn lacking(&self, registry: &Registry, backend: &str, id: &str) -> Option<EngineFailure> {
        if self.has(id) {
            return None;
        }
        let wanted = registry.backends.get(backend)?;
        let why = first(wanted, found).err()?;
        Some(EngineFailure::new(
            Status::Unavailable,
            format!(
                "the backend {backend} has nothing to run on here ({why}), so nothing was compiled for it: install its device's driver, or name {id} in full to compile it all the same"
            ),
        ))
    }
}

/// For each backend that needs a device, the device that it finds here, or why it finds none.
pub fn of_backends(registry: &Registry) -> BTreeMap<String, Result<String, String>> {
    let backends = registry.backends.iter();
    backends
        .map(|(backend, wanted)| (backend.clone(), first(wanted, found)))
        .collect()
}

/// The first wanted device that is here; otherwise all reasons why none is.
fn first(
    wanted: &[Device],
    found: impl Fn(Device) -> Result<String, String>,
) -> Result<String, String> {
    let mut reasons = Vec::new();
    for device in wanted {
        match found(*device) {
            Ok(name) => return Ok(name),
            Err(why) => reasons.push(why),
        }
    }
    Err(reasons.join(", and "))
}

fn found(device: Device) -> Result<String, String> {
    match device {
        Device::VulkanDevice => vulkan::hardware(vulkan::devices()),
        Device::CudaDriver => cuda(&Gpu::read()),
        Device::Metal if cfg!(target_os = "macos") => Ok("Metal".into()),
        Device::Metal => Err("this is no Mac with Metal".into()),
    }
}

fn cuda(gpu: &Gpu) -> Result<String, String> {
    match (gpu.devices.first(), &gpu.absent) {
        (Some(device), _) => Ok(device.name.clone().unwrap_or("an NVIDIA GPU".into())),
        (None, Some(why)) => Err(format!("there is {}", why.trim_start_matches("there is "))),
        (None, None) => Err("there is no NVIDIA GPU".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_devices_is_enough() {
        let only_metal = |device| match device {
            Device::Metal => Ok("Metal".to_owned()),
            _ => Err("there is no Vulkan".to_owned()),
        };
        let both = [Device::VulkanDevice, Device::Metal];
        assert_eq!(first(&both, only_metal), Ok("Metal".into()));
        assert_eq!(
            first(&both, |_| Err("there is none".into())),
            Err("there is none, and there is none".into())
        );
    }

    #[test]
    fn what_is_named_in_full_is_compiled() {
        assert!(!Named::default().has("a.cuda.f32"));
        let named = Named::new(&["bench".into(), "--engines=a.cuda.f32,b".into()]);
        assert!(named.has("a.cuda.f32") && named.has("b") && !named.has("b.cuda.f32"));
    }

    #[test]
    fn a_driver_without_a_gpu_is_no_device() {
        let none = |why: &str| Err(why.to_owned());
        assert_eq!(cuda(&Gpu::default()), none("there is no NVIDIA GPU"));
        let absent = Gpu {
            absent: Some("no NVIDIA driver (libx.so not found)".into()),
            ..Gpu::default()
        };
        let why = "there is no NVIDIA driver (libx.so not found)";
        assert_eq!(cuda(&absent), none(why));
        let here = Gpu {
            devices: vec![Default::default()],
            ..Gpu::default()
        };
        assert_eq!(cuda(&here), Ok("an NVIDIA GPU".into()));
    }
}
