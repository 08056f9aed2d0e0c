//! The samples of a cell in order of time, launch by launch, for charts in which a reader sees a
//! drift or two modes that no summary shows. Nothing is left out or thinned.

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
    /// Block of the launch.
    pub invocation: u32,
    /// Samples in order of completion, in the metric's unit.
    pub samples: Vec<f64>,
}

/// Return the samples that a cell's metric rests on, a sequence for each complete invocation in
/// order. Empty for a metric that has one value per launch.
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
    // Metrics of requests and gaps need no limits.
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
