//! Reads which NVIDIA devices are here, for people and for a run's provenance. The questions
//! themselves are in `crate::gpu`; counters of devices at work are in `crate::telemetry`.

use super::put;
pub use crate::gpu::Identity as GpuDevice;
use crate::gpu::{Driver, driver};
use serde::Serialize;
use std::collections::BTreeMap;

/// The NVIDIA driver and its devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Why there is no device; absent where there is one.
    pub absent: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// Newest CUDA version that the driver supports.
    pub cuda: Option<String>,
    /// The devices, in the driver's order.
    pub devices: Vec<GpuDevice>,
}

impl Gpu {
    /// Read this machine's driver and devices.
    pub fn read() -> Self {
        match driver() {
            Ok(driver) => Self::from_driver(&driver),
            Err(why) => Self {
                absent: Some(why),
                ..Self::default()
            },
        }
    }

    fn from_driver(driver: &impl Driver) -> Self {
        let count = driver.device_count();
        Self {
            absent: (count == 0).then(|| "the NVIDIA driver finds no device".to_owned()),
            driver: driver.version(),
            cuda: driver.cuda(),
            devices: (0..count)
                .filter_map(|index| driver.device(index).ok())
                .map(|device| device.identity())
                .collect(),
        }
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "driver", self.driver.as_ref());
        put(facts, "cuda", self.cuda.as_ref());
        // Engines use the first device unless told otherwise; `gpus` shows that there are more.
        let Some(first) = self.devices.first() else {
            return;
        };
        put(facts, "gpus", Some(self.devices.len()));
        put(facts, "gpu", first.name.as_ref());
        put(
            facts,
            "gpu_compute_capability",
            first.compute_capability.as_ref(),
        );
        put(facts, "gpu_memory_bytes", first.memory_bytes);
        put(facts, "gpu_power_limit_mw", first.power_limit_mw);
        put(facts, "gpu_sm_clock_mhz_max", first.sm_clock_mhz_max);
        put(
            facts,
            "gpu_memory_clock_mhz_max",
            first.memory_clock_mhz_max,
        );
        put(facts, "gpu_mig", first.mig);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::scripted::{ScriptedDevice, ScriptedDriver};

    #[test]
    fn what_the_driver_finds_is_shown() {
        let gpu = Gpu::from_driver(&ScriptedDriver(vec![ScriptedDevice::mute()]));
        assert_eq!(gpu.absent, None);
        assert_eq!(gpu.cuda.as_deref(), Some("13.0"));
        assert_eq!(gpu.devices[0].compute_capability.as_deref(), Some("9.0"));
        assert_eq!(gpu.devices[0].power_limit_mw, None);
        let none = Gpu::from_driver(&ScriptedDriver(vec![]));
        assert!(none.absent.is_some_and(|why| why.contains("no device")));
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        let gpu = Gpu::read();
        assert_eq!(gpu.devices.is_empty(), gpu.absent.is_some(), "{gpu:?}");
    }

    #[test]
    fn what_is_unknown_is_no_fact() {
        let gpu = Gpu {
            devices: vec![GpuDevice {
                name: Some("NVIDIA H200".into()),
                ..GpuDevice::default()
            }],
            ..Gpu::default()
        };
        let mut facts = BTreeMap::new();
        gpu.add_facts(&mut facts);
        assert_eq!(facts.len(), 2);
        assert_eq!(facts["gpu"], "NVIDIA H200");
    }
}
