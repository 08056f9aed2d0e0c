//! Draws a forest plot: one row per target, its estimate and 95 % interval on a common axis, in
//! groups. A target without a number keeps its row, with the reason.

use super::scale::{Kind, Scale};
use super::style::Style;
use super::svg::{Anchor, Svg};
use super::{Estimate, Figure, Table, WIDTH};
use crate::fmt::{self, Unit};
use crate::html::shorten;
use std::collections::BTreeSet;

/// The data of a forest plot.
pub struct Forest {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// How to read the chart, in sentences.
    pub reading: String,
    /// Label under the axis; "log scale" is added where the axis is logarithmic.
    pub axis_label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Kind of axis; a linear one starts at zero.
    pub kind: Kind,
    /// Value of a line across all rows, e.g. 1×.
    pub reference: Option<f64>,
    /// Groups of rows, from the top.
    pub groups: Vec<Group>,
}

/// Rows under one heading.
pub struct Group {
    /// The heading.
    pub heading: String,
    /// A shaded band across its rows, from one value to another.
    pub band: Option<(f64, f64)>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// The row of one target.
pub struct Row {
    /// Name of the target.
    pub label: String,
    /// Colour and marker.
    pub style: Style,
    /// Whether the row is drawn; it is in the table in any case.
    pub shown: bool,
    /// The estimate, or the reason why there is none.
    pub outcome: Outcome,
}

/// The result of a row's target.
pub enum Outcome {
    /// An estimate and what it rests on, e.g. `n = 110`.
    Measured(Estimate, String),
    /// No number, with the reason in a few words.
    Missing(String),
    /// No number because nothing was tried, which is no failure; with the reason in a few words.
    Untested(String),
}

const PLOT: (f64, f64) = (210.0, 548.0);
const ROW: f64 = 23.0;
const HEADING: f64 = 32.0;
const TOP: f64 = 6.0;

impl Group {
    /// Make a group whose rows are sorted by the number before each, greatest first.
    pub fn sorted(heading: String, band: Option<(f64, f64)>, mut rows: Vec<(f64, Row)>) -> Self {
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        Self {
            heading,
            band,
            rows: rows.into_iter().map(|(_, row)| row).collect(),
        }
    }
}

impl Forest {
    /// Make a chart of ratios, still without rows and words: its axis is logarithmic, with a line
    /// at 1×.
    pub fn of_ratios() -> Self {
        Self {
            id: String::new(),
            finding: String::new(),
            reading: String::new(),
            axis_label: String::new(),
            unit: Unit::Ratio,
            kind: Kind::Log,
            reference: Some(1.0),
            groups: Vec::new(),
        }
    }

    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let drawn = |group: &Group| group.rows.iter().filter(|row| row.shown).count();
        let measured = self.groups.iter().flat_map(|group| &group.rows);
        let measured = measured.filter(|row| row.shown);
        let values = measured
            .filter_map(|row| match &row.outcome {
                Outcome::Measured(estimate, _) => Some(*estimate),
                Outcome::Missing(_) | Outcome::Untested(_) => None,
            })
            .flat_map(Estimate::extent)
            .chain(self.reference);
        let scale = match self.kind {
            Kind::Linear => Scale::linear(values, true, self.unit, PLOT),
            Kind::Log => Scale::log(values, self.unit, PLOT),
        };
        let rows: usize = self.groups.iter().map(drawn).sum();
        let bottom = TOP + self.groups.len() as f64 * HEADING + rows as f64 * ROW + 4.0;
        let mut svg = Svg::new(WIDTH, bottom + 44.0);
        for &tick in &scale.ticks {
            if let Some(x) = scale.at(tick) {
                let label = fmt::tick(self.unit, tick);
                svg.text("tk", (x, bottom + 17.0), Anchor::Middle, &label);
            }
        }
        let middle = ((PLOT.0 + PLOT.1) / 2.0, bottom + 36.0);
        let label = scale.labelled(&self.axis_label);
        svg.text("al", middle, Anchor::Middle, &label);
        let head = ["Case", "Target", "Value", "95 % interval", "Rests on"];
        let mut table = Table::new(head, Vec::new());
        let (mut not_drawn, mut untested) = (Vec::new(), BTreeSet::new());
        let mut y = TOP;
        for group in &self.groups {
            y += HEADING;
            svg.text("gh", (4.0, y - 10.0), Anchor::Start, &group.heading);
            let below = y + ROW * drawn(group) as f64;
            band(&mut svg, &scale, group.band, (y - 3.0, below + 3.0));
            grid(&mut svg, &scale, self.reference, (y - 3.0, below + 3.0));
            for row in &group.rows {
                if row.shown {
                    svg.series("rw", &row.label, row.style.engine, "");
                    let failed = self.draw_row(&mut svg, &scale, row, y);
                    not_drawn.extend(failed.map(|why| format!("{}, {why}", group.heading)));
                    svg.close();
                    y += ROW;
                }
                let mut cells = vec![group.heading.clone(), row.label.clone()];
                let (numbers, rests_on) = match &row.outcome {
                    Outcome::Measured(estimate, rests_on) => (estimate.cells(self.unit), rests_on),
                    Outcome::Missing(why) | Outcome::Untested(why) => {
                        ([fmt::NONE, fmt::NONE].map(String::from), why)
                    }
                };
                if let (true, Outcome::Untested(why)) = (row.shown, &row.outcome) {
                    untested.insert(why.as_str());
                }
                cells.extend(numbers);
                cells.push(rests_on.clone());
                table.rows.push(cells);
            }
        }
        let mut reading = self.reading;
        for why in untested {
            reading.push_str(&format!(" Targets in grey were {why}."));
        }
        Figure::new(svg, self.id, self.finding, reading, table, not_drawn)
    }

