//! Reads which NVIDIA devices are here, for people and for a run's provenance. The questions
//! themselves are in `crate::gpu`; counters of devices at work are in `crate::telemetry`.

use super::put;
use crate::gpu::{Identity, driver};
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
    pub devices: Vec<Identity>,
}

impl Gpu {
    /// Read this machine's driver and devices.
    pub fn read() -> Self {
        match driver() {
            Ok(driver) => Self::found(driver.version(), driver.cuda(), driver.identities()),
            Err(why) => Self {
                absent: Some(why),
                ..Self::default()
            },
        }
    }

    /// What a driver found; `None` among the devices is one that can't be asked.
    fn found(driver: Option<String>, cuda: Option<String>, devices: Vec<Option<Identity>>) -> Self {
        let none = devices.is_empty();
        Self {
            absent: none.then(|| "the NVIDIA driver finds no device".to_owned()),
            driver,
            cuda,
            devices: devices.into_iter().flatten().collect(),
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
        let capability = first.compute_capability.as_ref();
        put(facts, "gpu_compute_capability", capability);
        put(facts, "gpu_memory_bytes", first.memory_bytes);
        put(facts, "gpu_power_limit_mw", first.power_limit_mw);
        put(facts, "gpu_sm_clock_mhz_max", first.sm_clock_mhz_max);
        let memory_clock = first.memory_clock_mhz_max;
        put(facts, "gpu_memory_clock_mhz_max", memory_clock);
        put(facts, "gpu_mig", first.mig);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_finds_is_shown() {
        let device = Identity {
            compute_capability: Some("9.0".into()),
            ..Identity::default()
        };
        let gpu = Gpu::found(None, Some("13.0".into()), vec![None, Some(device)]);
        assert_eq!(gpu.absent, None);
        assert_eq!(gpu.cuda.as_deref(), Some("13.0"));
        assert_eq!(gpu.devices[0].compute_capability.as_deref(), Some("9.0"));
        assert_eq!(gpu.devices[0].power_limit_mw, None);
        let none = Gpu::found(None, None, vec![]);
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
            devices: vec![Identity {
                name: Some("NVIDIA H200".into()),
                ..Identity::default()
            }],
            ..Gpu::default()
        };
        let mut facts = BTreeMap::new();
        gpu.add_facts(&mut facts);
        assert_eq!(facts.len(), 2);
        assert_eq!(facts["gpu"], "NVIDIA H200");
    }
}
