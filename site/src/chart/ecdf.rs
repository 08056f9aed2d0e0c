//! Draws empirical distribution functions: the share of samples at or below each value. They are
//! drawn from quantiles, thinned so that a page stays small. They show the shape within launches
//! and never decide a verdict.

use super::axes::{Axes, Axis};
use super::key::{self, Entry};
use super::scale::{Kind, Scale};
use super::style::Style;
use super::{Estimate, Figure, Table};
use crate::fmt::{self, Unit};
use crate::html::shorten;
use std::collections::BTreeSet;

/// The data of an ECDF chart.
pub struct Ecdf {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// Label of the x axis.
    pub x_label: String,
    /// Unit of x.
    pub unit: Unit,
    /// The distributions.
    pub series: Vec<Series>,
}

/// The samples of one target.
pub struct Series {
    /// Name of the target.
    pub name: String,
    /// Colour, marker and dash.
    pub style: Style,
    /// Whether it is shown before the reader asks for it.
    pub shown: bool,
    /// Number of pooled samples.
    pub n: u64,
    /// Evenly spaced quantiles from the least to the greatest, ascending.
    pub quantiles: Vec<f64>,
    /// Percentiles to mark, with their values: only those that may be printed.
    pub marks: Vec<(u8, f64)>,
}

/// Number of steps between the drawn quantiles, of 5 % each. A series that is hidden at first has
/// only every `COARSE`th quantile.
const STEPS: usize = 20;
const COARSE: usize = 2;

const LEFT: f64 = 60.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 30.0;

impl Ecdf {
    /// Draw the chart.
    pub fn draw(mut self) -> Figure {
        // Sort by median, so that the names beside the plot have the order of the lines.
        let median = |s: &Series| s.quantiles.get(s.quantiles.len() / 2).copied();
        let order = |s: &Series| median(s).unwrap_or(f64::INFINITY);
        self.series.sort_by(|a, b| order(a).total_cmp(&order(b)));
        let shown = self.series.iter().filter(|series| series.shown).count();
        let bottom = TOP + key::height(shown, 220.0);
        let thinned: Vec<Vec<(usize, f64)>> = self.series.iter().map(thin).collect();
        let axes = self.axes(&thinned, bottom);

        let mut svg = axes.begin();
        let mut not_drawn = Vec::new();
        let mut entries = Vec::new();
        for (series, points) in self.series.iter().zip(&thinned) {
            let class = if series.shown { "sr" } else { "sr rest" };
            svg.series(class, &series.name, series.style.engine, "");
            let place = |share, value| Some((axes.x.scale.at(value)?, axes.y.scale.at(share)?));
            let line: Vec<_> = points
                .iter()
                .filter_map(|&(step, value)| place(percent(step), value))
                .collect();
            if line.len() < points.len() || line.len() < 2 {
                not_drawn.push(format!(
                    "{}: {} of {} quantiles have no place on this axis",
                    series.name,
                    points.len() - line.len(),
                    points.len()
                ));
            }
            svg.polyline(&series.style.line_class(), &line);
            // For a series that is hidden at first, the median alone is marked.
            let marks = series.marks.iter();
            for &(p, value) in marks.filter(|mark| series.shown || mark.0 == 50) {
                if let Some(at) = place(f64::from(p), value) {
                    let text = fmt::quantity(self.unit, value);
                    let title = format!("{} · p{p} · {text}", series.name);
                    svg.marker(series.style, at, &title);
                }
            }
            svg.close();
            if let Some(&(x, _)) = line.get(line.len() / 2) {
                entries.push(Entry {
                    label: shorten(&series.name, 24),
                    series: series.name.clone(),
                    style: series.style,
                    shown: series.shown,
                    // The height only orders the names: they follow the list.
                    end: (x, TOP + 8.0 + entries.len() as f64),
                    leader: false,
                });
            }
        }
        svg.close();
        key::draw(&mut svg, &entries, RIGHT, TOP + 8.0, bottom);
        let hidden = self.series.len() - shown;
        let reading = format!(
            "Each line is the pooled samples of one target; markers are p50, p90 and p99, the last two only where enough requests lie beyond them and their interval is known. Further left is better.{} The shape describes, it decides nothing: samples of one launch are not independent.{}",
            match axes.x.scale.kind {
                Kind::Linear => " The horizontal axis does not start at zero.",
                Kind::Log => " The horizontal axis is logarithmic.",
            },
            super::hidden_words(hidden)
        );
        let table = table(&self.series, &thinned, self.unit);
        Figure::new(svg, self.id, self.finding, reading, table, not_drawn)
    }