    /// Draw the name, estimate and text of a row; return a sentence where the value could not be
    /// drawn.
    fn draw_row(&self, svg: &mut Svg, scale: &Scale, row: &Row, y: f64) -> Option<String> {
        let middle = y + ROW / 2.0;
        let base = middle + 4.5;
        let name = shorten(&row.label, 27);
        svg.text("lb", (PLOT.0 - 14.0, base), Anchor::End, &name);
        let beside = (PLOT.1 + 14.0, base);
        let estimate = match &row.outcome {
            Outcome::Measured(estimate, _) => estimate,
            Outcome::Missing(why) => {
                let text = format!("✕ {}", shorten(why, 24));
                svg.text("ms", beside, Anchor::Start, &text);
                return None;
            }
            Outcome::Untested(why) => {
                let text = format!("– {}", shorten(why, 24));
                svg.text("un", beside, Anchor::Start, &text);
                return None;
            }
        };
        svg.text("vl", beside, Anchor::Start, &estimate.text(self.unit));
        let [value, _] = estimate.cells(self.unit);
        let Some(x) = scale.at(estimate.value) else {
            return Some(format!("{}: {value} has no place on this axis", row.label));
        };
        if let Some((low, high)) = scale.interval(estimate.ci) {
            let class = format!("{} wh", row.style.color_class());
            svg.line(&class, (low, middle), (high, middle));
            svg.line(&class, (low, middle - 4.0), (low, middle + 4.0));
            svg.line(&class, (high, middle - 4.0), (high, middle + 4.0));
        }
        svg.marker(row.style, (x, middle), &format!("{} · {value}", row.label));
        None
    }
}

/// Draw lines at the ticks and at the reference behind one group's rows, so that no line runs
/// through a heading.
fn grid(svg: &mut Svg, scale: &Scale, reference: Option<f64>, (top, bottom): (f64, f64)) {
    for x in scale.ticks.iter().filter_map(|&tick| scale.at(tick)) {
        svg.line("gr", (x, top), (x, bottom));
    }
    if let Some(x) = reference.and_then(|value| scale.at(value)) {
        svg.line("ref", (x, top), (x, bottom));
    }
}

