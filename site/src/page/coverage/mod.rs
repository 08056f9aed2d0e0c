//! The coverage page: what was not measured, and why. Every planned cell stands in the matrix;
//! every one without a number has a row with its reason. A map shows all planned cells at a glance,
//! one sign each.

mod architectures;

use crate::chart::Figure;
use crate::chart::heat::{Cell, Heat, Kind, Row};
use crate::fmt;
use crate::page::kernels;
use crate::view::cells::{gap, is_untested, swatch, words_of};
use crate::view::frame::Frame;
use crate::view::paths::{self, reason_id, reason_path};
use crate::view::place::target_path;
use crate::view::reported::verified_scope;
use crate::view::{Shown, case_label, pilot};
use crate::words::plural;
use architectures::Architectures;
use schema::key::CellKey;
use schema::plan::{Case, PlannedScenario};
use schema::record::{Status, VerifyRecord};
use schema::scenario::PromptSource;
use serde::Serialize;
use stats::analysis;

/// The coverage page.
#[derive(Serialize)]
pub struct CoveragePage {
    frame: Frame,
    map: Figure,
    cells: Matrix,
    reasons: Vec<Reason>,
    /// What stopped targets at the parity gate, each with the scope in words.
    gate: Vec<(VerifyRecord, String)>,
    untraced: Vec<(String, String)>,
    architectures: Architectures,
    unplanned_targets: Vec<(String, String)>,
    unplanned_scenarios: Vec<(String, String)>,
    measured: String,
}

/// The matrix of targets × cases.
#[derive(Serialize)]
struct Matrix {
    /// The title of each scenario, with its cases.
    groups: Vec<(String, Vec<String>)>,
    rows: Vec<MatrixRow>,
}

#[derive(Serialize)]
struct MatrixRow {
    swatch: String,
    target: String,
    cells: Vec<MatrixCell>,
}

#[derive(Serialize)]
struct MatrixCell {
    ok: bool,
    /// Whether the target was not asked ([`is_untested`]).
    untested: bool,
    text: String,
    /// Path of the reason why the cell failed, else empty.
    path: String,
}

#[derive(Serialize)]
struct Reason {
    anchor: String,
    target: String,
    path: String,
    scenario: String,
    case: String,
    status: &'static str,
    /// Whether the target was not asked ([`is_untested`]).
    untested: bool,
    reason: String,
    stderr: String,
}

/// The title of each scenario, with the ids of its cases.
fn groups(shown: &Shown) -> Vec<(String, Vec<String>)> {
    let groups = shown.scenarios().iter().map(|scenario| {
        let cases = scenario.cases.iter().map(|case| case.id.clone());
        (shown.title(scenario).to_owned(), cases.collect())
    });
    groups.collect()
}

fn matrix(shown: &Shown) -> Matrix {
    let rows = shown
        .targets()
        .iter()
        .map(|target| MatrixRow {
            swatch: swatch(shown, &target.id),
            target: target.id.clone(),
            cells: shown
                .cases()
                .map(|(scenario, case)| matrix_cell(shown, &scenario.cell_key(case, &target.id)))
                .collect(),
        })
        .collect();
    Matrix {
        groups: groups(shown),
        rows,
    }
}

fn matrix_cell(shown: &Shown, key: &CellKey) -> MatrixCell {
    let cell = shown.cell(key);
    let (ok, text, path) = match cell {
        None => (false, "not planned".into(), String::new()),
        Some(cell) => match cell.status {
            Status::Ok => (true, fmt::count(cell.requests), String::new()),
            _ => (false, words_of(cell).into(), reason_path(key)),
        },
    };
    MatrixCell {
        ok,
        untested: cell.is_some_and(is_untested),
        text,
        path,
    }
}

/// Make the coverage page.
pub fn page(shown: &Shown) -> CoveragePage {
    let cells = &shown.analysis.cells;
    let missing = cells
        .iter()
        .filter(|cell| cell.status != Status::Ok)
        .count();
    let measured = format!(
        "{} planned, {} without a number.",
        plural(cells.len() as u64, "cell", "cells"),
        fmt::count(missing as u64)
    );
    CoveragePage {
        frame: shown.frame(paths::COVERAGE, "What was not measured", &measured),
        map: map(shown),
        cells: matrix(shown),
        reasons: reasons(shown),
        gate: shown
            .run
            .verify
            .values()
            .filter(|record| record.status != Status::Ok)
            .map(|record| (record.clone(), verified_scope(record)))
            .collect(),
        untraced: kernels::untraced(shown),
        architectures: architectures::matrix(shown.input.registry),
        unplanned_targets: unplanned_targets(shown),
        unplanned_scenarios: unplanned_scenarios(shown),
        measured,
    }
}

