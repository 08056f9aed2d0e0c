//! What the user brought to a new run: a model, prompts.
//!
//! The model of a new run, where the user brought it: looked at and kept before anything is decided.
//! A dry run looks too, but keeps it in a directory that is gone at its end.
//!
//! The prompts of a new run, where the user brought them: read before anything is fetched, and
//! encoded before the plan is made, because a plan says how long they are. For that the model's
//! small files are fetched first, without its weights. A dry run fetches nothing that stays: it
//! takes what is here.

use super::Options;
use anyhow::Result;
use base::names::Refused;
use base::repo::Repo;
use harness::own_prompts::{File, encode};
use harness::plan;
use harness::plan::Choice;
use provision::fetch;
use provision::fetch::brought::{Places, Seen};
use provision::fetch::{Bar, Verify, brought};
use schema::profile::Profile;
use schema::registry::Target;
use schema::scenario::{PromptSource, Scenario};
use tempfile::TempDir;

/// What a run is asked for, its model by id.
pub(super) struct ModelAsked {
    /// The checkout; of a dry run perhaps with another models directory.
    pub(super) repo: Repo,
    /// The options with the model's id.
    pub(super) options: Options,
    /// Where a dry run keeps a model; deleted with this.
    _scratch: Option<TempDir>,
}

impl ModelAsked {
    /// The model that the command line asks for. Nothing is done for one that is given by its id.
    pub(super) fn new(repo: &Repo, options: &Options) -> Result<Self> {
        let mut asked = Self {
            repo: repo.clone(),
            options: options.clone(),
            _scratch: None,
        };
        let Some(name) = &options.choice.model else {
            return Ok(asked);
        };
        let id = match options.dry_run {
            false => brought::id(repo, name)?,
            true => asked.looked_at(name)?,
        };
        asked.options.choice.model = Some(id);
        Ok(asked)
    }

    /// The id of a model that is looked at and not kept.
    fn looked_at(&mut self, name: &str) -> Result<String> {
        let scratch = tempfile::tempdir()?;
        let mut options = fetch::options(Verify::Stamp);
        let cache = options.hub.cache_dir.replace(scratch.path().join("hub"));
        let room = cache.unwrap_or_else(|| self.repo.models_dir.clone());
        let models = self.repo.models()?;
        let places = Places {
            models_dir: &self.repo.models_dir,
            downloads_to: Some(&room),
        };
        let seen = brought::look(name, &models, &places, &options, &mut Bar::stderr())?;
        let looked = match seen {
            Seen::Known(id) => return Ok(id),
            Seen::New(looked) => looked,
        };
        let id = looked.brought.model.id.clone();
        if models.get(&id).is_none() {
            fetch::keep(scratch.path(), &looked.brought, &looked.hashes)?;
            self.repo.models_dir = scratch.path().to_owned();
            if self.options.prompts.is_some() {
                // They are counted in tokens.
                fetch::fetch_small(
                    &self.repo.models()?,
                    std::slice::from_ref(&id),
                    &self.repo.models_dir,
                    &self.repo.models_lock_path(),
                    &options,
                    &mut Bar::stderr(),
                )?;
            }
            self._scratch = Some(scratch);
        }
        Ok(id)
    }
}

/// What the command line chooses, with the prompts of its file.
pub(super) fn choice(
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
            "--prompts: the tokenizer of {model} isn't here, so the prompts' lengths are unknown, and a dry run fetches nothing: `cargo xtask fetch {model}` first"
        ))
        .into());
    }
    eprintln!("Fetching the tokenizer of {model} first: it says how long the prompts are");
    fetch::ensure_small(repo, model)
}
