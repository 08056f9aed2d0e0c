//! A scripted device for tests: a test sets the answer to each question and can change it at any
//! time. Its values are not those of a real device.

use super::{
    Activity, Answer, Device, Driver, EccErrors, GpuProcess, Identity, Refusal, Utilization,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The answers that the device gives now.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // Each is the answer to the method of [`Device`] of that name.
pub struct Script {
    pub utilization: Answer<Utilization>,
    pub memory_used_bytes: Answer<u64>,
    pub processes: Answer<Vec<GpuProcess>>,
    pub power_mw: Answer<u64>,
    pub energy_mj: Answer<u64>,
    pub sm_clock_mhz: Answer<u32>,
    pub memory_clock_mhz: Answer<u32>,
    pub temperature_celsius: Answer<u32>,
    pub throttle_reasons: Answer<u64>,
    pub ecc_errors: Answer<EccErrors>,
    pub activity: Answer<Option<Activity>>,
    /// How often each question was asked.
    pub asked: BTreeMap<&'static str, u32>,
    /// Whether every question blocks for ever.
    pub hangs: bool,
}

/// A handle on a scripted device; its clones share one script.
#[derive(Clone)]
pub struct ScriptedDevice(Arc<Mutex<Script>>);

impl ScriptedDevice {
    /// A device that refuses every question as unsupported.
    pub fn mute() -> Self {
        Self(Arc::new(Mutex::new(Script {
            utilization: Err(Refusal::Unsupported),
            memory_used_bytes: Err(Refusal::Unsupported),
            processes: Err(Refusal::Unsupported),
            power_mw: Err(Refusal::Unsupported),
            energy_mj: Err(Refusal::Unsupported),
            sm_clock_mhz: Err(Refusal::Unsupported),
            memory_clock_mhz: Err(Refusal::Unsupported),
            temperature_celsius: Err(Refusal::Unsupported),
            throttle_reasons: Err(Refusal::Unsupported),
            ecc_errors: Err(Refusal::Unsupported),
            activity: Err(Refusal::Unsupported),
            asked: BTreeMap::new(),
            hangs: false,
        })))
    }

    /// A device that answers every question, with the process `pid` at work on it.
    pub fn busy(pid: u32) -> Self {
        let device = Self::mute();
        device.change(|script| {
            script.utilization = Ok(Utilization {
                gpu_percent: 97.0,
                memory_percent: 61.0,
            });
            script.memory_used_bytes = Ok(9 << 30);
            script.processes = Ok(vec![GpuProcess {
                pid,
                memory_bytes: Some(8 << 30),
            }]);
            script.power_mw = Ok(412_000);
            script.energy_mj = Ok(1_000_000);
            script.sm_clock_mhz = Ok(1980);
            script.memory_clock_mhz = Ok(3201);
            script.temperature_celsius = Ok(58);
            script.throttle_reasons = Ok(0);
            script.ecc_errors = Ok(EccErrors {
                corrected: Some(0),
                uncorrected: Some(0),
            });
            script.activity = Ok(Some(Activity {
                sm_active_percent: Some(88.5),
                sm_occupancy_percent: Some(40.25),
                tensor_active_percent: Some(33.0),
                dram_bandwidth_percent: Some(71.5),
            }));
        });
        device
    }

    /// Change the answers from now on.
    pub fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().expect("no test panics while it holds it"));
    }

    /// From now on answer every question with `refusal`.
    pub fn refuse(&self, refusal: &Refusal) {
        self.change(|script| {
            script.utilization = Err(refusal.clone());
            script.memory_used_bytes = Err(refusal.clone());
            script.processes = Err(refusal.clone());
            script.power_mw = Err(refusal.clone());
            script.energy_mj = Err(refusal.clone());
            script.sm_clock_mhz = Err(refusal.clone());
            script.memory_clock_mhz = Err(refusal.clone());
            script.temperature_celsius = Err(refusal.clone());
            script.throttle_reasons = Err(refusal.clone());
            script.ecc_errors = Err(refusal.clone());
            script.activity = Err(refusal.clone());
        });
    }

    /// How often a question was asked.
    pub fn asked(&self, question: &str) -> u32 {
        let script = self.0.lock().expect("no test panics while it holds it");
        script.asked.get(question).copied().unwrap_or(0)
    }

    fn answer<T>(&self, question: &'static str, of: impl FnOnce(&Script) -> T) -> T {
        let (answer, hangs) = {
            let mut script = self.0.lock().expect("no test panics while it holds it");
            *script.asked.entry(question).or_default() += 1;
            (of(&script), script.hangs)
        };
        if hangs {
            loop {
                std::thread::park();
            }
        }
        answer
    }
}

impl Device for ScriptedDevice {
    fn identity(&self) -> Identity {
        Identity {
            name: Some("Scripted GPU".into()),
            compute_capability: Some("9.0".into()),
            memory_bytes: Some(16 << 30),
            ..Identity::default()
        }
    }

    fn utilization(&self) -> Answer<Utilization> {
        self.answer("utilization", |s| s.utilization.clone())
    }

    fn memory_used_bytes(&self) -> Answer<u64> {
        self.answer("memory_used_bytes", |s| s.memory_used_bytes.clone())
    }

    fn processes(&self) -> Answer<Vec<GpuProcess>> {
        self.answer("processes", |s| s.processes.clone())
    }

    fn power_mw(&self) -> Answer<u64> {
        self.answer("power_mw", |s| s.power_mw.clone())
    }

    fn energy_mj(&self) -> Answer<u64> {
        self.answer("energy_mj", |s| s.energy_mj.clone())
    }

    fn sm_clock_mhz(&self) -> Answer<u32> {
        self.answer("sm_clock_mhz", |s| s.sm_clock_mhz.clone())
    }

    fn memory_clock_mhz(&self) -> Answer<u32> {
        self.answer("memory_clock_mhz", |s| s.memory_clock_mhz.clone())
    }

    fn temperature_celsius(&self) -> Answer<u32> {
        self.answer("temperature_celsius", |s| s.temperature_celsius.clone())
    }

    fn throttle_reasons(&self) -> Answer<u64> {
        self.answer("throttle_reasons", |s| s.throttle_reasons.clone())
    }

    fn ecc_errors(&self) -> Answer<EccErrors> {
        self.answer("ecc_errors", |s| s.ecc_errors.clone())
    }

    fn activity(&mut self) -> Answer<Option<Activity>> {
        self.answer("activity", |s| s.activity.clone())
    }
}

/// A driver that has these devices.
pub struct ScriptedDriver(pub Vec<ScriptedDevice>);

impl Driver for ScriptedDriver {
    fn version(&self) -> Option<String> {
        Some("000.00".into())
    }

    fn cuda(&self) -> Option<String> {
        Some("13.0".into())
    }

    fn device_count(&self) -> u32 {
        self.0.len() as u32
    }

    fn device(&self, index: u32) -> Answer<Box<dyn Device>> {
        match self.0.get(index as usize) {
            Some(device) => Ok(Box::new(device.clone())),
            None => Err(Refusal::Failed("no such device".into())),
        }
    }
}
