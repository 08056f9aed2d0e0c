//! Whether something else was at work while an invocation was measured: other processes, heat,
//! another clock, another user of the GPU, a failing GPU.
//!
//! A disturbed invocation stays in every number. It is flagged, and so is each pair that it is part
//! of, so that a reader may doubt the machine rather than the engine. Effects that the engine
//! causes itself (its own load, a power limit that it runs into) are no disturbance: they are part
//! of what is measured.

use crate::canary::{Bands, Slow};
use crate::counters::Readings;
use crate::describe::{mean, median};
use crate::evidence::Attempt;
use schema::record::Telemetry;
use std::fmt;

/// Largest share of the CPUs' time that others may take. An engine that uses all of its CPUs
/// becomes slower by the same share, and two invocations that differ by less than this count as
/// reproducible (see [`crate::describe`]).
pub const LOST_MAX: f64 = 0.05;
/// Longest tick of the kernel (ns). The kernel counts busy time by looking at a CPU once a tick:
/// over n looks, the standard error of a share is at most ½/√n. Three standard errors are allowed,
/// so that by chance one invocation in a thousand is called disturbed.
const TICK_NS: f64 = 1e7;
const STANDARD_ERRORS: f64 = 3.0;
/// Largest deviation of an invocation's clock frequency from the usual one, as a fraction. Speed
/// changes at most in proportion to the clock frequency, so this is again the limit of
/// reproducibility.
pub const CLOCK_DEVIATION_MAX: f64 = 0.05;
/// Minimum number of invocations from which a usual clock can be told.
const INVOCATIONS_MIN: usize = 3;
/// Largest share of the readings in which the GPU's hardware may hold its clock down. It then
/// lowers the clock to half or less, so this costs at most [`LOST_MAX`]. The limit isn't 0, because
/// NVML may show the bit for a moment whenever the clock changes.
pub const THROTTLED_MAX: f64 = 0.05;

/// NVML's reasons for a lower clock that come from the environment: heat, and a power supply that
/// asks for less. Not among them: idling, clocks set by a user, and the power limit, which a heavy
/// load runs into by itself. (nvml.h, nvmlClocksThrottleReason…)
const THROTTLE_REASONS: [(u64, &str); 4] = [
    (0x8, "hardware slowdown"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "power brake"),
];

/// Whether NVML's reasons say that the environment holds the GPU's clock down.
pub(crate) fn is_throttled(reasons: u64) -> bool {
    THROTTLE_REASONS.iter().any(|(bit, _)| reasons & bit != 0)
}

/// A disturbed invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbance {
    /// Number of the invocation.
    pub invocation: u32,
    /// Causes of the disturbance; at least one.
    pub causes: Vec<Cause>,
}

/// A cause of a disturbance.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The engine's CPUs did other work.
    OtherWork {
        /// Share of their time that went to other processes and the kernel, a fraction.
        others: f64,
        /// Share of their time that went to other guests of the hypervisor, a fraction.
        stolen: f64,
    },
    /// CPUs lowered their clock because of heat.
    CpuThrottled {
        /// Number of times.
        times: u64,
    },
    /// The CPUs' clock was not the usual one.
    CpuClock(Clock),
    /// Known work beside the invocation took longer than usual: a neighbour used the processor or
    /// the memory.
    Slow(Slow),
    /// The GPU's clock was not the usual one.
    GpuClock(Clock),
    /// Heat or the power supply held the GPU's clock down.
    GpuThrottled {
        /// Share of the readings in which the clock was held down, a fraction.
        share: f64,
        /// NVML's reasons as bits, of all readings together.
        reasons: u64,
    },
    /// A process other than the engine's was on the GPU.
    GpuShared {
        /// Largest number of processes that are not the engine's.
        others: u32,
    },
    /// The GPU's memory had errors that ECC could not correct.
    GpuMemoryErrors {
        /// Number of errors.
        count: u64,
    },
    /// The GPU could not be read any more; the text says why.
    GpuLost(String),
}

