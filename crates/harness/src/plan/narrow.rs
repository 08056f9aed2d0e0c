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
    all_targets: &[Target],
    choice: &Choice,
) -> Result<Vec<PlannedScenario>> {
    // The engines named may be others than the profile's, whose names must be right all the same.
    let (among, whose) = match choice.engines.is_empty() {
        true => (targets, "the profile"),
        false => (all_targets, "the registry"),
    };
    for scenario in &mut scenarios {
        let sizes = &profile.scenarios[&scenario.id];
        let (file, id) = (format!("data/profiles/{}.toml", profile.id), &scenario.id);
        let known = |id: &&String| among.iter().any(|target| target.id == **id);
        if let Some(target) = scenario.targets.iter().find(|id| !known(id)) {
            bail!("{file}: [scenarios.{id}] names {target:?}, which is no target of {whose}");
        }
        if !choice.engines.is_empty() {
            scenario.targets.clear();
        }
        if scenario.load.is_open() != sizes.has_rates() {
            bail!(
                "{file}: [scenarios.{id}] needs load_percent where the scenario is an open loop, and only there"
            );
        }
        own::check_sizes(profile, id, scenario.prompts, sizes)?;
        if scenario.reuses_prompts() == sizes.shared_percent.is_empty() {
            bail!(
                "{file}: [scenarios.{id}] needs shared_percent where the scenario's axis is that, and only there"
            );
        }
        if scenario.reuses_prompts() && profile.warmup_requests == 0 {
            bail!(
                "{file}: warmup_requests = 0, but [scenarios.{id}] needs a request before those it times, which fills the cache: set it to 1 or more"
            );
        }
        if scenario.turns && scenario.reuses_prompts() {
            bail!(
                "{file}: [scenarios.{id}] has turns, whose untimed requests would replace the prompt that is kept: leave them out"
            );
        }
        let can_be_interrupted = matches!(scenario.load, LoadShape::Serial | LoadShape::ClosedLoop);
        if scenario.turns && !can_be_interrupted {
            bail!(
                "{file}: [scenarios.{id}] has turns, which only one request at a time and closed loops can take"
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
        let mut profile = Profile {
            backends: vec!["cpu".into()],
            invocations: 1,
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
            load: LoadShape::Poisson,
            axis: Axis::LoadPercent,
            ..Scenario::default()
        };
        let targets = ["a.cpu.f32", "b.cpu.f32"].map(fixtures::target);
        let planned = |profile: &Profile, engines: &[&str]| {
            let choice = Choice {
                engines: engines.iter().map(|e| (*e).to_owned()).collect(),
                ..Choice::default()
            };
            plan(profile, std::slice::from_ref(&text), &targets, &choice, 1)
        };
        let who = |engines: &[&str]| {
            let plan = planned(&profile, engines).unwrap();
            let who = plan.launches.into_iter().map(|launch| launch.target);
            who.collect::<Vec<String>>()
        };
        assert_eq!(who(&[]), ["a.cpu.f32"]);
        assert_eq!(who(&["b"]), ["b.cpu.f32"]);
        // A wrong name in the profile is an error all the same.
        let sizes = profile.scenarios.get_mut("open").unwrap();
        sizes.targets = vec!["c.cpu.f32".into()];
        let wrong = |engines: &[&str]| planned(&profile, engines).unwrap_err().to_string();
        for (engines, whose) in [(&[][..], "the profile"), (&["b"][..], "the registry")] {
            let said = format!("names \"c.cpu.f32\", which is no target of {whose}");
            assert!(wrong(engines).ends_with(&said), "{}", wrong(engines));
        }
    }
}
