//! `results/<run>/budget.json`: the pilot's estimate of each target's pace, the cells that are left
//! out for lack of time, and the targets that run twice. Written once, before anything is timed.

use crate::key::{CellKey, Twin};
use serde::{Deserialize, Serialize};

/// The division of a run's time among its targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Time that the profile allows for measuring (s); 0: any time.
    pub budget_s: f64,
    /// Largest share of a target (s); the baseline is exempt. Absent where all cells fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_s: Option<f64>,
    /// The pilots that the estimates come from, by target in plan order.
    pub pilots: Vec<Pilot>,
    /// The cells that are not measured.
    pub over: Vec<OverBudget>,
    /// The targets that run twice in every block; empty where no A/A pair is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
}

/// The pace of one target, from one launch whose times are not published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Target id.
    pub target: String,
    /// Time from starting its process until it was ready (s).
    pub load_s: f64,
    /// Rounds of requests, one for each shape of work in the plan.
    pub rounds: Vec<Round>,
    /// Estimated time of all its planned cells (s).
    pub planned_s: f64,
    /// Reason why the pilot ended early, if it did; then no cell of the target is over budget.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
}

/// A round: as many requests as are in flight together, from the first sent to the last answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Requests in flight.
    pub concurrency: u32,
    /// Whether the prompts differ in length; `prompt_tokens` is then their mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
    /// Duration of the round (s).
    pub round_s: f64,
}

/// A cell that is not measured for lack of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverBudget {
    /// Target id, or a twin's name.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Estimated time of the cell (s).
    pub estimate_s: f64,
    /// Reason in one line for the reader.
    pub reason: String,
}

impl OverBudget {
    /// The key of the cell.
    pub fn key(&self) -> CellKey {
        CellKey::new(&self.target, &self.scenario, &self.case)
    }
}

impl Budget {
    /// Why a cell is not measured; `None` where it is.
    pub fn refusal(&self, cell: &CellKey) -> Option<&str> {
        let is_it = |over: &&OverBudget| {
            over.target == cell.target && over.scenario == cell.scenario && over.case == cell.case
        };
        Some(&self.over.iter().find(is_it)?.reason)
    }
}

/// Format an estimated duration (s), rounded: `0.4 s`, `42 s`, `25 min`, `1.7 h`.
pub fn about(s: f64) -> String {
    match s {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn what_is_estimated_is_said_in_round_numbers() {
        let said = [0.44, 9.97, 42.4, 91.0, 1490.0, 6000.0].map(about);
        assert_eq!(said, ["0.4 s", "10 s", "42 s", "2 min", "25 min", "1.7 h"]);
    }
}
