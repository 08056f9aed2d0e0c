//! Draws the two axes of a plot: grid, ticks and labels. Each axis can also be drawn in the other
//! way (linear for logarithmic), which a script can switch to.
//!
//! The ticks of both ways are made here, from values, so that a label names the value at its
//! position in either. There is deliberately no third axis.

use super::scale::{Kind, Scale, wants_log};
use super::svg::{Anchor, Svg, num};
use super::{Estimate, WIDTH};
use crate::fmt::{self, Unit};

/// An axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity that the axis shows; "log scale" is added where the axis is logarithmic.
    pub label: String,
    /// Unit of the ticks.
    pub unit: Unit,
    /// The scale that is drawn at first.
    pub scale: Scale,
    /// The other kind of scale over the same values, where a reader may switch to it.
    pub other: Option<Scale>,
}

/// The two axes of a plot; their scales hold the coordinates of the plot's corners.
#[derive(Clone, Debug)]
pub struct Axes {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Whether grid lines at the ticks of x run through the plot.
    pub x_grid: bool,
}

impl Axis {
    /// Make an axis that can't be switched.
    pub fn new(label: &str, unit: Unit, scale: Scale) -> Self {
        Self {
            label: label.to_owned(),
            unit,
            scale,
            other: None,
        }
    }

    /// Make a logarithmic axis between two coordinates that shows all estimates above 0.
    pub fn log(label: &str, unit: Unit, estimates: &[Estimate], ends: (f64, f64)) -> Self {
        let values = estimates.iter().map(|estimate| estimate.value);
        let least = values.filter(|&v| v > 0.0).fold(f64::MAX, f64::min);
        let extents = estimates.iter().flat_map(|estimate| estimate.extent());
        // An interval that reaches nearly to 0 must not squeeze the rest.
        let shown = extents.filter(|&v| v >= least / 3.0);
        Self::new(label, unit, Scale::log(shown, unit, ends))
    }

    /// Make an axis that is logarithmic where the estimates spread over more than `ratio`, else
    /// linear, from zero where `from_zero`. It can be switched where all estimates are above 0.
    pub fn switchable(
        label: &str,
        unit: Unit,
        estimates: &[Estimate],
        from_zero: bool,
        ratio: f64,
        ends: (f64, f64),
    ) -> Self {
        let values = || estimates.iter().map(|estimate| estimate.value);
        let extents = estimates.iter().flat_map(|estimate| estimate.extent());
        let mut axis = Self::log(label, unit, estimates, ends);
        let mut other = Scale::linear(extents, from_zero, unit, ends);
        if !wants_log(values(), ratio) {
            std::mem::swap(&mut axis.scale, &mut other);
        }
        let possible = !estimates.is_empty() && values().all(|v| v > 0.0);
        axis.other = possible.then_some(other);
        axis
    }

    /// The attribute by which a script switches the axis; empty where it can't be switched.
    fn switch(&self, name: &str) -> String {
        let Some(other) = &self.other else {
            return String::new();
        };
        let domain = |scale: &Scale| {
            let (low, high) = scale.domain;
            let kind = match scale.kind {
                Kind::Linear => "lin",
                Kind::Log => "log",
            };
            format!("{kind} {low:e} {high:e}")
        };
        let (now, then) = (domain(&self.scale), domain(other));
        let (start, end) = self.scale.ends;
        let (start, end) = (num(start), num(end));
        format!(r#" data-{name}="{now} {then} {start} {end}""#)
    }
}

impl Axes {
    /// Begin a picture with the axes and with the group of the plotted marks. What is drawn until
    /// that group is closed moves when the reader switches a scale.
    pub fn begin(&self) -> Svg {
        let (left, right) = self.x.scale.ends;
        let (bottom, top) = self.y.scale.ends;
        let mut svg = Svg::new(WIDTH, bottom + 46.0);
        both(&mut svg, &self.y, |svg, axis, scale| {
            for &tick in &scale.ticks {
                let Some(at) = scale.at(tick) else { continue };
                svg.line("gr", (left, at), (right, at));
                let label = fmt::tick(axis.unit, tick);
                svg.text("tk", (left - 8.0, at + 4.0), Anchor::End, &label);
            }
            let label = scale.labelled(&axis.label);
            svg.text("al", (4.0, 14.0), Anchor::Start, &label);
        });
        both(&mut svg, &self.x, |svg, axis, scale| {
            // A label that would touch the one before is left out, with its tick.
            let mut free = f64::MIN;
            for &tick in &scale.ticks {
                let Some(at) = scale.at(tick) else { continue };
                let label = fmt::tick(axis.unit, tick);
                let half = label.chars().count() as f64 * 3.6 + 2.0;
                if at - half < free {
                    continue;
                }
                free = at + half;
                let from = if self.x_grid { top } else { bottom };
                svg.line("gr", (at, from), (at, bottom + 5.0));
                svg.text("tk", (at, bottom + 20.0), Anchor::Middle, &label);
            }
            let middle = ((left + right) / 2.0, bottom + 40.0);
            svg.text("al", middle, Anchor::Middle, &scale.labelled(&axis.label));
        });
        let attributes = self.x.switch("x") + &self.y.switch("y");
        svg.open("pl", &attributes);
        svg
    }
}

/// Draw an axis; where it has another scale, draw it by that scale too, hidden behind the first.
fn both(svg: &mut Svg, axis: &Axis, draw: impl Fn(&mut Svg, &Axis, &Scale)) {
    match &axis.other {
        None => draw(svg, axis, &axis.scale),
        Some(other) => {
            svg.open("now", "");
            draw(svg, axis, &axis.scale);
            svg.close();
            svg.open("then", "");
            draw(svg, axis, other);
            svg.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        let scale = |px| Scale::log([1.0, 100.0], Unit::Plain, px);
        let linear = |px| Scale::linear([1.0, 100.0], true, Unit::Plain, px);
        Axes {
            x: Axis::new("users", Unit::Plain, scale((50.0, 500.0))),
            y: Axis {
                other: Some(linear((300.0, 30.0))),
                ..Axis::new("latency", Unit::Ns, scale((300.0, 30.0)))
            },
            x_grid: true,
        }
    }

    #[test]
    fn every_logarithmic_axis_says_so_and_the_other_kind_does_not() {
        let svg = axes().begin().finish("a", "t", "d");
        assert_eq!(svg.matches("log scale").count(), 2);
        assert!(svg.contains("users – log scale") && svg.contains(">latency</text>"));
        let (now, then) = svg.split_once(r#"<g class="then">"#).unwrap();
        assert!(now.contains(">10 ns</text>") && then.contains(">40 ns</text>"));
    }

    #[test]
    fn a_group_names_both_scales_of_an_axis_that_can_be_switched() {
        let svg = axes().begin().finish("a", "t", "d");
        let data = svg.split("data-y=\"").nth(1).unwrap();
        let parts: Vec<&str> = data.split('"').next().unwrap().split(' ').collect();
        assert_eq!((parts.len(), parts[0], parts[3]), (8, "log", "lin"));
        assert_eq!(parts[6..], ["300", "30"]);
        assert!(!svg.contains("data-x"));
    }
}
