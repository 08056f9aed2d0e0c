//! Plots two metrics of a choice against each other, e.g. the cost of a token against the speed for
//! a user, and marks the targets that no other beats in both.
//!
//! A point that another beats is drawn lighter but stays, because it is a measurement too. The
//! frontier is a staircase between measured points: it shows what can be had at least, and
//! interpolates nothing. Whether two points differ detectably is not decided here: their intervals
//! are drawn.

use super::axes::{Axes, Axis};
use super::key::{self, Entry};
use super::scale::Kind;
use super::style::Style;
use super::svg::Svg;
use super::{Estimate, Figure, Table};
use crate::fmt::Unit;
use crate::html::shorten;
use std::collections::BTreeMap;

/// The data of a frontier chart.
pub struct Frontier {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// What the reader must know beyond how to read marks and lines.
    pub about: String,
    /// The horizontal axis.
    pub x: Direction,
    /// The vertical axis.
    pub y: Direction,
    /// The points, in the order of the table's rows.
    pub points: Vec<Point>,
    /// Names without a point, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// What an axis shows and which way is better.
pub struct Direction {
    /// Label with its unit, e.g. `tokens per second and user`.
    pub label: String,
    /// Unit of ticks and values.
    pub unit: Unit,
    /// Whether a higher value is better.
    pub more_is_better: bool,
}

/// One choice as a point.
pub struct Point {
    /// Name of the choice; the first column of the table.
    pub name: String,
    /// What else distinguishes it from other points, e.g. `8 users`; may be empty.
    pub note: String,
    /// Colour and marker.
    pub style: Style,
    /// Estimate on the horizontal axis.
    pub x: Estimate,
    /// Estimate on the vertical axis.
    pub y: Estimate,
    /// Samples behind the point, e.g. `n = 110, 5 launches`.
    pub rests_on: String,
}

const LEFT: f64 = 78.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 30.0;

/// Return for each point whether no other beats it. A point beats another where it is at least as
/// good in both values and better in one. A point that isn't finite is never on the frontier.
pub fn undominated(points: &[(f64, f64)], x_more: bool, y_more: bool) -> Vec<bool> {
    let signed = |&(x, y): &(f64, f64)| {
        let sign = |more: bool, v: f64| if more { v } else { -v };
        (sign(x_more, x), sign(y_more, y))
    };
    let all: Vec<(f64, f64)> = points.iter().map(signed).collect();
    let finite = |(x, y): (f64, f64)| x.is_finite() && y.is_finite();
    all.iter()
        .map(|&(x, y)| {
            let beaten = all
                .iter()
                .filter(|other| finite(**other))
                .any(|&(ox, oy)| ox >= x && oy >= y && (ox > x || oy > y));
            finite((x, y)) && !beaten
        })
        .collect()
}

impl Frontier {
    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let values = self.points.iter().map(|p| (p.x.value, p.y.value));
        let values: Vec<(f64, f64)> = values.collect();
        let front = undominated(&values, self.x.more_is_better, self.y.more_is_better);
        let labelled = self.labelled(&front);
        let labels = labelled.iter().filter(|labelled| **labelled).count();
        let bottom = TOP + key::height(labels, 300.0);
        let axes = Axes {
            x: axis(&self.x, self.points.iter().map(|p| p.x), (LEFT, RIGHT)),
            y: axis(&self.y, self.points.iter().map(|p| p.y), (bottom, TOP)),
            x_grid: true,
        };
        let mut svg = axes.begin();
        let mut not_drawn = super::missing_words(&self.missing);
        let mut drawn = Vec::new();
        for ((point, &front), labelled) in self.points.iter().zip(&front).zip(labelled) {
            let at = axes.x.scale.at(point.x.value);
            match at.zip(axes.y.scale.at(point.y.value)) {
                Some(at) => drawn.push((at, front, point, labelled)),
                None => not_drawn.push(format!("{} has no place on these axes", named(point))),
            }
        }
        let on_front = drawn.iter().filter(|(_, front, ..)| *front);
        let on_front = on_front.map(|(at, ..)| *at).collect();
        let steps = staircase(on_front, self.x.more_is_better);
        svg.polyline("fr", &steps);
        // Draw beaten points first, so that they lie below the others.
        drawn.sort_by_key(|(_, front, ..)| *front);
        let mut entries = Vec::new();
        for &((x, y), front, point, labelled) in &drawn {
            let class = if front { "sr" } else { "sr fa" };
            svg.series(class, &point.name, point.style.engine, "");
            cross(&mut svg, &axes, point, (x, y));
            svg.marker(point.style, (x, y), &self.tooltip(point));
            svg.close();
            if !labelled {
                continue;
            }
            let beaten = if front { "" } else { " (beaten)" };
            entries.push(Entry {
                label: format!("{}{beaten}", shorten(&named(point), 24 - beaten.len())),
                series: point.name.clone(),
                style: point.style,
                shown: true,
                end: (x, y),
                leader: front,
            });
        }
        svg.close();
        key::draw(&mut svg, &entries, RIGHT, TOP, bottom);
        let reading = format!(
            "{} Each marker is a measured choice with its 95 % intervals; {} and {} is better. The dashed staircase joins those that no other beats in both; lighter ones are beaten, and of a name that has only such ones the best by the vertical axis is labelled. Between the markers nothing was measured.{}",
            self.about,
            better(&self.x, "further right", "further left"),
            better(&self.y, "higher", "lower"),
            match (axes.x.scale.kind, axes.y.scale.kind) {
                (Kind::Linear, Kind::Linear) => "",
                _ => " On a logarithmic axis equal distances are equal ratios.",
            }
        );
        let reading = reading.trim().to_owned();
        let table = self.table(&front);
        Figure::new(svg, self.id, self.finding, reading, table, not_drawn)
    }

