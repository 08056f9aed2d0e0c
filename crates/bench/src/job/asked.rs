//! The model and the prompts that the user brought to a new run.
//!
//! A model that the user brought is inspected and kept before anything is decided. A dry run
//! inspects it too, but keeps it in a temporary directory.
//!
//! Prompts that the user brought are read before anything is fetched, and encoded before the plan
//! is made, because a plan states their lengths. For that the model's small files are fetched
//! first, without its weights. A dry run leaves nothing that it fetched: it uses the files that are
//! here.

use super::Options;
use anyhow::Result;
use base::names::Refused;
use base::repo::Repo;
use harness::own_prompts::{File, encode};
use harness::plan::{self, Choice};
use provision::fetch::brought::{self, Places, Resolved};
use provision::fetch::{self, Progress};
use schema::profile::Profile;
use schema::registry::Target;
use schema::scenario::{PromptSource, Scenario};
use tempfile::TempDir;

/// The options of a run, with its model as an id.
pub(super) struct ModelAsked {
    /// The checkout; of a dry run possibly with another models directory.
    pub(super) repo: Repo,
    pub(super) options: Options,
    /// Temporary directory where a dry run keeps a model; deleted when this is dropped.
    _scratch: Option<TempDir>,
}

impl ModelAsked {
    /// Find or bring the model that the command line asks for. A dry run only inspects it.
    pub(super) fn new(repo: &Repo, options: &Options) -> Result<Self> {
        let mut asked = Self {
            repo: repo.clone(),
            options: options.clone(),
            _scratch: None,
        };
        let Some(name) = &options.model else {
            return Ok(asked);
        };
        let id = match options.dry_run {
            false => brought::id(repo, name)?,
            true => asked.inspect_without_keeping(name)?,
        };
        asked.options.model = Some(id);
        Ok(asked)
    }

    /// Inspect a model without keeping it; return its id.
    fn inspect_without_keeping(&mut self, name: &str) -> Result<String> {
        let scratch = tempfile::tempdir()?;
        let mut options = fetch::Options::from_env();
        let cache = options.hub.cache_dir.replace(scratch.path().join("hub"));
        let room = cache.unwrap_or_else(|| self.repo.models_dir.clone());
        let models = self.repo.models()?;
        let places = Places {
            models_dir: &self.repo.models_dir,
            downloads_to: Some(&room),
        };
        let seen = brought::look(name, &models, &places, &options, &mut Progress::stderr())?;
        let looked = match seen {
            Resolved::Id(id) => return Ok(id),
            Resolved::New(looked) => looked,
        };
        let id = looked.brought.model.id.clone();
        if models.get(&id).is_none() {
            fetch::keep(scratch.path(), &looked.brought, &looked.hashes)?;
            self.repo.models_dir = scratch.path().to_owned();
            if self.options.prompts.is_some() {
                // The prompts' lengths are counted in tokens, for which the tokenizer is needed.
                let small = fetch::Options {
                    small: true,
                    ..options
                };
                let ids = std::slice::from_ref(&id);
                fetch::fetch(&self.repo, ids, &small, &mut Progress::stderr())?;
            }
            self._scratch = Some(scratch);
        }
        Ok(id)
    }
}

/// Return the choices of the command line, with the prompts of the user's file encoded.
pub(super) fn choice(
    repo: &Repo,
    profile: &Profile,
    scenarios: &[Scenario],
    targets: &[Target],
    options: &Options,
) -> Result<Choice> {
    let mut choice = Choice {
        engines: options.engines.clone(),
        scenarios: options.scenarios.clone(),
        model: options.model.clone(),
        prompts: None,
    };
    let Some(path) = &options.prompts else {
        return Ok(choice);
    };
    let file = File::read(path)?;
    // Unknown names are refused before a byte is fetched.
    choice.prompts = Some(file.unencoded());
    plan::plan(profile, scenarios, targets, &choice, 1)?;
    let model = choice.model.as_ref().unwrap_or(&profile.model);
    ensure_tokenizer_files(repo, model, options.dry_run)?;
    let own = scenarios.iter().filter(|s| s.prompts == PromptSource::Own);
    let sizes = own.filter_map(|scenario| profile.scenarios.get(&scenario.id));
    let new_tokens = sizes.map(|sizes| sizes.new_tokens).max().unwrap_or(0);
    choice.prompts = Some(encode(repo, model, &file, new_tokens)?);
    Ok(choice)
}

/// Make sure that the files that encode prompts are here. A dry run fails where they are missing.
fn ensure_tokenizer_files(repo: &Repo, model: &str, dry_run: bool) -> Result<()> {
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