/// Draw a shaded band over its values, cut off where the axis ends; it lies behind everything.
fn band(svg: &mut Svg, scale: &Scale, band: Option<(f64, f64)>, (top, bottom): (f64, f64)) {
    let Some((low, high)) = band.filter(|(low, high)| *low > 0.0 && low < high) else {
        return;
    };
    let (left, right) = (scale.clamped(low), scale.clamped(high));
    let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
    svg.area("nf", &corners);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest(outcomes: Vec<Outcome>) -> Figure {
        banded(outcomes, None)
    }

    fn banded(outcomes: Vec<Outcome>, band: Option<(f64, f64)>) -> Figure {
        Forest {
            id: "f".into(),
            finding: "a leads".into(),
            reading: "right is better".into(),
            axis_label: "speed-up".into(),
            groups: vec![Group {
                heading: "g".into(),
                band,
                rows: outcomes
                    .into_iter()
                    .map(|outcome| Row {
                        label: "<a>".into(),
                        style: Style::default(),
                        shown: true,
                        outcome,
                    })
                    .collect(),
            }],
            ..Forest::of_ratios()
        }
        .draw()
    }

    fn measured(value: f64, ci: Option<(f64, f64)>) -> Outcome {
        Outcome::Measured(Estimate::new(value, ci), "n = 110".into())
    }

    #[test]
    fn what_is_drawn_is_in_the_table_and_the_axis_says_it_is_logarithmic() {
        let figure = forest(vec![
            measured(5.31, Some((5.0, 5.6))),
            Outcome::Missing("oom".into()),
        ]);
        assert_eq!(
            figure.table.rows[0][2..],
            ["5.31×", "[5.00, 5.60]", "n = 110"]
        );
        assert_eq!(figure.table.rows[1][4], "oom");
        assert!(figure.svg.contains("✕ oom") && figure.svg.contains("log scale"));
        assert!(figure.not_drawn.is_empty());
    }

    #[test]
    fn what_was_not_tried_is_no_failure_and_explained_once() {
        let untested = || Outcome::Untested("not tested: nobody has asked it".into());
        let figure = forest(vec![measured(5.0, None), untested(), untested()]);
        let row = ">– not tested: nobody has …</text>";
        assert_eq!(figure.svg.matches(row).count(), 2, "{}", figure.svg);
        assert!(!figure.svg.contains('✕'));
        let said = "right is better Targets in grey were not tested: nobody has asked it.";
        assert_eq!(figure.reading, said);
        assert_eq!(figure.table.rows[2][4], "not tested: nobody has asked it");
        let none = forest(vec![measured(5.0, None), Outcome::Missing("oom".into())]);
        assert_eq!(none.reading, "right is better");
    }

    #[test]
    fn a_band_is_drawn_where_it_has_a_width_and_ends_with_the_axis() {
        let area = |band| {
            let svg = banded(vec![measured(5.0, None)], band).svg;
            svg.split("class=\"nf\"").nth(1).map(str::to_owned)
        };
        assert!(area(Some((0.5, 2.0))).is_some());
        let beyond = area(Some((1e-9, 1e9))).unwrap();
        assert!(beyond.starts_with(" d=\"M210 ") && beyond.contains("L548 "));
        for nothing in [None, Some((1.0, 1.0)), Some((f64::NAN, 2.0))] {
            assert_eq!(area(nothing), None);
        }
    }

    #[test]
    fn what_has_no_place_on_the_axis_is_said() {
        for value in [0.0, -1.0, 1e308, f64::NAN, f64::INFINITY] {
            let figure = forest(vec![measured(value, Some((value, value)))]);
            assert_eq!(figure.not_drawn.len(), 1, "{value}");
            assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
        }
    }
}
