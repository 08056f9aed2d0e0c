//! Draws a roofline: operations done per second against operations per byte that must be read. A
//! point under the slope waits for memory, a point under the flat part for arithmetic; the distance
//! to the roof is what an engine leaves unused.
//! Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52 (4), 2009.

use super::axes::{Axes, Axis};
use super::key::{self, Entry};
use super::scale::Scale;
use super::style::Style;
use super::svg::{Anchor, Svg};
use super::{Estimate, Figure, Table};
use crate::fmt::{self, Unit};
use crate::html::shorten;

/// The data of a roofline.
pub struct Roofline {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// How to read the chart, in sentences.
    pub reading: String,
    /// Measured memory bandwidth (bytes/s).
    pub bandwidth_bytes_per_s: f64,
    /// Measured rate of arithmetic (FLOP/s).
    pub flops_per_s: f64,
    /// The points.
    pub points: Vec<Point>,
    /// Names without a point, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// A point: one phase of one target.
pub struct Point {
    /// Name of target and phase; the first column of the table.
    pub name: String,
    /// Colour and marker.
    pub style: Style,
    /// Operations per byte read (FLOP/byte), by arithmetic.
    pub intensity: f64,
    /// Operations per second (FLOP/s), with the 95 % interval.
    pub rate: Estimate,
    /// Samples behind the point, e.g. `n = 110`.
    pub rests_on: String,
}

const LEFT: f64 = 92.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 30.0;

impl Roofline {
    fn roof(&self, intensity: f64) -> f64 {
        (self.bandwidth_bytes_per_s * intensity).min(self.flops_per_s)
    }

    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let bottom = TOP + key::height(self.points.len(), 280.0);
        let ridge = self.flops_per_s / self.bandwidth_bytes_per_s;
        let points = || self.points.iter().filter(|p| p.rate.value > 0.0);
        let xs = points()
            .map(|p| p.intensity)
            .chain([ridge / 8.0, ridge * 8.0]);
        let least = points().map(|p| p.rate.value).fold(f64::MAX, f64::min);
        let ys = points()
            .flat_map(|p| p.rate.extent())
            .filter(|&rate| rate >= least / 3.0)
            .chain([self.flops_per_s, self.roof(ridge / 8.0)]);
        let x = Scale::log(xs, Unit::Plain, (LEFT, RIGHT));
        let y = Scale::log(ys, Unit::FlopPerS, (bottom, TOP));
        let axes = Axes {
            x: Axis::new("FLOP per byte read", Unit::Plain, x),
            y: Axis::new("arithmetic per second", Unit::FlopPerS, y),
            x_grid: true,
        };
        let mut svg = axes.begin();
        self.draw_roof(&mut svg, &axes, ridge);
        let mut not_drawn = super::missing_words(&self.missing);
        let mut entries = Vec::new();
        for point in &self.points {
            let x = axes.x.scale.at(point.intensity);
            let Some((x, y)) = x.zip(axes.y.scale.at(point.rate.value)) else {
                not_drawn.push(format!("{} has no place on these axes", point.name));
                continue;
            };
            svg.series("sr", &point.name, point.style.engine, "");
            if let Some((low, high)) = axes.y.scale.interval(point.rate.ci) {
                let class = format!("{} wh", point.style.color_class());
                svg.line(&class, (x, low), (x, high));
            }
            let [rate, _] = point.rate.cells(Unit::FlopPerS);
            svg.marker(point.style, (x, y), &format!("{} · {rate}", point.name));
            svg.close();
            entries.push(Entry {
                label: shorten(&point.name, 26),
                series: point.name.clone(),
                style: point.style,
                shown: true,
                end: (x, y),
                leader: true,
            });
        }
        svg.close();
        key::draw(&mut svg, &entries, RIGHT, TOP, bottom);
        let table = self.table();
        Figure::new(svg, self.id, self.finding, self.reading, table, not_drawn)
    }

    fn draw_roof(&self, svg: &mut Svg, axes: &Axes, ridge: f64) {
        let (low, high) = axes.x.scale.domain;
        let corners = [10f64.powf(low), ridge, 10f64.powf(high)];
        let at = |x: f64| Some((axes.x.scale.at(x)?, axes.y.scale.clamped(self.roof(x))));
        let roof: Vec<_> = corners.into_iter().filter_map(at).collect();
        svg.polyline("rf", &roof);
        if let Some(&(x, y)) = roof.last() {
            let text = fmt::quantity(Unit::FlopPerS, self.flops_per_s);
            svg.text("tk", (x - 4.0, y - 7.0), Anchor::End, &text);
        }
    }

    fn table(&self) -> Table {
        let head = [
            "Target and phase",
            "FLOP per byte",
            "FLOP/s",
            "95 % interval",
            "Of the roof",
            "Rests on",
        ];
        let mut table = Table::new(head, Vec::new());
        for point in &self.points {
            let intensity = fmt::quantity(Unit::Plain, point.intensity);
            let mut row = vec![point.name.clone(), intensity];
            row.extend(point.rate.cells(Unit::FlopPerS));
            let of_roof = point.rate.value / self.roof(point.intensity);
            row.extend([fmt::percent(of_roof), point.rests_on.clone()]);
            table.rows.push(row);
        }
        let none = || fmt::NONE.to_owned();
        let flops = fmt::quantity(Unit::FlopPerS, self.flops_per_s);
        let bytes = fmt::quantity(Unit::Bytes, self.bandwidth_bytes_per_s);
        let mut roof = vec!["the roof".to_owned(), none(), flops, none(), none()];
        roof.push(format!("measured on this machine; memory {bytes}/s"));
        table.rows.push(roof);
        table.add_missing(&self.missing, 5);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roofline(points: Vec<(&str, f64, f64)>) -> Figure {
        Roofline {
            id: "r".into(),
            finding: "a is near".into(),
            reading: "under the roof".into(),
            bandwidth_bytes_per_s: 30e9,
            flops_per_s: 60e9,
            points: points
                .into_iter()
                .map(|(name, intensity, value)| Point {
                    name: name.into(),
                    style: Style::default(),
                    intensity,
                    rate: Estimate::new(value, Some((value * 0.9, value * 1.1))),
                    rests_on: "n = 110".into(),
                })
                .collect(),
            missing: vec![],
        }
        .draw()
    }

    #[test]
    fn a_point_is_held_against_the_part_of_the_roof_above_it() {
        let figure = roofline(vec![("a, decode", 0.5, 7.5e9), ("a, prefill", 50.0, 30e9)]);
        // 0.5 FLOP/byte × 30 GB/s is 15 GFLOP/s; 50 would give 1500, so the roof is at 60.
        assert_eq!(figure.table.rows[0][4], "50.0 %");
        assert_eq!(figure.table.rows[1][4], "50.0 %");
        assert!(figure.svg.contains("a, decode · 7.50 GFLOP/s"));
        assert_eq!(figure.svg.matches("log scale").count(), 2);
    }

    #[test]
    fn nonsense_is_said_not_drawn() {
        let figure = roofline(vec![("a", f64::NAN, 1e9), ("b", 1.0, 0.0)]);
        assert_eq!(figure.not_drawn.len(), 2);
        assert!(!figure.svg.contains("NaN"));
    }
}
