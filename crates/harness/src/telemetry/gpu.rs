//! Reads a GPU's counters into a reading. A counter that the device lacks is asked for only once; a
//! device that is lost is not asked again, and every later reading says so.

use crate::gpu::{Answer, Counter, Device, Refusal};
use schema::record::Telemetry;
use std::collections::BTreeSet;

/// GPM is read once in this many readings. The hardware averages over the time between two samples,
/// so nothing is lost, and it is designed for samples 100 ms or more apart.
const ACTIVITY_EVERY: u32 = 3;

/// A device that is read repeatedly.
#[derive(Default)]
pub(super) struct GpuCounters {
    device: Option<Box<dyn Device>>,
    unsupported: BTreeSet<&'static str>,
    lost: Option<String>,
    readings: u32,
}

impl GpuCounters {
    /// The counters of `device`; all are absent without one.
    pub(super) fn new(device: Option<Box<dyn Device>>) -> Self {
        Self {
            device,
            ..Self::default()
        }
    }

    /// Why the device can't be read any more; `None` where it can.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Read the counters into `reading`; a reading that isn't thorough has only those that change
    /// fast. `engine` are the ids of the engine's processes.
    pub(super) fn read(
        &mut self,
        thorough: bool,
        engine: impl Iterator<Item = u32>,
        reading: &mut Telemetry,
    ) {
        let Some(mut device) = self.device.take() else {
            reading.gpu_lost = self.lost.clone();
            return;
        };
        let with_activity = self.readings.is_multiple_of(ACTIVITY_EVERY);
        for counter in Counter::ALL {
            let is_due = match counter {
                Counter::Activity => with_activity,
                Counter::MemoryClock | Counter::Temperature | Counter::EccErrors => thorough,
                _ => true,
            };
            if is_due {
                self.ask(counter.name(), reading, |to| device.read(counter, to));
            }
        }
        if thorough {
            self.read_processes(device.as_ref(), engine, reading);
        }
        self.readings = self.readings.wrapping_add(1);
        // A lost device is dropped with its handle; counters that it gave before are kept.
        if self.lost.is_none() {
            self.device = Some(device);
        }
    }

    fn read_processes(
        &mut self,
        device: &dyn Device,
        engine: impl Iterator<Item = u32>,
        reading: &mut Telemetry,
    ) {
        if let Some(processes) = self.ask("processes", reading, |_| device.processes()) {
            let engine: BTreeSet<u32> = engine.collect();
            let own = || processes.iter().filter(|p| engine.contains(&p.pid));
            reading.gpu_processes = Some(processes.len() as u32);
            reading.gpu_processes_own = Some(own().count() as u32);
            reading.gpu_memory_bytes = match own().count() {
                0 => None,
                _ => own().map(|process| process.memory_bytes).sum(),
            };
        }
    }

