//! The models that the user brought, where they are kept: `<models dir>/<id>/model.json` says what
//! a model is and where its files come from, `model.lock` beside it holds their hashes, as
//! `data/models.lock` does for the models of the list. Nothing of it is this repository's.
//!
//! How a model is looked at before it is kept is `brought`'s business.

use super::lock::LockFile;
use crate::names::Refused;
use crate::whole::write_json;
use anyhow::{Context, Result, bail};
use models::ModelFile;
use models::checkpoint::{Shape, Weights};
use schema::error::read_json;
use schema::model::{Model, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The weights that targets name and references read, in one file.
pub const WEIGHTS: &str = ModelFile::Safetensors.name();
/// The index of the same weights in shards.
pub const INDEX: &str = "model.safetensors.index.json";

const MODEL: &str = "model.json";
const LOCK: &str = "model.lock";

/// `model.json`: a model that the user brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brought {
    /// As a row of `data/models.toml` would say it.
    pub model: Model,
    /// The directory that it was copied from; it stands in no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
}

/// All that were brought, in the order of their ids.
pub fn brought(models_dir: &Path) -> Result<Vec<Model>> {
    let entries = std::fs::read_dir(models_dir).into_iter().flatten();
    let mut ids: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    ids.sort();
    let found = ids.iter().map(|id| get(models_dir, id));
    let found: Vec<Option<Brought>> = found.collect::<Result<_>>()?;
    Ok(found.into_iter().flatten().map(|b| b.model).collect())
}

/// The one of that id, if it was brought.
pub fn get(models_dir: &Path, id: &str) -> Result<Option<Brought>> {
    let path = models_dir.join(id).join(MODEL);
    if !path.is_file() {
        return Ok(None);
    }
    let brought: Brought = read_json(&path)?;
    brought.model.check(&path)?;
    let is_ours = matches!(
        brought.model.source,
        Source::Hub { .. } | Source::Directory { .. }
    );
    if brought.model.id != id || !is_ours {
        bail!(
            "{}: is not what a model that was brought has there; delete its directory and bring it again",
            path.display()
        );
    }
    Ok(Some(brought))
}

/// The lock of a model that was brought.
pub fn brought_lock(models_dir: &Path, id: &str) -> PathBuf {
    models_dir.join(id).join(LOCK)
}

/// The lock that a model's files are held to: its own, where it was brought.
pub(super) fn lock_of(models_dir: &Path, id: &str, listed: &Path) -> PathBuf {
    match models_dir.join(id).join(MODEL).is_file() {
        true => brought_lock(models_dir, id),
        false => listed.to_owned(),
    }
}

/// Keep a model: what it is, and the hashes that are known of its files. The same model may be
/// brought again; another one under its id is refused.
pub fn keep(models_dir: &Path, new: &Brought, hashes: &BTreeMap<String, String>) -> Result<()> {
    let id = &new.model.id;
    if let Some(old) = get(models_dir, id)?
        && old.model.source != new.model.source
    {
        return Err(Refused(format!(
            "{} is already the id of another model that was brought; delete {} to bring this one",
            id,
            models_dir.join(id).display()
        ))
        .into());
    }
    let dir = models_dir.join(id);
    std::fs::create_dir_all(&dir).with_context(|| format!("can't make {}", dir.display()))?;
    // A file that the lock knows and that is gone from its source would be found out by its hash.
    let mut lock = LockFile::open(&brought_lock(models_dir, id))?;
    for (name, sha256) in hashes {
        lock.record(id, name, sha256)?;
    }
    write_json(&dir.join(MODEL), new)
}

/// Whether the weights in place are those that config.json describes. Where they aren't, nothing of
/// the model stays: its files would be taken for good ones.
pub(super) fn check_weights(models_dir: &Path, id: &str, what: &str) -> Result<()> {
    let dir = models_dir.join(id);
    let Err(error) = weights_fit(&dir) else {
        return Ok(());
    };
    std::fs::remove_dir_all(&dir)
        .with_context(|| format!("{what}: {error:#}; {} can't be deleted", dir.display()))?;
    Err(Refused(format!("{what}: {error:#}")).into())
}

fn weights_fit(dir: &Path) -> Result<()> {
    let config = std::fs::read_to_string(dir.join("config.json"))?;
    let files = safetensors_files(dir)?;
    Weights::open(&files)?.check(&Shape::read(&config)?)
}

/// The files that hold a model's safetensors.
pub(super) fn safetensors_files(dir: &Path) -> Result<Vec<PathBuf>> {
    protocol::safetensors_files(dir, WEIGHTS).map_err(|error| anyhow::anyhow!(error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str, file: &str) -> Brought {
        Brought {
            model: Model {
                id: id.into(),
                name: "Mine".into(),
                parameters: 1,
                size_mb: 1,
                positions: 0,
                gated: false,
                about: String::new(),
                source: Source::Directory {
                    files: vec![file.into()],
                },
            },
            from: Some("/somewhere".into()),
        }
    }

    #[test]
    fn what_is_kept_is_found_again_and_keeps_its_hashes() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(brought(&dir.path().join("none")).unwrap(), []);
        std::fs::create_dir(dir.path().join("tiny-llama")).unwrap();
        let hashes = BTreeMap::from([("config.json".to_owned(), "ab".to_owned())]);
        let one = model("mine-1", "config.json");
        keep(dir.path(), &one, &hashes).unwrap();
        keep(dir.path(), &one, &hashes).unwrap();
        keep(dir.path(), &model("a-2", "config.json"), &BTreeMap::new()).unwrap();
        let ids: Vec<String> = brought(dir.path())
            .unwrap()
            .into_iter()
            .map(|m| m.id)
            .collect();
        assert_eq!(ids, ["a-2", "mine-1"]);
        assert_eq!(get(dir.path(), "mine-1").unwrap(), Some(one));
        let lock = lock_of(dir.path(), "mine-1", Path::new("listed"));
        let lock = LockFile::open(&lock).unwrap();
        assert_eq!(lock.expected("mine-1", "config.json"), Some("ab"));
        let listed = lock_of(dir.path(), "tiny-llama", Path::new("listed"));
        assert_eq!(listed, Path::new("listed"));
    }

    #[test]
    fn another_model_does_not_take_an_id() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &model("m", "a"), &BTreeMap::new()).unwrap();
        let error = keep(dir.path(), &model("m", "b"), &BTreeMap::new()).unwrap_err();
        assert!(error.is::<Refused>(), "{error}");
        assert!(
            error.to_string().contains("already the id of another"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_not_ours_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("x")).unwrap();
        let path = dir.path().join("x").join(MODEL);
        std::fs::write(&path, "{}").unwrap();
        let error = brought(dir.path()).unwrap_err().to_string();
        assert!(error.contains("model.json:1"), "{error}");
        let other = serde_json::to_string(&model("y", "a")).unwrap();
        std::fs::write(&path, other).unwrap();
        let error = brought(dir.path()).unwrap_err().to_string();
        assert!(error.contains("delete its directory"), "{error}");
    }
}
