//! Scenarios that use the user's own prompts: whether a plan has them, and how the file changes
//! their sizes. Pure.

use super::Choice;
use anyhow::{Result, bail};
use base::names::Refused;
use schema::own_prompts::OwnPrompts;
use schema::plan::Case;
use schema::profile::{Profile, Sizes};
use schema::scenario::{PromptSource, Scenario};

/// Refuse a scenario of own prompts where no file is given, and a file without such a scenario.
pub(super) fn check(
    profile: &Profile,
    scenarios: &[Scenario],
    wanted: &[String],
    choice: &Choice,
) -> Result<(), Refused> {
    let mut own = scenarios
        .iter()
        .filter(|s| s.prompts == PromptSource::Own)
        .map(|scenario| &scenario.id);
    match &choice.prompts {
        None => match own.find(|id| wanted.contains(id)) {
            None => Ok(()),
            Some(id) => Err(Refused(format!(
                "scenario {id:?} asks prompts of your own: name their file with --prompts FILE"
            ))),
        },
        Some(_) if own.any(|id| profile.scenarios.contains_key(id)) => Ok(()),
        Some(_) => Err(Refused(format!(
            "--prompts: profile {:?} gives no scenario that asks your own prompts a size: choose another profile (`cargo xtask list profiles`)",
            profile.id
        ))),
    }
}

/// Whether a plan has the scenario. A file named without scenarios selects those of own prompts.
pub(super) fn is_in(scenario: &Scenario, wanted: &[String], choice: &Choice) -> bool {
    match (scenario.prompts, &choice.prompts) {
        (PromptSource::Own, prompts) => prompts.is_some(),
        (PromptSource::Generated, None) => wanted.is_empty() || wanted.contains(&scenario.id),
        (PromptSource::Generated, Some(_)) => wanted.contains(&scenario.id),
    }
}

/// Refuse sizes that don't fit the source of a scenario's prompts.
pub(super) fn check_sizes(
    profile: &Profile,
    scenario: &str,
    prompts: PromptSource,
    sizes: &Sizes,
) -> Result<()> {
    let (file, is_own) = (&profile.id, prompts == PromptSource::Own);
    if is_own != sizes.prompt_tokens.is_empty() {
        bail!(
            "data/profiles/{file}.toml: [scenarios.{scenario}] needs prompt_tokens where the scenario's prompts are generated, and only there"
        );
    }
    if is_own && sizes.duration_s > 0.0 {
        bail!(
            "data/profiles/{file}.toml: [scenarios.{scenario}] has duration_s, which can't be where prompts differ: a fast target would be asked others than a slow one"
        );
    }
    Ok(())
}

/// The sizes adapted to the file: prompts as long as its longest, and whole passes over the file
/// where a launch asks all of it, so that each prompt counts alike.
pub(super) fn sizes(sizes: &Sizes, prompts: &OwnPrompts) -> Sizes {
    let count = u32::try_from(prompts.tokens.len()).unwrap_or(u32::MAX);
    Sizes {
        prompt_tokens: vec![prompts.lengths().longest],
        requests: match count <= sizes.requests {
            true => sizes.requests.next_multiple_of(count.max(1)),
            false => sizes.requests,
        },
        ..sizes.clone()
    }
}

