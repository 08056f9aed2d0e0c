//! Draws a map of what was measured and what was not, cell by cell: a row for each target, a column
//! for each case. A cell shows its kind by its sign and its shade, never by colour alone.

use super::svg::{Anchor, Svg, num};
use super::{Figure, Table, WIDTH};
use crate::html::shorten;

/// The data of a map of cells.
pub struct Heat {
    /// The chart's id, unique on its page.
    pub id: String,
    /// The finding: one sentence with the main number.
    pub finding: String,
    /// How to read the chart, in sentences.
    pub reading: String,
    /// Headings over the columns, each with the names of its columns.
    pub groups: Vec<(String, Vec<String>)>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// The row of one target.
pub struct Row {
    /// Name of the target.
    pub name: String,
    /// A cell for every column.
    pub cells: Vec<Cell>,
}

/// A cell of the map: one target in one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What happened to the cell.
    pub kind: Kind,
    /// Text for the table: a count of requests, or a status.
    pub words: String,
}

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measured with enough samples.
    Full,
    /// Measured with fewer samples.
    Thin,
    /// Left out on purpose: there was no time, nothing was tried, or the target can't run it.
    Left,
    /// Failed.
    Wrong,
    /// Never planned.
    Never,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Full, Kind::Thin, Kind::Left, Kind::Wrong, Kind::Never];

    /// The class and the sign of a cell of this kind.
    fn look(self) -> (&'static str, &'static str) {
        match self {
            Kind::Full => ("hf", "●"),
            Kind::Thin => ("hn", "○"),
            Kind::Left => ("hx", "–"),
            Kind::Wrong => ("hw", "✕"),
            Kind::Never => ("hv", ""),
        }
    }
}

const LEFT: f64 = 200.0;
const TOP: f64 = 58.0;
const ROW: f64 = 19.0;

impl Heat {
    /// Draw the chart.
    pub fn draw(self) -> Figure {
        let columns: usize = self.groups.iter().map(|(_, cases)| cases.len()).sum();
        let gaps = 8.0 * self.groups.len().saturating_sub(1) as f64;
        let step = ((WIDTH - LEFT - gaps) / columns.max(1) as f64).min(48.0);
        let bottom = TOP + ROW * self.rows.len() as f64;
        let mut svg = Svg::new(WIDTH, bottom + 6.0);
        let mut lefts = Vec::new();
        let mut x = LEFT;
        for (heading, cases) in &self.groups {
            // A heading is bold: its characters are wider than those of a label.
            let room = (step * cases.len() as f64 / 8.4) as usize;
            for (line, text) in two_lines(heading, room.max(1)).iter().enumerate() {
                let y = 14.0 + 15.0 * line as f64;
                svg.text("gh", (x, y), Anchor::Start, text);
            }
            for case in cases {
                let at = (x + step / 2.0 - 1.0, TOP - 7.0);
                let room = (step / 6.6) as usize;
                svg.text("tk", at, Anchor::Middle, &shorten(case, room.max(1)));
                lefts.push(x);
                x += step;
            }
            x += 8.0;
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = TOP + ROW * index as f64;
            let base = y + ROW / 2.0 + 4.5;
            let name = shorten(&row.name, 26);
            svg.text("lb", (LEFT - 12.0, base), Anchor::End, &name);
            // Draw one outline and one text per kind for all cells of the row: a page has hundreds
            // of cells, and the table has their words.
            for kind in Kind::ALL {
                let of_kind = row.cells.iter().zip(&lefts);
                let of_kind = of_kind.filter(|(cell, _)| cell.kind == kind);
                let lefts: Vec<f64> = of_kind.map(|(_, &left)| left).collect();
                let (wide, high) = (num(step - 2.0), num(ROW - 2.0));
                let outline = |x: &f64| format!("M{} {}h{wide}v{high}h-{wide}z", num(*x), num(y));
                let outlines: String = lefts.iter().map(outline).collect();
                let (class, sign) = kind.look();
                svg.path(class, &outlines, "");
                let middles: Vec<f64> = lefts.iter().map(|x| x + (step - 2.0) / 2.0).collect();
                svg.signs(&format!("sg {class}t"), &middles, base - 1.0, sign);
            }
        }
        let table = self.table();
        Figure::new(svg, self.id, self.finding, self.reading, table, Vec::new())
    }

    fn table(&self) -> Table {
        let mut head = vec!["Target".to_owned()];
        for (heading, cases) in &self.groups {
            head.extend(cases.iter().map(|case| format!("{heading}: {case}")));
        }
        let row = |row: &Row| {
            let mut cells = vec![row.name.clone()];
            cells.extend(row.cells.iter().map(|cell| cell.words.clone()));
            cells
        };
        Table {
            head,
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

/// Break a heading at its first space where one line is too short for it.
fn two_lines(heading: &str, room: usize) -> Vec<String> {
    if heading.chars().count() <= room {
        return vec![heading.to_owned()];
    }
    match heading.split_once(' ') {
        Some((first, rest)) => vec![shorten(first, room), shorten(rest, room)],
        None => vec![shorten(heading, room)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_the_table_and_has_a_sign_of_its_kind() {
        let cells: Vec<Cell> = Kind::ALL
            .into_iter()
            .map(|kind| Cell {
                kind,
                words: format!("{kind:?}"),
            })
            .collect();
        let figure = Heat {
            id: "h".into(),
            finding: "one of five".into(),
            reading: "cells".into(),
            groups: vec![
                ("A".into(), vec!["1".into(); 3]),
                ("B".into(), vec!["2".into(); 2]),
            ],
            rows: vec![Row {
                name: "<a>".into(),
                cells,
            }],
        }
        .draw();
        assert_eq!(figure.table.rows[0].len(), figure.table.head.len());
        assert_eq!(figure.svg.matches("v17h-").count(), 5);
        for sign in ["●", "○", "–", "✕"] {
            assert_eq!(figure.svg.matches(sign).count(), 1, "{sign}");
        }
    }

    #[test]
    fn nothing_planned_is_an_empty_picture() {
        let figure = Heat {
            id: "h".into(),
            finding: "nothing".into(),
            reading: String::new(),
            groups: vec![],
            rows: vec![],
        }
        .draw();
        assert!(figure.svg.ends_with("</svg>"));
    }
}
