//! The interface to GPUs for the doctor and the telemetry: the questions that a driver and a device
//! can be asked, and the ways in which they can refuse an answer.
//!
//! `nvml` answers from NVIDIA's management library, which is loaded at run time; `scripted` gives
//! the answers that a test sets, so that every way a GPU can fail is tried on machines without one.
//! Nothing here changes a setting or runs on a device.

mod nvml;
#[cfg(test)]
pub mod scripted;

pub use nvml::driver;

use schema::registry::DeviceKind;
use serde::Serialize;

/// Why a device gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The device has no such counter, or we may not read it: asking again is no use.
    Unsupported,
    /// The device fell off the bus or waits for a reset, as the text says: no further answers.
    Lost(String),
    /// The question failed this time, for the reason given.
    Failed(String),
}

/// A device's answer to a question, or its refusal.
pub type Answer<T> = Result<T, Refusal>;

/// The driver of this machine.
pub trait Driver {
    /// The driver's version.
    fn version(&self) -> Option<String>;
    /// Newest CUDA version that the driver supports, e.g. `12.8`.
    fn cuda(&self) -> Option<String>;
    /// The number of devices that the driver finds.
    fn device_count(&self) -> u32;
    /// The device at `index`, in the driver's order.
    fn device(&self, index: u32) -> Answer<Box<dyn Device>>;
}

/// One device. Every method asks one question; each may be refused by itself.
pub trait Device: Send {
    /// The device's name, size and limits. What can't be read is absent.
    fn identity(&self) -> Identity;
    /// How busy the device was over the driver's last sampling period.
    fn utilization(&self) -> Answer<Utilization>;
    /// Device memory that is in use by all processes, bytes.
    fn memory_used_bytes(&self) -> Answer<u64>;
    /// The compute processes on the device.
    fn processes(&self) -> Answer<Vec<GpuProcess>>;
    /// Power of the board, milliwatts.
    fn power_mw(&self) -> Answer<u64>;
    /// Energy since the driver was loaded, millijoules.
    fn energy_mj(&self) -> Answer<u64>;
    /// Clock of the SMs, MHz.
    fn sm_clock_mhz(&self) -> Answer<u32>;
    /// Clock of the memory, MHz.
    fn memory_clock_mhz(&self) -> Answer<u32>;
    /// Temperature of the die, °C.
    fn temperature_celsius(&self) -> Answer<u32>;
    /// NVML's bit mask of the reasons why clocks are held down.
    fn throttle_reasons(&self) -> Answer<u64>;
    /// Memory errors since the driver was loaded.
    fn ecc_errors(&self) -> Answer<EccErrors>;
    /// How busy its units were since the last call (GPM); `None` on the first call, when there is
    /// nothing to compare with.
    fn activity(&mut self) -> Answer<Option<Activity>>;
}

/// A device's name, size and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Identity {
    /// Product name.
    pub name: Option<String>,
    /// Compute capability, e.g. `9.0`.
    pub compute_capability: Option<String>,
    /// Installed memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that is free now, bytes.
    pub memory_free_bytes: Option<u64>,
    /// The power limit in force, milliwatts.
    pub power_limit_mw: Option<u32>,
    /// Highest SM clock, MHz.
    pub sm_clock_mhz_max: Option<u32>,
    /// Highest memory clock, MHz.
    pub memory_clock_mhz_max: Option<u32>,
    /// Whether the device is partitioned (MIG); absent where it can't be.
    pub mig: Option<bool>,
}

/// Shares of the driver's last sampling period, percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Utilization {
    /// Share of the time in which a kernel ran.
    pub gpu_percent: f64,
    /// Share of the time in which device memory was read or written.
    pub memory_percent: f64,
}

/// A process with a compute context on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// The process id, possibly in another PID namespace than ours.
    pub pid: u32,
    /// Device memory of the process (bytes), where the driver reports it.
    pub memory_bytes: Option<u64>,
}

/// Counts of memory errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EccErrors {
    /// Corrected errors; absent where not counted.
    pub corrected: Option<u64>,
    /// Uncorrected errors; absent where not counted.
    pub uncorrected: Option<u64>,
}

/// Means over SMs and time, percent. A counter that the device lacks is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Share of the SMs that had a warp.
    pub sm_active_percent: Option<f64>,
    /// Warps on the SMs, as a share of the most that they hold.
    pub sm_occupancy_percent: Option<f64>,
    /// Share of the time in which tensor cores were at work.
    pub tensor_active_percent: Option<f64>,
    /// Share of the memory's bandwidth that was used.
    pub dram_bandwidth_percent: Option<f64>,
}

/// Whether a GPU does a backend's work. For other backends its counters would be meaningless.
pub fn is_used_by(backend: &str) -> bool {
    DeviceKind::of_backend(backend) == DeviceKind::Gpu
}

/// The device that a target's engine computes on, or `None` where its backend uses no GPU or there
/// is none that can be read. Engines are told to use the first device; `CUDA_VISIBLE_DEVICES`,
/// which they inherit, may make another the first.
pub fn device_of(backend: &str) -> Option<Box<dyn Device>> {
    if !is_used_by(backend) {
        return None;
    }
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let index = first_visible(visible.as_deref())?;
    driver().ok()?.device(index).ok()
}

/// Index of the first visible device. `None` where it is named by an id rather than a number,
/// because no counters are better than those of another device.
fn first_visible(visible: Option<&str>) -> Option<u32> {
    match visible {
        None => Some(0),
        Some(list) => list.split(',').next()?.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_visible_device_is_the_engines() {
        assert_eq!(first_visible(None), Some(0));
        assert_eq!(first_visible(Some("2,0")), Some(2));
        assert_eq!(first_visible(Some("")), None, "no device is visible");
        assert_eq!(first_visible(Some("GPU-8932f937")), None);
    }

    #[test]
    fn a_cpu_target_has_no_device() {
        assert!(device_of("cpu").is_none());
    }
}
