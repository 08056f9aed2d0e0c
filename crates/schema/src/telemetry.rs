//! Readings of counters while a case runs: one reading as the harness takes it, and many of them as
//! a record file keeps them.
//!
//! They are raw: `stats` derives energy, shares and verdicts. Counters that only grow are kept as
//! they are, so that a reading left out loses nothing but resolution.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Time after the first reading of a stretch in which a record keeps all readings (ns).
const ALL_NS: u64 = 2_000_000_000;
/// Least time between the readings that a record keeps after that (ns).
const SPARSE_NS: u64 = 400_000_000;

/// Return those readings of a launch's case that its record keeps; otherwise a request of ten
/// seconds would be 4 kB of requests and 30 kB of counters. Of each stretch (a turn, or the case
/// where there are no turns) the record keeps all readings in the first two seconds, then one in
/// 0.4 s, and the last. Counters of a processor only grow, so what is left out costs only
/// resolution; readings with a gauge (of a GPU, a clock) are all kept. Applied to its own result,
/// the function keeps everything.
pub fn kept(readings: Vec<Telemetry>) -> Vec<Telemetry> {
    let mut kept: Vec<Telemetry> = Vec::new();
    let mut began_ns = 0;
    let mut readings = readings.into_iter().peekable();
    while let Some(reading) = readings.next() {
        let is_first = kept.last().is_none_or(|last| last.turn != reading.turn);
        if is_first {
            began_ns = reading.t_ns;
        }
        let is_last = readings.peek().is_none_or(|next| next.turn != reading.turn);
        let since = |ns: u64| reading.t_ns.saturating_sub(ns);
        let is_due = kept.last().is_none_or(|last| since(last.t_ns) >= SPARSE_NS);
        if is_first || is_last || is_due || since(began_ns) < ALL_NS || reading.has_gauge() {
            kept.push(reading);
        }
    }
    kept
}

