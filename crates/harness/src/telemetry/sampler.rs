//! Takes the readings on a thread of its own, and hands them to the harness.
//!
//! Readings are due at fixed times, not a fixed time after one another, so the rate does not depend
//! on how long a reading takes. A late reading is not made up for; its time is in the record.

use super::gpu::GpuCounters;
use super::host::Host;
use super::rapl::{POWERCAP, Rapl};
use super::tree::Tree;
use crate::gpu::Device;
use base::cpu_time;
use protocol::clock::now_ns;
use schema::record::Telemetry;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use watch::event::{Event, Reading};

/// Time between two readings: 25 a second, so that there are 20 even where one in
/// five comes late.
const PERIOD: Duration = Duration::from_millis(40);
/// Counters that change slowly, or take long to read, are read once in this many readings (2.5
/// times a second), and in the first reading of a case.
const THOROUGH_EVERY: u32 = 10;
/// How long to wait for the thread: a driver that hangs must not make the harness hang.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often to check whether the thread has read.
const LOOK: Duration = Duration::from_micros(50);

/// A running sampler, which stops when it is dropped.
pub struct Sampler {
    shared: Arc<Mutex<Shared>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    case: String,
    /// The turn of the case, where targets take turns.
    turn: Option<u32>,
    readings: Vec<Telemetry>,
    thorough_next: bool,
    /// The number of immediate readings that were requested; `taken` is how many of them are done.
    wanted: u64,
    taken: u64,
    /// Whether only readings that are requested are taken.
    resting: bool,
    gpu_lost: Option<String>,
    stop: bool,
}

impl Sampler {
    /// Start a thread that reads the counters of `pid` and its descendants, of the host, and of
    /// `device`, if there is one, as soon as a case begins.
    pub fn start(pid: u32, device: Option<Box<dyn Device>>) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            resting: true,
            ..Shared::default()
        }));
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || sample(Counters::new(pid, device), &of_thread));
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Begin `case`: readings since the last case are discarded, later ones belong to this one.
    /// Returns when the first is there.
    pub fn begin(&self, case: &str) {
        self.begin_case(case, false);
        // A case begins with a reading, however short it is.
        self.now();
    }

    /// Begin `case`, of which readings are taken as soon as its first turn begins.
    pub fn begin_turns(&self, case: &str) {
        self.begin_case(case, true);
    }

    /// Begin a turn with a reading.
    pub fn begin_turn(&self, turn: u32) {
        lock(&self.shared).turn = Some(turn);
        self.end_of_turn(false);
    }

    /// End the turn with a reading; none is taken until the next turn.
    pub fn end_turn(&self) {
        self.end_of_turn(true);
    }

    /// Take the reading at the begin or the end of a turn. Both are thorough, so that no counter is
    /// missing at one of them.
    fn end_of_turn(&self, resting: bool) {
        {
            let mut shared = lock(&self.shared);
            shared.resting = resting;
            shared.thorough_next = true;
        }
        self.now();
    }

    fn begin_case(&self, case: &str, resting: bool) {
        let mut shared = lock(&self.shared);
        shared.case = case.to_owned();
        shared.turn = None;
        shared.readings.clear();
        shared.thorough_next = true;
        shared.resting = resting;
    }

    /// Request a reading at once, and wait for it.
    fn now(&self) {
        let wanted = {
            let mut shared = lock(&self.shared);
            shared.wanted += 1;
            shared.wanted
        };
        self.wake();
        let deadline = Instant::now() + PATIENCE;
        while lock(&self.shared).taken < wanted && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }

    /// Take the readings of the case so far.
    pub fn take(&self) -> Vec<Telemetry> {
        std::mem::take(&mut lock(&self.shared).readings)
    }

    /// Why the GPU can't be read any more; `None` where it can, or there is none.
    pub fn gpu_lost(&self) -> Option<String> {
        lock(&self.shared).gpu_lost.clone()
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        lock(&self.shared).stop = true;
        self.wake();
        let Some(thread) = self.thread.take() else {
            return;
        };
        let deadline = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A thread that hangs in the driver is left behind: it holds only its own data.
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(mut counters: Counters, shared: &Mutex<Shared>) {
    let mut due = Instant::now();
    loop {
        wait(due, shared);
        let began = Instant::now();
        let (case, turn, wanted, thorough) = {
            let mut shared = lock(shared);
            if shared.stop {
                return;
            }
            if shared.wanted > shared.taken {
                due = began; // the next one is due a whole period later
            }
            let thorough = std::mem::take(&mut shared.thorough_next);
            (shared.case.clone(), shared.turn, shared.wanted, thorough)
        };
        // The lock is not held while we read: the harness never waits for a driver.
        let reading = Telemetry {
            case,
            turn,
            ..counters.read(thorough)
        };
        {
            let mut shared = lock(shared);
            shared.gpu_lost = counters.gpu.lost().map(str::to_owned);
            shared.taken = wanted;
            if shared.case == reading.case {
                shared.readings.push(reading);
            }
        }
        due = (due.min(began) + PERIOD).max(Instant::now());
    }
}

/// Wait until a reading is due or requested, or the sampler must stop.
fn wait(due: Instant, shared: &Mutex<Shared>) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let resting = {
            let shared = lock(shared);
            if shared.stop || shared.wanted > shared.taken {
                return;
            }
            shared.resting
        };
        match (resting, left.is_zero()) {
            (true, _) => std::thread::park(),
            (false, true) => return,
            (false, false) => std::thread::park_timeout(left),
        }
    }
}

