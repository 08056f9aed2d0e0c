//! The models that the user brought, as they are stored: `<models dir>/<id>/model.json` says what a
//! model is and where its files come from, and `model.lock` beside it holds their hashes, as
//! `data/models.lock` does for the models that this repository lists. None of these files belongs
//! to the repository.
//!
//! `fetch` (in the crate `provision`) looks at such a model and stores it.

use anyhow::{Result, bail};
use models::ModelFile;
use schema::error::read_json;
use schema::model::{Model, Source};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file name of safetensors weights in one file, which targets name and references read.
pub const WEIGHTS: &str = ModelFile::Safetensors.name();
/// The file name of the index of safetensors weights in shards.
pub const INDEX: &str = "model.safetensors.index.json";

/// The name of the file that says what a model is.
pub const MODEL: &str = "model.json";
const LOCK: &str = "model.lock";

/// The content of `model.json`: a model that the user brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brought {
    /// The model, as a row of `data/models.toml` would describe it.
    pub model: Model,
    /// The directory that it was copied from. No record contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
}

/// Load all models that the user brought, sorted by id.
pub fn brought(models_dir: &Path) -> Result<Vec<Model>> {
    let entries = std::fs::read_dir(models_dir).into_iter().flatten();
    let mut ids: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    ids.sort();
    let found = ids.iter().filter_map(|id| get(models_dir, id).transpose());
    found.map(|brought| Ok(brought?.model)).collect()
}

/// Load the brought model of that id; `None` where there is none.
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
            "{}: is not the description of a model of the user's; delete its directory and fetch the model again",
            path.display()
        );
    }
    Ok(Some(brought))
}

/// The path of the lock of a model that was brought.
pub fn lock(models_dir: &Path, id: &str) -> PathBuf {
    models_dir.join(id).join(LOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write_json;

    #[test]
    fn a_file_that_is_not_ours_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("x")).unwrap();
        let path = dir.path().join("x").join(MODEL);
        std::fs::write(&path, "{}").unwrap();
        let error = brought(dir.path()).unwrap_err().to_string();
        assert!(error.contains("model.json:1"), "{error}");
        let files = vec!["a".to_owned()];
        let model = Model {
            id: "y".into(),
            name: "Mine".into(),
            parameters: 1,
            size_mb: 1,
            source: Source::Directory { files },
            ..Model::default()
        };
        write_json(&path, &Brought { model, from: None }).unwrap();
        let error = brought(dir.path()).unwrap_err().to_string();
        assert!(error.contains("delete its directory"), "{error}");
    }
}
