//! Decides which runs may carry a recommendation, and suggests commands for one that may.

use crate::Input;
use crate::view::Shown;
use crate::view::place::{parameters, representative_runs};
use crate::words::plural;
use schema::model::{Model, Source};
use schema::profile::Profile;
use serde::Serialize;
use std::collections::BTreeSet;

/// Fewest parameters of a model that a recommendation may rest on: a smaller model fits in caches,
/// and shows what an engine costs around the work instead of the work.
const PARAMETERS_MIN: u64 = 1_000_000_000;

/// A command that would measure what is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// What the command measures.
    pub about: String,
    /// The command to type.
    pub command: String,
}

/// Why a run may not carry a recommendation; `None` where it may.
pub fn refusal(shown: &Shown) -> Option<String> {
    if !shown.run.header.plan.publishable {
        return Some("it has too few samples to be published".into());
    }
    match parameters(shown) {
        None => Some("the size of its model is not known".into()),
        Some(n) if n < PARAMETERS_MIN => Some(format!(
            "its model has {}, and a choice rests on none under 1\u{a0}B",
            plural(n, "parameter", "parameters")
        )),
        Some(_) => None,
    }
}

/// Whether a run's model is of a size that a recommendation may rest on; `None` where its size
/// isn't known.
pub fn is_real_size(shown: &Shown) -> Option<bool> {
    parameters(shown).map(|n| n >= PARAMETERS_MIN)
}

/// The runs that may carry a recommendation, in the order given.
pub fn eligible<'s, 'a>(shown: &'s [Shown<'a>]) -> Vec<&'s Shown<'a>> {
    let mut chosen = representative_runs(shown);
    chosen.retain(|run| refusal(run).is_none());
    chosen
}

/// Suggest commands that would measure a scenario with a model large enough: one for each
/// publishable profile that has the scenario and runs only backends not in `covered`. A profile
/// with a small model gets the first large one that is made here instead, so that nothing need be
/// downloaded.
pub fn suggestions(input: &Input, scenario: &str, covered: &BTreeSet<&str>) -> Vec<Suggestion> {
    let large = |model: &&Model| model.parameters >= PARAMETERS_MIN;
    let made_here =
        |model: &&Model| matches!(model.source, Source::Embedded | Source::Trained { .. });
    let substitute = input.models.models.iter().filter(large).find(made_here);
    let mut profiles: Vec<(&Profile, bool)> = input
        .profiles
        .iter()
        .filter(|p| p.publishable && p.scenarios.contains_key(scenario))
        .filter(|p| !p.backends.iter().any(|b| covered.contains(b.as_str())))
        .map(|p| (p, input.models.get(&p.model).is_some_and(|m| large(&m))))
        .collect();
    // Profiles with a large model come before those that are given one.
    profiles.sort_by_key(|(_, large)| !large);
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
        let about = match is_large {
            true => format!("on {}, with {}", profile.backends.join(", "), profile.model),
            false => format!(
                "on {}; this profile shares out time for a smaller model, so some cells will be over budget",
                profile.backends.join(", ")
            ),
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
