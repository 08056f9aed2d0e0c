//! What an engine's own project says of its speed, beside what was found here. The words are the
//! project's, with their condition and source; no conclusion is drawn from them.

use crate::fmt;
use crate::view::eligible::is_real_size;
use crate::view::place::{RunLine, parameters, publishable};
use crate::view::{Shown, case_label};
use crate::words::{by_key, lower_first};
use schema::claims::{Claim, Comparison};
use serde::Serialize;
use stats::analysis::MetricId;
use stats::pairs::pairs;
use std::cmp::Reverse;

/// The section of an engine's page with the project's claims.
#[derive(Serialize)]
pub struct Said {
    read: String,
    /// The claims, each with what runs found. A claim that only gives a rate compares nothing.
    claims: Vec<(Claim, Vec<Found>)>,
}

/// What one run found that comes nearest to a claim.
#[derive(Serialize)]
struct Found {
    /// A sentence for each case.
    sentences: Vec<String>,
    /// The run, where it isn't the one that the report shows.
    run: Option<RunLine>,
    /// Whether the run's model is known to be of real size; else a request may be mostly overhead.
    is_real_size: bool,
}

/// The claims of an engine's project; `None` if there are none or the file was not read. Each
/// comparison comes from the run that the report shows or, if that has none, from the publishable
/// run in `all` with the largest model that has it.
pub fn of_engine(shown: &Shown, all: &[Shown], engine: &str) -> Option<Said> {
    let file = shown.input.claims?;
    let mut others = publishable(all);
    others.sort_by_key(|run| Reverse(parameters(run)));
    let runs: Vec<&Shown> = std::iter::once(shown).chain(others).collect();
    let claims: Vec<_> = file
        .by_engine(engine)
        .map(|claim| (claim.clone(), here(&runs, &claim.here)))
        .collect();
    (!claims.is_empty()).then(|| Said {
        read: file.read.clone(),
        claims,
    })
}

/// Find each comparison in the first run that has it, and group those of one run.
fn here(runs: &[&Shown], comparisons: &[Comparison]) -> Vec<Found> {
    let all = comparisons.iter().filter_map(|comparison| {
        let mut numbered = runs.iter().enumerate();
        numbered.find_map(|(i, run)| {
            let sentences = sentences(run, comparison);
            (!sentences.is_empty()).then_some((i, sentences))
        })
    });
    let found = by_key(all).into_iter().map(|(i, sentences)| Found {
        sentences: sentences.concat(),
        run: (i > 0).then(|| RunLine::new(runs[i], String::new())),
        is_real_size: is_real_size(runs[i]) == Some(true),
    });
    found.collect()
}

/// Write a sentence for each case in which both targets were measured in the same blocks.
fn sentences(shown: &Shown, here: &Comparison) -> Vec<String> {
    let scenario = shown.scenario(&here.scenario);
    let (Some(scenario), Some(metric)) = (scenario, MetricId::from_id(&here.metric)) else {
        return Vec::new();
    };
    let both = [here.target.as_str(), here.against.as_str()];
    let mut words = Vec::new();
    for case in &scenario.cases {
        for pair in pairs(shown.analysis, &scenario.case_key(case), metric, &both) {
            let Ok(compared) = pair.outcome else {
                continue;
            };
            let (ratio, interval) = fmt::ratio(compared.ratio, compared.ci95);
            let interval = interval.map_or_else(String::new, |interval| format!(" {interval}"));
            words.push(format!(
                "{} is {ratio}{interval} as good as {} ({}; {}, {})",
                here.target,
                here.against,
                lower_first(metric.describe().title),
                lower_first(shown.title(scenario)),
                case_label(scenario, case)
            ));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::claims::Claims;
    use schema::registry::Registry;
    use std::path::Path;

    #[test]
    fn the_metrics_of_this_repository_s_claims_are_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let registry = Registry::load(&root.join("engines/engines.toml")).unwrap();
        let all = Claims::load(&root, &registry).unwrap().unwrap();
        for here in all.claims.iter().flat_map(|claim| &claim.here) {
            assert!(MetricId::from_id(&here.metric).is_some(), "{}", here.metric);
        }
    }
}