    fn axes(&self, thinned: &[Vec<(usize, f64)>], bottom: f64) -> Axes {
        let marks = self.series.iter().flat_map(|s| s.marks.iter().map(|m| m.1));
        let lines = thinned.iter().flatten().map(|&(_, value)| value);
        let values = lines.chain(marks);
        let values: Vec<Estimate> = values.map(|value| Estimate::new(value, None)).collect();
        let px = (LEFT, RIGHT);
        let shares = Scale {
            kind: Kind::Linear,
            ticks: vec![0.0, 25.0, 50.0, 75.0, 100.0],
            domain: (0.0, 100.0),
            ends: (bottom, TOP),
        };
        Axes {
            x: Axis::switchable(&self.x_label, self.unit, &values, false, 12.0, px),
            y: Axis::new("share of samples at or below", Unit::Percent, shares),
            x_grid: true,
        }
    }
}

fn percent(step: usize) -> f64 {
    step as f64 * 100.0 / STEPS as f64
}

/// Pick at most `STEPS + 1` quantiles, each with its step.
fn thin(series: &Series) -> Vec<(usize, f64)> {
    let last = match series.quantiles.len() {
        0 => return Vec::new(),
        len => len - 1,
    };
    (0..=STEPS)
        .step_by(if series.shown { 1 } else { COARSE })
        .map(|step| {
            let index = (step as f64 / STEPS as f64 * last as f64).round() as usize;
            (step, series.quantiles[index])
        })
        .collect()
}

/// Make a row for each series: its marks, then its quantiles by percent.
fn table(series: &[Series], thinned: &[Vec<(usize, f64)>], unit: Unit) -> Table {
    let steps: BTreeSet<usize> = thinned.iter().flatten().map(|&(step, _)| step).collect();
    let marks = series.iter().flat_map(|series| &series.marks);
    let marked: BTreeSet<u8> = marks.map(|&(p, _)| p).collect();
    let mut head = vec!["Target".to_owned(), "n".to_owned()];
    head.extend(marked.iter().map(|p| format!("p{p}")));
    head.extend(steps.iter().map(|&step| format!("{} %", percent(step))));
    let row = |(series, points): (&Series, &Vec<(usize, f64)>)| {
        let mut row = vec![series.name.clone(), fmt::count(series.n)];
        row.extend(marked.iter().map(|&p| printed(&series.marks, p, unit)));
        row.extend(steps.iter().map(|&step| printed(points, step, unit)));
        row
    };
    let rows = series.iter().zip(thinned).map(row).collect();
    Table { head, rows }
}

/// Format the value that stands at `key`; a dash where none does.
fn printed<K: PartialEq>(values: &[(K, f64)], key: K, unit: Unit) -> String {
    let found = values.iter().find(|(known, _)| *known == key);
    found.map_or(fmt::NONE.into(), |&(_, value)| fmt::quantity(unit, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, quantiles: Vec<f64>) -> Series {
        Series {
            name: name.into(),
            style: Style::default(),
            shown: true,
            n: 110,
            quantiles,
            marks: vec![(50, 1.8e6)],
        }
    }

    fn ecdf(series: Vec<Series>) -> Figure {
        Ecdf {
            id: "e".into(),
            finding: "a is left".into(),
            x_label: "TTFT".into(),
            unit: Unit::Ns,
            series,
        }
        .draw()
    }

    #[test]
    fn the_table_holds_what_is_drawn_from_least_to_greatest() {
        let figure = ecdf(vec![series(
            "a",
            (100..260).map(|v| f64::from(v) * 1e4).collect(),
        )]);
        let (head, row) = (&figure.table.head, &figure.table.rows[0]);
        assert_eq!(head[..4], ["Target", "n", "p50", "0 %"]);
        assert_eq!(row[..4], ["a", "110", "1.80 ms", "1.00 ms"]);
        assert_eq!(
            (head.len(), row.last().unwrap().as_str()),
            (3 + STEPS + 1, "2.59 ms")
        );
        assert!(figure.svg.contains("<title>a · p50 · 1.80 ms</title>"));
        assert!(figure.not_drawn.is_empty());
    }

    #[test]
    fn what_is_not_shown_at_first_is_coarser_and_still_in_the_table() {
        let all = || (100..260).map(|v| f64::from(v) * 1e4).collect();
        let mut hidden = series("b", all());
        hidden.shown = false;
        let figure = ecdf(vec![series("a", all()), hidden]);
        let dashes = figure.table.rows[1]
            .iter()
            .filter(|cell| *cell == fmt::NONE);
        assert_eq!(dashes.count(), STEPS - STEPS / COARSE);
        assert!(figure.svg.contains(r#"class="sr rest" data-s="b""#));
    }

    #[test]
    fn few_none_or_absurd_quantiles_do_not_break_it() {
        for quantiles in [vec![], vec![5.0], vec![0.0, f64::INFINITY], vec![f64::NAN]] {
            let figure = ecdf(vec![series("a", quantiles)]);
            assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
        }
    }
}
