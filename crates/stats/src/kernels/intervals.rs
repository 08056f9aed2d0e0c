//! Intervals of time and their union: when at least one of many things went on.

/// From (inclusive) and to (exclusive), in ns.
pub type Interval = (u64, u64);

/// The parts of intervals that lie within a window; empty ones are left out.
pub fn clip(
    intervals: impl Iterator<Item = Interval>,
    window: Interval,
) -> impl Iterator<Item = Interval> {
    intervals
        .map(move |(from, to)| (from.max(window.0), to.min(window.1)))
        .filter(|(from, to)| from < to)
}

/// The union as disjoint intervals in order. Those that touch become one: between them
/// is no time.
pub fn union(intervals: impl Iterator<Item = Interval>) -> Vec<Interval> {
    let mut sorted: Vec<Interval> = intervals.filter(|(from, to)| from < to).collect();
    sorted.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for (from, to) in sorted {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Length of disjoint intervals, summed (ns).
pub fn length_ns(disjoint: &[Interval]) -> u64 {
    disjoint.iter().map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_nested_and_touching_intervals_count_once() {
        let all = [(50, 60), (0, 10), (5, 20), (6, 8), (20, 30), (40, 40)];
        let merged = union(all.into_iter());
        assert_eq!(merged, [(0, 30), (50, 60)]);
        assert_eq!(length_ns(&merged), 40);
        assert_eq!(union(std::iter::empty()), []);
    }

    #[test]
    fn only_what_lies_in_the_window_stays() {
        let all = [(0, 5), (5, 15), (18, 30), (30, 40)];
        let clipped: Vec<_> = clip(all.into_iter(), (10, 20)).collect();
        assert_eq!(clipped, [(10, 15), (18, 20)]);
    }
}
