//! The prompts of a new run, where the user brought them: read before anything is fetched, and
//! encoded before the plan is made, because a plan says how long they are. For that the model's
//! small files are fetched first, without its weights. A dry run fetches nothing that stays: it
//! takes what is here.

use super::Options;
use anyhow::Result;
use base::names::Refused;
use base::repo::Repo;
use harness::own_prompts::{File, encode};
use harness::plan::{self, Choice};
use provision::fetch;
use schema::profile::Profile;
use schema::registry::Target;
use schema::scenario::{PromptSource, Scenario};

/// What the command line chooses, with the prompts of its file.
pub(super) fn of(
    repo: &Repo,
    profile: &Profile,
    scenarios: &[Scenario],
    targets: &[Target],
    options: &Options,
) -> Result<Choice> {
    let mut choice = options.choice.clone();
    let Some(path) = &options.prompts else {
        return Ok(choice);
    };
    let file = File::read(path)?;
    // Wrong names are refused before a byte is fetched.
    choice.prompts = Some(file.unencoded());
    plan::plan(profile, scenarios, targets, &choice, 1)?;
    let model = choice.model.as_ref().unwrap_or(&profile.model);
    see_to(repo, model, options.dry_run)?;
    let own = scenarios.iter().filter(|s| s.prompts == PromptSource::Own);
    let sizes = own.filter_map(|scenario| profile.scenarios.get(&scenario.id));
    let new_tokens = sizes.map(|sizes| sizes.new_tokens).max().unwrap_or(0);
    choice.prompts = Some(encode(repo, model, &file, new_tokens)?);
    Ok(choice)
}

/// See to it that the files are here that prompts are encoded by.
fn see_to(repo: &Repo, model: &str, dry_run: bool) -> Result<()> {
    let missing = fetch::missing(&repo.models()?, model, &repo.models_dir)?;
    if !missing.iter().any(|name| fetch::is_small(name)) {
        return Ok(());
    }
    if dry_run {
        return Err(Refused(format!(
            "--prompts: the tokenizer of {model} isn't here, so nobody knows how long the prompts are, and a dry run fetches nothing: `cargo xtask fetch {model}` first"
        ))
        .into());
    }
    eprintln!("Fetching the tokenizer of {model} first: it says how long the prompts are");
    fetch::ensure_small(repo, model)
}
