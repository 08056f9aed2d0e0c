//! Reads one process, from `/proc/<pid>/stat` (proc(5)) and its CPU-time clock; `tree` adds the
//! processes that it started.

use base::cpu_time;

/// The fields of `/proc/<pid>/stat` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: u32,
    /// When it started, in clock ticks after boot. Ids are reused, so a process is identified by
    /// its id and its start.
    pub(super) started_ticks: u64,
    pub(super) threads: u32,
    pub(super) rss_bytes: u64,
    /// CPU time and page faults of the process itself.
    pub(super) own: Usage,
    /// CPU time and page faults of its descendants that have ended and were waited for.
    pub(super) waited: Usage,
}

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// User and system CPU time.
    pub(super) cpu_ns: u64,
    /// Page faults that needed no disk.
    pub(super) minor_faults: u64,
    /// Page faults that needed the disk.
    pub(super) major_faults: u64,
}

impl Usage {
    /// The sum of both, counter by counter.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
        }
    }

    /// The larger value of each counter.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.max(other.cpu_ns),
            minor_faults: self.minor_faults.max(other.minor_faults),
            major_faults: self.major_faults.max(other.major_faults),
        }
    }
}

/// Read a process; `None` where it is gone.
pub(super) fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut stat = parse_stat(&text)?;
    // Ticks are 10 ms; the clock counts ns. Where the clock can't be read, ticks are used.
    if let Some(ns) = cpu_clock_ns(pid) {
        stat.own.cpu_ns = stat.own.cpu_ns.max(ns);
    }
    Some(stat)
}

/// CPU time of all threads of a process, by clock_getcpuclockid(3).
fn cpu_clock_ns(pid: u32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is writable; an unknown process is an error.
    let failed = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) } != 0;
    if failed {
        return None;
    }
    cpu_time::of_clock(clock)
}

/// Parse `/proc/<pid>/stat`. The command's name may contain anything, so fields count from the last
/// closing parenthesis; the state, field 3 of proc(5), is the first after it.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let cpu_ns = |user: usize, system: usize| {
        Some((field(user)? + field(system)?) * (1_000_000_000 / ticks_per_s()))
    };
    Some(Stat {
        parent: field(4)? as u32,
        started_ticks: field(22)?,
        threads: field(20)? as u32,
        rss_bytes: field(24)? * page_bytes(),
        own: Usage {
            cpu_ns: cpu_ns(14, 15)?,
            minor_faults: field(10)?,
            major_faults: field(12)?,
        },
        waited: Usage {
            cpu_ns: cpu_ns(16, 17)?,
            minor_faults: field(11)?,
            major_faults: field(13)?,
        },
    })
}

/// Peak resident set of a process so far, bytes (`VmHWM`).
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse_status_bytes(&status, "VmHWM:")
}

/// Restart the peak of [`peak_rss_bytes`] at what is resident now; returns whether that was
/// allowed. (`proc_pid_clear_refs(5)`: 5 resets the peak.)
pub fn reset_peak_rss(pid: u32) -> bool {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok()
}

fn parse_status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Number of clock ticks in a second, as /proc counts them.
pub(super) fn ticks_per_s() -> u64 {
    // SAFETY: sysconf takes no pointer.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf takes no pointer.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields_are_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t  123456 kB\nVmRSS:\t   1000 kB\n";
        assert_eq!(parse_status_bytes(status, "VmHWM:"), Some(123_456 * 1024));
        assert_eq!(parse_status_bytes("Name:\tzombie\n", "VmHWM:"), None);
    }

    #[test]
    fn a_command_named_like_a_field_does_not_shift_the_others() {
        let stat =
            "42 (a) b (c)) S 7 42 42 0 -1 4194304 100 9 5 1 70 30 6 2 20 0 3 0 4711 900 11 18";
        let stat = parse_stat(stat).unwrap();
        let tick_ns = 1_000_000_000 / ticks_per_s();
        assert_eq!(
            (stat.parent, stat.threads, stat.started_ticks),
            (7, 3, 4711)
        );
        assert_eq!(stat.rss_bytes, 11 * page_bytes());
        let usage = |ticks, minor_faults, major_faults| Usage {
            cpu_ns: ticks * tick_ns,
            minor_faults,
            major_faults,
        };
        assert_eq!(stat.own, usage(100, 100, 5));
        assert_eq!(stat.waited, usage(8, 9, 1));
        assert_eq!(parse_stat("garbage"), None);
    }

    #[test]
    fn a_peak_that_is_over_can_be_forgotten() {
        const BYTES: usize = 128 << 20;
        let pid = std::process::id();
        let mut held = vec![1_u8; BYTES];
        std::hint::black_box(&mut held);
        drop(held);
        let before = peak_rss_bytes(pid).unwrap();
        // Where the kernel can't reset the peak, there is no number rather than a wrong one.
        if reset_peak_rss(pid) {
            let after = peak_rss_bytes(pid).unwrap();
            assert!(after + BYTES as u64 / 2 < before, "{after} of {before}");
        }
        assert!(!reset_peak_rss(u32::MAX));
    }

    #[test]
    fn our_own_process_can_be_read() {
        let stat = stat(std::process::id()).unwrap();
        assert!(stat.rss_bytes > 0 && stat.threads > 0);
        assert!(stat.own.cpu_ns > 0);
    }
}
