//! Reads what the CPUs that the engine may use are doing, for the engine or for other processes:
//! from /proc/stat, cpufreq and the counters of thermal throttling.
//!
//! The CPU time of other programs is not computed here: it is the difference between the host, the
//! engine and the harness, and `stats` takes it.

use super::number;
use super::process::ticks_per_s;
use schema::record::Telemetry;
use std::path::{Path, PathBuf};

/// With more CPUs than this, /proc/stat is so long that it is read less often.
const CPUS_QUICK_MAX: usize = 16;
/// The number of CPUs whose clock is read: reading a CPU's clock may wake it.
const CLOCKS_MAX: usize = 16;

/// The CPUs of this process, and so of the engines that it starts.
pub(super) struct Host {
    proc_stat: PathBuf,
    /// The CPUs' names in /proc/stat, such as `cpu7`.
    names: Vec<String>,
    clocks: Vec<PathBuf>,
    throttles: Vec<PathBuf>,
}

impl Host {
    /// The CPUs that this process may run on.
    pub(super) fn here() -> Self {
        Self::open(
            Path::new("/proc/stat"),
            Path::new("/sys/devices/system/cpu"),
            &cpus_allowed(),
        )
    }

    fn open(proc_stat: &Path, sys: &Path, cpus: &[usize]) -> Self {
        let readable = |path: &PathBuf| number::<u64>(path).is_some();
        let of_cpus = |names: &[&str]| -> Vec<PathBuf> {
            cpus.iter()
                .flat_map(|cpu| names.iter().map(move |name| format!("cpu{cpu}/{name}")))
                .map(|path| sys.join(path))
                .filter(readable)
                .collect()
        };
        let mut clocks = of_cpus(&["cpufreq/scaling_cur_freq"]);
        clocks.truncate(CLOCKS_MAX);
        Self {
            proc_stat: proc_stat.to_owned(),
            names: cpus.iter().map(|cpu| format!("cpu{cpu}")).collect(),
            clocks,
            throttles: of_cpus(&[
                "thermal_throttle/core_throttle_count",
                "thermal_throttle/package_throttle_count",
            ]),
        }
    }

    /// Read the counters into `reading`; a reading that isn't thorough has only the quick ones.
    pub(super) fn read(&self, thorough: bool, reading: &mut Telemetry) {
        if thorough || self.names.len() <= CPUS_QUICK_MAX {
            let text = std::fs::read_to_string(&self.proc_stat).unwrap_or_default();
            if let Some(ticks) = parse_cpu_ticks(&text, &self.names) {
                let ns = ticks.map(|ticks| Some(ticks * (1_000_000_000 / ticks_per_s())));
                [
                    reading.host_busy_ns,
                    reading.host_idle_ns,
                    reading.host_steal_ns,
                ] = ns;
            }
        }
        if thorough {
            let khz = self.clocks.iter().filter_map(number::<u64>).max();
            reading.cpu_clock_mhz = khz.map(|khz| (khz / 1000) as u32);
            // If one count is missing the sum is absent, because a sum of the others would go down.
            let counts = self.throttles.iter().map(number::<u64>);
            let count = counts.sum::<Option<u64>>();
            reading.cpu_throttle_count = count.filter(|_| !self.throttles.is_empty());
        }
    }
}

/// Sum the ticks in which the named CPUs were busy, idle and stolen; `None` unless all of them are
/// there. The columns are those of proc(5): user, nice, system, idle, iowait, irq, softirq, steal;
/// guests' time is included in user.
fn parse_cpu_ticks(text: &str, names: &[String]) -> Option<[u64; 3]> {
    let [mut busy, mut idled, mut stolen] = [0; 3];
    let mut found = 0;
    for line in text.lines().take_while(|line| line.starts_with("cpu")) {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        if !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            return None;
        };
        busy += user + nice + system + irq + softirq;
        idled += idle + iowait;
        stolen += steal;
        found += 1;
    }
    (found == names.len() && found > 0).then_some([busy, idled, stolen])
}

/// Numbers of the CPUs that this process may run on; empty where they aren't known.
pub fn cpus_allowed() -> Vec<usize> {
    // SAFETY: a cpu_set_t is plain bits, all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and has the size that is passed; 0 is this thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0;
    if failed {
        return Vec::new(); // more CPUs than the set has room for
    }
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is less than the set's size.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9999 0 0 0 0 0 0 0 0 0\n\
        cpu0 100 20 30 700 5 1 2 9 50 0\n\
        cpu1 1 1 1 1 1 1 1 1 0 0\n\
        cpu10 10 0 0 40 0 0 0 0 0 0\n\
        intr 1 2 3\n";

    fn names(cpus: &[&str]) -> Vec<String> {
        cpus.iter().map(|&cpu| cpu.to_owned()).collect()
    }

    #[test]
    fn only_our_cpus_count_and_guests_count_once() {
        let ticks = |text, cpus: &[&str]| parse_cpu_ticks(text, &names(cpus));
        let expected = [153 + 10, 705 + 40, 9];
        assert_eq!(ticks(STAT, &["cpu0", "cpu10"]), Some(expected));
        assert_eq!(ticks(STAT, &["cpu0", "cpu2"]), None);
        assert_eq!(ticks(STAT, &[]), None);
        assert_eq!(ticks("", &["cpu0"]), None);
    }

    #[test]
    fn clocks_and_throttling_are_read_where_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let read = |thorough| {
            let host = Host::open(&dir.path().join("stat"), dir.path(), &[0, 1]);
            let mut reading = Telemetry::default();
            host.read(thorough, &mut reading);
            reading
        };
        assert_eq!(read(true), Telemetry::default(), "nothing is there");
        write("stat", STAT);
        write("cpu0/cpufreq/scaling_cur_freq", "2400000\n");
        write("cpu1/cpufreq/scaling_cur_freq", "3100000\n");
        write("cpu2/cpufreq/scaling_cur_freq", "9900000\n");
        write("cpu0/thermal_throttle/core_throttle_count", "3\n");
        write("cpu0/thermal_throttle/package_throttle_count", "4\n");
        let reading = read(true);
        assert_eq!(reading.cpu_clock_mhz, Some(3100));
        assert_eq!(reading.cpu_throttle_count, Some(7));
        assert!(reading.host_busy_ns > Some(0));
        let quick = read(false);
        assert_eq!(quick.cpu_clock_mhz, None);
        assert_eq!(quick.host_busy_ns, reading.host_busy_ns);
    }

    #[test]
    fn this_machine_tells_of_its_cpus() {
        let mut reading = Telemetry::default();
        Host::here().read(true, &mut reading);
        assert!(reading.host_busy_ns > Some(0));
    }
}
