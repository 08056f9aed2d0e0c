//! Coverage at a glance: every planned cell as one sign. The reasons stand in the
//! tables of the coverage page.

use super::Shown;
use super::cells::status_words;
use crate::chart::Figure;
use crate::chart::heat::{Cell, Heat, Kind, Row};
use crate::fmt;
use crate::words::plural;
use schema::record::Status;
use stats::analysis;

/// Requests from which a cell counts as measured in full; the floor of every
/// publishable profile.
const FULL: u64 = 100;

/// The map of a run.
pub fn map(shown: &Shown) -> Figure {
    let cases = || {
        let scenarios = shown.scenarios().iter();
        scenarios.flat_map(|s| s.cases.iter().map(move |case| (s, case)))
    };
    let rows: Vec<Row> = shown
        .targets()
        .iter()
        .map(|target| Row {
            name: target.id.clone(),
            cells: cases()
                .map(|(s, case)| cell(shown.cell(&s.cell_key(case, &target.id))))
                .collect(),
        })
        .collect();
    let count = |kind: Kind| {
        let cells = rows.iter().flat_map(|row| &row.cells);
        cells.filter(|cell| cell.kind == kind).count() as u64
    };
    let planned = rows.iter().map(|row| row.cells.len() as u64).sum::<u64>() - count(Kind::Never);
    let finding = format!(
        "{} of {} measured with {FULL} requests or more, {} with fewer; {} left out for time or because they can’t be run, {} failed",
        fmt::count(count(Kind::Full)),
        plural(planned, "planned cell", "planned cells"),
        fmt::count(count(Kind::Thin)),
        fmt::count(count(Kind::Left)),
        fmt::count(count(Kind::Wrong)),
    );
    Heat {
        id: "coverage".into(),
        finding,
        reading: format!(
            "● measured, {FULL} requests or more; ○ measured with fewer; – left out: no time, not verified that far, unsupported or unavailable; ✕ failed; empty: never planned. The reasons stand below."
        ),
        groups: shown
            .scenarios()
            .iter()
            .map(|scenario| {
                let cases = scenario.cases.iter().map(|case| case.id.clone());
                (shown.title(scenario).to_owned(), cases.collect())
            })
            .collect(),
        rows,
    }
    .draw()
}

fn cell(cell: Option<&analysis::Cell>) -> Cell {
    let Some(cell) = cell else {
        return Cell {
            kind: Kind::Never,
            words: "not planned".into(),
        };
    };
    let kind = match cell.status {
        Status::Ok if cell.requests >= FULL => Kind::Full,
        Status::Ok => Kind::Thin,
        Status::OverBudget | Status::Unsupported | Status::Unavailable | Status::Unverified => {
            Kind::Left
        }
        _ => Kind::Wrong,
    };
    let words = match cell.status {
        Status::Ok => plural(cell.requests, "request", "requests"),
        status => status_words(status).into(),
    };
    Cell { kind, words }
}
