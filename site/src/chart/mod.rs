//! Draws charts as inline SVG, with the data table behind each.
//!
//! One file per job: `scale` (domains, ticks), `key` (names beside a plot, placed without
//! collisions), `svg` (writing), and one per kind of chart. A chart gets numbers and names and
//! returns a [`Figure`]; it knows neither runs nor pages. Deliberately absent: a second y axis, a
//! bar with a cut axis, animation.

pub mod alone;
pub mod axes;
pub mod ecdf;
pub mod forest;
pub mod frontier;
pub mod heat;
pub mod key;
pub mod lines;
pub mod roofline;
pub mod scale;
pub mod stack;
pub mod strip;
pub mod style;
pub mod svg;

use crate::fmt::{self, Unit};
use crate::words::by_key;
use serde::Serialize;
use svg::Svg;

/// Width of every chart (user units).
const WIDTH: f64 = 760.0;

/// A chart with everything that a reader needs who can't see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: what the chart shows, as one sentence with its main number.
    pub finding: String,
    /// How to read the chart: what marks, intervals and axes are.
    pub reading: String,
    /// The picture, an SVG element.
    pub svg: String,
    /// Every number that is drawn, and those of series that are hidden at first.
    pub table: Table,
    /// Sentences on what could not be drawn, with the reasons; empty where all was drawn.
    pub not_drawn: Vec<String>,
}

impl Figure {
    /// Finish a drawing: `reading` is also its description for screen readers.
    fn new(
        svg: Svg,
        id: String,
        finding: String,
        reading: String,
        table: Table,
        not_drawn: Vec<String>,
    ) -> Self {
        Self {
            svg: svg.finish(&id, &finding, &reading),
            id,
            finding,
            reading,
            table,
            not_drawn,
        }
    }
}

/// The data behind a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Column headings; the first column names the row.
    pub head: Vec<String>,
    /// The rows, each as long as `head`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Make a table of rows, each as long as `head`.
    pub fn new<const N: usize>(head: [&str; N], rows: Vec<Vec<String>>) -> Self {
        Self {
            head: head.map(String::from).to_vec(),
            rows,
        }
    }

    /// Add a row for each name without a number, with the reason in the column `at`.
    fn add_missing(&mut self, missing: &[(String, String)], at: usize) {
        for (name, why) in missing {
            let mut row = vec![fmt::NONE.to_owned(); self.head.len()];
            row[0].clone_from(name);
            row[at].clone_from(why);
            self.rows.push(row);
        }
    }
}

/// A point estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The 95 % interval, where there is one.
    pub ci: Option<(f64, f64)>,
}

/// Return a sentence on series that are hidden until the reader asks for them; empty for none.
fn hidden_words(hidden: usize) -> String {
    match hidden {
        0 => String::new(),
        1 => " 1 more target is in the data below, and can be switched on.".into(),
        n => format!(" {n} more targets are in the data below, and can be switched on."),
    }
}

/// List what has no mark as `a, b (over budget)`, once for every reason.
fn missing_words(missing: &[(String, String)]) -> Vec<String> {
    let reasons = by_key(missing.iter().map(|(name, why)| (why, name.as_str())));
    let words = |(why, names): (&String, Vec<&str>)| format!("{} ({why})", names.join(", "));
    reasons.into_iter().map(words).collect()
}

impl Estimate {
    /// Make an estimate of a value and, where there is one, its interval.
    pub fn new(value: f64, ci: Option<(f64, f64)>) -> Self {
        Self { value, ci }
    }

    /// The numbers that must fit on an axis: the value and the ends of its interval.
    pub fn extent(self) -> impl Iterator<Item = f64> {
        let (low, high) = self.ci.unwrap_or((self.value, self.value));
        [self.value, low, high].into_iter()
    }

    /// Format the estimate as text: `12.3 ms [11.9, 12.8]`.
    fn text(self, unit: Unit) -> String {
        fmt::joined(fmt::with_interval(unit, self.value, self.ci))
    }

    /// Format value and interval as two cells of a table; a dash stands for no interval.
    fn cells(self, unit: Unit) -> [String; 2] {
        let (value, interval) = fmt::with_interval(unit, self.value, self.ci);
        [value, interval.unwrap_or_else(|| fmt::NONE.into())]
    }
}
