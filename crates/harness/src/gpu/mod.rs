//! The interface to GPUs for the doctor and the telemetry: the questions that a device can be
//! asked, and the ways in which it can refuse an answer.
//!
//! `nvml` answers from NVIDIA's management library, which is loaded at run time; `scripted` gives
//! the answers that a test sets, so that every way a GPU can fail is tried on machines without one.
//! Nothing here changes a setting or runs on a device.

mod nvml;
#[cfg(test)]
pub mod scripted;

pub use nvml::{Driver, driver};

use schema::record::Telemetry;
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

/// A question about a device at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Power of the board.
    Power,
    /// Energy since the driver was loaded.
    Energy,
    /// How busy the device and its memory were over the driver's last sampling period.
    Utilization,
    /// Device memory that is in use by all processes.
    MemoryUsed,
    /// Clock of the SMs.
    SmClock,
    /// NVML's bit mask of the reasons why clocks are held down.
    ThrottleReasons,
    /// How busy its units were since this was last asked (GPM). The first answer is empty, because
    /// there is no earlier reading to compare with.
    Activity,
    /// Clock of the memory.
    MemoryClock,
    /// Temperature of the die.
    Temperature,
    /// Memory errors since the driver was loaded.
    EccErrors,
}

impl Counter {
    /// All counters, in the order in which they are read.
    pub const ALL: [Self; 10] = [
        Self::Power,
        Self::Energy,
        Self::Utilization,
        Self::MemoryUsed,
        Self::SmClock,
        Self::ThrottleReasons,
        Self::Activity,
        Self::MemoryClock,
        Self::Temperature,
        Self::EccErrors,
    ];

    /// The counter's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Energy => "energy",
            Self::Utilization => "utilization",
            Self::MemoryUsed => "memory used",
            Self::SmClock => "SM clock",
            Self::ThrottleReasons => "throttle reasons",
            Self::Activity => "activity",
            Self::MemoryClock => "memory clock",
            Self::Temperature => "temperature",
            Self::EccErrors => "ECC errors",
        }
    }
}

/// One device at work. Every question may be refused by itself.
pub trait Device: Send {
    /// Put the values of a counter into `reading`; none where the question is refused.
    fn read(&mut self, counter: Counter, reading: &mut Telemetry) -> Answer<()>;
    /// The compute processes on the device.
    fn processes(&self) -> Answer<Vec<GpuProcess>>;
}

/// A device's name, size and limits. What can't be read is absent.
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

/// A process with a compute context on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// The process id, possibly in another PID namespace than ours.
    pub pid: u32,
    /// Device memory of the process (bytes), where the driver reports it.
    pub memory_bytes: Option<u64>,
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
    driver().ok()?.device(index)
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
