//! Draws a metric along the axis of a scenario: a marker with its 95 % interval for every measured
//! case, thin lines and bands that only connect the cases, and direct labels. The reader is told
//! that nothing between the markers was measured.
//!
//! Where a law was fitted, its curve is drawn dotted, and its coefficients are in the table.

use super::axes::{Axes, Axis};
use super::key::{self, Entry};
use super::scale::{Kind, Scale, wants_log};
use super::style::Style;
use super::svg::Svg;
use super::{Estimate, Figure, Table};
use crate::fmt::{self, Unit};
use crate::html::shorten;
use crate::words::by_key;
use std::collections::BTreeSet;

/// The data of a line chart.
pub struct Lines {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// What the reader must know beyond how to read marks and lines; may be empty.
    pub about: String,
    /// Label of the x axis, with its unit.
    pub x_label: String,
    /// Label of the y axis.
    pub y_label: String,
    /// Unit of y.
    pub unit: Unit,
    /// Whether both axes are logarithmic for any values, because a power law is a straight line
    /// there.
    pub power_law: bool,
    /// Heading of the table's column of fitted laws; empty where no law was fitted.
    pub fit_label: String,
    /// The series.
    pub series: Vec<Series>,
}

/// One target along the axis.
pub struct Series {
    /// Name of the target.
    pub name: String,
    /// Colour, marker and dash.
    pub style: Style,
    /// Whether it is shown before the reader asks for it.
    pub shown: bool,
    /// The measured cases, ascending in x.
    pub points: Vec<Point>,
    /// Values of x without a number, each with the reason.
    pub missing: Vec<(u32, String)>,
    /// The law fitted to the points.
    pub fit: Option<Fit>,
}

impl Series {
    /// A series to which its cases are still to be added.
    pub fn new(name: &str, style: Style, shown: bool) -> Self {
        Self {
            name: name.to_owned(),
            style,
            shown,
            points: Vec::new(),
            missing: Vec::new(),
            fit: None,
        }
    }
}

/// A fitted law.
pub struct Fit {
    /// Points of the curve, ascending in x.
    pub curve: Vec<(f64, f64)>,
    /// The first coefficient, by which fits are put in order.
    pub first: f64,
    /// The coefficients with their intervals.
    pub words: String,
}

/// One measured case of a target.
pub struct Point {
    /// Value on the scenario's axis.
    pub x: u32,
    /// The estimate.
    pub y: Estimate,
    /// Samples behind the estimate, e.g. `n = 110`.
    pub rests_on: String,
}

const LEFT: f64 = 78.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 30.0;

impl Lines {
    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let shown = self.series.iter().filter(|series| series.shown).count();
        let bottom = TOP + key::height(shown, 250.0);
        let axes = self.axes(bottom);
        let mut svg = axes.begin();
        // Draw all bands below all lines, so that no interval hides another's line. A series that
        // is hidden at first has whiskers alone.
        for series in self.series.iter().filter(|series| series.shown) {
            let outline = band(series, &axes);
            if !outline.is_empty() {
                svg.series(class(series), &series.name, series.style.engine, "");
                svg.area(&format!("{} bd", series.style.color_class()), &outline);
                svg.close();
            }
        }
        let mut not_drawn = Vec::new();
        let mut entries = Vec::new();
        let last = axes.x.scale.ticks.last().copied();
        let last = last.and_then(|last| axes.x.scale.at(last));
        for series in &self.series {
            svg.series(class(series), &series.name, series.style.engine, "");
            let end = self.draw_series(&mut svg, series, &axes, &mut not_drawn);
            svg.close();
            entries.extend(end.map(|end| entry(series, end, last)));
        }
        svg.close();
        key::draw(&mut svg, &entries, RIGHT, TOP, bottom);
        not_drawn.extend(missing(&self.series));
        let reading = self.reading(axes.y.scale.kind);
        let table = self.table();
        Figure::new(svg, self.id, self.finding, reading, table, not_drawn)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn axes(&self, bottom: f64) -> Axes {
        let measured: BTreeSet<u32> = self.points().map(|point| point.x).collect();
        let xs = || measured.iter().map(|&x| f64::from(x));
        let px = (LEFT, RIGHT);
        let x = match self.power_law || wants_log(xs(), 6.0) {
            true => Scale::log(xs(), Unit::Plain, px),
            false => Scale::linear(xs(), false, Unit::Plain, px),
        };
        let ys: Vec<Estimate> = self.points().map(|point| point.y).collect();
        let px = (bottom, TOP);
        Axes {
            x: Axis::new(&self.x_label, Unit::Plain, x.with_ticks(xs())),
            y: match self.power_law {
                true => Axis::log(&self.y_label, self.unit, &ys, px),
                false => Axis::switchable(&self.y_label, self.unit, &ys, true, 10.0, px),
            },
            x_grid: false,
        }
    }

