//! What another run found about an engine for which the run shown has no number: how it stands
//! there, and its values at the size that stands for each scenario.

use super::standing;
use crate::chart::Table;
use crate::fmt::NONE;
use crate::view::cells::view;
use crate::view::eligible::is_real_size;
use crate::view::place::{RunLine, parameters, publishable};
use crate::view::{Shown, case_label};
use serde::Serialize;

/// The numbers of an engine in another run than the one shown.
#[derive(Serialize)]
pub struct Elsewhere {
    run: RunLine,
    /// How the engine stands in that run.
    answer: String,
    /// Whether the run's model is known to be smaller than those that are used.
    is_small: bool,
    /// A row for each of its targets and scenarios.
    table: Table,
}

const HEAD: [&str; 8] = [
    "Scenario",
    "Case",
    "Target",
    "Metric",
    "Value",
    "95 % interval",
    "Rank",
    "Times better than the baseline",
];

/// What another publishable run in `all` found about an engine. Of the runs with numbers of it, the
/// one with the largest model is taken, then the one with most of its targets, then the first
/// given. `None` if no other run has a number.
pub fn of_engine(shown: &Shown, all: &[Shown], engine: &str) -> Option<Elsewhere> {
    let measured = |run: &Shown| {
        let targets = run.targets_of(engine);
        targets.filter(|t| run.has_numbers(&t.id)).count()
    };
    let others = publishable(all).into_iter();
    let others = others.filter(|run| run.run.header.id != shown.run.header.id);
    let with_rows = others.map(|run| (run, rows(run, engine)));
    // `max_by_key` returns the last of equals, and the first run is wanted.
    let (run, rows) = with_rows
        .filter(|(_, rows)| !rows.is_empty())
        .rev()
        .max_by_key(|(run, _)| (parameters(run), measured(run)))?;
    let id = &run.run.header.id;
    Some(Elsewhere {
        answer: standing::of_engine(run, engine, &format!("run {id}")),
        is_small: is_real_size(run) == Some(false),
        table: Table::new(HEAD, rows),
        run: RunLine::new(run, String::new()),
    })
}

fn rows(run: &Shown, engine: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (scenario, case, id) in run.headlines() {
        for target in run.targets_of(engine) {
            let cell = view(run, &scenario.cell_key(case, &target.id), id);
            if !cell.ok {
                continue;
            }
            let or_dash = |text: String| match text.is_empty() {
                true => NONE.to_owned(),
                false => text,
            };
            let ratio = format!("{} {}", cell.ratio, cell.ratio_interval);
            rows.push(vec![
                run.title(scenario).to_owned(),
                case_label(scenario, case),
                target.id.clone(),
                id.describe().title.to_owned(),
                cell.value,
                or_dash(cell.interval),
                or_dash(cell.rank),
                or_dash(ratio.trim().to_owned()),
            ]);
        }
    }
    rows
}
