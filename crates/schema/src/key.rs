//! What a case and a cell of a run are called.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A case of a scenario; of a micro suite, one of its cases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CaseKey {
    /// Scenario id; of a micro suite `micro/` and its id.
    pub scenario: String,
    /// Case id.
    pub case: String,
}

/// A cell: what one target does in one case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// Target id, or its twin's name; of a micro suite a variant's.
    pub target: String,
    /// Scenario id; of a micro suite `micro/` and its id.
    pub scenario: String,
    /// Case id.
    pub case: String,
}

impl CaseKey {
    /// The cell of one target.
    pub fn of(&self, target: &str) -> CellKey {
        let Self { scenario, case } = self.clone();
        CellKey {
            target: target.to_owned(),
            scenario,
            case,
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