    /// Draw curve, line, intervals and markers; return where the last marker is.
    fn draw_series(
        &self,
        svg: &mut Svg,
        series: &Series,
        axes: &Axes,
        not_drawn: &mut Vec<String>,
    ) -> Option<(f64, f64)> {
        let mut drawn = Vec::new();
        for point in &series.points {
            let x = axes.x.scale.at(f64::from(point.x));
            match x.zip(axes.y.scale.at(point.y.value)) {
                Some((x, y)) => drawn.push((x, y, point)),
                None => not_drawn.push(format!(
                    "{} at {}: {} has no place on this axis",
                    series.name,
                    fmt::count(u64::from(point.x)),
                    fmt::quantity(self.unit, point.y.value)
                )),
            }
        }
        let color = series.style.color_class();
        if let Some(fit) = &series.fit {
            let place = |&(x, y): &(f64, f64)| Some((axes.x.scale.at(x)?, axes.y.scale.at(y)?));
            let curve: Vec<_> = fit.curve.iter().filter_map(place).collect();
            svg.polyline(&format!("{color} ft"), &curve);
        }
        let line: Vec<_> = drawn.iter().map(|&(x, y, _)| (x, y)).collect();
        svg.polyline(&series.style.line_class(), &line);
        for (x, y, point) in &drawn {
            if let Some((low, high)) = axes.y.scale.interval(point.y.ci) {
                svg.line(&format!("{color} wh"), (*x, low), (*x, high));
            }
            let said = format!(
                "{} · {} · {}",
                series.name,
                fmt::count(u64::from(point.x)),
                point.y.text(self.unit)
            );
            svg.marker(series.style, (*x, *y), &said);
        }
        line.last().copied()
    }

    fn reading(&self, y_kind: Kind) -> String {
        let intervals = match self.points().any(|point| point.y.ci.is_some()) {
            true => " with 95 % intervals",
            false => " (a single launch gives no interval)",
        };
        let hidden = self.series.iter().filter(|series| !series.shown).count();
        let mut text = format!(
            "Markers are measured cases{intervals}; what is drawn between them only connects."
        );
        if self.series.iter().any(|series| series.fit.is_some()) {
            text.push_str(" Dotted curves are fitted, not measured.");
        }
        if y_kind == Kind::Log {
            text.push_str(" The vertical axis is logarithmic: equal distances are equal ratios.");
        }
        if !self.about.is_empty() {
            text.push(' ');
            text.push_str(&self.about);
        }
        text.push_str(&super::hidden_words(hidden));
        text
    }

    /// Make a row for each series, with a column for each case.
    fn table(&self) -> Table {
        let mut xs: BTreeSet<u32> = self.points().map(|point| point.x).collect();
        let missing = self.series.iter().flat_map(|series| &series.missing);
        xs.extend(missing.map(|(x, _)| x));
        let mut head = vec!["Target".to_owned()];
        let columns = xs.iter().map(|&x| fmt::count(u64::from(x)));
        head.extend(columns.map(|x| format!("{}: {x}", self.x_label)));
        if !self.fit_label.is_empty() {
            head.push(self.fit_label.clone());
        }
        let cell = |series: &Series, x: u32| {
            let point = series.points.iter().find(|point| point.x == x);
            let missing = series.missing.iter().find(|(at, _)| *at == x);
            match (point, missing) {
                (Some(point), _) => format!("{}; {}", point.y.text(self.unit), point.rests_on),
                (None, Some((_, why))) => format!("{} {why}", fmt::NONE),
                (None, None) => fmt::NONE.into(),
            }
        };
        let rows = self.series.iter().map(|series| {
            let mut row = vec![series.name.clone()];
            row.extend(xs.iter().map(|&x| cell(series, x)));
            if !self.fit_label.is_empty() {
                let words = series.fit.as_ref().map(|fit| fit.words.clone());
                row.push(words.unwrap_or_else(|| fmt::NONE.into()));
            }
            row
        });
        Table {
            head,
            rows: rows.collect(),
        }
    }
}

fn class(series: &Series) -> &'static str {
    if series.shown { "sr" } else { "sr rest" }
}

/// Make the name beside the plot. Where the series ends before the plot does, the name says at
/// which case, because a line from inside the plot would look like more data.
fn entry(series: &Series, end: (f64, f64), last: Option<f64>) -> Entry {
    let whole = last.is_none_or(|last| end.0 >= last - 0.5);
    let label = match series.points.last() {
        Some(point) if !whole => format!(
            "{} to {}",
            shorten(&series.name, 16),
            fmt::count(u64::from(point.x))
        ),
        _ => shorten(&series.name, 24),
    };
    Entry {
        label,
        series: series.name.clone(),
        style: series.style,
        shown: series.shown,
        end,
        leader: whole,
    }
}

