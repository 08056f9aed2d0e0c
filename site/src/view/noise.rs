//! The noise floor in words: what it is in a case and what it rests on, or why
//! there is none.

use super::Shown;
use crate::fmt;
use schema::key::{CaseKey, Twin, TwinRole};
use stats::analysis::{MetricId, NoiseFloor};

/// The sentence beside a case's comparisons.
pub fn sentence(shown: &Shown, at: &CaseKey, metric: MetricId) -> String {
    if let Some(floor) = shown.analysis.floor(at, metric) {
        let pairs: Vec<String> = floor
            .pairs
            .iter()
            .map(|pair| {
                let (ratio, interval) = fmt::ratio(pair.ratio, pair.ci95);
                format!("{} {ratio} {}", pair.target, interval.unwrap_or_default())
            })
            .collect();
        return format!(
            "Noise floor: {}. A difference under it is not called one, however small its p. It is the \
             largest upper 95 % bound of what lay between a target and itself, run twice in every \
             block: {}.",
            ratio(floor),
            pairs.join("; ")
        );
    }
    let twins = twins(shown);
    if twins.is_empty() {
        return "No noise floor was measured: the verdicts rest on the test alone.".into();
    }
    let names: Vec<&str> = twins.iter().map(|twin| twin.target.as_str()).collect();
    format!(
        "No noise floor was measured in this case: {} ran twice, but not through all blocks of it. \
         The verdicts rest on the test alone.",
        names.join(" and ")
    )
}

/// ` · noise floor 1.012×`, or nothing: what is added to a heading.
pub fn suffix(shown: &Shown, at: &CaseKey, metric: MetricId) -> String {
    let floor = shown.analysis.floor(at, metric);
    floor.map_or(String::new(), |floor| {
        format!(" · noise floor {}", ratio(floor))
    })
}

/// Who ran twice in the run and what it took, for the run's page.
pub fn who(shown: &Shown) -> String {
    let one = |twin: &Twin| {
        let role = match twin.role {
            TwinRole::Fastest => "the fastest",
            TwinRole::Slowest => "the slowest",
        };
        format!(
            "{} ({role} by the pilot, about {:.0} s)",
            twin.target, twin.cost_s
        )
    };
    match twins(shown) {
        [] => "no target: no noise floor was measured".into(),
        twins => twins.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

fn twins<'a>(shown: &Shown<'a>) -> &'a [Twin] {
    let budget = shown.run.budget.as_ref();
    budget.map_or(&[], |budget| &budget.twins)
}

fn ratio(floor: &NoiseFloor) -> String {
    fmt::ratio(floor.ratio, None).0
}
