//! What an engine's own project says of its speed, beside what this run found. The words are the
//! project's, with their condition and source; no conclusion is drawn from them.

use crate::fmt;
use crate::view::{Shown, case_label};
use crate::words::lower_first;
use schema::claims::{Claim, Comparison};
use serde::Serialize;
use stats::analysis::MetricId;
use stats::pairs::pairs;

/// The section of an engine's page with the project's claims.
#[derive(Serialize)]
pub struct Said {
    read: String,
    claims: Vec<ClaimView>,
}

#[derive(Serialize)]
struct ClaimView {
    says: String,
    condition: String,
    source: String,
    differs: String,
    /// Sentences on comparisons of this run that come nearest to the claim.
    here: Vec<String>,
}

/// The claims of an engine's project; `None` where there are none or the file was not read.
pub fn of_engine(shown: &Shown, engine: &str) -> Option<Said> {
    let all = shown.input.claims?;
    let claims: Vec<ClaimView> = all
        .by_engine(engine)
        .map(|claim| view(shown, claim))
        .collect();
    (!claims.is_empty()).then(|| Said {
        read: all.read.clone(),
        claims,
    })
}

fn view(shown: &Shown, claim: &Claim) -> ClaimView {
    ClaimView {
        says: claim.says.clone(),
        condition: claim.condition.clone(),
        source: claim.source.clone(),
        differs: claim.differs.clone(),
        here: claim.here.iter().flat_map(|h| found(shown, h)).collect(),
    }
}

/// Write a sentence for each case in which both targets were measured in the same blocks.
fn found(shown: &Shown, here: &Comparison) -> Vec<String> {
    let mut scenarios = shown.scenarios().iter();
    let scenario = scenarios.find(|scenario| scenario.id == here.scenario);
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
                case_label(scenario.axis, case.axis_value(scenario.axis))
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
