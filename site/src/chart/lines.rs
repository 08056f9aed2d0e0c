//! A metric against the axis of a scenario: a marker with its 95 % interval for
//! every measured case, thin lines and bands only to connect them, and direct
//! labels. The reader is told that nothing between the markers was measured.

use super::label::spread;
use super::scale::{Kind, Round, Scale, wants_log};
use super::style::Style;
use super::svg::{Anchor, Svg};
use super::{Estimate, Figure, Table};
use crate::fmt::{self, Unit};
use crate::html::shorten;

/// What to draw.
pub struct Lines {
    /// Unique on its page.
    pub id: String,
    /// One sentence with the main number.
    pub finding: String,
    /// Label of the x axis, with its unit.
    pub x_label: String,
    /// Label of the y axis.
    pub y_label: String,
    /// Unit of y.
    pub unit: Unit,
    /// The series.
    pub series: Vec<Series>,
}

/// One target along the axis.
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its look.
    pub style: Style,
    /// Its cases, ascending in x.
    pub points: Vec<Point>,
    /// Values of x without a number, and why.
    pub missing: Vec<(u32, String)>,
}

/// One case.
pub struct Point {
    /// Value on the axis.
    pub x: u32,
    /// The estimate.
    pub y: Estimate,
    /// What it rests on, e.g. `n = 110`.
    pub rests_on: String,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 30.0;
const GAP: f64 = 16.0;

impl Lines {
    /// Draw it.
    pub fn draw(self) -> Figure {
        let bottom = TOP + (GAP * self.series.len() as f64).max(250.0);
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| f64::from(point.x)).collect();
        let ys = || points().map(|point| point.y.value);
        let extents: Vec<f64> = points().flat_map(|point| point.y.extent()).collect();
        let x_kind = if wants_log(xs.iter().copied(), 6.0) {
            Kind::Log
        } else {
            Kind::Linear
        };
        let x = match x_kind {
            Kind::Log => Scale::log(xs.iter().copied(), Round::Decimal, (LEFT, RIGHT)),
            Kind::Linear => Scale::linear(xs.iter().copied(), false, Round::Decimal, (LEFT, RIGHT)),
        };
        let mut measured = xs.clone();
        measured.sort_by(f64::total_cmp);
        measured.dedup();
        let x_last = measured.last().copied();
        let x = x.with_ticks(measured);
        let y_kind = if wants_log(ys(), 10.0) {
            Kind::Log
        } else {
            Kind::Linear
        };
        let y = match y_kind {
            Kind::Log => {
                // An interval that reaches to nearly 0 must not squeeze the rest.
                let least = ys().filter(|&v| v > 0.0).fold(f64::MAX, f64::min) / 3.0;
                Scale::log(
                    extents.into_iter().filter(|&v| v >= least),
                    Round::of(self.unit),
                    (bottom, TOP),
                )
            }
            Kind::Linear => Scale::linear(extents, true, Round::of(self.unit), (bottom, TOP)),
        };

        let mut svg = Svg::new(WIDTH, bottom + 46.0);
        for &tick in &y.ticks {
            if let Some(at) = y.at(tick) {
                svg.line("gr", (LEFT, at), (RIGHT, at));
                svg.text(
                    "tk",
                    (LEFT - 8.0, at + 4.0),
                    Anchor::End,
                    &fmt::tick(self.unit, tick),
                );
            }
        }
        for &tick in &x.ticks {
            if let Some(at) = x.at(tick) {
                svg.line("gr", (at, bottom), (at, bottom + 5.0));
                let text = fmt::tick(Unit::Plain, tick);
                svg.text("tk", (at, bottom + 20.0), Anchor::Middle, &text);
            }
        }
        svg.text(
            "al",
            ((LEFT + RIGHT) / 2.0, bottom + 40.0),
            Anchor::Middle,
            &labelled(&self.x_label, x_kind),
        );
        svg.text(
            "al",
            (4.0, 14.0),
            Anchor::Start,
            &labelled(&self.y_label, y_kind),
        );

