//! Computes how long contexts are: those a plan needs, and those its model allows; and how many
//! requests a plan has in flight. Known before anything is fetched; the parity gate decides which
//! contexts are *verified*.

use crate::prompts::read_config;
use anyhow::Result;
use base::names::Refused;
use base::repo::Repo;
use models::ModelSpec;
use schema::plan::{Case, Plan};
use std::collections::BTreeSet;

/// The context lengths (prompt and new tokens) of a plan's cases, each once, shortest first.
pub fn of_plan(plan: &Plan) -> Vec<u32> {
    each_once(plan, |case| {
        case.prompt_tokens.saturating_add(case.new_tokens)
    })
}

/// The numbers of requests that a plan's cases have in flight, each once, smallest first.
pub fn batches(plan: &Plan) -> Vec<u32> {
    each_once(plan, |case| case.concurrency)
}

fn each_once(plan: &Plan, size: impl Fn(&Case) -> u32) -> Vec<u32> {
    let cases = plan.scenarios.iter().flat_map(|scenario| &scenario.cases);
    let sizes: BTreeSet<u32> = cases.map(size).collect();
    sizes.into_iter().collect()
}

/// The cases of a plan that need more than `positions` positions, as `<scenario>/<case>`.
pub fn too_long(plan: &Plan, positions: u32) -> Vec<String> {
    let mut ids = Vec::new();
    for scenario in &plan.scenarios {
        for case in &scenario.cases {
            if case.prompt_tokens.saturating_add(case.new_tokens) > positions {
                ids.push(format!("{}/{}", scenario.id, case.id));
            }
        }
    }
    ids
}

/// The number of positions of a model: by its generator where it is made here, else by
/// data/models.toml, else by its config.json where that is here. `None` where none of these has it.
pub fn of_model(repo: &Repo, model: &str) -> Result<Option<u32>> {
    let whole = |positions: u64| u32::try_from(positions).unwrap_or(u32::MAX);
    if let Some(spec) = ModelSpec::named(model) {
        return Ok(Some(whole(spec.max_position as u64)));
    }
    let listed = repo.models()?.get(model).map_or(0, |model| model.positions);
    if listed > 0 {
        return Ok(Some(listed));
    }
    let config = read_config(&repo.model_dir(model)).ok();
    let declared = config.and_then(|config| config["max_position_embeddings"].as_u64());
    Ok(declared.map(whole))
}

/// Refuse a request of which an option asks for `asked` tokens and which has `others` besides, where
/// that is more than the model's positions. Where these aren't known yet, only what no model has is
/// refused.
pub fn check_fit(repo: &Repo, model: &str, option: &str, asked: u32, others: u32) -> Result<()> {
    let positions = of_model(repo, model)?.unwrap_or(u32::MAX);
    if u64::from(asked) + u64::from(others) <= u64::from(positions) {
        return Ok(());
    }
    let text = format!(
        "{option} {asked} is too long: with {others} more, a request has to fit into {positions} positions of {model}; give fewer tokens"
    );
    Err(Refused(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::plan;

    #[test]
    fn a_request_that_is_longer_than_the_model_is_refused() {
        let repo = Repo::find().unwrap();
        let positions = of_model(&repo, "tiny-llama").unwrap().expect("it is known");
        let check = |model: &str, asked: u32| check_fit(&repo, model, "--n", asked, 16);
        assert!(check("tiny-llama", positions - 16).is_ok());
        let error = check("tiny-llama", positions - 15).unwrap_err();
        assert!(error.is::<Refused>(), "{error}");
        assert!(error.to_string().starts_with("--n "), "{error}");
        assert!(check("not-here", positions).is_ok());
        assert!(check("not-here", u32::MAX).is_err());
    }

    #[test]
    fn contexts_are_prompts_and_what_is_written_on_them() {
        let mut plan = plan();
        assert_eq!(of_plan(&plan), [26, 516]);
        assert_eq!(batches(&plan), [1]);
        assert_eq!(too_long(&plan, 516), [""; 0]);
        assert_eq!(too_long(&plan, 515), ["s/p500"]);
        plan.scenarios.push(plan.scenarios[0].clone());
        assert_eq!(of_plan(&plan), [26, 516], "each once");
    }

    #[test]
    fn every_profile_stays_within_its_model() {
        let repo = Repo::find().unwrap();
        for profile in repo.profiles().unwrap() {
            let positions = of_model(&repo, &profile.model).unwrap();
            let Some(positions) = positions else {
                panic!(
                    "{}: the positions of its model {} are unknown: add `positions` to data/models.toml",
                    profile.id, profile.model
                );
            };
            for (scenario, sizes) in &profile.scenarios {
                let longest = sizes.prompt_tokens.iter().max().unwrap_or(&0) + sizes.new_tokens;
                assert!(
                    longest <= positions,
                    "profile {}: {scenario} needs {longest} positions, and {} has {positions}",
                    profile.id,
                    profile.model
                );
            }
        }
    }
}