/// List what is missing as `a at 4, 8; b at 8 (over budget)`, once for every reason. Series that
/// are hidden at first are left out: the table has theirs.
fn missing(all: &[Series]) -> Vec<String> {
    let shown = all.iter().filter(|series| series.shown);
    let by_series = shown.flat_map(|series| {
        let cases = series.missing.iter();
        let reasons = by_key(cases.map(|(x, why)| (why, fmt::count(u64::from(*x)))));
        let reasons = reasons.into_iter();
        reasons.map(move |(why, xs)| (why, format!("{} at {}", series.name, xs.join(", "))))
    });
    let words = |(why, names): (&String, Vec<String>)| format!("{} ({why})", names.join("; "));
    by_key(by_series).into_iter().map(words).collect()
}

/// The outline between the intervals' ends; empty where a point has no interval or there are fewer
/// than two points.
fn band(series: &Series, axes: &Axes) -> Vec<(f64, f64)> {
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for point in &series.points {
        let at = axes.x.scale.at(f64::from(point.x));
        let Some((at, (low, high))) = at.zip(axes.y.scale.interval(point.y.ci)) else {
            return Vec::new();
        };
        upper.push((at, high));
        lower.push((at, low));
    }
    if upper.len() < 2 {
        return Vec::new();
    }
    upper.extend(lower.into_iter().rev());
    upper
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, engine: usize, values: &[f64]) -> Series {
        Series {
            points: values
                .iter()
                .enumerate()
                .map(|(index, &value)| Point {
                    x: 1 << index,
                    y: Estimate::new(value, Some((value * 0.9, value * 1.1))),
                    rests_on: "n = 110".into(),
                })
                .collect(),
            ..Series::new(name, Style { engine, target: 0 }, true)
        }
    }

    fn lines(series: Vec<Series>) -> Lines {
        Lines {
            id: "l".into(),
            finding: "a is least".into(),
            about: String::new(),
            x_label: "users".into(),
            y_label: "latency".into(),
            unit: Unit::Ns,
            power_law: false,
            fit_label: String::new(),
            series,
        }
    }

    #[test]
    fn every_point_is_in_the_table() {
        let figure = lines(vec![
            series("a", 0, &[1e6, 2e6]),
            series("b", 1, &[5e7, 9e7]),
        ])
        .draw();
        assert_eq!(figure.table.head, ["Target", "users: 1", "users: 2"]);
        assert_eq!(figure.table.rows[1][2], "90.0 ms [81.0, 99.0]; n = 110");
        assert!(figure.svg.contains("b · 2 · 90.0 ms [81.0, 99.0]"));
        assert!(figure.svg.contains("latency – log scale"));
    }

    #[test]
    fn a_small_spread_is_drawn_from_zero_and_can_be_switched() {
        let figure = lines(vec![series("a", 0, &[1e6, 2e6])]).draw();
        let (now, then) = figure.svg.split_once(r#"class="then""#).unwrap();
        assert!(now.contains(">0</text>") && !now.contains("log scale"));
        assert!(then.contains("log scale"));
    }

    #[test]
    fn zero_and_nonsense_are_said_not_drawn() {
        let figure = lines(vec![
            series("a", 0, &[1.0, f64::NAN, 1e308]),
            series("b", 1, &[]),
        ])
        .draw();
        assert_eq!(figure.not_drawn.len(), 2);
        assert!(!figure.svg.contains("NaN"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut missing = series("a", 0, &[1e6]);
        missing.missing.push((8, "oom".into()));
        let figure = lines(vec![missing]).draw();
        assert_eq!(figure.not_drawn, ["a at 8 (oom)"]);
        assert_eq!(figure.table.rows[0][2], "— oom");
    }

    #[test]
    fn a_fit_is_dotted_and_named_and_a_hidden_series_is_in_the_table() {
        let mut all = vec![series("a", 0, &[1e6, 2e6, 4e6]), series("b", 0, &[1e6])];
        all[0].fit = Some(Fit {
            curve: vec![(1.0, 1e6), (2.0, 2e6), (4.0, 4e6)],
            first: 1.0,
            words: "1.00 [0.99, 1.01]".into(),
        });
        all[1].shown = false;
        let figure = Lines {
            power_law: true,
            fit_label: "exponent".into(),
            ..lines(all)
        }
        .draw();
        assert!(figure.svg.contains(" ft\"") && figure.reading.contains("fitted, not measured"));
        assert_eq!(figure.table.rows[0][4], "1.00 [0.99, 1.01]");
        assert!(figure.svg.contains(r#"class="sr rest" data-s="b""#));
        assert!(figure.reading.contains("1 more target"));
        assert_eq!(figure.svg.matches("log scale").count(), 2);
    }
}
