//! GPUs, as the doctor and the telemetry see them: what can be asked of a driver
//! and of a device, and how it can refuse.
//!
//! `nvml` answers from NVIDIA's management library, which is loaded at run time;
//! `scripted` answers what a test wants, so that every way a GPU can fail is tried
//! on machines without one. Nothing here changes a setting or runs on a device.

mod nvml;
#[cfg(test)]
pub mod scripted;

pub use nvml::driver;

use schema::registry::DeviceKind;
use serde::Serialize;

/// Why a device gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has no such counter, or we may not read it: asking again is no use.
    Unsupported,
    /// It fell off the bus or waits for a reset: nothing will be answered any more.
    Lost(String),
    /// This once; in words.
    Failed(String),
}

/// An answer of a device.
pub type Answer<T> = Result<T, Refusal>;

/// The driver of this machine.
pub trait Driver {
    /// Driver version.
    fn version(&self) -> Option<String>;
    /// Newest CUDA version it serves, e.g. `12.8`.
    fn cuda(&self) -> Option<String>;
    /// Devices it finds.
    fn device_count(&self) -> u32;
    /// One of them, in the driver's order.
    fn device(&self, index: u32) -> Answer<Box<dyn Device>>;
}

/// One device. Every method is one question; each may be refused by itself.
pub trait Device: Send {
    /// What it is. What can't be read is absent.
    fn identity(&self) -> Identity;
    /// How busy it was over the driver's last sampling period.
    fn utilization(&self) -> Answer<Utilization>;
    /// Memory in use by anybody, bytes.
    fn memory_used_bytes(&self) -> Answer<u64>;
    /// The compute processes on it.
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
    /// NVML's bits of why clocks are held down.
    fn throttle_reasons(&self) -> Answer<u64>;
    /// Memory errors since the driver was loaded.
    fn ecc_errors(&self) -> Answer<EccErrors>;
    /// What its units did since the last time this was asked (GPM); `None` the
    /// first time, when there is nothing to compare with.
    fn activity(&mut self) -> Answer<Option<Activity>>;
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Identity {
    /// Product name.
    pub name: Option<String>,
    /// `9.0`.
    pub compute_capability: Option<String>,
    /// Installed memory.
    pub memory_bytes: Option<u64>,
    /// Memory that is free now.
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

/// Shares of the driver's last sampling period, percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Utilization {
    /// A kernel ran.
    pub gpu_percent: f64,
    /// Device memory was read or written.
    pub memory_percent: f64,
}

/// A process with a compute context on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id, possibly in another namespace than ours.
    pub pid: u32,
    /// Its memory, where the driver says.
    pub memory_bytes: Option<u64>,
}

/// Memory errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EccErrors {
    /// Mended; absent where not counted.
    pub corrected: Option<u64>,
    /// Not mended; absent where not counted.
    pub uncorrected: Option<u64>,
}

/// Means over SMs and time, percent. Each may be one that the device lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// SMs that had a warp.
    pub sm_active_percent: Option<f64>,
    /// Warps on the SMs, of the most they hold.
    pub sm_occupancy_percent: Option<f64>,
    /// Tensor cores at work.
    pub tensor_active_percent: Option<f64>,
    /// Use of the memory's bandwidth.
    pub dram_bandwidth_percent: Option<f64>,
}

/// Whether a backend's work is done by a GPU. Of others its counters would say nothing.
pub fn is_used_by(backend: &str) -> bool {
    DeviceKind::of_backend(backend) == DeviceKind::Gpu
}

/// The device that a target's engine works on, or `None` where its backend uses
/// no GPU or there is none that can be read. Engines are told to use the first
/// device; `CUDA_VISIBLE_DEVICES`, which they inherit, may make another the first.
pub fn device_of(backend: &str) -> Option<Box<dyn Device>> {
    if !is_used_by(backend) {
        return None;
    }
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let index = first_visible(visible.as_deref())?;
    driver().ok()?.device(index).ok()
}

/// Index of the first visible device. `None` where it is named by an id rather
/// than a number: better no counters than those of another device.
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
