//! Charts as inline SVG, and the data table behind each.
//!
//! One file per job: `scale` (domains, ticks), `key` (names beside a plot, placed
//! without collisions), `svg` (writing), and one per kind of chart. A chart gets
//! numbers and names and returns a [`Figure`]; it knows no run and no page.
//! Deliberately absent: a second y axis, a bar with a cut axis, animation.

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

use serde::Serialize;

/// A chart with all that makes it readable without looking at it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Unique on its page.
    pub id: String,
    /// What the chart shows, as one sentence with its main number.
    pub finding: String,
    /// How to read it: what marks, intervals and axes are.
    pub reading: String,
    /// The picture.
    pub svg: String,
    /// Every number drawn.
    pub table: Table,
    /// What could not be drawn, and why; empty when all was.
    pub not_drawn: Vec<String>,
}

/// The data behind a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Column headings; the first column names the row.
    pub head: Vec<String>,
    /// Rows, as long as `head`.
    pub rows: Vec<Vec<String>>,
}

/// A point estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its interval, where there is one.
    pub ci: Option<(f64, f64)>,
}

/// A sentence on series that wait for the reader to ask for them; empty for none.
fn hidden_words(hidden: usize) -> String {
    match hidden {
        0 => String::new(),
        1 => " 1 more target is in the data below, and can be switched on.".into(),
        n => format!(" {n} more targets are in the data below, and can be switched on."),
    }
}

/// Add a text to those of its reason.
fn gather<'a>(reasons: &mut Vec<(&'a str, Vec<String>)>, why: &'a str, text: String) {
    match reasons.iter_mut().find(|(reason, _)| *reason == why) {
        Some((_, texts)) => texts.push(text),
        None => reasons.push((why, vec![text])),
    }
}

/// `a, b (over budget)`: what has no mark, once for every reason.
fn missing_words(missing: &[(String, String)]) -> Vec<String> {
    let mut reasons = Vec::new();
    for (name, why) in missing {
        gather(&mut reasons, why, name.clone());
    }
    let words = |(why, names): (&str, Vec<String>)| format!("{} ({why})", names.join(", "));
    reasons.into_iter().map(words).collect()
}

impl Estimate {
    /// A value, and its interval where there is one.
    pub fn new(value: f64, ci: Option<(f64, f64)>) -> Self {
        Self { value, ci }
    }

    /// The numbers that should fit on an axis: the value and its interval's ends.
    pub fn extent(&self) -> impl Iterator<Item = f64> {
        let (low, high) = self.ci.unwrap_or((self.value, self.value));
        [self.value, low, high].into_iter()
    }
}
