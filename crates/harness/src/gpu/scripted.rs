//! A scripted device for tests: a test sets the answer to each question and can change it at any
//! time. Its values are not those of a real device.

use super::{Answer, Counter, Device, GpuProcess, Refusal};
use schema::record::Telemetry;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The answers that the device gives now.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The values of all counters.
    pub values: Telemetry,
    /// The compute processes on the device.
    pub processes: Vec<GpuProcess>,
    /// The questions that are refused, by name.
    pub refused: BTreeMap<&'static str, Refusal>,
    /// How often each question was asked.
    pub asked: BTreeMap<&'static str, u32>,
    /// Whether every question blocks for ever.
    pub hangs: bool,
}

/// A handle on a scripted device; its clones share one script.
#[derive(Clone)]
pub struct ScriptedDevice(Arc<Mutex<Script>>);

impl ScriptedDevice {
    /// A device that answers every question, with the process `pid` at work on it.
    pub fn busy(pid: u32) -> Self {
        let script = Script {
            values: Telemetry {
                gpu_utilization_percent: Some(97.0),
                gpu_memory_utilization_percent: Some(61.0),
                gpu_memory_used_bytes: Some(9 << 30),
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
            },
            processes: vec![GpuProcess {
                pid,
                memory_bytes: Some(8 << 30),
            }],
            ..Script::default()
        };
        Self(Arc::new(Mutex::new(script)))
    }

    /// Change the answers from now on.
    pub fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().expect("no test panics while it holds it"));
    }

    /// From now on refuse a question.
    pub fn refuse(&self, question: &'static str, refusal: Refusal) {
        self.change(|script| {
            script.refused.insert(question, refusal);
        });
    }

    /// From now on refuse every question.
    pub fn refuse_all(&self, refusal: &Refusal) {
        let counters = Counter::ALL.map(Counter::name);
        for question in counters.into_iter().chain(["processes"]) {
            self.refuse(question, refusal.clone());
        }
    }

    /// How often a question was asked.
    pub fn asked(&self, question: &str) -> u32 {
        let script = self.0.lock().expect("no test panics while it holds it");
        script.asked.get(question).copied().unwrap_or(0)
    }

    fn answer<T>(&self, question: &'static str, of: impl FnOnce(&Script) -> T) -> Answer<T> {
        let (answer, hangs) = {
            let mut script = self.0.lock().expect("no test panics while it holds it");
            *script.asked.entry(question).or_default() += 1;
            let answer = match script.refused.get(question) {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(of(&script)),
            };
            (answer, script.hangs)
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
    fn read(&mut self, counter: Counter, reading: &mut Telemetry) -> Answer<()> {
        self.answer(counter.name(), |script| {
            copy(counter, &script.values, reading);
        })
    }

    fn processes(&self) -> Answer<Vec<GpuProcess>> {
        self.answer("processes", |script| script.processes.clone())
    }
}

fn copy(counter: Counter, from: &Telemetry, to: &mut Telemetry) {
    match counter {
        Counter::Power => to.gpu_power_mw = from.gpu_power_mw,
        Counter::Energy => to.gpu_energy_mj = from.gpu_energy_mj,
        Counter::Utilization => {
            to.gpu_utilization_percent = from.gpu_utilization_percent;
            to.gpu_memory_utilization_percent = from.gpu_memory_utilization_percent;
        }
        Counter::MemoryUsed => to.gpu_memory_used_bytes = from.gpu_memory_used_bytes,
        Counter::SmClock => to.gpu_sm_clock_mhz = from.gpu_sm_clock_mhz,
        Counter::ThrottleReasons => to.gpu_throttle_reasons = from.gpu_throttle_reasons,
        Counter::Activity => {
            to.gpu_sm_active_percent = from.gpu_sm_active_percent;
            to.gpu_sm_occupancy_percent = from.gpu_sm_occupancy_percent;
            to.gpu_tensor_active_percent = from.gpu_tensor_active_percent;
            to.gpu_dram_bandwidth_percent = from.gpu_dram_bandwidth_percent;
        }
        Counter::MemoryClock => to.gpu_memory_clock_mhz = from.gpu_memory_clock_mhz,
        Counter::Temperature => to.gpu_temperature_celsius = from.gpu_temperature_celsius,
        Counter::EccErrors => {
            to.gpu_ecc_corrected = from.gpu_ecc_corrected;
            to.gpu_ecc_uncorrected = from.gpu_ecc_uncorrected;
        }
    }
}
