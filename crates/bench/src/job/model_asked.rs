//! The model of a new run, where the user brought it: looked at and kept before anything is decided.
//! A dry run looks too, but keeps it in a directory that is gone at its end.

use super::Options;
use anyhow::Result;
use base::repo::Repo;
use provision::fetch::brought::{self, Places, Seen};
use provision::fetch::{self, Bar, Verify};
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
    /// Of what the command line says. Nothing is done for a model that was given by its id.
    pub(super) fn of(repo: &Repo, options: &Options) -> Result<Self> {
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