/// A clock frequency that is not the usual one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Mean over the invocation's readings (MHz).
    pub mhz: f64,
    /// Median over the cell's invocations (MHz).
    pub usual_mhz: f64,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        match self {
            Cause::OtherWork { others, stolen } => write!(
                f,
                "other processes took {} of the CPU time, the hypervisor {}",
                percent(*others),
                percent(*stolen)
            ),
            Cause::CpuThrottled { times: 1 } => {
                f.write_str("the CPUs lowered their clock for heat once")
            }
            Cause::CpuThrottled { times } => {
                write!(f, "the CPUs lowered their clock for heat {times} times")
            }
            Cause::CpuClock(clock) => write!(f, "the CPU clock was {clock}"),
            Cause::Slow(slow) => write!(
                f,
                "beside it {} took {} longer than usual",
                slow.work.words(),
                percent(slow.ns / slow.usual_ns - 1.0)
            ),
            Cause::GpuClock(clock) => write!(f, "the GPU clock was {clock}"),
            Cause::GpuThrottled { share, reasons } => {
                let names: Vec<&str> = THROTTLE_REASONS
                    .iter()
                    .filter(|(bit, _)| reasons & bit != 0)
                    .map(|(_, name)| *name)
                    .collect();
                write!(
                    f,
                    "the GPU clock was held down in {} of the readings ({})",
                    percent(*share),
                    names.join(", ")
                )
            }
            Cause::GpuShared { others } => {
                write!(f, "{others} other process(es) used the GPU")
            }
            Cause::GpuMemoryErrors { count } => {
                write!(f, "{count} error(s) in GPU memory that ECC could not mend")
            }
            Cause::GpuLost(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = self.mhz / self.usual_mhz - 1.0;
        write!(
            f,
            "{:.0} MHz, {:.0} % {} the usual {:.0} MHz",
            self.mhz,
            off.abs() * 100.0,
            if off < 0.0 { "below" } else { "above" },
            self.usual_mhz
        )
    }
}

/// The judgement of a cell's invocations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Judgement {
    /// The disturbed invocations.
    pub(crate) disturbances: Vec<Disturbance>,
    /// Number of invocations with too few readings to tell what else was at work.
    pub(crate) unwatched: u32,
    /// Number of invocations beside which the machine's speed was not measured.
    pub(crate) unseen: u32,
}

/// Judge a cell's invocations; `bands` are the run's bands of known work.
pub(crate) fn judge(attempts: &[Attempt], bands: &Bands) -> Judgement {
    let readings: Vec<Readings> = attempts
        .iter()
        .map(|attempt| {
            let (start_ns, end_ns) = (attempt.end.start_ns, attempt.end.end_ns);
            Readings::within(&attempt.log.telemetry, start_ns, end_ns)
        })
        .collect();
    let clocks = |of: fn(&Telemetry) -> Option<u32>| -> Vec<Option<f64>> {
        readings
            .iter()
            .map(|readings| mean_clock(readings, of))
            .collect()
    };
    let cpu_clocks = unusual(&clocks(|t| t.cpu_clock_mhz));
    let gpu_clocks = unusual(&clocks(|t| t.gpu_sm_clock_mhz));
    let mut judgement = Judgement::default();
    for (index, attempt) in attempts.iter().enumerate() {
        let readings = &readings[index];
        let work = Work::new(readings);
        let slow = bands.slow(attempt);
        judgement.unwatched += u32::from(work.is_none());
        judgement.unseen += u32::from(slow.is_none());
        let mut causes: Vec<Cause> = work.and_then(Work::cause).into_iter().collect();
        causes.extend(cpu_throttled(readings));
        causes.extend(cpu_clocks[index].map(Cause::CpuClock));
        causes.extend(slow.into_iter().flatten().map(Cause::Slow));
        causes.extend(gpu_clocks[index].map(Cause::GpuClock));
        causes.extend(gpu_throttled(readings));
        causes.extend(gpu_shared(readings));
        causes.extend(gpu_memory_errors(readings));
        causes.extend(gpu_lost(readings));
        if !causes.is_empty() {
            judgement.disturbances.push(Disturbance {
                invocation: attempt.invocation,
                causes,
            });
        }
    }
    judgement
}

/// Time of the engine's CPUs between two readings (ns).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    capacity: f64,
    others: f64,
    stolen: f64,
}

