//! The comparisons on the page of a run that the report doesn't show: each target with the best of
//! its case, on the leading metric. Those of the run shown stand on the scenarios' pages.

use crate::chart::Table;
use crate::fmt::{self, NONE};
use crate::view::cells::verdict;
use crate::view::{Shown, case_label};
use crate::words::plural;
use serde::Serialize;
use stats::analysis::Role;

/// Maximum number of comparisons that are listed; more are in the run's downloads.
const ROWS_MAX: usize = 60;

/// The comparisons of a run.
#[derive(Default, Serialize)]
pub struct Comparisons {
    /// All of them; `None` where there are none, or more than [`ROWS_MAX`].
    table: Option<Table>,
    /// How many there are, in words, where they are too many for a table; else empty.
    unlisted: String,
}

const HEAD: [&str; 7] = [
    "Target",
    "Case",
    "Against the best",
    "Times better",
    "95 % interval",
    "p (Holm)",
    "Verdict",
];

impl Comparisons {
    /// The comparisons of every case with its leader, in plan order, the best first.
    pub fn new(shown: &Shown) -> Self {
        let mut rows = Vec::new();
        for (scenario, case) in shown.cases() {
            let at = scenario.case_key(case);
            let label = format!("{}, {}", shown.title(scenario), case_label(scenario, case));
            let all = shown.analysis.comparisons_of(&at, Role::Leader);
            let mut all: Vec<_> = all.collect();
            all.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
            rows.extend(all.into_iter().map(|c| {
                let (ratio, interval) = fmt::ratio(c.ratio, c.ci95);
                vec![
                    c.target.clone(),
                    label.clone(),
                    c.against.clone(),
                    ratio,
                    interval.unwrap_or_else(|| NONE.into()),
                    c.p_holm.map_or(NONE.into(), fmt::p_value),
                    verdict(c).0,
                ]
            }));
        }
        match rows.len() {
            0 => Self::default(),
            n if n > ROWS_MAX => Self {
                unlisted: plural(n as u64, "comparison", "comparisons"),
                ..Self::default()
            },
            _ => Self {
                table: Some(Table::new(HEAD, rows)),
                ..Self::default()
            },
        }
    }
}
