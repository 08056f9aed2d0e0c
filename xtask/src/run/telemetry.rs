//! Counters of the engine's process tree, read at a fixed rate on a thread of
//! its own. What can't be read is absent. Readings are kept in memory and handed
//! over between cases: nothing is written while something is timed.

use protocol::clock::now_ns;
use schema::record::Telemetry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two readings.
const PERIOD: Duration = Duration::from_millis(50);

/// A running sampler; stops when dropped.
pub struct Sampler {
    readings: Arc<Mutex<Vec<Telemetry>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sampler {
    /// Start reading the counters of `pid` and its descendants.
    pub fn start(pid: u32) -> Self {
        let readings = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&readings), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let reading = read(pid);
                shared
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .push(reading);
                std::thread::park_timeout(PERIOD);
            }
        });
        Self {
            readings,
            stop,
            thread: Some(thread),
        }
    }

    /// Take what was read since the last call, as readings of `case`.
    pub fn take(&self, case: &str) -> Vec<Telemetry> {
        let mut readings =
            std::mem::take(&mut *self.readings.lock().unwrap_or_else(|p| p.into_inner()));
        for reading in &mut readings {
            reading.case = case.to_owned();
        }
        readings
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn read(pid: u32) -> Telemetry {
    let mut reading = Telemetry {
        t_ns: now_ns(),
        ..Telemetry::default()
    };
    for pid in tree(pid) {
        if let Some(bytes) = status_bytes(pid, "VmRSS:") {
            *reading.rss_bytes.get_or_insert(0) += bytes;
        }
        if let Some(ns) = cpu_ns(pid) {
            *reading.cpu_ns.get_or_insert(0) += ns;
        }
    }
    reading
}

/// Peak resident set of a process so far, bytes (`VmHWM`).
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// The process and its descendants, by the kernel's own list of children.
fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() && all.len() < 1000 {
        let pid = all[next];
        next += 1;
        let path = format!("/proc/{pid}/task/{pid}/children");
        if let Ok(children) = std::fs::read_to_string(path) {
            all.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    all
}

fn status_bytes(pid: u32, key: &str) -> Option<u64> {
    parse_status_bytes(
        &std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?,
        key,
    )
}

fn parse_status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn cpu_ns(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // SAFETY: sysconf takes no pointer.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    parse_cpu_ticks(&stat).map(|ticks| ticks * 1_000_000_000 / ticks_per_s.max(1) as u64)
}

/// `utime + stime` of /proc/<pid>/stat. The command's name may hold anything, so
/// fields count from the last closing parenthesis (proc(5)).
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let utime: u64 = fields.get(11)?.parse().ok()?;
    let stime: u64 = fields.get(12)?.parse().ok()?;
    Some(utime + stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields_are_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t  123456 kB\nVmRSS:\t   1000 kB\n";
        assert_eq!(parse_status_bytes(status, "VmRSS:"), Some(1_024_000));
        assert_eq!(parse_status_bytes(status, "VmHWM:"), Some(123_456 * 1024));
        assert_eq!(parse_status_bytes("Name:\tzombie\n", "VmRSS:"), None);
    }

    #[test]
    fn a_command_named_like_a_field_does_not_shift_the_others() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 3 0 100 1 1";
        assert_eq!(parse_cpu_ticks(stat), Some(100));
        assert_eq!(parse_cpu_ticks("garbage"), None);
    }

    #[test]
    fn our_own_process_can_be_read() {
        let reading = read(std::process::id());
        assert!(reading.rss_bytes.is_some_and(|bytes| bytes > 0));
        assert!(reading.cpu_ns.is_some());
    }
}
