//! Maps values to coordinates, and chooses which ticks to label.
//!
//! Ticks are values first: a position is computed from the very number that is printed, so a label
//! always names the value at its position.

use crate::fmt::Unit;

/// How values map to coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Equal differences are equal distances.
    Linear,
    /// Equal ratios are equal distances; the axis always says so.
    Log,
}

/// The scale of an axis: its kind, ticks, domain and ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Linear or logarithmic.
    pub kind: Kind,
    /// Labelled values, ascending, all inside the domain.
    pub ticks: Vec<f64>,
    /// The values at the axis's two ends; their decimal logarithms where it is logarithmic.
    pub domain: (f64, f64),
    /// The coordinates of the axis's two ends.
    pub ends: (f64, f64),
}

/// Largest value that is drawn: sums and margins must stay finite.
const DRAWABLE_MAX: f64 = 1e300;

impl Scale {
    /// Make a linear axis over `values` between two coordinates, starting at zero where
    /// `from_zero`. Its ticks are round numbers of `unit`.
    pub fn linear(
        values: impl IntoIterator<Item = f64>,
        from_zero: bool,
        unit: Unit,
        ends: (f64, f64),
    ) -> Self {
        let values = values.into_iter().filter(|v| v.abs() <= DRAWABLE_MAX);
        let (mut low, mut high) = extent(values).unwrap_or((0.0, 1.0));
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if low == high {
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = (low - room, high + room);
        }
        let room = (high - low) * 0.04;
        if !(from_zero && low == 0.0) {
            low -= room;
        }
        if !(from_zero && high == 0.0) {
            high += room;
        }
        Self {
            kind: Kind::Linear,
            ticks: linear_ticks(low, high, 6, unit),
            domain: (low, high),
            ends,
        }
    }

    /// Make a logarithmic axis over those `values` that are positive and not too large to draw.
    pub fn log(values: impl IntoIterator<Item = f64>, unit: Unit, ends: (f64, f64)) -> Self {
        let logs = values
            .into_iter()
            .filter(|v| (1.0 / DRAWABLE_MAX..=DRAWABLE_MAX).contains(v))
            .map(f64::log10);
        let (mut low, mut high) = extent(logs).unwrap_or((0.0, 1.0));
        // At least a factor of about 1.6 is shown, so that noise around one
        // value does not fill the axis.
        let missing = 0.2 - (high - low);
        if missing > 0.0 {
            (low, high) = (low - missing / 2.0, high + missing / 2.0);
        }
        let room = (high - low) * 0.04;
        (low, high) = (low - room, high + room);
        Self {
            kind: Kind::Log,
            ticks: log_ticks(low, high, 7, unit),
            domain: (low, high),
            ends,
        }
    }

    /// Replace the ticks by those of `ticks` that lie inside the domain.
    pub fn with_ticks(mut self, ticks: impl IntoIterator<Item = f64>) -> Self {
        self.ticks = ticks
            .into_iter()
            .filter(|&tick| self.at(tick).is_some())
            .collect();
        self
    }

    /// Add to the label of an axis that it is logarithmic, where it is.
    pub fn labelled(&self, label: &str) -> String {
        match self.kind {
            Kind::Linear => label.to_owned(),
            Kind::Log => format!("{label} – log scale"),
        }
    }

    /// The coordinate of `value`; `None` where it lies outside the domain, or has no logarithm on a
    /// logarithmic axis.
    pub fn at(&self, value: f64) -> Option<f64> {
        let value = match self.kind {
            Kind::Linear => value,
            Kind::Log if value > 0.0 => value.log10(),
            Kind::Log => return None,
        };
        let (low, high) = self.domain;
        // A small tolerance for the rounding of ends that were computed from the values themselves.
        let hair = (high - low) * 1e-9;
        if !(low - hair..=high + hair).contains(&value) {
            return None;
        }
        let (start, end) = self.ends;
        Some(start + (value - low) / (high - low) * (end - start))
    }

    /// Like [`Scale::at`], but a value outside the axis is drawn at the end that it lies beyond.
    /// For the ends of intervals, e.g. a lower end under 0 on a log axis.
    pub fn clamped(&self, value: f64) -> f64 {
        self.at(value).unwrap_or_else(|| {
            let above = match self.kind {
                Kind::Linear => value > self.domain.1,
                Kind::Log => value > 0.0 && value.log10() > self.domain.1,
            };
            if above { self.ends.1 } else { self.ends.0 }
        })
    }

    /// The coordinates of an interval's ends, both [`Scale::clamped`]; `None` without an interval.
    pub fn interval(&self, ci: Option<(f64, f64)>) -> Option<(f64, f64)> {
        ci.map(|(low, high)| (self.clamped(low), self.clamped(high)))
    }
}

/// Whether the values spread over more than `ratio`, so that only a log axis shows them all.
pub fn wants_log(values: impl IntoIterator<Item = f64>, ratio: f64) -> bool {
    let drawable = values.into_iter().filter(|v| v.abs() <= DRAWABLE_MAX);
    extent(drawable).is_some_and(|(low, high)| low > 0.0 && high / low > ratio)
}

fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |extent, value| {
        let (low, high) = extent.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// The multiples of a round step inside the range, about `most` of them. Steps of bytes are powers
/// of two: 500 MB would print as 476.837158203125 MiB.
fn linear_ticks(low: f64, high: f64, most: usize, unit: Unit) -> Vec<f64> {
    let raw = (high - low) / most as f64;
    let step = match unit {
        Unit::Bytes => raw.log2().ceil().exp2(),
        _ => {
            let power = 10f64.powf(raw.log10().floor());
            [1.0, 2.0, 2.5, 5.0]
                .into_iter()
                .map(|factor| factor * power)
                .find(|&step| step >= raw)
                .unwrap_or(10.0 * power)
        }
    };
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last.min(first + 2 * most as i64))
        .map(|multiple| multiple as f64 * step)
        .collect()
}

/// The round values inside a range given as logarithms: only every second, third, … power where all
/// would be more than `most`, and linear steps where there would be fewer than three.
fn log_ticks(low: f64, high: f64, most: usize, unit: Unit) -> Vec<f64> {
    let (base, factors): (f64, &[f64]) = match unit {
        Unit::Bytes => (2.0, &[1.0]),
        _ => (10.0, &[1.0, 2.0, 5.0]),
    };
    let inside = |tick: &f64| (low..=high).contains(&tick.log10());
    let first = (low / base.log10()).floor() as i32;
    let last = (high / base.log10()).ceil() as i32;
    let fine: Vec<f64> = (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * base.powi(power)))
        .filter(inside)
        .collect();
    if fine.len() > most {
        let step = (last - first) as usize / most + 1;
        return (first..=last)
            .step_by(step)
            .map(|power| base.powi(power))
            .filter(inside)
            .collect();
    }
    if fine.len() >= 3 {
        return fine;
    }
    linear_ticks(10f64.powf(low), 10f64.powf(high), 5, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PX: (f64, f64) = (0.0, 100.0);

    #[test]
    fn every_tick_stands_where_its_value_does() {
        let scales = [
            Scale::linear([3.0, 17.0], true, Unit::Plain, PX),
            Scale::linear([-3.0, 17.0], false, Unit::Plain, PX),
            Scale::log([0.8, 7.0], Unit::Plain, PX),
            Scale::log([1.0, 1.1], Unit::Plain, PX),
            Scale::log([1e-9, 1e9], Unit::Plain, PX),
            Scale::log([1e-299, 1e299], Unit::Plain, PX),
            Scale::log([3e8, 3e9], Unit::Bytes, PX),
            Scale::log([1.0, 1e12], Unit::Bytes, PX),
            Scale::linear([3e8, 1.4e9], true, Unit::Bytes, PX),
        ];
        for scale in scales {
            assert!(
                (2..=13).contains(&scale.ticks.len()),
                "{:?} {:?}",
                scale.kind,
                scale.ticks
            );
            for &tick in &scale.ticks {
                let x = scale.at(tick).unwrap();
                assert!((0.0..=100.0).contains(&x), "{tick} at {x}");
            }
        }
    }

    #[test]
    fn ticks_of_bytes_are_short_in_binary_units() {
        for scale in [
            Scale::linear([3e8, 1.5e9], true, Unit::Bytes, PX),
            Scale::log([3e6, 1.5e9], Unit::Bytes, PX),
        ] {
            for &tick in &scale.ticks {
                let label = crate::fmt::tick(Unit::Bytes, tick);
                assert!(label.chars().count() <= 8, "{label}");
            }
        }
    }

    #[test]
    fn a_log_axis_spaces_ratios_evenly() {
        let scale = Scale::log([1.0, 100.0], Unit::Plain, PX);
        let [a, b, c] = [1.0, 10.0, 100.0].map(|v| scale.at(v).unwrap());
        assert!(((b - a) - (c - b)).abs() < 1e-9);
        assert_eq!(scale.at(0.0), None);
        assert_eq!(scale.at(-1.0), None);
        assert_eq!(scale.clamped(-1.0), 0.0);
        assert_eq!(scale.clamped(1e9), 100.0);
    }

    #[test]
    fn a_linear_axis_from_zero_starts_at_zero() {
        let scale = Scale::linear([5.0, 9.0], true, Unit::Plain, PX);
        assert_eq!(scale.at(0.0), Some(0.0));
        assert_eq!(scale.ticks[0], 0.0);
    }

    #[test]
    fn nothing_and_nonsense_still_make_an_axis() {
        for values in [
            vec![],
            vec![0.0],
            vec![f64::NAN],
            vec![f64::INFINITY, 1e308],
            vec![7.0, 7.0],
        ] {
            for scale in [
                Scale::linear(values.clone(), true, Unit::Plain, PX),
                Scale::linear(values.clone(), false, Unit::Plain, PX),
                Scale::log(values.clone(), Unit::Plain, PX),
            ] {
                assert!(scale.ticks.iter().all(|tick| tick.is_finite()));
                assert!(!scale.ticks.is_empty(), "{values:?} {:?}", scale.kind);
                assert!(scale.clamped(1.0).is_finite());
                assert_eq!(scale.at(f64::NAN), None);
                assert_eq!(scale.at(1e308), None);
            }
        }
    }
}