        let mut table = Table {
            head: vec![
                "Target".into(),
                self.x_label.clone(),
                self.y_label.clone(),
                "95 % interval".into(),
                "Rests on".into(),
            ],
            rows: Vec::new(),
        };
        let mut not_drawn = Vec::new();
        // All bands below all lines, so that no interval hides another's line.
        for series in &self.series {
            let class = format!("{} bd", series.style.color_class());
            svg.area(&class, &band(series, &x, &y));
        }
        let mut ends = Vec::new();
        for series in &self.series {
            if let Some(end) = draw_series(&mut svg, series, &x, &y, self.unit, &mut not_drawn) {
                ends.push((end, series));
            }
            for point in &series.points {
                let (value, interval) = fmt::with_interval(self.unit, point.y.value, point.y.ci);
                table.rows.push(vec![
                    series.name.clone(),
                    fmt::count(u64::from(point.x)),
                    value,
                    interval.unwrap_or_else(|| fmt::NONE.into()),
                    point.rests_on.clone(),
                ]);
            }
            for (x, why) in &series.missing {
                table.rows.push(vec![
                    series.name.clone(),
                    fmt::count(u64::from(*x)),
                    fmt::NONE.into(),
                    fmt::NONE.into(),
                    why.clone(),
                ]);
            }
        }
        not_drawn.extend(self.series.iter().flat_map(missing));
        let wanted: Vec<f64> = ends.iter().map(|((_, y), _)| *y).collect();
        let placed = spread(&wanted, GAP, TOP, bottom);
        for (((end_x, end_y), series), at) in ends.into_iter().zip(placed) {
            let color = series.style.color_class();
            // A leader from inside the plot would look like data going on.
            let whole = x_last
                .and_then(|last| x.at(last))
                .is_none_or(|last| end_x >= last);
            let mut name = shorten(&series.name, 25);
            if whole {
                svg.polyline(
                    &format!("{color} ld"),
                    &[(end_x + 7.0, end_y), (RIGHT + 12.0, at), (RIGHT + 18.0, at)],
                );
            } else if let Some(point) = series.points.last() {
                name = format!(
                    "{} to {}",
                    shorten(&series.name, 19),
                    fmt::count(u64::from(point.x))
                );
            }
            svg.marker(series.style, (RIGHT + 25.0, at), &series.name);
            svg.text(
                &format!("{color} sl"),
                (RIGHT + 35.0, at + 4.5),
                Anchor::Start,
                &name,
            );
        }
        let reading = format!(
            "Markers are measured cases{}; what is drawn between them only connects.{}",
            if points().any(|point| point.y.ci.is_some()) {
                " with 95 % intervals"
            } else {
                " (a single launch gives no interval)"
            },
            match y_kind {
                Kind::Linear => "",
                Kind::Log => " The vertical axis is logarithmic: equal distances are equal ratios.",
            }
        );
        Figure {
            svg: svg.finish(&self.id, &self.finding, &reading),
            id: self.id,
            finding: self.finding,
            reading,
            table,
            not_drawn,
        }
    }
}

fn labelled(label: &str, kind: Kind) -> String {
    match kind {
        Kind::Linear => label.to_owned(),
        Kind::Log => format!("{label} – log scale"),
    }
}

/// `name at 4, 8: oom`, once for every reason.
fn missing(series: &Series) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (x, why) in &series.missing {
        let x = fmt::count(u64::from(*x));
        match reasons.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, xs)) => xs.push(x),
            None => reasons.push((why, vec![x])),
        }
    }
    reasons
        .into_iter()
        .map(|(why, xs)| format!("{} at {}: {why}", series.name, xs.join(", ")))
        .collect()
}

