//! The names of a run's cases, cells and twins.
//!
//! A twin is the second launch of a target that runs twice in every block, as an A/A pair.
//!
//! It is no target: no plan, table or ranking lists it. It is the same program with the same
//! settings, so that any difference between the two names is noise. Its name holds a character that
//! no id may have, so that it can't be mistaken for a target.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A case of a scenario or of a micro suite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CaseKey {
    /// Scenario id; for a micro suite, `micro/` and the suite's id.
    pub scenario: String,
    /// Case id.
    pub case: String,
}

/// A cell: one target in one case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// Target id, or its twin's name; for a micro suite, the same of a variant.
    pub target: String,
    /// Scenario id; for a micro suite, `micro/` and the suite's id.
    pub scenario: String,
    /// Case id.
    pub case: String,
}

impl CaseKey {
    /// The case of that id in a scenario.
    pub fn new(scenario: impl Into<String>, case: impl Into<String>) -> Self {
        Self {
            scenario: scenario.into(),
            case: case.into(),
        }
    }

    /// The cell of one target.
    ///
    /// ```
    /// use schema::key::CaseKey;
    ///
    /// let case = CaseKey::new("single_request", "p128");
    /// let cell = case.cell("engine.cpu.f32");
    /// assert_eq!(cell.to_string(), "engine.cpu.f32 single_request/p128");
    /// ```
    pub fn cell(&self, target: &str) -> CellKey {
        CellKey::new(target, &self.scenario, &self.case)
    }
}

impl CellKey {
    /// The cell of a target in a scenario's case.
    pub fn new(
        target: impl Into<String>,
        scenario: impl Into<String>,
        case: impl Into<String>,
    ) -> Self {
        Self {
            target: target.into(),
            scenario: scenario.into(),
            case: case.into(),
        }
    }
}

/// `scenario/case`
impl fmt::Display for CaseKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.scenario, self.case)
    }
}

/// `target scenario/case`
impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}/{}", self.target, self.scenario, self.case)
    }
}

/// Suffix of a twin's name.
const SUFFIX: &str = "@twin";

/// A target that runs twice, as the pilot decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Twin {
    /// Target id.
    pub target: String,
    /// Reason why this target runs twice.
    pub role: TwinRole,
    /// Estimated time of its second runs (s), from the pilot.
    pub cost_s: f64,
}

/// The reason why a target runs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TwinRole {
    /// The target has the shortest rounds.
    Fastest,
    /// The target has a pace near the median, and loads faster than the others near it.
    Median,
    /// The target has the longest rounds. Only runs before 2026-11-24 have it, because it took a
    /// sixth of their time.
    Slowest,
}

/// The name that a target's second launches and their records go by.
///
/// ```
/// use schema::key::{is_twin, original, twin_name};
///
/// let twin = twin_name("engine.cpu.f32");
/// assert!(is_twin(&twin));
/// assert_eq!(original(&twin), "engine.cpu.f32");
/// ```
pub fn twin_name(target: &str) -> String {
    format!("{target}{SUFFIX}")
}

/// Whether a name is a twin's.
pub fn is_twin(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// The target behind a name: a twin's original, or the target itself.
pub fn original(name: &str) -> &str {
    name.strip_suffix(SUFFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::check_id;

    #[test]
    fn a_twin_has_a_name_that_no_target_can_have() {
        let name = twin_name("candle.cpu.q8_0");
        assert!(is_twin(&name) && !is_twin("candle.cpu.q8_0"));
        assert_eq!(original(&name), "candle.cpu.q8_0");
        assert_eq!(original("candle.cpu.q8_0"), "candle.cpu.q8_0");
        assert!(check_id("x".as_ref(), "target", &name).is_err());
    }
}
