//! The table of all measured targets behind a recommendation.

use super::workload::{Asked, Workload};
use super::{estimate, setup};
use crate::fmt::{self, NONE, Unit};
use crate::view::Shown;
use crate::view::place::target_path;
use serde::Serialize;
use stats::decide::Decision;
use stats::metrics::Better;

/// A measured target, and where the rule puts it.
#[derive(Clone, Serialize)]
pub(super) struct Candidate {
    target: String,
    path: String,
    value: String,
    interval: String,
    launches: u32,
    ships: String,
    /// The estimate for a usual answer; empty where there is none.
    longer: String,
    group: &'static str,
    tone: &'static str,
}

/// All measured targets, best mean first.
pub(super) fn candidates(
    shown: &Shown,
    asked: &Asked,
    workload: &Workload,
    decision: &Decision,
) -> Vec<Candidate> {
    let higher = asked.metric.describe().better == Better::Higher;
    let mut all: Vec<(f64, Candidate)> = asked
        .cells
        .iter()
        .filter_map(|cell| {
            let found = cell.metric(asked.metric)?;
            let (value, interval) = fmt::metric(found);
            let (group, tone) = if cell.target == decision.choice {
                ("chosen", "good")
            } else if decision.tied.contains(&cell.target) {
                ("tied with it", "even")
            } else if shown.is_ours(&cell.target) {
                ("this project’s own", "even")
            } else {
                ("behind", "bad")
            };
            let ships = setup::shipped_bytes(shown, &cell.target);
            let candidate = Candidate {
                target: cell.target.clone(),
                path: target_path(shown, &cell.target),
                value,
                interval: interval.unwrap_or_else(|| NONE.into()),
                launches: cell.invocations,
                ships: ships.map_or(NONE.into(), |n| fmt::quantity(Unit::Bytes, n as f64)),
                longer: estimate::of_target(workload, asked, &cell.target),
                group,
                tone,
            };
            Some((found.value, candidate))
        })
        .collect();
    all.sort_by(|a, b| match higher {
        true => b.0.total_cmp(&a.0),
        false => a.0.total_cmp(&b.0),
    });
    all.into_iter().map(|(_, candidate)| candidate).collect()
}
