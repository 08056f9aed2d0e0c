//! `data/models.toml` (the models, and where each comes from) and `data/models.lock` (the sha256 of
//! every file of each model).

use crate::error::{DataError, all_fit, check_id, read_toml};
use crate::hash::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The content of `data/models.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// All models.
    #[serde(rename = "model")]
    pub models: Vec<Model>,
}

/// One model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Id of the model, and the name of its directory under the models directory.
    pub id: String,
    /// Name for headings.
    pub name: String,
    /// Number of parameters; tied embeddings count once.
    pub parameters: u64,
    /// Approximate size of all of its files together (MB); 0 = not known.
    #[serde(default)]
    pub size_mb: u64,
    /// Number of positions that its configuration declares (`max_position_embeddings`), for a model
    /// whose configuration isn't here before it is fetched; 0 = not known.
    #[serde(default)]
    pub positions: u32,
    /// Whether its hub may ask the user to accept terms first, which takes a token.
    #[serde(default)]
    pub gated: bool,
    /// Purpose of the model, and what its numbers may be used for.
    pub about: String,
    /// Source of its files.
    pub source: Source,
}

/// The source of a model's files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// Made here from a seed by the `models` crate, which knows it by this id.
    #[default]
    Embedded,
    /// Made by the `models` crate from weights that were trained here and stand in this repository.
    Trained {
        /// Path of the safetensors file of the weights: relative to the list's directory, absolute
        /// once loaded.
        weights: PathBuf,
    },
    /// Downloaded from a Hugging Face hub.
    Hub {
        /// The files, by their name in the model's directory.
        files: Vec<HubFile>,
    },
    /// Copied from a directory that the user named. No record says which directory, because that is
    /// private.
    Directory {
        /// Names of the files.
        files: Vec<String>,
    },
}

/// One file of a hub model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubFile {
    /// Name in the model's directory, e.g. `model.safetensors`.
    pub name: String,
    /// Repository, `owner/name`.
    pub repo: String,
    /// Full commit id, because a branch name would not be a pin.
    pub revision: String,
    /// Path inside the repository.
    pub path: String,
}

impl HubFile {
    fn check_revision(&self, path: &Path, model: &str) -> Result<(), DataError> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if self.revision.len() == 40 && self.revision.bytes().all(hex) {
            return Ok(());
        }
        let message = format!(
            "model {model}, file {}: revision {:?} is not a full commit id (40 lower-case hex digits); a branch or tag moves",
            self.name, self.revision
        );
        Err(DataError::new(path, message))
    }
}

impl Source {
    /// The directory of weights that were trained here, which also has the facts about them; `None`
    /// for other sources.
    pub fn trained_dir(&self) -> Option<&Path> {
        match self {
            Self::Trained { weights } => weights.parent(),
            Self::Embedded | Self::Hub { .. } | Self::Directory { .. } => None,
        }
    }
}

impl Model {
    /// Check that the model may stand in a list: its id and its files' names can be file names, and
    /// what is downloaded is pinned. `path` is the file that lists it, for the error.
    pub fn check(&self, path: &Path) -> Result<(), DataError> {
        check_id(path, "model", &self.id)?;
        match &self.source {
            Source::Embedded | Source::Trained { .. } => Ok(()),
            Source::Hub { files } => files.iter().try_for_each(|file| {
                check_id(path, "file", &file.name.to_lowercase())?;
                file.check_revision(path, &self.id)
            }),
            Source::Directory { files } => files
                .iter()
                .try_for_each(|name| check_id(path, "file", &name.to_lowercase())),
        }
    }
}

impl Models {
    /// Load and validate the list.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let mut models: Self = read_toml(path)?;
        all_fit("model", models.models.iter().map(|model| &model.id))
            .map_err(|why| DataError::new(path, why))?;
        let dir = path.parent().unwrap_or(Path::new("."));
        for model in &mut models.models {
            model.check(path)?;
            if let Source::Trained { weights } = &mut model.source {
                *weights = dir.join(&*weights);
            }
        }
        Ok(models)
    }

    /// The model of that id, if there is one.
    pub fn get(&self, id: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.id == id)
    }
}

/// The content of `data/models.lock`: model id → file name → sha256, lower-case hex.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelsLock {
    /// Model id → file name → sha256.
    #[serde(flatten)]
    pub models: BTreeMap<String, BTreeMap<String, String>>,
}

impl ModelsLock {
    /// Load `data/models.lock`. A file that isn't there is an error: an empty lock would make every
    /// golden look as if it were of other weights.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        if !path.exists() {
            let message = "isn't there, and it has the hashes of the models' files: restore it (in a checkout `git checkout data/models.lock`)";
            return Err(DataError::new(path, message));
        }
        read_toml(path)
    }

    /// Load a lock that the first fetch makes; a file that isn't there is an empty lock.
    pub fn load_or_empty(path: &Path) -> Result<Self, DataError> {
        match path.exists() {
            true => read_toml(path),
            false => Ok(Self::default()),
        }
    }
}

/// The identity of a model's weights, by the hashes of its files: the sha256 of the file
/// `weights`, or, where an index stands in its place, that of its shards' hashes and names, a line
/// `<sha256>  <name>` each, in order of name. `None` where the hashes have neither.
pub fn weights_identity(files: &BTreeMap<String, String>, weights: &str) -> Option<String> {
    if let Some(sha256) = files.get(weights) {
        return Some(sha256.clone());
    }
    files.get(&format!("{weights}.index.json"))?;
    let extension = Path::new(weights).extension()?;
    let is_shard = |name: &&String| Path::new(name.as_str()).extension() == Some(extension);
    let names = files.keys().filter(is_shard);
    let lines: String = names
        .map(|name| format!("{}  {name}\n", files[name]))
        .collect();
    (!lines.is_empty()).then(|| sha256_hex(lines.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_missing_is_empty_only_where_it_is_about_to_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("models.lock");
        let error = ModelsLock::load(&path).unwrap_err();
        assert_eq!(error.path, path);
        assert!(error.message.contains("git checkout"), "{error}");
        assert_eq!(ModelsLock::load_or_empty(&path), Ok(ModelsLock::default()));
        std::fs::write(&path, "[m]\n\"config.json\" = \"01\"\n").unwrap();
        let there = ModelsLock::load(&path);
        assert_eq!(there.as_ref().unwrap().models["m"]["config.json"], "01");
        assert_eq!(ModelsLock::load_or_empty(&path), there);
    }

    #[test]
    fn weights_in_shards_are_known_by_all_of_them() {
        let files = |names: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = |(name, hash): &(&str, &str)| ((*name).to_owned(), (*hash).to_owned());
            names.iter().map(owned).collect()
        };
        let whole = files(&[("config.json", "c"), ("model.safetensors", "ab")]);
        let identity = |files: &BTreeMap<String, String>| -> Option<String> {
            weights_identity(files, "model.safetensors")
        };
        assert_eq!(identity(&whole), Some("ab".to_owned()));
        let shards = [
            ("model-00002-of-00002.safetensors", "22"),
            ("model-00001-of-00002.safetensors", "11"),
            ("model-q8_0.gguf", "99"),
        ];
        assert_eq!(identity(&files(&shards)), None, "without an index");
        let index = [("model.safetensors.index.json", "ii")];
        let sharded = files(&[&shards[..], &index[..]].concat());
        let lines = "11  model-00001-of-00002.safetensors\n22  model-00002-of-00002.safetensors\n";
        assert_eq!(identity(&sharded), Some(sha256_hex(lines.as_bytes())));
    }

    #[test]
    fn a_branch_is_not_a_pin() {
        let check = |revision: &str| {
            let file = HubFile {
                revision: revision.into(),
                ..HubFile::default()
            };
            file.check_revision(Path::new("models.toml"), "m")
        };
        let error = check("main").unwrap_err();
        assert!(error.message.contains("not a full commit id"), "{error}");
        assert!(check(&"0A".repeat(20)).is_err());
        assert!(check(&"0a".repeat(20)).is_ok());
    }

    #[test]
    fn a_model_that_is_listed_twice_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("models.toml");
        let model = |id: &str| {
            format!(
                "[[model]]\nid = {id:?}\nname = \"\"\nparameters = 1\nabout = \"\"\n\
                 source = {{ kind = \"embedded\" }}\n"
            )
        };
        std::fs::write(&path, model("a") + &model("b")).unwrap();
        Models::load(&path).unwrap();
        std::fs::write(&path, model("a") + &model("a")).unwrap();
        let error = Models::load(&path).unwrap_err();
        assert_eq!(error.message, "model \"a\" is listed twice");
    }

    #[test]
    fn the_repository_s_own_list_loads() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/models.toml");
        let models = Models::load(&path).unwrap();
        assert!(models.get("tiny-llama").is_some());
        let sizes = models.models.iter().map(|model| model.size_mb);
        assert!(sizes.min() > Some(0), "a model has no size");
        for model in &models.models {
            let is_hub = matches!(model.source, Source::Hub { .. });
            assert!(
                !is_hub || model.positions > 0,
                "{}: says no positions, so no length can be held against them before its download",
                model.id
            );
        }
        let Source::Trained { weights } = &models.get("tiny-stories").unwrap().source else {
            panic!("tiny-stories is trained");
        };
        assert!(weights.is_file(), "{}", weights.display());
    }
}
