//! The readings of one window: how much a counter grew, what a gauge showed.
//!
//! Nothing is interpolated to the window's edges (but see [`crate::energy`]), and a
//! counter that was not read gives nothing, not zero.

use crate::timing::ns_between;
use schema::record::Telemetry;

/// Least share of the window that readings must span, so that a window with two
/// readings in a corner of it isn't spoken for by them.
const SPAN_MIN: f64 = 0.5;

/// Readings between two times.
pub(crate) struct Readings<'a> {
    inside: Vec<&'a Telemetry>,
    start_ns: u64,
    end_ns: u64,
}

/// How much a counter grew, and in which time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// In the counter's unit.
    pub(crate) amount: f64,
    /// Between the two readings (ns).
    pub(crate) wall_ns: f64,
}

impl Growth {
    /// In the counter's unit per ns.
    pub(crate) fn per_ns(self) -> f64 {
        self.amount / self.wall_ns
    }
}

impl<'a> Readings<'a> {
    /// Those of `all` in the window, edges included.
    pub(crate) fn within(all: &'a [Telemetry], start_ns: u64, end_ns: u64) -> Self {
        Self {
            inside: all
                .iter()
                .filter(|reading| (start_ns..=end_ns).contains(&reading.t_ns))
                .collect(),
            start_ns,
            end_ns,
        }
    }

    /// The readings.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &'a Telemetry> {
        self.inside.iter().copied()
    }

    /// Length of the window (ns).
    pub(crate) fn window_ns(&self) -> f64 {
        ns_between(self.start_ns, self.end_ns)
    }

    /// From the first reading of a counter to the last; `None` where they span less
    /// than half of the window, or where it went down: that is no reading.
    pub(crate) fn growth(&self, of: impl Fn(&Telemetry) -> Option<u64>) -> Option<Growth> {
        let mut read = self.iter().filter_map(|t| Some((t.t_ns, of(t)?)));
        let (first_at, first) = read.next()?;
        let (last_at, last) = read.next_back()?;
        let wall_ns = self.spanning(first_at, last_at)?;
        let amount = last.checked_sub(first)? as f64;
        Some(Growth { amount, wall_ns })
    }

    /// Mean of a gauge over its readings; `None` where they span less than half of
    /// the window.
    pub(crate) fn mean(&self, of: impl Fn(&Telemetry) -> Option<f64>) -> Option<f64> {
        let read: Vec<(u64, f64)> = self.iter().filter_map(|t| Some((t.t_ns, of(t)?))).collect();
        self.spanning(read.first()?.0, read.last()?.0)?;
        let values: Vec<f64> = read.into_iter().map(|(_, value)| value).collect();
        crate::describe::mean(&values)
    }

    fn spanning(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let wall_ns = ns_between(from_ns, to_ns);
        (wall_ns > 0.0 && wall_ns >= SPAN_MIN * self.window_ns()).then_some(wall_ns)
    }
}