impl Work {
    /// Compute the times from readings; `None` where a counter was not read, or not for long
    /// enough.
    fn new(readings: &Readings) -> Option<Self> {
        // Counters of different readings don't add up, so only readings with all counters count.
        let whole = |t: &Telemetry| {
            Some((
                t.host_busy_ns?,
                t.host_idle_ns?,
                t.host_steal_ns?,
                t.cpu_ns?,
                t.harness_cpu_ns?,
            ))
        };
        let grown = |pick: fn((u64, u64, u64, u64, u64)) -> u64| {
            Some(readings.growth(|t| whole(t).map(pick))?.amount)
        };
        let busy = grown(|w| w.0)?;
        let stolen = grown(|w| w.2)?;
        let capacity = busy + grown(|w| w.1)? + stolen;
        let ours = grown(|w| w.3)? + grown(|w| w.4)?;
        (capacity > 0.0).then(|| Self {
            capacity,
            others: (busy - ours).max(0.0),
            stolen,
        })
    }

    fn cause(self) -> Option<Cause> {
        let share = |ns: f64| ns / self.capacity;
        let chance = STANDARD_ERRORS * 0.5 / (self.capacity / TICK_NS).sqrt();
        (share(self.others + self.stolen) > LOST_MAX + chance).then(|| Cause::OtherWork {
            others: share(self.others),
            stolen: share(self.stolen),
        })
    }
}

fn cpu_throttled(readings: &Readings) -> Option<Cause> {
    let times = readings.growth(|t| t.cpu_throttle_count)?.amount as u64;
    (times > 0).then_some(Cause::CpuThrottled { times })
}

fn mean_clock(readings: &Readings, of: fn(&Telemetry) -> Option<u32>) -> Option<f64> {
    let clocks: Vec<f64> = readings.iter().filter_map(of).map(f64::from).collect();
    mean(&clocks)
}

/// Return the clock of each invocation where it is too far from the median of all.
fn unusual(clocks: &[Option<f64>]) -> Vec<Option<Clock>> {
    let known: Vec<f64> = clocks.iter().flatten().copied().collect();
    let usual = median(&known).filter(|&mhz| known.len() >= INVOCATIONS_MIN && mhz > 0.0);
    clocks
        .iter()
        .map(|clock| {
            let clock = Clock {
                mhz: (*clock)?,
                usual_mhz: usual?,
            };
            let off = (clock.mhz / clock.usual_mhz - 1.0).abs();
            (off > CLOCK_DEVIATION_MAX).then_some(clock)
        })
        .collect()
}

fn gpu_throttled(readings: &Readings) -> Option<Cause> {
    let mask = THROTTLE_REASONS.iter().fold(0, |mask, (bit, _)| mask | bit);
    let read: Vec<u64> = readings
        .iter()
        .filter_map(|t| Some(t.gpu_throttle_reasons? & mask))
        .collect();
    let held = read.iter().filter(|&&reasons| reasons != 0).count();
    let share = held as f64 / read.len().max(1) as f64;
    (share > THROTTLED_MAX).then(|| Cause::GpuThrottled {
        share,
        reasons: read.iter().fold(0, |all, reasons| all | reasons),
    })
}

/// Detect other processes on the GPU. Even one is too many, because it may use any part of the GPU
/// at any time. Where none is known to be the engine's (in a container processes have other
/// numbers), one of them is taken to be.
fn gpu_shared(readings: &Readings) -> Option<Cause> {
    let others = readings
        .iter()
        .filter_map(|t| {
            let own = t.gpu_processes_own.unwrap_or(0).max(1);
            Some(t.gpu_processes?.saturating_sub(own))
        })
        .max()?;
    (others > 0).then_some(Cause::GpuShared { others })
}

fn gpu_memory_errors(readings: &Readings) -> Option<Cause> {
    let mut counts = readings.iter().filter_map(|t| t.gpu_ecc_uncorrected);
    let first = counts.next()?;
    let count = counts.next_back()?.saturating_sub(first);
    (count > 0).then_some(Cause::GpuMemoryErrors { count })
}

fn gpu_lost(readings: &Readings) -> Option<Cause> {
    let why = readings.iter().find_map(|t| t.gpu_lost.clone())?;
    Some(Cause::GpuLost(why))
}