/// Declares [`Telemetry`]: every counter is optional and left out where absent.
macro_rules! telemetry {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty,)+) => {
        /// One reading of the counters. A counter that the machine doesn't have, or that wasn't
        /// read this time, is absent.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Telemetry {
            /// Case id, empty while loading.
            pub case: String,
            /// Time of the reading, `CLOCK_MONOTONIC`.
            pub t_ns: u64,
            $(
                $(#[doc = $doc])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $name: Option<$kind>,
            )+
        }

        impl Telemetry {
            /// Set a counter by its name. A name that this program doesn't know is ignored.
            fn set(&mut self, name: &str, value: Value) -> Result<(), serde_json::Error> {
                match name {
                    $(stringify!($name) => self.$name = Some(serde_json::from_value(value)?),)+
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

telemetry! {
    /// Number of the case's turn that it was taken in, from 0, where targets take turns: growth of
    /// a counter between two turns is not this target's.
    turn: u32,
    /// Resident set of the engine's process tree; pages that its processes share
    /// count once for each.
    rss_bytes: u64,
    /// User and system CPU time of the tree since its start, with that of its processes that have
    /// ended.
    cpu_ns: u64,
    /// Number of processes of the tree that are alive.
    processes: u32,
    /// Number of threads of these processes.
    threads: u32,
    /// Number of page faults of the tree since its start that needed no disk.
    minor_faults: u64,
    /// Number of page faults of the tree since its start that needed the disk.
    major_faults: u64,
    /// CPU time of the harness itself since its start.
    harness_cpu_ns: u64,
    /// CPU time of the thread that takes these readings, since its start; part of
    /// the harness's.
    sampler_cpu_ns: u64,
    /// CPU time of the thread that draws the dashboard, since its start; part of the
    /// harness's, and absent where there is none.
    dashboard_cpu_ns: u64,
    /// Time that the CPUs that the engine may use were busy with any process, since boot.
    host_busy_ns: u64,
    /// Time that those CPUs were idle, since boot.
    host_idle_ns: u64,
    /// Time that the hypervisor withheld from those CPUs while they had work, since boot.
    host_steal_ns: u64,
    /// Clock frequency of the fastest of those CPUs.
    cpu_clock_mhz: u32,
    /// Number of times that those CPUs lowered their clock because of heat, since boot.
    cpu_throttle_count: u64,
    /// Energy of all processor packages since the first reading (RAPL).
    package_energy_uj: u64,
    /// Energy of all memory since the first reading (RAPL).
    dram_energy_uj: u64,
    /// GPU memory that the engine's processes use.
    gpu_memory_bytes: u64,
    /// GPU memory in use by any process.
    gpu_memory_used_bytes: u64,
    /// Number of compute processes on the GPU.
    gpu_processes: u32,
    /// Number of them that are the engine's. Where it is 0 although there are several, the driver
    /// names processes by numbers of another namespace, as it does in containers.
    gpu_processes_own: u32,
    /// Share of the driver's last sampling period in which a kernel ran.
    gpu_utilization_percent: f64,
    /// Share of that period in which device memory was read or written.
    gpu_memory_utilization_percent: f64,
    /// Power of the board.
    gpu_power_mw: u64,
    /// Energy of the board since the driver was loaded.
    gpu_energy_mj: u64,
    /// Clock frequency of the SMs.
    gpu_sm_clock_mhz: u32,
    /// Clock frequency of the memory.
    gpu_memory_clock_mhz: u32,
    /// Temperature of the die.
    gpu_temperature_celsius: u32,
    /// Reasons for which clocks are held down: NVML's `nvmlClocksThrottleReasons` bits.
    gpu_throttle_reasons: u64,
    /// Number of memory errors that ECC corrected, since the driver was loaded.
    gpu_ecc_corrected: u64,
    /// Number of memory errors that ECC could not correct, since the driver was loaded.
    gpu_ecc_uncorrected: u64,
    /// Share of SMs that had a warp, as the mean over SMs and the time since the last such reading
    /// (GPM, Hopper and later; so are the next three).
    gpu_sm_active_percent: f64,
    /// Warps on the SMs, as a share of the most that they hold.
    gpu_sm_occupancy_percent: f64,
    /// Share of the time that the tensor cores were busy.
    gpu_tensor_active_percent: f64,
    /// Share of the memory's bandwidth that was used.
    gpu_dram_bandwidth_percent: f64,
    /// Reason why a counter of the GPU could not be read this time.
    gpu_error: String,
    /// Reason why no counter of the GPU can be read any more.
    gpu_lost: String,
}

impl Telemetry {
    /// Whether it has a value that doesn't only grow: a clock, or anything of a GPU.
    fn has_gauge(&self) -> bool {
        self.cpu_clock_mhz.is_some()
            || self.gpu_memory_used_bytes.is_some()
            || self.gpu_utilization_percent.is_some()
            || self.gpu_power_mw.is_some()
            || self.gpu_error.is_some()
            || self.gpu_lost.is_some()
    }
}

/// Readings of one case as they stand in a record: a column per counter, so that
/// each name is written once and not 25 times a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// Case id.
    pub case: String,
    /// Time of each reading, `CLOCK_MONOTONIC`.
    pub t_ns: Vec<u64>,
    /// Name of the counter, as in [`Telemetry`] → its value at each time, `null` where it was not
    /// read then. A counter that was never read has no column.
    pub columns: BTreeMap<String, Vec<Value>>,
}

impl Readings {
    /// Pack the readings of one case, in order.
    pub fn pack(case: &str, readings: &[Telemetry]) -> Self {
        let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (row, reading) in readings.iter().enumerate() {
            let Ok(Value::Object(fields)) = serde_json::to_value(reading) else {
                unreachable!("a struct of numbers and strings is a JSON object");
            };
            for (name, value) in fields {
                if name != "case" && name != "t_ns" {
                    columns
                        .entry(name)
                        .or_insert_with(|| vec![Value::Null; readings.len()])[row] = value;
                }
            }
        }
        Self {
            case: case.to_owned(),
            t_ns: readings.iter().map(|reading| reading.t_ns).collect(),
            columns,
        }
    }

    /// Return the readings; an error names the column that can't be read.
    pub fn unpack(self) -> Result<Vec<Telemetry>, String> {
        let reading = |&t_ns: &u64| Telemetry {
            case: self.case.clone(),
            t_ns,
            ..Telemetry::default()
        };
        let mut rows: Vec<Telemetry> = self.t_ns.iter().map(reading).collect();
        for (name, values) in self.columns {
            if values.len() != rows.len() {
                return Err(format!(
                    "readings: column {name:?} has {} values for {} times",
                    values.len(),
                    rows.len()
                ));
            }
            for (row, value) in rows.iter_mut().zip(values) {
                if !value.is_null() {
                    row.set(&name, value)
                        .map_err(|e| format!("readings: column {name:?}: {e}"))?;
                }
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(t_ns: u64) -> Telemetry {
        Telemetry {
            case: "p10".into(),
            t_ns,
            cpu_ns: Some(7),
            ..Telemetry::default()
        }
    }

    #[test]
    fn what_is_packed_comes_back() {
        let mut readings = vec![reading(1), reading(2), reading(3)];
        readings[1].gpu_sm_active_percent = Some(37.25);
        readings[2].cpu_ns = None;
        readings[2].gpu_lost = Some("GPU is lost".into());
        let packed = Readings::pack("p10", &readings);
        let names: Vec<_> = packed.columns.keys().map(String::as_str).collect();
        assert_eq!(names, ["cpu_ns", "gpu_lost", "gpu_sm_active_percent"]);
        let line = serde_json::to_string(&packed).unwrap();
        let again: Readings = serde_json::from_str(&line).unwrap();
        assert_eq!(again.unpack().unwrap(), readings);
    }

    #[test]
    fn of_a_long_stretch_a_record_keeps_few_and_what_is_kept_is_kept_again() {
        let at = |turn, ms: u64| Telemetry {
            turn,
            ..reading(ms * 1_000_000)
        };
        let long: Vec<_> = (0..250).map(|i| at(None, 40 * i)).collect();
        let few = kept(long.clone());
        let times: Vec<u64> = few.iter().map(|r| r.t_ns / 1_000_000).collect();
        assert_eq!(times[..50], (0..50).map(|i| 40 * i).collect::<Vec<_>>());
        // 1 960 ms is the last of the first two seconds.
        let then: Vec<u64> = (0..20).map(|i| 1_960 + 400 * i).collect();
        assert_eq!(times[49..69], then);
        assert_eq!(times[69..], [9_960]);
        assert_eq!(kept(few.clone()), few);

        let turns = [at(Some(0), 0), at(Some(0), 9_000), at(Some(1), 9_100)];
        assert_eq!(kept(turns.to_vec()), turns);

        let mut gauged = long;
        gauged[100].cpu_clock_mhz = Some(3_000);
        assert_eq!(kept(gauged.clone()).len(), few.len() + 1);
        assert!(kept(gauged.clone()).contains(&gauged[100]));
    }

    #[test]
    fn a_spoilt_column_is_named() {
        let mut packed = Readings::pack("p10", &[reading(1), reading(2)]);
        packed.columns.insert("rss_bytes".into(), vec![1.into()]);
        assert!(packed.clone().unpack().unwrap_err().contains("rss_bytes"));
        packed
            .columns
            .insert("rss_bytes".into(), vec![1.into(), "x".into()]);
        assert!(packed.unpack().unwrap_err().contains("string"));
    }

    #[test]
    fn a_counter_of_a_later_version_does_no_harm() {
        let mut packed = Readings::pack("p10", &[reading(1)]);
        packed.columns.insert("npu_mood".into(), vec![1.into()]);
        assert_eq!(packed.unpack().unwrap(), [reading(1)]);
    }
}
