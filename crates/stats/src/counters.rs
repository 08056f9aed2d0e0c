//! Readings of counters within a window: the growth of a counter, the mean of a gauge, and the
//! energy from readings of power.
//!
//! Nothing is interpolated to the window's edges (except energy), and a counter that was not read
//! gives no value, not zero.
//!
//! Metrics and prices are computed elsewhere.

use crate::timing::ns_between;
use schema::record::Telemetry;

/// Minimum share of the window that readings must span, so that two readings in one corner don't
/// stand for the whole window.
const SPAN_MIN: f64 = 0.5;

/// Readings between two times.
pub(crate) struct Readings<'a> {
    /// All readings or, where targets take turns, those of each turn separately: between two turns
    /// a counter grows by the work of others.
    stretches: Vec<Vec<&'a Telemetry>>,
    /// Time in which the target was at work (ns): the window, or its turns.
    pub(crate) time_ns: f64,
}

/// The growth of a counter, and the time in which it grew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// Growth in the counter's unit.
    pub(crate) amount: f64,
    /// Time between the two readings, or between those of each turn (ns).
    pub(crate) wall_ns: f64,
}

impl Growth {
    /// Return the growth in the counter's unit per ns.
    pub(crate) fn per_ns(self) -> f64 {
        self.amount / self.wall_ns
    }
}

impl<'a> Readings<'a> {
    /// Select the readings in the window, edges included. A turn that overlaps the window is taken
    /// whole, because its readings are taken before and after its requests.
    pub(crate) fn within(all: &'a [Telemetry], start_ns: u64, end_ns: u64) -> Self {
        let together = |a: &Telemetry, b: &Telemetry| {
            a.turn == b.turn && (a.turn.is_none() || a.case == b.case)
        };
        let mut time_ns = 0.0;
        let mut stretches = Vec::new();
        for stretch in all.chunk_by(together) {
            let (first, last) = (&stretch[0], &stretch[stretch.len() - 1]);
            if first.turn.is_none() {
                let is_inside = |t: &&Telemetry| (start_ns..=end_ns).contains(&t.t_ns);
                stretches.push(stretch.iter().filter(is_inside).collect());
                time_ns = ns_between(start_ns, end_ns);
            } else if first.t_ns <= end_ns && last.t_ns >= start_ns {
                stretches.push(stretch.iter().collect());
                time_ns += ns_between(first.t_ns, last.t_ns);
            }
        }
        Self { stretches, time_ns }
    }

    /// Iterate over all readings.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &'a Telemetry> {
        self.stretches.iter().flatten().copied()
    }

    /// Whether the readings are of a target that took turns with others.
    pub(crate) fn are_of_turns(&self) -> bool {
        self.iter().any(|reading| reading.turn.is_some())
    }

    /// Whether a time lies between the first and the last reading, or between those of one turn.
    pub(crate) fn span(&self, t_ns: u64) -> bool {
        let mut stretches = self.stretches.iter();
        stretches.any(|stretch| match stretch.as_slice() {
            [first, .., last] => (first.t_ns..=last.t_ns).contains(&t_ns),
            _ => false,
        })
    }

    /// Return the growth of a counter from its first reading to its last, summed over turns; `None`
    /// where they span less than half of the time, or where the counter went down, which makes it
    /// invalid.
    pub(crate) fn growth(&self, of: impl Fn(&Telemetry) -> Option<u64>) -> Option<Growth> {
        let mut amount = 0;
        for stretch in &self.stretches {
            let mut read = stretch.iter().filter_map(|t| of(t));
            if let (Some(first), Some(last)) = (read.next(), read.next_back()) {
                amount += last.checked_sub(first)?;
            }
        }
        let amount = amount as f64;
        let wall_ns = self.spanned(|t| of(t).is_some())?;
        Some(Growth { amount, wall_ns })
    }

    /// Return the mean of a gauge over its readings; `None` where they span less than half of the
    /// time.
    pub(crate) fn mean(&self, of: impl Fn(&Telemetry) -> Option<f64>) -> Option<f64> {
        self.spanned(|t| of(t).is_some())?;
        let values: Vec<f64> = self.iter().filter_map(&of).collect();
        crate::describe::mean(&values)
    }

    /// Return the time between the first and the last reading that has a counter, summed over turns
    /// (ns); `None` where that is less than half of the time.
    fn spanned(&self, has: impl Fn(&Telemetry) -> bool) -> Option<f64> {
        let of_stretch = |stretch: &Vec<&Telemetry>| {
            let mut read = stretch.iter().filter(|t| has(t));
            Some(ns_between(read.next()?.t_ns, read.next_back()?.t_ns))
        };
        let wall_ns: f64 = self.stretches.iter().filter_map(of_stretch).sum();
        (wall_ns > 0.0 && wall_ns >= SPAN_MIN * self.time_ns).then_some(wall_ns)
    }
}

