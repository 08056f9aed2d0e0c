//! Decides which targets run a scenario: where a profile names some, only those.

use super::{Choice, own};
use anyhow::{Result, bail};
use schema::plan::PlannedScenario;
use schema::profile::Profile;
use schema::registry::Target;
use schema::scenario::LoadShape;

/// The scenarios with the targets that run them. Engines named on the command line run them all,
/// because the user wants to see results of a named engine.
pub(super) fn narrow_targets(
    profile: &Profile,
    mut scenarios: Vec<PlannedScenario>,
    targets: &[Target],
    choice: &Choice,
) -> Result<Vec<PlannedScenario>> {
    for scenario in &mut scenarios {
        if !choice.engines.is_empty() {
            scenario.targets.clear();
        }
        let known = |id: &&String| targets.iter().any(|target| target.id == **id);
        if let Some(id) = scenario.targets.iter().find(|id| !known(id)) {
            bail!(
                "data/profiles/{}.toml: [scenarios.{}] names {id:?}, which is no target of the profile",
                profile.id,
                scenario.id
            );
        }
        if scenario.load.is_open() != profile.scenarios[&scenario.id].has_rates() {
            bail!(
                "data/profiles/{}.toml: [scenarios.{}] needs load_percent where the scenario is an open loop, and only there",
                profile.id,
                scenario.id
            );
        }
        let sizes = &profile.scenarios[&scenario.id];
        own::check_sizes(profile, &scenario.id, scenario.prompts, sizes)?;
        if scenario.reuses_prompts() == profile.scenarios[&scenario.id].shared_percent.is_empty() {
            bail!(
                "data/profiles/{}.toml: [scenarios.{}] needs shared_percent where the scenario's axis is that, and only there",
                profile.id,
                scenario.id
            );
        }
        if scenario.reuses_prompts() && profile.warmup_requests == 0 {
            bail!(
                "data/profiles/{}.toml: warmup_requests = 0, but [scenarios.{}] needs a request before those it times, which fills the cache: set it to 1 or more",
                profile.id,
                scenario.id
            );
        }
        if scenario.turns && scenario.reuses_prompts() {
            bail!(
                "data/profiles/{}.toml: [scenarios.{}] has turns, whose untimed requests would replace the prompt that is kept: leave them out",
                profile.id,
                scenario.id
            );
        }
        if scenario.turns && scenario.load != LoadShape::Serial {
            bail!(
                "data/profiles/{}.toml: [scenarios.{}] has turns, which only a load of one request at a time can take",
                profile.id,
                scenario.id
            );
        }
    }
    Ok(scenarios)
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;
    use schema::profile::Sizes;
    use schema::scenario::{Axis, Scenario};

    #[test]
    fn engines_named_on_the_command_line_run_every_scenario() {
        let profile = Profile {
            id: "x".into(),
            model: "m".into(),
            backends: vec!["cpu".into()],
            invocations: 1,
            seed: 1,
            threads: 1,
            warmup_requests: 1,
            request_timeout_s: 1,
            load_timeout_s: 1,
            matters_percent: 2.0,
            scenarios: [(
                "open".to_owned(),
                Sizes {
                    load_percent: vec![50],
                    targets: vec!["a.cpu.f32".into()],
                    prompt_tokens: vec![50],
                    new_tokens: 16,
                    concurrency: vec![8],
                    requests: 20,
                    ..Sizes::default()
                },
            )]
            .into(),
            ..Profile::default()
        };
        let text = Scenario {
            id: "open".into(),
            version: 1,
            load: LoadShape::Poisson,
            axis: Axis::LoadPercent,
            ..Scenario::default()
        };
        let target = |engine: &str| Target {
            id: format!("{engine}.cpu.f32"),
            engine: engine.into(),
            backend: "cpu".into(),
            precision: "f32".into(),
            ..Target::default()
        };
        let targets = [target("a"), target("b")];
        let who = |engines: &[&str]| {
            let choice = Choice {
                engines: engines.iter().map(|e| (*e).to_owned()).collect(),
                ..Choice::default()
            };
            let plan = plan(&profile, std::slice::from_ref(&text), &targets, &choice, 1).unwrap();
            let who = plan.launches.into_iter().map(|launch| launch.target);
            who.collect::<Vec<String>>()
        };
        assert_eq!(who(&[]), ["a.cpu.f32"]);
        assert_eq!(who(&["b"]), ["b.cpu.f32"]);
    }
}
