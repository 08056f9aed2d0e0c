//! Draws the two axes of a plot: grid, ticks and labels. Each axis can also be drawn in the other
//! way (linear for logarithmic), which a script can switch to.
//!
//! The ticks of both ways are made here, from values, so that a label names the value at its
//! position in either. There is deliberately no third axis.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, Svg, num};
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
    fn labelled(&self, scale: &Scale) -> String {
        match scale.kind {
            Kind::Linear => self.label.clone(),
            Kind::Log => format!("{} – log scale", self.label),
        }
    }
}

impl Axes {
    /// Draw the axes. Everything that is drawn between [`Axes::begin`] and [`Axes::end`] moves when
    /// the reader switches a scale.
    pub fn draw(&self, svg: &mut Svg) {
        let (left, right) = self.x.scale.ends();
        let (bottom, top) = self.y.scale.ends();
        both(svg, &self.y, |svg, axis, scale| {
            for &tick in &scale.ticks {
                let Some(at) = scale.at(tick) else { continue };
                svg.line("gr", (left, at), (right, at));
                let label = fmt::tick(axis.unit, tick);
                svg.text("tk", (left - 8.0, at + 4.0), Anchor::End, &label);
            }
            svg.text("al", (4.0, 14.0), Anchor::Start, &axis.labelled(scale));
        });
        both(svg, &self.x, |svg, axis, scale| {
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
            svg.text("al", middle, Anchor::Middle, &axis.labelled(scale));
        });
    }

    /// Open the group of the plotted marks.
    pub fn begin(&self, svg: &mut Svg) {
        let flip = |name: &str, axis: &Axis| match &axis.other {
            None => String::new(),
            Some(other) => {
                let domain = |scale: &Scale| {
                    let (low, high) = scale.domain();
                    let kind = match scale.kind {
                        Kind::Linear => "lin",
                        Kind::Log => "log",
                    };
                    format!("{kind} {low:e} {high:e}")
                };
                let (start, end) = axis.scale.ends();
                format!(
                    r#" data-{name}="{} {} {} {}""#,
                    domain(&axis.scale),
                    domain(other),
                    num(start),
                    num(end)
                )
            }
        };
        let attributes = flip("x", &self.x) + &flip("y", &self.y);
        svg.open("pl", &attributes);
    }

    /// Close the group of the plotted marks.
    pub fn end(&self, svg: &mut Svg) {
        svg.close();
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
    use crate::chart::scale::Round;

    fn axes() -> Axes {
        let scale = |px| Scale::log([1.0, 100.0], Round::Decimal, px);
        let linear = |px| Scale::linear([1.0, 100.0], true, Round::Decimal, px);
        Axes {
            x: Axis {
                label: "users".into(),
                unit: Unit::Plain,
                scale: scale((50.0, 500.0)),
                other: None,
            },
            y: Axis {
                label: "latency".into(),
                unit: Unit::Ns,
                scale: scale((300.0, 30.0)),
                other: Some(linear((300.0, 30.0))),
            },
            x_grid: true,
        }
    }

    #[test]
    fn every_logarithmic_axis_says_so_and_the_other_kind_does_not() {
        let mut svg = Svg::new(600.0, 350.0);
        axes().draw(&mut svg);
        let svg = svg.finish("a", "t", "d");
        assert_eq!(svg.matches("log scale").count(), 2);
        assert!(svg.contains("users – log scale") && svg.contains(">latency</text>"));
        let (now, then) = svg.split_once(r#"<g class="then">"#).unwrap();
        assert!(now.contains(">10 ns</text>") && then.contains(">40 ns</text>"));
    }

    #[test]
    fn a_group_names_both_scales_of_an_axis_that_can_be_switched() {
        let axes = axes();
        let mut svg = Svg::new(600.0, 350.0);
        axes.begin(&mut svg);
        axes.end(&mut svg);
        let svg = svg.finish("a", "t", "d");
        let data = svg.split("data-y=\"").nth(1).unwrap();
        let parts: Vec<&str> = data.split('"').next().unwrap().split(' ').collect();
        assert_eq!((parts.len(), parts[0], parts[3]), (8, "log", "lin"));
        assert_eq!(parts[6..], ["300", "30"]);
        assert!(!svg.contains("data-x"));
    }
}
