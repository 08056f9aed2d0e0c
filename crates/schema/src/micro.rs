//! The micro suites: what is asked below the engines (`data/scenarios/micro/*.toml`),
//! which programs answer (`engines/micro.toml`), what of it a run plans, and the record
//! of each launch. A suite's scenario id is `micro/<suite>`.

pub mod plan;
pub mod record;
pub mod registry;
pub mod suite;

pub use plan::{MicroLaunch, MicroPlan, PlannedSuite};
pub use record::{MicroEvent, MicroLog, MicroSample};
pub use registry::{MicroRegistry, Program, Variant};
pub use suite::{Suite, SuiteCase, Work};

use crate::key::CaseKey;

/// What the scenario id of every suite begins with, and the directory of their records.
pub const DIR: &str = "micro";

/// A suite's scenario id.
pub fn scenario_id(suite: &str) -> String {
    format!("{DIR}/{suite}")
}

/// What a case of a suite is called.
pub fn case_key(suite: &str, case: &str) -> CaseKey {
    CaseKey {
        scenario: scenario_id(suite),
        case: case.to_owned(),
    }
}

/// Whether a scenario asked for by name means a suite: `micro/sdpa`, or `micro/*` for
/// all of them.
pub fn asks_for(wanted: &str, suite: &str) -> bool {
    let rest = wanted.strip_prefix(DIR).and_then(|w| w.strip_prefix('/'));
    rest.is_some_and(|rest| rest == "*" || rest == suite)
}

/// Whether a scenario asked for by name is one of the suites'.
pub fn is_micro(wanted: &str) -> bool {
    wanted
        .strip_prefix(DIR)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
