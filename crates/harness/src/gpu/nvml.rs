//! Asks NVIDIA's management library (NVML). Only reads; the library is loaded at the first
//! question, and a machine without it gets an error that says so.
//!
//! The library stays loaded until the process ends: samples of GPM borrow it, and
//! it may not be closed while another thread reads.

use super::{
    Activity, Answer, Device, Driver, EccErrors, GpuProcess, Identity, Refusal, Utilization,
};
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use std::sync::OnceLock;

/// The metrics that [`Device::activity`] asks for, in the order in which it reads the answers.
const ACTIVITY: [GpmMetricId; 4] = [
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
];

/// The driver of this machine, or why it can't be asked.
pub fn driver() -> Result<impl Driver, String> {
    static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().map_err(|error| why(&error)))
        .as_ref()
        .map(NvmlDriver)
        .map_err(Clone::clone)
}

fn why(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            "no NVIDIA driver (libnvidia-ml.so.1 not found)".to_owned()
        }
        error => format!("the NVIDIA driver can't be asked: {error}"),
    }
}

struct NvmlDriver(&'static Nvml);

impl Driver for NvmlDriver {
    fn version(&self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }

    fn cuda(&self) -> Option<String> {
        self.0.sys_cuda_driver_version().ok().map(cuda_version)
    }

    fn device_count(&self) -> u32 {
        self.0.device_count().unwrap_or(0)
    }

    fn device(&self, index: u32) -> Answer<Box<dyn Device>> {
        Ok(Box::new(NvmlDevice {
            nvml: self.0,
            device: self.0.device_by_index(index).map_err(refusal)?,
            sample: None,
        }))
    }
}

struct NvmlDevice {
    nvml: &'static Nvml,
    device: nvml_wrapper::Device<'static>,
    /// The last GPM sample, with which the next one is compared.
    sample: Option<GpmSample<'static>>,
}

impl Device for NvmlDevice {
    fn identity(&self) -> Identity {
        let device = &self.device;
        let memory = device.memory_info().ok();
        let capability = device.cuda_compute_capability().ok();
        Identity {
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
        }
    }

    fn utilization(&self) -> Answer<Utilization> {
        let rates = self.device.utilization_rates().map_err(refusal)?;
        Ok(Utilization {
            gpu_percent: f64::from(rates.gpu),
            memory_percent: f64::from(rates.memory),
        })
    }

    fn memory_used_bytes(&self) -> Answer<u64> {
        self.device.memory_info().map(|m| m.used).map_err(refusal)
    }

    fn processes(&self) -> Answer<Vec<GpuProcess>> {
        let processes = self.device.running_compute_processes().map_err(refusal)?;
        Ok(processes
            .into_iter()
            .map(|process| GpuProcess {
                pid: process.pid,
                memory_bytes: match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                },
            })
            .collect())
    }

    fn power_mw(&self) -> Answer<u64> {
        self.device.power_usage().map(u64::from).map_err(refusal)
    }

    fn energy_mj(&self) -> Answer<u64> {
        self.device.total_energy_consumption().map_err(refusal)
    }

    fn sm_clock_mhz(&self) -> Answer<u32> {
        self.device.clock_info(Clock::SM).map_err(refusal)
    }

    fn memory_clock_mhz(&self) -> Answer<u32> {
        self.device.clock_info(Clock::Memory).map_err(refusal)
    }

    fn temperature_celsius(&self) -> Answer<u32> {
        self.device
            .temperature(TemperatureSensor::Gpu)
            .map_err(refusal)
    }

    fn throttle_reasons(&self) -> Answer<u64> {
        self.device
            .current_throttle_reasons()
            .map(|reasons| reasons.bits())
            .map_err(refusal)
    }

    fn ecc_errors(&self) -> Answer<EccErrors> {
        let count = |kind| match self
            .device
            .total_ecc_errors(kind, EccCounter::Volatile)
            .map_err(refusal)
        {
            Ok(count) => Ok(Some(count)),
            Err(Refusal::Unsupported) => Ok(None),
            Err(refusal) => Err(refusal),
        };
        let errors = EccErrors {
            corrected: count(MemoryError::Corrected)?,
            uncorrected: count(MemoryError::Uncorrected)?,
        };
        if errors == EccErrors::default() {
            return Err(Refusal::Unsupported);
        }
        Ok(errors)
    }

    fn activity(&mut self) -> Answer<Option<Activity>> {
        if self.sample.is_none() && !self.device.gpm_support().map_err(refusal)? {
            return Err(Refusal::Unsupported);
        }
        let now = self.device.gpm_sample().map_err(refusal)?;
        let Some(before) = self.sample.as_ref() else {
            self.sample = Some(now);
            return Ok(None);
        };
        let metrics = gpm_metrics_get(self.nvml, before, &now, &ACTIVITY);
        self.sample = Some(now);
        let [sm, occupancy, tensor, dram] = {
            let metrics = metrics.map_err(refusal)?;
            let value = |index: usize| {
                let metric = metrics.get(index)?.as_ref().ok()?;
                Some(metric.value).filter(|value| value.is_finite())
            };
            [value(0), value(1), value(2), value(3)]
        };
        Ok(Some(Activity {
            sm_active_percent: sm,
            sm_occupancy_percent: occupancy,
            tensor_active_percent: tensor,
            dram_bandwidth_percent: dram,
        }))
    }
}

/// The kind of refusal that an error of the library means.
fn refusal(error: NvmlError) -> Refusal {
    match error {
        NvmlError::NotSupported
        | NvmlError::NoPermission
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::VgpuEccNotSupported => Refusal::Unsupported,
        NvmlError::GpuLost | NvmlError::ResetRequired => Refusal::Lost(error.to_string()),
        error => Refusal::Failed(error.to_string()),
    }
}

/// Format a CUDA version number: 12080 is 12.8.
fn cuda_version(number: i32) -> String {
    format!(
        "{}.{}",
        cuda_driver_version_major(number),
        cuda_driver_version_minor(number)
    )
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
    fn errors_are_told_apart_by_whether_asking_again_is_any_use() {
        assert_eq!(refusal(NvmlError::NotSupported), Refusal::Unsupported);
        let absent = NvmlError::FailedToLoadSymbol("nvmlGpmSampleGet".into());
        assert_eq!(refusal(absent), Refusal::Unsupported);
        assert!(matches!(refusal(NvmlError::GpuLost), Refusal::Lost(_)));
        assert!(matches!(
            refusal(NvmlError::ResetRequired),
            Refusal::Lost(_)
        ));
        assert!(matches!(refusal(NvmlError::Timeout), Refusal::Failed(_)));
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        match driver() {
            Err(why) => assert!(why.contains("NVIDIA driver"), "{why}"),
            Ok(driver) => assert!(driver.version().is_some()),
        }
    }
}
