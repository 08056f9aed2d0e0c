//! Micro suites as a prediction sees them: each a scenario, its variants for targets, and a call's
//! time for the leading metric.

use crate::analysis::{Analysis, MetricId};
use crate::micro::{self, METRICS, SuiteAnalysis};
use schema::hypothesis::Hypothesis;
use schema::micro::{PlannedSuite, SuiteCase, Variant, scenario_id};
use schema::plan::{Case, PlannedScenario};
use schema::registry::Target;
use schema::run::Run;
use schema::scenario::{Axis, LoadShape};

/// The metric that a prediction is about unless it names another.
pub(super) const LEADING: MetricId = METRICS[0];

/// One suite.
pub(super) struct Suite {
    pub(super) targets: Vec<Target>,
    pub(super) scenario: PlannedScenario,
    pub(super) analysis: Analysis,
}

/// The suites of a run that a prediction names.
pub(super) fn of(hypothesis: &Hypothesis, run: &Run) -> Vec<Suite> {
    if !hypothesis.speaks_of_suites() {
        return Vec::new();
    }
    let plan = &run.header.plan.micro;
    let is_named = |suite: &SuiteAnalysis| hypothesis.scenarios.contains(&scenario_id(&suite.id));
    let named = micro::analyse(run).into_iter().filter(is_named);
    named
        .filter_map(|suite| Some(one(plan.suite(&suite.id)?, suite)))
        .collect()
}

fn one(planned: &PlannedSuite, suite: SuiteAnalysis) -> Suite {
    Suite {
        targets: planned.variants.iter().map(target).collect(),
        scenario: PlannedScenario {
            prompts: Default::default(),
            id: scenario_id(&suite.id),
            version: planned.version,
            load: LoadShape::Serial,
            axis: Axis::PromptTokens,
            targets: Vec::new(),
            turns: false,
            cases: planned.cases.iter().map(|c| case(planned, c)).collect(),
        },
        analysis: Analysis {
            cells: suite.cells,
            comparisons: suite.comparisons,
            scalings: Vec::new(),
            noise: suite.noise,
        },
    }
}

/// A variant as a target; it reads no weights.
pub(super) fn target(variant: &Variant) -> Target {
    Target {
        id: variant.id.clone(),
        engine: variant.engine.clone(),
        variant: String::new(),
        backend: variant.backend.clone(),
        precision: variant.precision.clone(),
        weights: String::new(),
        hidden: false,
    }
}

/// A case with its length, where it has one (`seq`), on the axis.
fn case(planned: &PlannedSuite, case: &SuiteCase) -> Case {
    let length = case.params.get("seq").copied().unwrap_or(0);
    Case {
        id: case.id.clone(),
        prompt_tokens: u32::try_from(length).unwrap_or(u32::MAX),
        new_tokens: 0,
        concurrency: 1,
        load_percent: None,
        shared_percent: None,
        requests: planned.samples,
        duration_s: 0.0,
        measured_by: None,
        prompt_tokens_mean: None,
    }
}