fn reasons(shown: &Shown) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for (scenario, case) in shown.cases() {
        for target in shown.targets() {
            let cell = shown.cell(&scenario.cell_key(case, &target.id));
            let Some((status, mut reason)) = gap(cell, shown.leading(scenario)) else {
                continue;
            };
            reason.push_str(&by_pilot(shown, case, &target.id, cell));
            reasons.push(Reason {
                anchor: reason_id(&scenario.cell_key(case, &target.id)),
                target: target.id.clone(),
                path: target_path(shown, &target.id),
                scenario: shown.title(scenario).into(),
                case: case_label(scenario, case),
                status,
                untested: cell.is_some_and(is_untested),
                reason,
                stderr: match self::cell(cell).kind {
                    Kind::Wrong => stderr(shown, scenario, case, &target.id),
                    _ => String::new(),
                },
            });
        }
    }
    reasons
}

/// Say what the pilot tells of a cell that was not planned, or that there was no time for; empty
/// where it tells nothing.
fn by_pilot(shown: &Shown, case: &Case, target: &str, cell: Option<&analysis::Cell>) -> String {
    let Some(took) = pilot::took(shown, case, target) else {
        return String::new();
    };
    match cell.map(|cell| cell.status) {
        None => pilot::whole(shown, case, target).map_or(String::new(), |whole| {
            format!("; by the pilot, which took {took}, {whole}")
        }),
        Some(Status::OverBudget) => format!("; the pilot took {took}"),
        Some(_) => String::new(),
    }
}

/// The last lines of standard error of a cell's launch: the first launch that has any.
fn stderr(shown: &Shown, scenario: &PlannedScenario, case: &Case, target: &str) -> String {
    let (scenario, case) = shown.run.header.plan.measured(scenario, case);
    shown
        .logs(target)
        .filter(|log| log.launch.scenario == scenario.id)
        .filter(|log| log.launch.cases.contains(&case.id))
        .filter_map(|log| log.end.as_ref())
        .map(|end| end.stderr_tail.trim())
        .find(|tail| !tail.is_empty())
        .map(last_lines)
        .unwrap_or_default()
}

/// Keep the last few lines, cut to a length that fits on a page.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(6)..].join("\n");
    crate::html::shorten(&tail, 600)
}

fn unplanned_targets(shown: &Shown) -> Vec<(String, String)> {
    let plan = &shown.run.header.plan;
    let mut profiles = shown.input.profiles.iter();
    let profile = profiles.find(|profile| profile.id == plan.profile);
    let backends = profile.map_or(&[][..], |profile| &profile.backends);
    let targets = shown.input.registry.targets().into_iter();
    let unplanned = targets.filter(|t| !t.hidden && plan.target(&t.id).is_none());
    let rows = unplanned.map(|target| {
        let why = match backends.is_empty() || backends.contains(&target.backend) {
            true => "not chosen for this run, or added after it".into(),
            false => format!(
                "profile {} does not run backend {}",
                plan.profile, target.backend
            ),
        };
        (target.id, why)
    });
    rows.collect()
}

fn unplanned_scenarios(shown: &Shown) -> Vec<(String, String)> {
    let plan = &shown.run.header.plan;
    let rows = shown.input.scenarios.iter().filter_map(|scenario| {
        let why = match plan.scenario(&scenario.id) {
            // The user brought no prompts, so there was nothing to ask.
            None if scenario.prompts == PromptSource::Own => return None,
            None => "not in this run's plan".into(),
            Some(planned) if planned.version == scenario.version => return None,
            Some(planned) => format!(
                "version {} is current; the run measured version {}, and the two do not compare",
                scenario.version, planned.version
            ),
        };
        Some((scenario.title.clone(), why))
    });
    rows.collect()
}

/// Requests from which a cell counts as measured in full; every publishable profile has at least so
/// many.
const FULL: u64 = 100;

/// Draw the map of all cells of a run.
pub fn map(shown: &Shown) -> Figure {
    let rows: Vec<Row> = shown
        .targets()
        .iter()
        .map(|target| Row {
            name: target.id.clone(),
            cells: shown
                .cases()
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
        "{} of {} measured with {FULL} requests or more, {} with fewer; {} left out (no time, not tested or can’t be run), {} failed",
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
            "● measured, {FULL} requests or more; ○ measured with fewer; – left out: no time, not tested, not verified that far, unsupported or unavailable; ✕ failed; empty: not planned. The reasons stand below."
        ),
        groups: groups(shown),
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
        _ => words_of(cell).into(),
    };
    Cell { kind, words }
}
