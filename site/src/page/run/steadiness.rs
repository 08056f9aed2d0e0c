//! How much cells vary from launch to launch, how often the machine was slow beside them, and how
//! far launches that were flagged as disturbed explain the variation. Flagged launches count in
//! every number.

use crate::fmt::{self, Unit};
use crate::view::Shown;
use crate::words::plural;
use stats::analysis::{Cell, Metric, MetricId};
use stats::describe::{REPRODUCIBLE_MAX, cv};
use stats::disturbance::Cause;

/// Minimum number of launches without a flag for their variation to be reported.
const UNFLAGGED_MIN: usize = 3;

/// Counts of the cells and launches of a run.
#[derive(Default)]
pub struct Steadiness {
    /// Number of cells whose leading metric is a time or a rate, with two launches or more.
    timed: u64,
    /// Cells in `timed` that are reproducible.
    reproducible: u64,
    /// Cells in `timed` with a flagged launch.
    flagged: u64,
    /// Cells in `flagged` that aren't reproducible.
    unsteady_flagged: u64,
    /// Cells in `timed` with [`UNFLAGGED_MIN`] launches or more that aren't flagged.
    left: u64,
    /// Cells in `left` that are reproducible by these launches alone.
    left_reproducible: u64,
    /// Number of measured cases, counted once a launch, beside which the machine's speed was
    /// measured.
    seen: u64,
    /// Cases in `seen` beside which work that engines may have felt was slower than usual.
    slow: u64,
}

impl Steadiness {
    /// Count the cells of a run.
    pub fn new(shown: &Shown) -> Self {
        let mut found = Self::default();
        for scenario in shown.scenarios() {
            let is_timed = |id: &MetricId| {
                matches!(
                    Unit::from_metric(*id),
                    Unit::Ns | Unit::TokPerS | Unit::RequestsPerS
                )
            };
            let Some(id) = shown.leading(scenario).filter(is_timed) else {
                continue;
            };
            let cells = shown.analysis.cells.iter();
            for cell in cells.filter(|cell| cell.scenario == scenario.id) {
                if let Some(metric) = cell.metric(id) {
                    found.add(cell, metric);
                }
            }
        }
        let cells = shown.analysis.cells.iter();
        for cell in cells.filter(|cell| !cell.metrics.is_empty()) {
            found.seen += u64::from(cell.invocations.saturating_sub(cell.unseen));
            let is_slow = |cause: &Cause| matches!(cause, Cause::Slow(_));
            let slow = cell.disturbances.iter();
            found.slow += slow.filter(|d| d.causes.iter().any(is_slow)).count() as u64;
        }
        found
    }

    /// Count a cell by its leading metric.
    fn add(&mut self, cell: &Cell, metric: &Metric) {
        let Some(is_reproducible) = metric.reproducible() else {
            return;
        };
        self.timed += 1;
        self.reproducible += u64::from(is_reproducible);
        if !cell.disturbances.is_empty() {
            self.flagged += 1;
            self.unsteady_flagged += u64::from(!is_reproducible);
        }
        let is_flagged = |block: u32| cell.disturbances.iter().any(|d| d.invocation == block);
        let values = cell.blocks.iter().zip(&metric.by_invocation);
        let unflagged = values.filter(|(block, _)| !is_flagged(**block));
        let unflagged: Vec<f64> = unflagged.map(|(_, value)| *value).collect();
        if unflagged.len() < UNFLAGGED_MIN {
            return;
        }
        if let Some(variation) = cv(&unflagged) {
            self.left += 1;
            self.left_reproducible += u64::from(variation < REPRODUCIBLE_MAX);
        }
    }

    /// Say how many cells are reproducible, how often the machine was slow, and what flagged
    /// launches explain; empty without a timed cell.
    pub fn in_words(&self) -> String {
        let cells = match self.timed {
            0 => return String::new(),
            n => plural(n, "timed cell", "timed cells"),
        };
        let limit = 100.0 * REPRODUCIBLE_MAX;
        let machine = match self.seen {
            0 => "the machine’s speed was not measured beside them".to_owned(),
            seen => format!(
                "in {} of {} beside which the harness did its known work, that was slower than \
                 usual and the engines may have felt it",
                fmt::count(self.slow),
                plural(seen, "measured case", "measured cases")
            ),
        };
        format!(
            "Of {cells}, {} under {limit:.0} % from launch to launch (coefficient of variation of \
             the leading metric); {machine}.{}",
            plural(self.reproducible, "varies", "vary"),
            self.explained()
        )
    }

