//! Draws what a whole is made of: a bar for each target from zero, its parts side by side, and at
//! its end a hollow part for what no part accounts for. The interval is that of the whole. Parts
//! differ in filling, so that they can be told apart in grey.

use super::scale::Scale;
use super::style::Style;
use super::svg::{Anchor, Svg, num};
use super::{Estimate, Figure, Table, WIDTH};
use crate::fmt::{self, Unit};
use crate::html::shorten;

/// The data of a chart of stacked bars.
pub struct Stack {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// How to read the chart, in sentences.
    pub reading: String,
    /// Label under the axis.
    pub axis_label: String,
    /// Unit of parts and whole.
    pub unit: Unit,
    /// Names of the two parts and of the rest of the whole.
    pub parts: [String; 3],
    /// The bars, from the top.
    pub rows: Vec<Row>,
    /// Names without a bar, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// The bar of one target.
pub struct Row {
    /// Name of the target.
    pub name: String,
    /// Colour of the bar.
    pub style: Style,
    /// The sizes of the two known parts.
    pub parts: [f64; 2],
    /// The size of the whole.
    pub whole: Estimate,
    /// Samples behind the whole, e.g. `n = 5 launches`.
    pub rests_on: String,
}

const LEFT: f64 = 200.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 34.0;
const ROW: f64 = 21.0;
const BAR: f64 = 12.0;

impl Row {
    /// The sizes of the known parts, and of the rest: what neither accounts for, at least 0.
    fn all_parts(&self) -> [f64; 3] {
        let [first, second] = self.parts;
        [first, second, (self.whole.value - first - second).max(0.0)]
    }
}

impl Stack {
    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let rows = self.rows.iter();
        let values = rows.flat_map(|r| r.whole.extent().chain([r.parts.iter().sum::<f64>()]));
        let scale = Scale::linear(values, true, self.unit, (LEFT, RIGHT));
        let bottom = TOP + ROW * self.rows.len() as f64 + 4.0;
        let mut svg = Svg::new(WIDTH, bottom + 44.0);
        for &tick in &scale.ticks {
            let Some(x) = scale.at(tick) else { continue };
            svg.line("gr", (x, TOP - 4.0), (x, bottom));
            let label = fmt::tick(self.unit, tick);
            svg.text("tk", (x, bottom + 17.0), Anchor::Middle, &label);
        }
        let middle = ((LEFT + RIGHT) / 2.0, bottom + 36.0);
        svg.text("al", middle, Anchor::Middle, &self.axis_label);
        self.key(&mut svg);
        let mut not_drawn = super::missing_words(&self.missing);
        for (index, row) in self.rows.iter().enumerate() {
            let y = TOP + ROW * index as f64;
            if !self.bar(&mut svg, &scale, row, y) {
                not_drawn.push(format!("{} has no place on this axis", row.name));
            }
        }
        let table = self.table();
        Figure::new(svg, self.id, self.finding, self.reading, table, not_drawn)
    }

    /// Draw the key: each filling with the name of its part, above the bars.
    fn key(&self, svg: &mut Svg) {
        let mut x = LEFT;
        for (index, name) in self.parts.iter().enumerate() {
            let size = (18.0, BAR);
            fill(svg, index, (x, 8.0), size, "s0", "");
            svg.text("tk", (x + 24.0, 18.0), Anchor::Start, name);
            x += 44.0 + 7.2 * name.chars().count() as f64;
        }
    }

