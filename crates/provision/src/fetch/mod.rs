//! `cargo xtask fetch`: puts the files of models into place and verifies them.
//!
//! Embedded models are made here, from a seed or from trained weights of this repository; hub
//! models come through `hf-hub`; those of a directory are copied. A GGUF file that a source doesn't
//! have is made of the model's safetensors. Every file's sha256 is recorded in a lock
//! (`data/models.lock`) on the first fetch and must match it ever after. No unverified file has its
//! final name, because engines read whatever is there.
//!
//! This module deliberately chooses no model, builds nothing, and makes no request for a file that
//! is already here.

pub mod brought;
mod command;
mod disk;
mod hub;
mod hub_error;
mod hub_repo;
mod keep;
mod lock;
mod made;
mod need;
mod progress;
mod stamp;

pub use command::{
    Options as CommandOptions, command, ensure, ensure_for, ensure_for_run, ensure_small,
};
pub use disk::{about_size, free_bytes, human_bytes};
pub use hub::Hub;
pub(crate) use hub::Session;
pub(crate) use hub_repo::Repository;
pub use keep::keep;
pub use lock::LockFile;
use lock::ModelFiles;
pub use made::{make, makeable};
pub use need::{Need, need};
pub use progress::Progress;
pub use stamp::sha256_of_file;

use crate::waiting_lock;
use anyhow::{Context, Result};
use base::repo::Repo;
use base::{names, shelf};
use schema::model::{HubFile, Model, Models, Source};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// The options of a fetch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether every byte of files that are already here is hashed again. Otherwise an earlier hash
    /// is trusted while size and modification time are unchanged.
    pub full: bool,
    /// The hub that hub models come from.
    pub hub: Hub,
    /// How often a download that broke off is resumed.
    pub retries: u32,
    /// Wait before the first of these retries; it doubles each time.
    pub backoff: Duration,
    /// A function that is called between chunks of a download. `true` ends the download, which can
    /// be resumed.
    pub interrupted: fn() -> bool,
    /// Whether weights are left out, of models whose files come from elsewhere. Models that are
    /// generated here are generated as a whole.
    pub small: bool,
}

impl Options {
    /// The options of the command line: fetch from the hub that the environment names, until the
    /// user interrupts.
    pub fn from_env() -> Self {
        Self {
            full: false,
            hub: Hub::from_env(),
            retries: 4,
            backoff: Duration::from_secs(1),
            interrupted: base::interrupt::requested,
            small: false,
        }
    }
}

/// A file of a fetched model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FetchedFile {
    /// The model's id.
    pub model: String,
    /// The file's name in the model's directory.
    pub name: String,
    /// sha256 of the file, lower-case hex.
    pub sha256: String,
    /// The file's size (bytes).
    pub size_bytes: u64,
    /// How the file was obtained this time.
    pub how: How,
}

/// How a file was obtained this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The file was in place already.
    Present,
    /// The file was made here.
    Generated,
    /// The file was in the hub's cache, where another program may have put it.
    Cached,
    /// The file was downloaded from the hub.
    Downloaded,
    /// The file was copied from a directory of the user's.
    Copied,
}

/// Whether a file of a model contains no weights, but says what the model is or how its prompts are
/// written.
pub fn is_small(name: &str) -> bool {
    matches!(
        name,
        "config.json" | "tokenizer.json" | "tokenizer_config.json" | "chat_template.jinja"
    )
}

/// Make the models `ids` complete and verified in their directories.
///
/// Stops at the first file that can't be had; what is done stays done, and the
/// next call goes on from there. Two calls at once wait for each other.
pub fn fetch(
    repo: &Repo,
    ids: &[String],
    options: &Options,
    progress: &mut Progress,
) -> Result<Vec<FetchedFile>> {
    let (models, models_dir) = (repo.models()?, &repo.models_dir);
    let is_wanted = |name: &str| !options.small || is_small(name);
    names::check_models(ids, &models)?;
    std::fs::create_dir_all(models_dir)
        .with_context(|| format!("can't make the models directory {}", models_dir.display()))?;
    let _only_one = exclusive(models_dir, progress)?;
    let mut fetched = Vec::new();
    for id in ids {
        let model = known(&models, id)?;
        let dir = repo.model_dir(id);
        let own = shelf::get(models_dir, id)?;
        let mut lock = LockFile::open(&keep::lock_of(repo, id))?;
        let what = || format!("model {id} is not complete");
        let here = ModelFiles::open(id, &dir, &mut lock, options, progress);
        let here = &mut here.with_context(what)?;
        let of_model = match &model.source {
            Source::Embedded => made::fetch(here, None),
            Source::Trained { weights } => made::fetch(here, Some(weights)),
            Source::Hub { files } => {
                let wanted = files.iter().filter(|file| is_wanted(&file.name));
                let wanted: Vec<HubFile> = wanted.cloned().collect();
                hub::fetch(here, &wanted, models_dir)
            }
            Source::Directory { files } => {
                let from = own.as_ref().and_then(|own| own.from.as_deref());
                let wanted = files.iter().filter(|name| is_wanted(name));
                let wanted: Vec<String> = wanted.cloned().collect();
                keep::fetch(here, &wanted, from)
            }
        };
        fetched.extend(of_model.with_context(what)?);
        if own.is_some() && is_wanted(shelf::WEIGHTS) {
            keep::check_weights(models_dir, id, &model.name)?;
        }
    }
    Ok(fetched)
}

/// Names of the model's files that are not in `models_dir`, which `fetch` would have to get.
/// Nothing is verified.
pub fn missing(models: &Models, id: &str, models_dir: &Path) -> Result<Vec<String>> {
    let dir = models_dir.join(id);
    Ok(file_names(models, id)?
        .into_iter()
        .filter(|name| !dir.join(name).is_file())
        .collect())
}

/// Names of all of the model's files.
pub fn file_names(models: &Models, id: &str) -> Result<Vec<String>> {
    Ok(match &known(models, id)?.source {
        Source::Embedded | Source::Trained { .. } => made::file_names(id)?,
        Source::Hub { files } => files.iter().map(|file| file.name.clone()).collect(),
        Source::Directory { files } => files.clone(),
    })
}

fn known<'a>(models: &'a Models, id: &str) -> Result<&'a Model> {
    let known = models.get(id);
    known.with_context(|| format!("no model {id:?}: `cargo xtask list models` lists what there is"))
}

/// Take the lock that is held while fetching, so that two fetches don't write the same file.
fn exclusive(models_dir: &Path, progress: &mut Progress) -> Result<std::fs::File> {
    let path = models_dir.join(".fetch.lock");
    let dir = models_dir.display();
    let held = waiting_lock::hold(&path, || {
        progress.say(&format!("waiting for another fetch into {dir}"));
    });
    held.with_context(|| format!("can't lock {}", path.display()))
}
