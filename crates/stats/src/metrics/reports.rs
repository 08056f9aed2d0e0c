//! The names in a scenario's `reports`: which metric leads, and which names are unknown.

use crate::analysis::MetricId;
use schema::plan::PlannedScenario;
use schema::scenario::Scenario;

/// Return the metric that a scenario is ranked by: the first that it reports. `None` where that
/// name is unknown.
pub fn leading_metric(scenario: &Scenario) -> Option<MetricId> {
    MetricId::from_id(scenario.reports.first()?)
}

/// Return the metric that a planned scenario is ranked by; `None` also without its text
/// ([`PlannedScenario::text`]).
pub fn leading_of(planned: &PlannedScenario, scenarios: &[Scenario]) -> Option<MetricId> {
    leading_metric(planned.text(scenarios)?)
}

/// Return the names in a scenario's `reports` that are no metric, in order.
pub fn unknown_metrics(scenario: &Scenario) -> Vec<&str> {
    scenario
        .reports
        .iter()
        .map(String::as_str)
        .filter(|name| MetricId::from_id(name).is_none())
        .collect()
}

/// Return a message for each name in the scenarios' `reports` that is no metric, with what to do;
/// empty where there is none.
pub fn validate(scenarios: &[Scenario]) -> Vec<String> {
    let known: Vec<_> = MetricId::ALL.map(|id| id.describe().name).to_vec();
    scenarios
        .iter()
        .flat_map(|scenario| {
            unknown_metrics(scenario).into_iter().map(|name| {
                format!(
                    "scenario {:?} reports {name:?}, which is no metric: use one of {}",
                    scenario.id,
                    known.join(", ")
                )
            })
        })
        .collect()
}