struct Counters {
    tree: Tree,
    host: Host,
    rapl: Rapl,
    gpu: GpuCounters,
    readings: u32,
}

impl Counters {
    fn new(pid: u32, device: Option<Box<dyn Device>>) -> Self {
        Self {
            tree: Tree::new(pid),
            host: Host::here(),
            rapl: Rapl::open(Path::new(POWERCAP)),
            gpu: GpuCounters::new(device),
            readings: 0,
        }
    }

    fn read(&mut self, thorough: bool) -> Telemetry {
        let thorough = thorough || self.readings.is_multiple_of(THOROUGH_EVERY);
        self.readings = self.readings.wrapping_add(1);
        let mut reading = Telemetry {
            t_ns: now_ns(),
            ..Telemetry::default()
        };
        self.tree.read(thorough, &mut reading);
        self.host.read(thorough, &mut reading);
        self.rapl.read(&mut reading);
        self.gpu.read(thorough, self.tree.pids(), &mut reading);
        reading.harness_cpu_ns = cpu_time::of_process();
        reading.sampler_cpu_ns = cpu_time::of_thread();
        reading.dashboard_cpu_ns = watch::dashboard::cpu_ns();
        if thorough {
            tell(&reading);
        }
        reading
    }
}

/// Show the reading on the display; the record is made elsewhere.
fn tell(reading: &Telemetry) {
    if !watch::is_live() {
        return;
    }
    watch::emit(Event::Reading(Reading {
        t_ns: reading.t_ns,
        cpu_ns: reading.cpu_ns,
        rss_bytes: reading.rss_bytes,
        host_busy_ns: reading.host_busy_ns,
        host_idle_ns: reading.host_idle_ns,
        package_energy_uj: reading.package_energy_uj,
        gpu_percent: reading.gpu_utilization_percent,
        gpu_memory_bytes: reading.gpu_memory_used_bytes,
        gpu_power_mw: reading.gpu_power_mw,
        gpu_celsius: reading.gpu_temperature_celsius,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Refusal;
    use crate::gpu::scripted::ScriptedDevice;

    /// Collect readings until `enough` accepts them.
    fn until(sampler: &Sampler, enough: impl Fn(&[Telemetry]) -> bool) -> Vec<Telemetry> {
        let mut all = Vec::new();
        while !enough(&all) {
            all.extend(sampler.take());
            std::thread::sleep(Duration::from_millis(1));
        }
        all
    }

    fn here(device: Option<ScriptedDevice>) -> Sampler {
        let device = device.map(|device| Box::new(device) as Box<dyn Device>);
        Sampler::start(std::process::id(), device)
    }

    #[test]
    fn readings_belong_to_the_case_they_were_taken_in() {
        let sampler = here(None);
        sampler.begin("a");
        let of_a = until(&sampler, |all| all.len() >= 2);
        sampler.begin("b");
        let of_b = until(&sampler, |all| all.len() >= 2);
        assert!(of_a.iter().all(|reading| reading.case == "a"));
        assert!(of_b.iter().all(|reading| reading.case == "b"));
        assert!(of_a.iter().chain(&of_b).is_sorted_by_key(|r| r.t_ns));
        // The first reading of a case is thorough: it has the counters that are read less often.
        assert!(of_b[0].host_busy_ns.is_some());
        assert!(of_b[0].rss_bytes > Some(0) && of_b[0].cpu_ns > Some(0));
        assert!(of_b[0].sampler_cpu_ns < of_b[0].harness_cpu_ns);
    }

    #[test]
    fn a_turn_has_a_reading_at_each_end_and_none_is_taken_between_turns() {
        let sampler = here(None);
        sampler.begin_turns("p10");
        for turn in 0..3 {
            sampler.begin_turn(turn);
            sampler.end_turn();
            let of_turn = sampler.take();
            assert!(of_turn.len() >= 2, "{of_turn:?}");
            let belongs = |r: &Telemetry| r.turn == Some(turn) && r.case == "p10";
            assert!(of_turn.iter().all(belongs), "{of_turn:?}");
            // Long enough for a reading that must not be taken.
            std::thread::sleep(2 * PERIOD);
            assert_eq!(sampler.take(), []);
        }
    }

    #[test]
    fn a_gpu_lost_in_the_middle_of_a_case_is_said_and_the_rest_goes_on() {
        let device = ScriptedDevice::busy(std::process::id());
        let sampler = here(Some(device.clone()));
        sampler.begin("p10");
        let before = until(&sampler, |all| !all.is_empty());
        assert_eq!(before[0].gpu_power_mw, Some(412_000));
        assert_eq!(sampler.gpu_lost(), None);
        device.refuse_all(&Refusal::Lost("GPU is lost".into()));
        let lost = |reading: &Telemetry| reading.gpu_lost.is_some();
        let after = until(&sampler, |all| all.iter().filter(|r| lost(r)).count() >= 2);
        let last = after.last().unwrap();
        assert_eq!(last.gpu_power_mw, None);
        assert!(last.cpu_ns.is_some(), "the CPU is read on");
        assert!(sampler.gpu_lost().unwrap().contains("GPU is lost"));
    }

    #[test]
    fn a_driver_that_hangs_does_not_hang_the_harness() {
        let device = ScriptedDevice::busy(1);
        device.change(|script| script.hangs = true);
        let sampler = here(Some(device.clone()));
        sampler.begin("p10");
        while device.asked("power") == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(sampler.take(), []);
        drop(sampler); // returns, or the test never ends
    }
}