/// The outline between lower and upper ends, where every point has an interval.
fn band(series: &Series, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for point in &series.points {
        let (Some(at), Some((low, high))) = (x.at(f64::from(point.x)), point.y.ci) else {
            return Vec::new();
        };
        upper.push((at, y.clamped(high)));
        lower.push((at, y.clamped(low)));
    }
    if upper.len() < 2 {
        return Vec::new();
    }
    upper.extend(lower.into_iter().rev());
    upper
}

/// Line, intervals and markers; where its last marker is.
fn draw_series(
    svg: &mut Svg,
    series: &Series,
    x: &Scale,
    y: &Scale,
    unit: Unit,
    not_drawn: &mut Vec<String>,
) -> Option<(f64, f64)> {
    let mut drawn = Vec::new();
    for point in &series.points {
        match (x.at(f64::from(point.x)), y.at(point.y.value)) {
            (Some(at_x), Some(at_y)) => drawn.push((at_x, at_y, point)),
            _ => not_drawn.push(format!(
                "{} at {}: {} has no place on this axis",
                series.name,
                fmt::count(u64::from(point.x)),
                fmt::quantity(unit, point.y.value)
            )),
        }
    }
    let line: Vec<_> = drawn.iter().map(|&(x, y, _)| (x, y)).collect();
    svg.polyline(&series.style.line_class(), &line);
    let whisker = format!("{} wh", series.style.color_class());
    for (at_x, at_y, point) in &drawn {
        if let Some((low, high)) = point.y.ci {
            svg.line(&whisker, (*at_x, y.clamped(low)), (*at_x, y.clamped(high)));
        }
        svg.marker(
            series.style,
            (*at_x, *at_y),
            &format!(
                "{}: {}",
                series.name,
                // As in the table: an interval can take more digits.
                fmt::with_interval(unit, point.y.value, point.y.ci).0
            ),
        );
    }
    line.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, engine: usize, values: &[f64]) -> Series {
        Series {
            name: name.into(),
            style: Style { engine, target: 0 },
            points: values
                .iter()
                .enumerate()
                .map(|(index, &value)| Point {
                    x: 1 << index,
                    y: Estimate {
                        value,
                        ci: Some((value * 0.9, value * 1.1)),
                    },
                    rests_on: "n = 110".into(),
                })
                .collect(),
            missing: Vec::new(),
        }
    }

    fn lines(series: Vec<Series>) -> Figure {
        Lines {
            id: "l".into(),
            finding: "a is least".into(),
            x_label: "users".into(),
            y_label: "latency".into(),
            unit: Unit::Ns,
            series,
        }
        .draw()
    }

    #[test]
    fn every_point_is_in_the_table() {
        let figure = lines(vec![
            series("a", 0, &[1e6, 2e6]),
            series("b", 1, &[5e7, 9e7]),
        ]);
        assert_eq!(figure.table.rows.len(), 4);
        assert_eq!(figure.table.rows[3][2..4], ["90.0 ms", "[81.0, 99.0]"]);
        assert!(figure.svg.contains("latency – log scale"));
    }

    #[test]
    fn a_small_spread_is_drawn_from_zero() {
        let figure = lines(vec![series("a", 0, &[1e6, 2e6])]);
        assert!(!figure.svg.contains("log scale"));
        assert!(figure.svg.contains(">0</text>"));
    }

    #[test]
    fn zero_and_nonsense_are_said_not_drawn() {
        let figure = lines(vec![
            series("a", 0, &[1.0, f64::NAN, 1e308]),
            series("b", 1, &[]),
        ]);
        assert_eq!(figure.not_drawn.len(), 2);
        assert!(!figure.svg.contains("NaN"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut missing = series("a", 0, &[1e6]);
        missing.missing.push((8, "oom".into()));
        let figure = lines(vec![missing]);
        assert_eq!(figure.not_drawn, ["a at 8: oom"]);
        assert_eq!(figure.table.rows[1][4], "oom");
    }
}
