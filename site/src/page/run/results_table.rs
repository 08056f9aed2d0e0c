//! The results on a run's own page: for each scenario a table of the leading metric by target and
//! case, and one of the shares of the machine's limits. The scenarios' pages show one run alone.

use crate::fmt::{self, NONE};
use crate::view::cells::{self, NOT_TESTED_WHY, swatch};
use crate::view::{Shown, case_label};
use schema::plan::PlannedScenario;
use serde::Serialize;
use stats::analysis::MetricId;

/// The metrics that are shares of a limit; the table gives a target's first cell that has one.
const SHARES: [MetricId; 2] = [MetricId::DecodeMbuPercent, MetricId::PrefillMfuPercent];

/// A table of results.
#[derive(Serialize)]
pub struct ResultTable {
    caption: String,
    columns: Vec<String>,
    rows: Vec<ResultRow>,
}

#[derive(Serialize)]
struct ResultRow {
    swatch: String,
    target: String,
    cells: Vec<ResultCell>,
}

/// A value, e.g. `12.3 ms`, or why there is none; and its 95 % interval, e.g. `[11.9, 12.8]`, or
/// more on why there is no value, or empty.
type ResultCell = (String, String);

/// Make all tables of a run.
pub fn tables(shown: &Shown) -> Vec<ResultTable> {
    let scenarios = shown.scenarios().iter();
    scenarios
        .filter_map(|scenario| of_scenario(shown, scenario))
        .chain(shares(shown))
        .collect()
}

fn of_scenario(shown: &Shown, scenario: &PlannedScenario) -> Option<ResultTable> {
    let id = shown.leading(scenario)?;
    let title = shown.title(scenario);
    let row = |target: &str| {
        let cells = scenario.cases.iter().map(|case| {
            let view = cells::view(shown, &scenario.cell_key(case, target), id);
            match view.ok {
                true => (view.value, view.interval),
                false if view.untested => (view.status, NOT_TESTED_WHY.to_owned()),
                false => (view.status, String::new()),
            }
        });
        self::row(shown, target, cells.collect())
    };
    let is_planned = |target: &str| {
        let cases = scenario.cases.iter();
        cases
            .map(|case| scenario.cell_key(case, target))
            .any(|key| shown.cell(&key).is_some())
    };
    let targets = shown.targets().iter().map(|target| target.id.as_str());
    Some(ResultTable {
        caption: format!("{title}: {}", id.describe().title),
        columns: scenario
            .cases
            .iter()
            .map(|case| case_label(scenario, case))
            .collect(),
        rows: targets.filter(|id| is_planned(id)).map(row).collect(),
    })
}

/// Make the table of [`SHARES`]; `None` where no target has one.
fn shares(shown: &Shown) -> Option<ResultTable> {
    let of = |target: &str, id: MetricId| {
        let mut cells = shown.analysis.cells.iter();
        cells.find_map(|cell| cell.metric(id).filter(|_| cell.target == target))
    };
    let rows = shown.targets().iter().filter_map(|target| {
        let found = SHARES.map(|id| of(&target.id, id));
        let any = found.iter().any(Option::is_some);
        let cells = found.into_iter().map(|metric| {
            let (value, interval) = metric.map_or((NONE.into(), None), fmt::metric);
            (value, interval.unwrap_or_default())
        });
        any.then(|| row(shown, &target.id, cells.collect()))
    });
    let rows: Vec<ResultRow> = rows.collect();
    (!rows.is_empty()).then(|| ResultTable {
        caption: "Shares of what this machine can do at best".into(),
        columns: SHARES.map(|id| id.describe().title.to_owned()).into(),
        rows,
    })
}

fn row(shown: &Shown, target: &str, cells: Vec<ResultCell>) -> ResultRow {
    ResultRow {
        swatch: swatch(shown, target),
        target: target.to_owned(),
        cells,
    }
}
