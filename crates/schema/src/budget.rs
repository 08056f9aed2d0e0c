//! `results/<run>/budget.json`: what the pilot found out about each target's pace,
//! which cells therefore had no time, and which targets run twice. Written once,
//! before anything is timed.

use crate::key::{CellKey, Twin};
use serde::{Deserialize, Serialize};

/// How the time of a run was shared out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// What the profile allows for measuring (s); 0: any time.
    pub budget_s: f64,
    /// The most a target got (s); the baseline is exempt. Absent: all fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_s: Option<f64>,
    /// What was estimated from, by target in plan order.
    pub pilots: Vec<Pilot>,
    /// The cells that are not measured.
    pub over: Vec<OverBudget>,
    /// The targets that run twice in every block; none: no A/A pair is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
}

/// The pace of one target, from one launch whose times are not published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Target id.
    pub target: String,
    /// From starting its process to ready (s).
    pub load_s: f64,
    /// Rounds of requests, one for each shape that the plan has.
    pub rounds: Vec<Round>,
    /// What all its planned cells would take (s), by estimate.
    pub planned_s: f64,
    /// Why the pilot ended early, if so; then nothing of it is over budget.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
}

/// As many requests as are in flight together, from the first sent to the last answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Requests in flight.
    pub concurrency: u32,
    /// Whether the prompts differ in length, `prompt_tokens` being their mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
    /// How long it took (s).
    pub round_s: f64,
}

/// A cell that is not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverBudget {
    /// Target id, or a twin's name.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// What it would have taken (s), by estimate.
    pub estimate_s: f64,
    /// One line for the reader.
    pub reason: String,
}

impl OverBudget {
    /// Which cell it is.
    pub fn key(&self) -> CellKey {
        CellKey {
            target: self.target.clone(),
            scenario: self.scenario.clone(),
            case: self.case.clone(),
        }
    }
}

impl Budget {
    /// Why a cell is not measured, if so.
    pub fn refusal(&self, cell: &CellKey) -> Option<&str> {
        let is_it = |over: &&OverBudget| {
            over.target == cell.target && over.scenario == cell.scenario && over.case == cell.case
        };
        Some(&self.over.iter().find(is_it)?.reason)
    }
}