    /// Return for each point whether its name stands beside the plot: the points of the frontier,
    /// and for a name without one its best point by y. Labels for all would be a list longer than
    /// the chart.
    fn labelled(&self, front: &[bool]) -> Vec<bool> {
        let cost = |point: &Point| match self.y.more_is_better {
            true => -point.y.value,
            false => point.y.value,
        };
        let mut best: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, point) in self.points.iter().enumerate() {
            let best = best.entry(&point.name).or_insert(index);
            if cost(point) < cost(&self.points[*best]) {
                *best = index;
            }
        }
        for (point, &front) in self.points.iter().zip(front) {
            if front {
                best.remove(point.name.as_str());
            }
        }
        let mut labelled = front.to_vec();
        for index in best.into_values() {
            labelled[index] = true;
        }
        labelled
    }

    /// The tooltip of a marker: cells of the table, joined.
    fn tooltip(&self, point: &Point) -> String {
        let [x, _] = point.x.cells(self.x.unit);
        let [y, _] = point.y.cells(self.y.unit);
        format!("{} · {x} · {y}", named(point))
    }

    fn table(&self, front: &[bool]) -> Table {
        let head = [
            "Choice",
            self.x.label.as_str(),
            "95 % interval",
            self.y.label.as_str(),
            "95 % interval",
            "Rests on",
            "On the frontier",
        ];
        let mut table = Table::new(head, Vec::new());
        for (point, &front) in self.points.iter().zip(front) {
            let mut row = vec![named(point)];
            row.extend(point.x.cells(self.x.unit));
            row.extend(point.y.cells(self.y.unit));
            let on = if front { "yes" } else { "beaten" };
            row.extend([point.rests_on.clone(), on.into()]);
            table.rows.push(row);
        }
        table.add_missing(&self.missing, 5);
        table
    }
}

fn better(of: &Direction, more: &'static str, less: &'static str) -> &'static str {
    if of.more_is_better { more } else { less }
}

fn named(point: &Point) -> String {
    match point.note.as_str() {
        "" => point.name.clone(),
        note => format!("{}, {note}", point.name),
    }
}

fn axis(of: &Direction, values: impl Iterator<Item = Estimate>, px: (f64, f64)) -> Axis {
    let estimates: Vec<Estimate> = values.collect();
    Axis::switchable(&of.label, of.unit, &estimates, true, 6.0, px)
}

