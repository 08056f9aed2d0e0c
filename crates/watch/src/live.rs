//! The samples of the running part: the last ones, their median, and the rate of work. Pure, and
//! bounded: a launch that runs for hours takes no more memory or time to draw than a short one.

use super::event::{METERS_MAX, Reading, Sample};
use stats::ci::{MedianInterval, median_interval_of_sorted};
use std::collections::VecDeque;

/// Number of samples that are kept: the last ones.
pub const SAMPLES_MAX: usize = 4096;
/// The rate of work is measured over the last this many nanoseconds.
const RATE_NS: u64 = 5_000_000_000;

/// The samples of a part, as they come in.
#[derive(Clone, Debug, Default)]
pub struct Live {
    pub timed: u64,
    pub untimed: u64,
    last: VecDeque<Sample>,
    work: VecDeque<(u64, f64)>,
}

impl Live {
    pub fn push(&mut self, sample: Sample) {
        self.work.push_back((sample.t_ns, sample.work));
        while self.work.len() > 2 && sample.t_ns.saturating_sub(self.work[0].0) > RATE_NS {
            self.work.pop_front();
        }
        if !sample.timed {
            self.untimed += 1;
            return;
        }
        self.timed += 1;
        self.last.push_back(sample);
        if self.last.len() > SAMPLES_MAX {
            self.last.pop_front();
        }
    }

    /// The last values of a meter, oldest first.
    pub fn values(&self, meter: usize) -> Vec<f64> {
        let values = self.last.iter().filter_map(|sample| sample.values[meter]);
        values.filter(|value| value.is_finite()).collect()
    }

    /// The median of a meter's last values, with its interval.
    pub fn median(&self, meter: usize) -> Option<MedianInterval> {
        let mut values = self.values(meter);
        values.sort_by(f64::total_cmp);
        median_interval_of_sorted(&values)
    }

    pub fn medians(&self) -> [Option<f64>; METERS_MAX] {
        std::array::from_fn(|meter| Some(self.median(meter)?.median))
    }

    /// Rate of the work of all samples, timed or not (units per second), between the first and the
    /// last sample of the last seconds. The first one's own work lies before that time and doesn't
    /// count.
    pub fn work_per_s(&self) -> Option<f64> {
        let (first, last) = (self.work.front()?, self.work.back()?);
        let work: f64 = self.work.iter().skip(1).map(|(_, work)| work).sum();
        let s = last.0.saturating_sub(first.0) as f64 / 1e9;
        (s > 0.0 && work > 0.0).then_some(work / s)
    }
}

/// The load of the machine, from the last reading and the growth since the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    pub last: Reading,
    /// Number of CPUs' worth of time that the engine's processes take.
    pub cpus: Option<f64>,
    /// Share of the CPUs that are busy, for any process (%).
    pub host_percent: Option<f64>,
    /// Power of the processor packages (W).
    pub package_w: Option<f64>,
    /// Power of the GPU's board (W).
    pub gpu_w: Option<f64>,
}

impl Machine {
    /// Note that the next reading is of another process than the last one.
    pub fn other_process(&mut self) {
        self.last.cpu_ns = None;
    }

    /// Take a reading. A new process has its own CPU time, so its first reading gives no CPU rate.
    pub fn read(&mut self, now: Reading) {
        let then = self.last;
        let grew = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?).map(|d| d as f64);
        let ns = now.t_ns.saturating_sub(then.t_ns) as f64;
        let per_ns = |grew: Option<f64>| grew.filter(|_| ns > 0.0).map(|grew| grew / ns);
        let busy = grew(now.host_busy_ns, then.host_busy_ns);
        let idle = grew(now.host_idle_ns, then.host_idle_ns);
        let host = busy.zip(idle).filter(|(busy, idle)| busy + idle > 0.0);
        *self = Self {
            last: now,
            cpus: per_ns(grew(now.cpu_ns, then.cpu_ns)),
            host_percent: host.map(|(busy, idle)| 100.0 * busy / (busy + idle)),
            // A µJ per ns is a kW.
            package_w: per_ns(grew(now.package_energy_uj, then.package_energy_uj))
                .map(|kw| kw * 1e3),
            gpu_w: now.gpu_power_mw.map(|mw| mw as f64 / 1e3),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_s: f64, value: f64, timed: bool) -> Sample {
        Sample {
            t_ns: (t_s * 1e9) as u64,
            timed,
            values: [Some(value), None, None],
            work: 8.0,
        }
    }

    #[test]
    fn the_median_is_of_timed_samples_and_the_rate_of_all_work() {
        let mut live = Live::default();
        assert_eq!((live.median(0), live.work_per_s()), (None, None));
        live.push(sample(1.0, 99.0, false));
        assert_eq!(live.work_per_s(), None, "one says nothing of a rate");
        for (i, value) in [3.0, 1.0, 2.0, 5.0, 4.0, 6.0].into_iter().enumerate() {
            live.push(sample(2.0 + i as f64 / 2.0, value, true));
        }
        let interval = live.median(0).unwrap();
        assert_eq!(interval.median, 3.5);
        assert_eq!(interval.bounds, Some((1.0, 6.0)));
        assert_eq!(live.median(1), None, "a meter it doesn't have");
        // From 1 s to 4.5 s, six samples of 8.
        assert_eq!(live.work_per_s(), Some(48.0 / 3.5));
        live.push(sample(60.0, 1.0, true));
        assert_eq!(live.work_per_s(), Some(8.0 / 55.5), "the old ones are gone");
    }

    #[test]
    fn memory_is_bounded() {
        let mut live = Live::default();
        for i in 0..10_000 {
            live.push(sample(f64::from(i) / 1e3, f64::from(i), true));
        }
        assert_eq!(live.timed, 10_000);
        assert_eq!(live.values(0).len(), SAMPLES_MAX);
        assert_eq!(live.values(0)[SAMPLES_MAX - 1], 9_999.0);
        assert!(live.work.len() <= 5_002);
    }

    #[test]
    fn what_grows_becomes_a_rate_and_what_begins_anew_nothing() {
        let reading = |t_s: u64, cpu_s: u64| Reading {
            t_ns: t_s * 1_000_000_000,
            cpu_ns: Some(cpu_s * 1_000_000_000),
            host_busy_ns: Some(cpu_s * 2_000_000_000),
            host_idle_ns: Some(t_s * 1_000_000_000),
            package_energy_uj: Some(t_s * 30_000_000),
            gpu_power_mw: Some(412_000),
            ..Reading::default()
        };
        let mut machine = Machine::default();
        machine.read(reading(10, 5));
        assert_eq!((machine.cpus, machine.host_percent), (None, None));
        assert_eq!(machine.gpu_w, Some(412.0));
        machine.read(reading(12, 8));
        assert_eq!(machine.cpus, Some(1.5));
        assert_eq!(machine.host_percent, Some(75.0));
        assert!((machine.package_w.unwrap() - 30.0).abs() < 1e-9);
        machine.read(reading(13, 1));
        assert_eq!(machine.cpus, None);
    }
}