    /// Ask one question, unless the device is lost or was found to lack the counter.
    fn ask<T>(
        &mut self,
        counter: &'static str,
        reading: &mut Telemetry,
        question: impl FnOnce(&mut Telemetry) -> Answer<T>,
    ) -> Option<T> {
        if self.lost.is_some() || self.unsupported.contains(counter) {
            return None;
        }
        match question(reading) {
            Ok(answer) => return Some(answer),
            Err(Refusal::Unsupported) => {
                self.unsupported.insert(counter);
            }
            Err(Refusal::Failed(why)) => {
                reading.gpu_error = Some(format!("{counter} could not be read: {why}"));
            }
            Err(Refusal::Lost(why)) => {
                let why = format!("the GPU was lost: {why}");
                reading.gpu_lost = Some(why.clone());
                self.lost = Some(why);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuProcess;
    use crate::gpu::scripted::ScriptedDevice;

    const ENGINE: u32 = 4711;

    struct Setting(ScriptedDevice, GpuCounters);

    impl Setting {
        fn busy() -> Self {
            let device = ScriptedDevice::busy(ENGINE);
            let counters = GpuCounters::new(Some(Box::new(device.clone())));
            Self(device, counters)
        }

        fn read(&mut self) -> Telemetry {
            let mut reading = Telemetry::default();
            self.1.read(true, [ENGINE].into_iter(), &mut reading);
            reading
        }
    }

    #[test]
    fn every_counter_has_its_place() {
        let reading = Setting::busy().read();
        assert_eq!(
            reading,
            Telemetry {
                gpu_memory_bytes: Some(8 << 30),
                gpu_memory_used_bytes: Some(9 << 30),
                gpu_processes: Some(1),
                gpu_processes_own: Some(1),
                gpu_utilization_percent: Some(97.0),
                gpu_memory_utilization_percent: Some(61.0),
                gpu_power_mw: Some(412_000),
                gpu_energy_mj: Some(1_000_000),
                gpu_sm_clock_mhz: Some(1980),
                gpu_memory_clock_mhz: Some(3201),
                gpu_temperature_celsius: Some(58),
                gpu_throttle_reasons: Some(0),
                gpu_ecc_corrected: Some(0),
                gpu_ecc_uncorrected: Some(0),
                gpu_sm_active_percent: Some(88.5),
                gpu_sm_occupancy_percent: Some(40.25),
                gpu_tensor_active_percent: Some(33.0),
                gpu_dram_bandwidth_percent: Some(71.5),
                ..Telemetry::default()
            }
        );
    }

    #[test]
    fn without_a_device_all_is_absent() {
        let mut reading = Telemetry::default();
        GpuCounters::new(None).read(true, [ENGINE].into_iter(), &mut reading);
        assert_eq!(reading, Telemetry::default());
    }

    #[test]
    fn a_counter_it_lacks_is_absent_and_asked_once() {
        let mut setting = Setting::busy();
        setting.0.refuse("activity", Refusal::Unsupported);
        setting.0.refuse("energy", Refusal::Unsupported);
        for _ in 0..7 {
            let reading = setting.read();
            assert_eq!(reading.gpu_energy_mj, None);
            assert_eq!(reading.gpu_tensor_active_percent, None);
            assert_eq!(reading.gpu_power_mw, Some(412_000));
            assert_eq!(reading.gpu_error, None, "to lack a counter is no error");
        }
        assert_eq!(setting.0.asked("energy"), 1);
        assert_eq!(setting.0.asked("activity"), 1);
        assert_eq!(setting.0.asked("power"), 7);
    }

    #[test]
    fn a_mute_device_gives_nothing() {
        let mut setting = Setting::busy();
        setting.0.refuse_all(&Refusal::Unsupported);
        assert_eq!(setting.read(), Telemetry::default());
    }

    #[test]
    fn a_question_that_fails_once_is_asked_again_and_the_reading_says_why() {
        let mut setting = Setting::busy();
        setting
            .0
            .refuse("power", Refusal::Failed("timed out".into()));
        let reading = setting.read();
        assert_eq!(reading.gpu_power_mw, None);
        let error = reading.gpu_error.unwrap();
        assert_eq!(error, "power could not be read: timed out");
        assert_eq!(reading.gpu_sm_clock_mhz, Some(1980), "the others go on");
        setting.0.change(|s| {
            s.refused.clear();
            s.values.gpu_power_mw = Some(5);
        });
        let reading = setting.read();
        assert_eq!((reading.gpu_power_mw, reading.gpu_error), (Some(5), None));
    }

    #[test]
    fn a_lost_device_is_not_asked_again_and_every_reading_says_so() {
        let mut setting = Setting::busy();
        setting.read();
        setting.0.refuse_all(&Refusal::Lost("GPU is lost".into()));
        let lost = Telemetry {
            gpu_lost: Some("the GPU was lost: GPU is lost".into()),
            ..Telemetry::default()
        };
        assert_eq!(setting.read(), lost);
        assert_eq!(setting.1.lost(), Some("the GPU was lost: GPU is lost"));
        let asked = setting.0.asked("power");
        assert_eq!(setting.read(), lost);
        assert_eq!(setting.0.asked("power"), asked);
    }

    #[test]
    fn a_device_lost_in_the_middle_of_a_reading_keeps_what_it_answered() {
        let mut setting = Setting::busy();
        setting
            .0
            .refuse("SM clock", Refusal::Lost("reset required".into()));
        let reading = setting.read();
        assert_eq!(reading.gpu_power_mw, Some(412_000));
        assert_eq!(reading.gpu_processes, None);
        assert!(reading.gpu_lost.unwrap().contains("reset required"));
    }

    #[test]
    fn throttling_and_memory_errors_are_kept_as_they_are() {
        let mut setting = Setting::busy();
        setting.0.change(|s| {
            s.values.gpu_throttle_reasons = Some(0x8000_0000_0000_0068);
            s.values.gpu_ecc_corrected = None;
            s.values.gpu_ecc_uncorrected = Some(2);
        });
        let reading = setting.read();
        assert_eq!(reading.gpu_throttle_reasons, Some(0x8000_0000_0000_0068));
        assert_eq!(reading.gpu_ecc_corrected, None);
        assert_eq!(reading.gpu_ecc_uncorrected, Some(2));
    }

    #[test]
    fn the_engines_memory_is_that_of_its_own_processes() {
        let process = |pid, memory_bytes| GpuProcess { pid, memory_bytes };
        let mut setting = Setting::busy();
        let mut processes = |list: Vec<GpuProcess>| {
            setting.0.change(|s| s.processes = list);
            let reading = setting.read();
            (
                reading.gpu_processes.unwrap(),
                reading.gpu_processes_own.unwrap(),
                reading.gpu_memory_bytes,
            )
        };
        let other = process(1, Some(1000));
        assert_eq!(
            processes(vec![process(ENGINE, Some(7)), other]),
            (2, 1, Some(7))
        );
        assert_eq!(processes(vec![other]), (1, 0, None));
        assert_eq!(processes(vec![]), (0, 0, None));
        assert_eq!(processes(vec![process(ENGINE, None)]), (1, 1, None));
    }

    #[test]
    fn what_changes_slowly_is_asked_less_often() {
        let mut setting = Setting::busy();
        let mut reading = Telemetry::default();
        setting.1.read(false, [ENGINE].into_iter(), &mut reading);
        assert_eq!(reading.gpu_power_mw, Some(412_000));
        assert_eq!(reading.gpu_processes, None);
        assert_eq!(setting.0.asked("processes"), 0);
    }
}