/// Draw both intervals of a point.
fn cross(svg: &mut Svg, axes: &Axes, point: &Point, (x, y): (f64, f64)) {
    let class = format!("{} wh", point.style.color_class());
    if let Some((low, high)) = axes.x.scale.interval(point.x.ci) {
        svg.line(&class, (low, y), (high, y));
    }
    if let Some((low, high)) = axes.y.scale.interval(point.y.ci) {
        svg.line(&class, (x, low), (x, high));
    }
}

/// Return the corners of the staircase between the frontier's points, along the axes. Each step
/// goes by the corner that is worse in both values, because nothing was measured in between.
fn staircase(mut front: Vec<(f64, f64)>, x_more: bool) -> Vec<(f64, f64)> {
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (x, y) in front {
        if let Some(&(last_x, last_y)) = steps.last() {
            steps.push(if x_more { (last_x, y) } else { (x, last_y) });
        }
        steps.push((x, y));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, x: f64, y: f64) -> Point {
        Point {
            name: name.into(),
            note: String::new(),
            style: Style::default(),
            x: Estimate::new(x, Some((x * 0.9, x * 1.1))),
            y: Estimate::new(y, None),
            rests_on: "n = 110".into(),
        }
    }

    fn frontier(points: Vec<Point>) -> Figure {
        let of = |label: &str, more_is_better| Direction {
            label: label.into(),
            unit: Unit::TokPerS,
            more_is_better,
        };
        Frontier {
            id: "f".into(),
            finding: "a is cheapest".into(),
            about: String::new(),
            x: of("speed", true),
            y: of("cost", false),
            points,
            missing: vec![("d".into(), "out of memory".into())],
        }
        .draw()
    }

    #[test]
    fn a_point_is_beaten_only_by_one_at_least_as_good_in_both() {
        let points = [
            (10.0, 1.0),
            (20.0, 2.0),
            (15.0, 3.0),
            (20.0, 2.0),
            (f64::NAN, 0.0),
        ];
        assert_eq!(
            undominated(&points, true, false),
            [true, true, false, true, false]
        );
        assert_eq!(
            undominated(&points, true, true),
            [false, true, true, true, false]
        );
        assert_eq!(
            undominated(&points, false, false),
            [true, false, false, false, false]
        );
    }

    #[test]
    fn steps_go_by_the_corner_that_both_neighbours_beat() {
        // In pixels: down is less. More x is better, so b costs more than a.
        let front = vec![(20.0, 50.0), (10.0, 90.0)];
        assert_eq!(
            staircase(front, true),
            [(10.0, 90.0), (10.0, 50.0), (20.0, 50.0)]
        );
        let front = vec![(10.0, 50.0), (20.0, 90.0)];
        assert_eq!(
            staircase(front, false),
            [(10.0, 50.0), (20.0, 50.0), (20.0, 90.0)]
        );
    }

    #[test]
    fn what_is_beaten_is_lighter_but_stays_and_what_is_missing_is_said() {
        let figure = frontier(vec![point("a", 10.0, 1.0), point("b", 5.0, 3.0)]);
        assert_eq!(figure.svg.matches(r#"class="sr fa""#).count(), 1);
        assert!(figure.svg.contains("b (beaten)"));
        assert_eq!(figure.table.rows.len(), 3);
        assert_eq!(figure.table.rows[1][6], "beaten");
        assert_eq!(figure.not_drawn, ["d (out of memory)"]);
    }

    #[test]
    fn a_name_that_is_beaten_everywhere_is_labelled_once_where_it_is_best() {
        let figure = frontier(vec![
            point("a", 10.0, 1.0),
            point("b", 5.0, 3.0),
            point("b", 6.0, 2.0),
        ]);
        assert_eq!(figure.svg.matches("b (beaten)").count(), 1);
        assert_eq!(figure.svg.matches(r#"class="sr fa""#).count(), 2);
    }

    #[test]
    fn nothing_and_nonsense_do_not_break_it() {
        assert!(frontier(vec![]).svg.contains("</svg>"));
        let figure = frontier(vec![point("a", f64::NAN, 1.0), point("b", 0.0, 1e308)]);
        assert_eq!(figure.not_drawn.len(), 3);
        assert!(!figure.svg.contains("NaN"));
    }
}
