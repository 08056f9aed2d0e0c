//! Energy from readings of power.
//!
//! No metric and no price here: a curve, a window, and the area under it.

use crate::timing::ns_between;

/// Readings further apart than this leave the energy between them unknown. Power
/// follows the load within milliseconds, but readings come 20 times a second: a gap
/// of this length means that the sampler or the driver stood still.
pub const GAP_NS_MAX: u64 = 3_000_000_000;

/// Energy (mJ) between two times, from readings (ns, mW) in order of time, by the
/// trapezoidal rule: power runs straight from one reading to the next. Before the
/// first reading and after the last it is taken to be theirs.
///
/// `None` with fewer than two readings, or where any time within the window is
/// in a gap of more than [`GAP_NS_MAX`] without a reading, its edges included.
pub fn energy_mj(power_mw: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<f64> {
    if power_mw.len() < 2 || start_ns >= end_ns {
        return None;
    }
    // From the last reading before the window to the first after it; where there
    // is none, the window's own edge stands for it, with its neighbour's power.
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

    const S: u64 = 1_000_000_000;

    #[test]
    fn constant_power_is_power_times_time() {
        let power = [(0, 200.0), (S, 200.0), (2 * S, 200.0)];
        assert_eq!(energy_mj(&power, 0, 2 * S), Some(400.0));
        assert_eq!(energy_mj(&power, S / 2, S), Some(100.0));
    }

    #[test]
    fn between_readings_power_runs_straight() {
        // By hand: ∫ 100 t dt from 0.5 to 1.5, then 100 + 300 (t − 1)… of a ramp
        // 0 → 100 → 400 W at 0, 1, 2 s is 37.5 + 87.5.
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
        // A gap that the window doesn't touch does no harm.
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
