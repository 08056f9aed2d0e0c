//! Suggests commands for a run that may carry a recommendation.

use crate::Input;
use crate::view::eligible::PARAMETERS_MIN;
use schema::model::{Model, Source};
use schema::profile::Profile;
use serde::Serialize;
use std::collections::BTreeSet;

/// A command that would measure what is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// What the command measures.
    pub about: String,
    /// The command to type.
    pub command: String,
}

/// Suggest commands that would measure a scenario with a model large enough: one for each kind of
/// publishable profile that has the scenario. Those with a backend in `covered`, which a
/// recommendation has already, come last: they are for other machines. A profile with a small model
/// gets the first large one that is made here instead, so that nothing need be downloaded.
pub fn suggestions(input: &Input, scenario: &str, covered: &BTreeSet<&str>) -> Vec<Suggestion> {
    let large = |model: &&Model| model.parameters >= PARAMETERS_MIN;
    let made_here =
        |model: &&Model| matches!(model.source, Source::Embedded | Source::Trained { .. });
    let substitute = input.models.models.iter().filter(large).find(made_here);
    let mut profiles: Vec<(&Profile, bool)> = input
        .profiles
        .iter()
        .filter(|p| p.publishable && p.scenarios.contains_key(scenario))
        .map(|p| (p, input.models.get(&p.model).is_some_and(|m| large(&m))))
        .collect();
    let is_covered = |p: &Profile| p.backends.iter().any(|b| covered.contains(b.as_str()));
    // Profiles with a large model come before those that are given one.
    profiles.sort_by_key(|(profile, large)| (is_covered(profile), !large));
    let mut backends: BTreeSet<&str> = BTreeSet::new();
    let mut all = Vec::new();
    for (profile, is_large) in profiles {
        let known = profile
            .backends
            .iter()
            .any(|b| backends.contains(b.as_str()));
        let model = match (is_large, substitute) {
            _ if known => continue,
            (true, _) => String::new(),
            (false, Some(model)) => format!(" --model {}", model.id),
            (false, None) => continue,
        };
        backends.extend(profile.backends.iter().map(String::as_str));
        let devices = match is_covered(profile) {
            true => format!("{} of another machine", profile.backends.join(", ")),
            false => profile.backends.join(", "),
        };
        let about = match (is_large, profile.budget_s > 0.0) {
            (true, _) => format!("on {devices}, with {}", profile.model),
            (false, true) => format!(
                "on {devices}; this profile shares out time for a smaller model, so some cells will be over budget"
            ),
            (false, false) => format!("on {devices}"),
        };
        all.push(Suggestion {
            about,
            command: format!(
                "cargo xtask bench-all --profile {}{model} --scenarios {scenario}",
                profile.id
            ),
        });
    }
    all
}