/// Longest gap between readings of power in which the energy is known (ns). Power follows the load
/// within milliseconds, but readings come 25 times a second: a longer gap means that the sampler or
/// the driver stood still.
pub const GAP_NS_MAX: u64 = 3_000_000_000;

/// Return the energy (mJ) between two times, from readings (ns, mW) in order of time, by the
/// trapezoidal rule: power is linear between two readings. Before the first reading and after the
/// last, power is taken to be that of the nearest reading.
///
/// `None` with fewer than two readings, or where any time within the window, its edges included, is
/// in a gap of more than [`GAP_NS_MAX`] without a reading.
pub fn energy_mj(power_mw: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<f64> {
    if power_mw.len() < 2 || start_ns >= end_ns {
        return None;
    }
    // The curve runs from the last reading before the window to the first after it; where there is
    // none, from or to the window's own edge, with the power of the nearest reading.
    let before = power_mw.iter().rposition(|&(at, _)| at <= start_ns);
    let after = power_mw.iter().position(|&(at, _)| at >= end_ns);
    let first = before.unwrap_or(0);
    let last = after.unwrap_or(power_mw.len() - 1);
    let mut curve = Vec::with_capacity(last - first + 3);
    if before.is_none() {
        curve.push((start_ns, power_mw[first].1));
    }
    curve.extend_from_slice(&power_mw[first..=last]);
    if after.is_none() {
        curve.push((end_ns, power_mw[last].1));
    }
    let mut energy_mw_ns = 0.0;
    for pair in curve.windows(2) {
        let ((from, from_mw), (to, to_mw)) = (pair[0], pair[1]);
        if to.saturating_sub(from) > GAP_NS_MAX {
            return None;
        }
        let (cut_from, cut_to) = (from.max(start_ns), to.min(end_ns));
        if cut_from >= cut_to {
            continue;
        }
        let slope = (to_mw - from_mw) / ns_between(from, to);
        let middle = ns_between(from, cut_from) + ns_between(cut_from, cut_to) / 2.0;
        energy_mw_ns += (from_mw + slope * middle) * ns_between(cut_from, cut_to);
    }
    Some(energy_mw_ns / 1e9).filter(|energy| energy.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(turn: Option<u32>, t_ns: u64, cpu_ns: u64) -> Telemetry {
        Telemetry {
            case: "p10".into(),
            turn,
            t_ns,
            cpu_ns: Some(cpu_ns),
            host_busy_ns: Some(10 * t_ns),
            ..Telemetry::default()
        }
    }

    #[test]
    fn what_grows_between_two_turns_is_somebody_elses() {
        let all = [
            reading(Some(0), 90, 0),
            reading(Some(0), 200, 100),
            reading(Some(1), 1000, 100),
            reading(Some(1), 1100, 180),
            reading(Some(2), 2000, 180), // after the window
            reading(Some(2), 2100, 260),
        ];
        // The first turn's reading stands before its first request.
        let readings = Readings::within(&all, 100, 1090);
        assert!(readings.are_of_turns() && readings.span(150) && !readings.span(500));
        assert_eq!(readings.time_ns, 210.0);
        let grown = |of: fn(&Telemetry) -> Option<u64>| readings.growth(of).unwrap();
        assert_eq!(
            (grown(|t| t.cpu_ns).amount, grown(|t| t.cpu_ns).wall_ns),
            (180.0, 210.0)
        );
        assert_eq!(grown(|t| t.host_busy_ns).amount, 2100.0);
    }

    #[test]
    fn without_turns_all_counts_from_the_first_reading_to_the_last() {
        let all = [
            reading(None, 90, 0),
            reading(None, 200, 100),
            reading(None, 900, 100),
        ];
        let readings = Readings::within(&all, 100, 1000);
        assert_eq!(readings.time_ns, 900.0);
        assert_eq!(readings.growth(|t| t.host_busy_ns).unwrap().amount, 7000.0);
        // One reading spans nothing.
        let one = Readings::within(&all[..2], 100, 1000);
        assert!(one.growth(|t| t.cpu_ns).is_none());
    }

    #[test]
    fn a_counter_read_in_less_than_half_of_the_time_is_not_known() {
        let mut all = [
            reading(Some(0), 0, 0),
            reading(Some(0), 100, 100),
            reading(Some(1), 1000, 100),
            reading(Some(1), 1150, 180),
        ];
        let known = |all: &[Telemetry]| {
            let readings = Readings::within(all, 0, 1150);
            readings.growth(|t| t.cpu_ns).map(|growth| growth.amount)
        };
        assert_eq!(known(&all), Some(180.0));
        all[0].cpu_ns = None;
        assert_eq!(known(&all), Some(80.0), "150 of 250 ns");
        all[0].cpu_ns = Some(0);
        all[3].cpu_ns = None;
        assert_eq!(known(&all), None, "100 of 250 ns");
    }

    #[test]
    fn a_counter_that_went_down_is_no_reading() {
        let all = [reading(None, 0, 5), reading(None, 10, 4)];
        assert!(Readings::within(&all, 0, 10).growth(|t| t.cpu_ns).is_none());
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn constant_power_is_power_times_time() {
        let power = [(0, 200.0), (S, 200.0), (2 * S, 200.0)];
        assert_eq!(energy_mj(&power, 0, 2 * S), Some(400.0));
        assert_eq!(energy_mj(&power, S / 2, S), Some(100.0));
    }

    #[test]
    fn between_readings_power_runs_straight() {
        // By hand, for a ramp 0 → 100 → 400 W at 0, 1, 2 s: ∫ 100 t dt from 0.5 to 1 is 37.5, and ∫
        // 100 + 300 (t − 1) dt from 1 to 1.5 is 87.5.
        let power = [(0, 0.0), (S, 100.0), (2 * S, 400.0)];
        let energy = energy_mj(&power, S / 2, 3 * S / 2).unwrap();
        assert!((energy - 125.0).abs() < 1e-9, "{energy}");
    }

    #[test]
    fn at_the_edges_the_nearest_reading_stands() {
        let power = [(S, 100.0), (2 * S, 300.0)];
        assert_eq!(energy_mj(&power, 0, 3 * S), Some(100.0 + 200.0 + 300.0));
    }

    #[test]
    fn a_gap_makes_it_invalid_wherever_it_is() {
        let gap = GAP_NS_MAX + 1;
        assert_eq!(energy_mj(&[(0, 1.0), (gap, 1.0)], 0, gap), None);
        assert_eq!(energy_mj(&[(0, 1.0), (gap, 1.0)], 5, 10), None, "within it");
        assert_eq!(energy_mj(&[(0, 1.0), (1, 1.0)], 0, 2 + gap), None, "after");
        let late = [(gap, 1.0), (gap + 1, 1.0)];
        assert_eq!(energy_mj(&late, 0, gap + 1), None, "before");
        assert!(energy_mj(&[(0, 1.0), (GAP_NS_MAX, 1.0)], 0, GAP_NS_MAX).is_some());
        // A gap outside the window does no harm.
        let power = [(0, 1.0), (gap, 1.0), (gap + S, 1.0)];
        assert_eq!(energy_mj(&power, gap, gap + S), Some(1.0));
    }

    #[test]
    fn too_little_is_nothing() {
        assert_eq!(energy_mj(&[], 0, S), None);
        assert_eq!(energy_mj(&[(0, 1.0)], 0, S), None);
        assert_eq!(energy_mj(&[(0, 1.0), (S, 1.0)], S, S), None);
        assert_eq!(energy_mj(&[(0, f64::NAN), (S, 1.0)], 0, S), None);
    }
}
