//! Draws all samples of a case in the order in which they came, launch beside launch, a strip for
//! each target. Only here can a drift, two modes or an odd launch be seen.
//!
//! Each strip is centred on its own target's median and spans the same ratio on both sides, so that
//! strips can be compared in steadiness; another chart shows speed.

use super::style::Style;
use super::svg::{Anchor, Svg, num};
use super::{Figure, Table, WIDTH};
use crate::fmt::{self, Unit};
use crate::html::shorten;
use stats::describe::median;
use std::fmt::Write;

/// The data of a chart of strips.
pub struct Strip {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// Unit of the samples.
    pub unit: Unit,
    /// The strips, from the top.
    pub rows: Vec<Row>,
}

/// The strip of one target.
pub struct Row {
    /// Name of the target.
    pub name: String,
    /// Colour of the dots.
    pub style: Style,
    /// The target's launches in order.
    pub launches: Vec<Launch>,
}

/// The samples of one launch.
pub struct Launch {
    /// Number of the launch, from 1.
    pub number: u32,
    /// The samples in order of completion.
    pub samples: Vec<f64>,
}

/// Maximum number of samples drawn of a launch: more would make a solid bar.
pub const DRAWN_MAX: usize = 30;

const LEFT: f64 = 236.0;
const RIGHT: f64 = 650.0;
const TOP: f64 = 28.0;
const ROW: f64 = 46.0;
/// Half of the height that a strip's samples take (user units).
const HALF: f64 = 17.0;

impl Row {
    fn samples(&self) -> Vec<f64> {
        let samples = self.launches.iter().flat_map(|launch| &launch.samples);
        samples.copied().collect()
    }
}

impl Strip {
    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let range = self.range();
        let bottom = TOP + ROW * self.rows.len() as f64;
        let mut svg = Svg::new(WIDTH, bottom + 10.0);
        let (mut not_drawn, mut edge) = (Vec::new(), Vec::new());
        let head = ["Target", "Launch", "n", "Median", "Samples in order"];
        let mut table = Table::new(head, Vec::new());
        self.header(&mut svg);
        for (index, row) in self.rows.iter().enumerate() {
            let middle = TOP + ROW * (index as f64 + 0.5);
            let Some(center) = median(&row.samples()) else {
                not_drawn.push(format!("{} has no samples", row.name));
                continue;
            };
            if center <= 0.0 {
                not_drawn.push(format!("{} has a median of zero", row.name));
                continue;
            }
            svg.series("rw", &row.name, row.style.engine, "");
            let named = (index == 0).then_some(range);
            let center_text = fmt::quantity(self.unit, center);
            frame(&mut svg, row, middle, named, &center_text);
            let mut beyond = 0;
            for (column, launch) in row.launches.iter().enumerate() {
                let (left, right) = columns(row.launches.len(), column);
                let place = |value: f64| {
                    let share = (value / center).ln() / range.ln();
                    middle - HALF * share.clamp(-1.0, 1.0)
                };
                let drawn = thin(&launch.samples);
                let dots = dots(&drawn, (left, right), place);
                svg.path(&format!("{} dt", row.style.color_class()), &dots, "");
                let outside = |value: &&f64| (*value / center).ln().abs() > range.ln();
                beyond += drawn.iter().filter(outside).count();
                let Some(of_launch) = median(&launch.samples) else {
                    continue;
                };
                let at = place(of_launch);
                let text = fmt::quantity(self.unit, of_launch);
                svg.path(
                    &format!("{} md", row.style.color_class()),
                    &format!("M{} {}H{}", num(left + 3.0), num(at), num(right - 3.0)),
                    &format!("{} · {} · {text}", row.name, launch.number),
                );
                table.rows.push(vec![
                    row.name.clone(),
                    launch.number.to_string(),
                    fmt::count(launch.samples.len() as u64),
                    text,
                    list(self.unit, &drawn),
                ]);
            }
            if beyond > 0 {
                edge.push(format!("{beyond} of {}", row.name));
            }
            svg.close();
        }
        let mut reading = format!(
            "Dots are samples in order of completion, bars the median of a launch. The line in the middle of a strip is the target’s own median; up is slower. All strips reach {} times that either way, on a log scale.",
            fmt::ratio(range, None).0.trim_end_matches('×')
        );
        let mut launches = self.rows.iter().flat_map(|row| &row.launches);
        if launches.any(|launch| launch.samples.len() > DRAWN_MAX) {
            reading.push_str(&format!(
                " Of launches with more than {DRAWN_MAX} samples, {DRAWN_MAX} are drawn at even steps."
            ));
        }
        if !edge.is_empty() {
            let edge = edge.join(", ");
            reading.push_str(&format!(
                " Samples beyond that are drawn at the edge: {edge}."
            ));
        }
        Figure::new(svg, self.id, self.finding, reading, table, not_drawn)
    }

    /// How many times the median the strips reach either way: enough for 97 % of the samples, so
    /// that a few stragglers don't flatten everything else.
    fn range(&self) -> f64 {
        let mut away: Vec<f64> = Vec::new();
        for row in &self.rows {
            let samples = row.samples();
            let Some(center) = median(&samples).filter(|&center| center > 0.0) else {
                continue;
            };
            let ratios = samples
                .iter()
                .filter(|&&s| s > 0.0)
                .map(|s| (s / center).ln().abs());
            away.extend(ratios.filter(|ratio| ratio.is_finite()));
        }
        away.sort_by(f64::total_cmp);
        let most = match away.len() {
            0 => 0.0,
            len => away[((len - 1) as f64 * 0.97).ceil() as usize],
        };
        // A round number, so that the text can state it: 1.1, 1.2, 1.5, 2, 3 or 5.
        [1.1, 1.2, 1.5, 2.0, 3.0]
            .into_iter()
            .find(|&range| f64::ln(range) >= most)
            .unwrap_or(5.0)
    }

    fn header(&self, svg: &mut Svg) {
        let Some(row) = self.rows.iter().max_by_key(|row| row.launches.len()) else {
            return;
        };
        for (column, launch) in row.launches.iter().enumerate() {
            let (left, right) = columns(row.launches.len(), column);
            let text = format!("launch {}", launch.number);
            svg.text("tk", ((left + right) / 2.0, 16.0), Anchor::Middle, &text);
        }
        svg.text("tk", (RIGHT + 12.0, 16.0), Anchor::Start, "median");
    }
}