    /// Draw a bar with its name and the value of the whole; `false` where the whole lies outside
    /// the axis.
    fn bar(&self, svg: &mut Svg, scale: &Scale, row: &Row, y: f64) -> bool {
        let color = row.style.color_class();
        let base = y + ROW / 2.0 + 4.5;
        svg.series("rw", &row.name, row.style.engine, "");
        let name = shorten(&row.name, 26);
        svg.text("lb", (LEFT - 12.0, base), Anchor::End, &name);
        let text = row.whole.text(self.unit);
        svg.text("vl", (RIGHT + 14.0, base), Anchor::Start, &text);
        let drawable = scale.at(row.whole.value).is_some();
        if drawable {
            let (mut from, mut sum) = (scale.clamped(0.0), 0.0);
            for (index, part) in row.all_parts().into_iter().enumerate() {
                sum += part;
                let to = scale.clamped(sum);
                let title = format!("{} · {}", row.name, fmt::quantity(self.unit, part));
                let at = (from, y + (ROW - BAR) / 2.0);
                fill(svg, index, at, (to - from, BAR), &color, &title);
                from = to;
            }
            if let Some((low, high)) = scale.interval(row.whole.ci) {
                let middle = y + ROW / 2.0;
                svg.line("wt", (low, middle), (high, middle));
            }
        }
        svg.close();
        drawable
    }

    fn table(&self) -> Table {
        let mut head = vec!["Target".to_owned()];
        head.extend(self.parts.iter().cloned());
        head.extend(["In all", "95 % interval", "Rests on"].map(String::from));
        let rows = self.rows.iter().map(|row| {
            let mut cells = vec![row.name.clone()];
            cells.extend(row.all_parts().map(|part| fmt::quantity(self.unit, part)));
            cells.extend(row.whole.cells(self.unit));
            cells.push(row.rests_on.clone());
            cells
        });
        let rows = rows.collect();
        let mut table = Table { head, rows };
        table.add_missing(&self.missing, 6);
        table
    }
}

/// Draw a part: the first solid, the second hatched, the rest hollow.
fn fill(svg: &mut Svg, part: usize, at: (f64, f64), size: (f64, f64), color: &str, title: &str) {
    let class = ["sd", "hl", "hl"][part.min(2)];
    svg.rect(&format!("{color} {class}"), at, size, title);
    if part == 1 && size.0 > 0.0 {
        let mut d = String::new();
        let mut x = at.0 + 2.0;
        while x < at.0 + size.0 {
            d.push_str(&format!("M{} {}v{}", num(x), num(at.1), num(size.1)));
            x += 3.0;
        }
        svg.path(&format!("{color} ht"), &d, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(rows: Vec<(&str, [f64; 2], f64)>) -> Figure {
        Stack {
            id: "m".into(),
            finding: "a is least".into(),
            reading: "bars".into(),
            axis_label: "peak memory".into(),
            unit: Unit::Bytes,
            parts: ["weights", "cache", "rest"].map(String::from),
            rows: rows
                .into_iter()
                .map(|(name, parts, value)| Row {
                    name: name.into(),
                    style: Style::default(),
                    parts,
                    whole: Estimate::new(value, Some((value * 0.9, value * 1.1))),
                    rests_on: "n = 5 launches".into(),
                })
                .collect(),
            missing: vec![("z".into(), "out of memory".into())],
        }
        .draw()
    }

    #[test]
    fn parts_and_what_is_left_are_in_the_table_from_zero() {
        const MIB: f64 = 1024.0 * 1024.0;
        let figure = stack(vec![("a", [40.0 * MIB, 8.0 * MIB], 100.0 * MIB)]);
        assert_eq!(
            figure.table.rows[0][1..5],
            ["40.0 MiB", "8.00 MiB", "52.0 MiB", "100 MiB"]
        );
        assert!(figure.svg.contains("a · 52.0 MiB") && figure.svg.contains(">0</text>"));
        assert_eq!(figure.not_drawn, ["z (out of memory)"]);
    }

    #[test]
    fn parts_greater_than_the_whole_leave_nothing_and_nonsense_is_said() {
        let figure = stack(vec![("a", [9.0, 3.0], 10.0)]);
        assert_eq!(figure.table.rows[0][3], "0 B");
        let figure = stack(vec![("a", [1.0, 1.0], f64::NAN)]);
        assert_eq!(figure.not_drawn.len(), 2);
        assert!(!figure.svg.contains("NaN"));
    }
}
