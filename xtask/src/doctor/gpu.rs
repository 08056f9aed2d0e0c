//! NVIDIA devices, through the driver's management library, which is loaded at run
//! time: a machine without it says so. Changes no setting and runs nothing on the
//! device; what it does at work is telemetry's business.

use super::put;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use serde::Serialize;
use std::collections::BTreeMap;

/// The driver and its devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Why there is none, where there is none.
    pub absent: Option<String>,
    /// Driver version.
    pub driver: Option<String>,
    /// Newest CUDA version the driver serves.
    pub cuda: Option<String>,
    /// The devices, in the driver's order.
    pub devices: Vec<GpuDevice>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuDevice {
    /// Product name.
    pub name: Option<String>,
    /// `9.0`.
    pub compute_capability: Option<String>,
    /// Installed memory.
    pub memory_bytes: Option<u64>,
    /// Memory nobody uses now.
    pub memory_free_bytes: Option<u64>,
    /// The limit in force.
    pub power_limit_mw: Option<u32>,
    /// Highest SM clock.
    pub sm_clock_mhz_max: Option<u32>,
    /// Highest memory clock.
    pub memory_clock_mhz_max: Option<u32>,
    /// Whether it is partitioned; absent where it can't be.
    pub mig: Option<bool>,
}

impl Gpu {
    /// This machine's.
    pub fn read() -> Self {
        match Nvml::init() {
            Ok(nvml) => Self::of(&nvml),
            Err(error) => Self {
                absent: Some(why(&error)),
                ..Self::default()
            },
        }
    }

    fn of(nvml: &Nvml) -> Self {
        let count = nvml.device_count().unwrap_or(0);
        Self {
            absent: (count == 0).then(|| "the NVIDIA driver finds no device".to_owned()),
            driver: nvml.sys_driver_version().ok(),
            cuda: nvml.sys_cuda_driver_version().ok().map(cuda_version),
            devices: (0..count).filter_map(|i| device(nvml, i)).collect(),
        }
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "driver", self.driver.as_ref());
        put(facts, "cuda", self.cuda.as_ref());
        // The first one is what runs unless told otherwise; the number tells of more.
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

fn device(nvml: &Nvml, index: u32) -> Option<GpuDevice> {
    let device = nvml.device_by_index(index).ok()?;
    let memory = device.memory_info().ok();
    let capability = device.cuda_compute_capability().ok();
    Some(GpuDevice {
        name: device.name().ok(),
        compute_capability: capability.map(|c| format!("{}.{}", c.major, c.minor)),
        memory_bytes: memory.as_ref().map(|memory| memory.total),
        memory_free_bytes: memory.as_ref().map(|memory| memory.free),
        power_limit_mw: device
            .enforced_power_limit()
            .or_else(|_| device.power_management_limit())
            .ok(),
        sm_clock_mhz_max: device.max_clock_info(Clock::SM).ok(),
        memory_clock_mhz_max: device.max_clock_info(Clock::Memory).ok(),
        mig: device.mig_mode().ok().map(|mode| mode.current == 1),
    })
}

/// 12080 is 12.8.
fn cuda_version(number: i32) -> String {
    format!(
        "{}.{}",
        cuda_driver_version_major(number),
        cuda_driver_version_minor(number)
    )
}

fn why(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            "no NVIDIA driver (libnvidia-ml.so.1 not found)".to_owned()
        }
        error => format!("the NVIDIA driver can't be asked: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_versions() {
        assert_eq!(cuda_version(12_080), "12.8");
        assert_eq!(cuda_version(13_000), "13.0");
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