/// Draw the name, middle line, limits and separators of a strip. Only the first strip has its
/// limits labelled, because they are the same for all.
fn frame(svg: &mut Svg, row: &Row, middle: f64, range: Option<f64>, center: &str) {
    let at = (LEFT - 56.0, middle + 4.5);
    svg.text("lb", at, Anchor::End, &shorten(&row.name, 25));
    for (y, up) in [(middle - HALF, true), (middle + HALF, false)] {
        svg.line("gr", (LEFT, y), (RIGHT, y));
        if let Some(range) = range {
            let label = fmt::quantity(Unit::Ratio, if up { range } else { 1.0 / range });
            svg.text("tk", (LEFT - 6.0, y + 4.0), Anchor::End, &label);
        }
    }
    svg.line("ref", (LEFT, middle), (RIGHT, middle));
    for column in 1..row.launches.len() {
        let x = columns(row.launches.len(), column).0;
        svg.line("gr", (x, middle - HALF), (x, middle + HALF));
    }
    svg.text("vl", (RIGHT + 12.0, middle + 4.5), Anchor::Start, center);
}

/// The left and right end of a launch's column.
fn columns(all: usize, column: usize) -> (f64, f64) {
    let width = (RIGHT - LEFT) / all.max(1) as f64;
    let at = |column: usize| LEFT + width * column as f64;
    (at(column), at(column + 1))
}

/// Path data of strokes without length, which round caps turn into dots.
fn dots(samples: &[f64], (left, right): (f64, f64), place: impl Fn(f64) -> f64) -> String {
    let step = (right - left - 12.0) / (samples.len().max(2) - 1) as f64;
    let mut d = String::new();
    let mut last = (0.0, 0.0);
    for (index, &sample) in samples.iter().enumerate() {
        if !(sample > 0.0 && sample.is_finite()) {
            continue;
        }
        // Round to whole pixels: dots take half the bytes of a page.
        let x = (left + 6.0 + step * index as f64).round();
        let y = place(sample).round();
        let _ = match d.is_empty() {
            true => write!(d, "M{} {}h0", num(x), num(y)),
            false => write!(d, "m{} {}h0", num(x - last.0), num(y - last.1)),
        };
        last = (x, y);
    }
    d
}

fn thin(samples: &[f64]) -> Vec<f64> {
    if samples.len() <= DRAWN_MAX {
        return samples.to_vec();
    }
    let last = (samples.len() - 1) as f64;
    (0..DRAWN_MAX)
        .map(|i| samples[(i as f64 / (DRAWN_MAX - 1) as f64 * last).round() as usize])
        .collect()
}

/// Samples as a list, separated by commas.
fn list(unit: Unit, samples: &[f64]) -> String {
    let texts: Vec<String> = samples.iter().map(|&s| fmt::quantity(unit, s)).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(samples: &[&[f64]]) -> Figure {
        Strip {
            id: "s".into(),
            finding: "steady".into(),
            unit: Unit::Ns,
            rows: vec![Row {
                name: "a".into(),
                style: Style::default(),
                launches: (1..)
                    .zip(samples)
                    .map(|(number, samples)| Launch {
                        number,
                        samples: samples.to_vec(),
                    })
                    .collect(),
            }],
        }
        .draw()
    }

    #[test]
    fn samples_keep_their_order_and_stand_in_the_table() {
        let figure = strip(&[&[1e6, 1.1e6, 0.9e6], &[1e6, 1e6]]);
        let rows = &figure.table.rows;
        assert_eq!(rows[0][1..4], ["1", "3", "1.00 ms"]);
        assert_eq!(rows[0][4], "1.00 ms, 1.10 ms, 900 µs");
        assert!(figure.svg.contains("<title>a · 2 · 1.00 ms</title>"));
        assert_eq!(figure.svg.matches("h0").count(), 5);
        assert!(figure.not_drawn.is_empty());
    }

    #[test]
    fn a_straggler_is_drawn_at_the_edge_and_said() {
        let mut samples = vec![1e6; 60];
        samples[59] = 1e9;
        let figure = strip(&[&samples]);
        assert!(figure.reading.ends_with("drawn at the edge: 1 of a."));
        assert_eq!(figure.svg.matches("h0").count(), DRAWN_MAX);
        assert!(figure.reading.contains("drawn at even steps"));
    }

    #[test]
    fn nothing_zero_and_nonsense_are_said() {
        for samples in [&[][..], &[0.0, 0.0], &[f64::NAN]] {
            let figure = strip(&[samples]);
            assert_eq!(figure.not_drawn.len(), 1);
            assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
        }
    }
}
