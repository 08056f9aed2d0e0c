//! The samples of a cell as they came, launch by launch: for the eye, which sees
//! a drift or two modes that no summary shows. Nothing is left out or thinned.

use crate::analysis::MetricId;
use crate::evidence::Evidence;
use crate::metrics::Sample;
use crate::samples::samples;
use crate::utilization::Limits;
use schema::plan::{Case, PlannedScenario};
use schema::run::Run;

/// The samples of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Its block.
    pub invocation: u32,
    /// In order of completion, in the metric's unit.
    pub samples: Vec<f64>,
}

/// The samples that a cell's metric rests on, a sequence for each complete
/// invocation in order. Empty for a metric that has one value a launch.
pub fn sequences(
    run: &Run,
    scenario: &PlannedScenario,
    case: &Case,
    target: &str,
    metric: MetricId,
) -> Vec<Sequence> {
    if metric.describe().sample == Sample::Invocation {
        return Vec::new();
    }
    // No limit matters to a metric of requests or gaps.
    let limits = Limits::default();
    Evidence::gather(run, target, scenario, case)
        .complete
        .iter()
        .map(|attempt| Sequence {
            invocation: attempt.invocation,
            samples: samples(metric, scenario, case, attempt, &limits),
        })
        .collect()
}