/// The cases with the mean prompt length, by which their work is estimated.
pub(super) fn cases(mut cases: Vec<Case>, prompts: &OwnPrompts) -> Vec<Case> {
    for case in &mut cases {
        case.prompt_tokens_mean = Some(prompts.lengths().mean);
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;
    use base::repo::Repo;
    use schema::plan::Plan;

    /// Prompts of the given lengths.
    fn prompts(lengths: &[usize]) -> OwnPrompts {
        OwnPrompts {
            file: "mine.jsonl".into(),
            sha256: String::new(),
            tokens: lengths.iter().map(|&length| vec![7; length]).collect(),
        }
    }

    fn planned(profile: &str, scenarios: &[&str], lengths: &[usize]) -> Result<Plan> {
        let repo = Repo::find()?;
        let choice = Choice {
            scenarios: scenarios.iter().map(|id| (*id).to_owned()).collect(),
            prompts: (!lengths.is_empty()).then(|| prompts(lengths)),
            ..Choice::default()
        };
        let targets = repo.registry()?.targets();
        plan(
            &repo.profile(profile)?,
            &repo.scenarios()?,
            &targets,
            &choice,
            1,
        )
    }

    fn ids(plan: &Plan) -> Vec<&str> {
        plan.scenarios.iter().map(|s| s.id.as_str()).collect()
    }

    #[test]
    fn prompts_plan_their_own_scenario_and_those_that_are_named() {
        let alone = planned("cpu", &[], &[3, 9]).unwrap();
        assert_eq!(ids(&alone), ["own_prompts"]);
        assert!(!alone.targets.is_empty() && !alone.launches.is_empty());
        assert_eq!(alone.prompts, Some(prompts(&[3, 9])));
        let two = planned("cpu", &["single_request"], &[3, 9]).unwrap();
        assert_eq!(ids(&two), ["own_prompts", "single_request"]);
        let named = planned("cpu", &["own_prompts"], &[3, 9]).unwrap();
        assert_eq!(ids(&named), ["own_prompts"]);
        let micro = planned("cpu", &["micro/sdpa"], &[3, 9]).unwrap();
        assert_eq!(ids(&micro), ["own_prompts"]);
        let without = planned("cpu", &[], &[]).unwrap();
        assert!(!ids(&without).contains(&"own_prompts"));
        assert_eq!(without.prompts, None);
        let json = serde_json::to_string(&without).unwrap();
        assert!(!json.contains("prompts\""), "plans are written as before");
    }

    #[test]
    fn a_scenario_without_prompts_and_prompts_without_a_scenario_are_refused() {
        let why = |outcome: Result<Plan>| {
            let error = outcome.unwrap_err();
            assert!(error.is::<Refused>(), "{error}");
            error.to_string()
        };
        let without = why(planned("cpu", &["own_prompts"], &[]));
        assert!(
            without.contains("name their file with --prompts"),
            "{without}"
        );
        let look = why(planned("first-look", &[], &[3]));
        assert!(look.contains("choose another profile"), "{look}");
    }

    #[test]
    fn a_case_is_as_long_as_the_longest_prompt_and_its_requests_whole_passes() {
        for profile in Repo::find().unwrap().profiles().unwrap() {
            if profile.id == "first-look" {
                continue;
            }
            let plan = planned(&profile.id, &[], &[3, 4, 12]).unwrap();
            for case in &plan.scenarios[0].cases {
                assert_eq!((case.prompt_tokens, case.prompt_tokens_mean), (12, Some(7)));
                assert_eq!(case.requests % 3, 0, "{}: {case:?}", profile.id);
                assert!(case.measured_by.is_none());
            }
        }
        let many = planned("cpu", &[], &[5; 1000]).unwrap();
        let own = &Repo::find().unwrap().profile("cpu").unwrap().scenarios["own_prompts"];
        assert_eq!(many.scenarios[0].cases[0].requests, own.requests);
    }

    #[test]
    fn nobody_measures_own_prompts_for_another_scenario() {
        let plan = planned("cpu", &["concurrent", "sustained"], &[50]).unwrap();
        for scenario in &plan.scenarios {
            for by in scenario.cases.iter().filter_map(|c| c.measured_by.as_ref()) {
                let either = [&scenario.id, &by.scenario];
                assert!(!either.contains(&&"own_prompts".to_owned()), "{by:?}");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_the_prompts_are_the_profiles_fault() {
        let profile = Repo::find().unwrap().profile("cpu").unwrap();
        let check = |prompts, sizes: &Sizes| {
            let checked = check_sizes(&profile, "x", prompts, sizes);
            checked.map_err(|error| error.to_string())
        };
        let (own, cut) = (
            &profile.scenarios["own_prompts"],
            &profile.scenarios["memory"],
        );
        assert_eq!(check(PromptSource::Own, own), Ok(()));
        assert_eq!(check(PromptSource::Generated, cut), Ok(()));
        for (prompts, sizes) in [(PromptSource::Own, cut), (PromptSource::Generated, own)] {
            let why = check(prompts, sizes).unwrap_err();
            assert!(why.contains("data/profiles/cpu.toml: [scenarios.x] needs prompt_tokens"));
        }
        let long = Sizes {
            duration_s: 1.0,
            ..own.clone()
        };
        let why = check(PromptSource::Own, &long).unwrap_err();
        assert!(why.contains("has duration_s"), "{why}");
    }
}
