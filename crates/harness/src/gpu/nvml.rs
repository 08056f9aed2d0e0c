//! Asks NVIDIA's management library (NVML). Only reads; the library is loaded at the first
//! question, and a machine without it gets an error that says so.
//!
//! The library stays loaded until the process ends: samples of GPM borrow it, and
//! it may not be closed while another thread reads.

use super::{Answer, Counter, Device, GpuProcess, Identity, Refusal};
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use schema::record::Telemetry;
use std::sync::OnceLock;

/// The metrics of [`Counter::Activity`], in the order in which the answers are read.
const ACTIVITY: [GpmMetricId; 4] = [
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
];

/// The driver of this machine, or why it can't be asked.
pub fn driver() -> Result<Driver, String> {
    static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().map_err(|error| why(&error)))
        .as_ref()
        .map(Driver)
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

/// The driver of this machine.
pub struct Driver(&'static Nvml);

impl Driver {
    /// The driver's version.
    pub fn version(&self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }

    /// Newest CUDA version that the driver supports, e.g. `12.8`.
    pub fn cuda(&self) -> Option<String> {
        self.0.sys_cuda_driver_version().ok().map(cuda_version)
    }

    /// The devices that the driver finds, in its order; `None` for one that can't be asked.
    pub fn identities(&self) -> Vec<Option<Identity>> {
        let count = self.0.device_count().unwrap_or(0);
        let devices = (0..count).map(|index| self.0.device_by_index(index).ok());
        devices.map(|device| Some(identity(&device?))).collect()
    }

    /// The device at `index`, in the driver's order; `None` where it can't be asked.
    pub fn device(&self, index: u32) -> Option<Box<dyn Device>> {
        let device = self.0.device_by_index(index).ok()?;
        Some(Box::new(NvmlDevice {
            nvml: self.0,
            device,
            sample: None,
        }))
    }
}

fn identity(device: &nvml_wrapper::Device) -> Identity {
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

struct NvmlDevice {
    nvml: &'static Nvml,
    device: nvml_wrapper::Device<'static>,
    /// The last GPM sample, with which the next one is compared.
    sample: Option<GpmSample<'static>>,
}

impl Device for NvmlDevice {
    fn read(&mut self, counter: Counter, reading: &mut Telemetry) -> Answer<()> {
        let device = &self.device;
        match counter {
            Counter::Power => reading.gpu_power_mw = Some(device.power_usage()?.into()),
            Counter::Energy => reading.gpu_energy_mj = Some(device.total_energy_consumption()?),
            Counter::Utilization => {
                let rates = device.utilization_rates()?;
                reading.gpu_utilization_percent = Some(rates.gpu.into());
                reading.gpu_memory_utilization_percent = Some(rates.memory.into());
            }
            Counter::MemoryUsed => {
                reading.gpu_memory_used_bytes = Some(device.memory_info()?.used);
            }
            Counter::SmClock => reading.gpu_sm_clock_mhz = Some(device.clock_info(Clock::SM)?),
            Counter::ThrottleReasons => {
                let reasons = device.current_throttle_reasons()?;
                reading.gpu_throttle_reasons = Some(reasons.bits());
            }
            Counter::Activity => self.read_activity(reading)?,
            Counter::MemoryClock => {
                reading.gpu_memory_clock_mhz = Some(device.clock_info(Clock::Memory)?);
            }
            Counter::Temperature => {
                let celsius = device.temperature(TemperatureSensor::Gpu)?;
                reading.gpu_temperature_celsius = Some(celsius);
            }
            Counter::EccErrors => {
                let corrected = self.ecc_errors(MemoryError::Corrected)?;
                let uncorrected = self.ecc_errors(MemoryError::Uncorrected)?;
                if corrected.or(uncorrected).is_none() {
                    return Err(Refusal::Unsupported);
                }
                reading.gpu_ecc_corrected = corrected;
                reading.gpu_ecc_uncorrected = uncorrected;
            }
        }
        Ok(())
    }

    fn processes(&self) -> Answer<Vec<GpuProcess>> {
        let processes = self.device.running_compute_processes()?;
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
}

impl NvmlDevice {
    /// The number of memory errors of a kind; `None` where the device doesn't count them.
    fn ecc_errors(&self, kind: MemoryError) -> Answer<Option<u64>> {
        let count = self.device.total_ecc_errors(kind, EccCounter::Volatile);
        match count.map_err(Refusal::from) {
            Ok(count) => Ok(Some(count)),
            Err(Refusal::Unsupported) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    fn read_activity(&mut self, reading: &mut Telemetry) -> Answer<()> {
        if self.sample.is_none() && !self.device.gpm_support()? {
            return Err(Refusal::Unsupported);
        }
        let now = self.device.gpm_sample()?;
        let Some(before) = self.sample.as_ref() else {
            self.sample = Some(now);
            return Ok(());
        };
        let metrics = gpm_metrics_get(self.nvml, before, &now, &ACTIVITY);
        self.sample = Some(now);
        let metrics = metrics?;
        let value = |index: usize| {
            let metric = metrics.get(index)?.as_ref().ok()?;
            Some(metric.value).filter(|value| value.is_finite())
        };
        reading.gpu_sm_active_percent = value(0);
        reading.gpu_sm_occupancy_percent = value(1);
        reading.gpu_tensor_active_percent = value(2);
        reading.gpu_dram_bandwidth_percent = value(3);
        Ok(())
    }
}

/// The kind of refusal that an error of the library means.
impl From<NvmlError> for Refusal {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::NotSupported
            | NvmlError::NoPermission
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::VgpuEccNotSupported => Self::Unsupported,
            NvmlError::GpuLost | NvmlError::ResetRequired => Self::Lost(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Format a CUDA version number: 12080 is 12.8.
fn cuda_version(number: i32) -> String {
    let major = cuda_driver_version_major(number);
    let minor = cuda_driver_version_minor(number);
    format!("{major}.{minor}")
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
        let refusal = <Refusal as From<NvmlError>>::from;
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