    /// Say how many unsteady cells have a flagged launch, and how steady cells are without such
    /// launches; empty where all are steady.
    fn explained(&self) -> String {
        let unsteady = self.timed.saturating_sub(self.reproducible);
        if unsteady == 0 {
            return String::new();
        }
        let mut text = format!(
            " Of {} by more, {} a launch that was flagged as disturbed",
            plural(unsteady, "cell that varies", "cells that vary"),
            plural(self.unsteady_flagged, "has", "have")
        );
        let unexplained = unsteady.saturating_sub(self.unsteady_flagged);
        if unexplained > 0 {
            text += &format!("; {} none, ", plural(unexplained, "has", "have"));
            text += match self.seen {
                0 => "and nothing that was watched explains that variation",
                _ => "so the known work (the canary) doesn’t explain that variation",
            };
        }
        text += ".";
        if self.flagged == 0 {
            return text;
        }
        let verb = match self.left_reproducible {
            1 => "varies",
            _ => "vary",
        };
        text += &format!(
            " Without flagged launches, {} of {} {verb} under {:.0} %",
            fmt::count(self.left_reproducible),
            plural(self.left, "cell", "cells"),
            100.0 * REPRODUCIBLE_MAX
        );
        let few = self.timed.saturating_sub(self.left);
        if few > 0 {
            text += &format!(
                "; {} too few launches left to say (under {UNFLAGGED_MIN})",
                plural(few, "has", "have")
            );
        }
        text + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::key::CellKey;
    use stats::disturbance::Disturbance;

    #[test]
    fn steadiness_is_counted_and_the_machines_part_said() {
        let said = |timed, reproducible, seen, slow| {
            let found = Steadiness {
                timed,
                reproducible,
                seen,
                slow,
                ..Steadiness::default()
            };
            found.in_words()
        };
        assert_eq!(said(0, 0, 5, 1), "", "one launch, or nothing timed");
        let blind = said(131, 15, 0, 0);
        assert!(blind.starts_with("Of 131 timed cells, 15 vary under 5 % from launch to launch"));
        assert!(blind.contains("was not measured"), "{blind}");
        let seen = said(1, 1, 655, 12);
        assert!(
            seen.starts_with("Of 1 timed cell, 1 varies under 5 %"),
            "{seen}"
        );
        assert!(
            seen.contains("in 12 of 655 measured cases beside which"),
            "{seen}"
        );
        assert!(seen.ends_with("may have felt it."), "all are steady");
    }

    /// Count a cell of launches with these values, of which those of the blocks `flagged` are
    /// disturbed.
    fn add(found: &mut Steadiness, values: &[f64], flagged: &[u32]) {
        let disturbance = |&invocation: &u32| Disturbance {
            invocation,
            causes: vec![Cause::GpuShared { others: 1 }],
        };
        let cell = Cell {
            // The block numbers of a shard have gaps.
            blocks: (0..values.len() as u32).map(|block| 2 * block).collect(),
            disturbances: flagged.iter().map(disturbance).collect(),
            ..Cell::new(CellKey::new("t", "s", "c"), 1)
        };
        let metric = Metric {
            cv_invocations: cv(values),
            ..Metric::of(MetricId::TtftNs, 1.0, values.to_vec())
        };
        found.add(&cell, &metric);
    }

    #[test]
    fn flagged_launches_explain_what_varies_less_without_them() {
        let mut found = Steadiness::default();
        let slow_once = [1.0, 1.01, 1.5, 0.99, 1.0];
        add(&mut found, &slow_once, &[4]);
        let explained = " Of 1 cell that varies by more, 1 has a launch that was flagged as \
                         disturbed. Without flagged launches, 1 of 1 cell varies under 5 %.";
        assert_eq!(found.explained(), explained);
        // In turn: a launch other than the slow one is flagged, none is, too few are left.
        add(&mut found, &slow_once, &[2]);
        add(&mut found, &slow_once, &[]);
        add(&mut found, &slow_once, &[0, 2, 4]);
        add(&mut found, &[1.0, 1.0, 1.01], &[]);
        assert_eq!((found.timed, found.reproducible), (5, 1));
        found.seen = 23;
        let said = found.in_words();
        assert!(
            said.ends_with(
                " Of 4 cells that vary by more, 3 have a launch that was flagged as disturbed; 1 \
                 has none, so the known work (the canary) doesn’t explain that variation. Without \
                 flagged launches, 2 of 4 cells vary under 5 %; 1 has too few launches left to \
                 say (under 3)."
            ),
            "{said}"
        );
    }

    #[test]
    fn without_flags_nothing_is_left_out() {
        let mut found = Steadiness::default();
        add(&mut found, &[1.0, 1.5, 1.0], &[]);
        let said = found.explained();
        assert!(
            said.ends_with("1 has none, and nothing that was watched explains that variation."),
            "{said}"
        );
    }
}
