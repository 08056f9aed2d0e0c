//! `engines/train.toml`: the program that trains, for each backend it can be built for; and the
//! facts about a training whose model this repository ships.

use crate::error::{DataError, all_fit, read_checked, read_json};
use crate::registry::Build;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The registry of the trainer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainRegistry {
    /// Backends of the trainer; the first is taken where none is named.
    #[serde(rename = "backend", default)]
    pub backends: Vec<TrainBackend>,
}

/// A backend of the trainer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainBackend {
    /// Id by which the user names the backend.
    pub id: String,
    /// How its program is built. It is started with the directory of a run that holds a `job.json`
    /// (and `--tui`), resumes that run from its last checkpoint, and leaves `curve.jsonl` and
    /// `trained.safetensors` there (`models::training`).
    pub build: Build,
}

impl TrainRegistry {
    /// Load and validate; a missing file gives an empty registry.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        read_checked(path, |registry: &Self| {
            all_fit("backend", registry.backends.iter().map(|b| &b.id))
        })
    }
}

/// `training.json` beside a shipped model's weights: how they were trained, and how good they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Model id.
    pub model: String,
    /// The command that trains it again.
    pub command: String,
    /// The trainer's backend. Another backend, or another processor, rounds differently.
    pub backend: String,
    /// Seed of the first weights and of the text.
    pub seed: u64,
    /// Number of optimiser steps.
    pub steps: usize,
    /// Number of tokens trained on.
    pub tokens: u64,
    /// Mean cross-entropy of the last step's tokens, nats.
    pub last_loss_nats: f64,
    /// Perplexity of the weights as shipped: e to the mean cross-entropy per token (nats), over
    /// text that training never saw.
    pub perplexity: f64,
    /// Number of tokens that the perplexity was computed on.
    pub perplexity_tokens: u64,
    /// sha256 of the weights.
    pub weights_sha256: String,
}

impl Training {
    /// Name of the file.
    pub const FILE: &str = "training.json";
}

/// `stories.json` beside a shipped model's weights: stories that the model writes. Made with its
/// goldens by `cargo xtask verify --bless`, from the reference's greedy output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stories {
    /// Model id.
    pub model: String,
    /// sha256 of the weight file that the reference read.
    pub weights_sha256: String,
    /// Target id and version of the reference.
    pub reference: String,
    /// The stories, in order.
    pub stories: Vec<Written>,
}

/// One story: a sentence that the model was given, and its continuation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The opening sentence that the model was given.
    pub prompt: String,
    /// The model's continuation, up to its end of text.
    pub text: String,
    /// Whether the model ended the story by itself.
    pub ended: bool,
    /// Whether the whole story is one that the grammar could have told.
    pub follows: bool,
}

impl Stories {
    /// Name of the file.
    pub const FILE: &str = "stories.json";

    /// Number of whole stories: ended by the model itself, and such as the grammar tells.
    pub fn whole(&self) -> usize {
        let whole = |story: &&Written| story.ended && story.follows;
        self.stories.iter().filter(whole).count()
    }
}

/// A model whose weights were trained here and stand in this repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Shipped {
    /// How the model was trained.
    pub training: Training,
    /// Stories that the model writes; `None` where these weights haven't been asked yet.
    pub stories: Option<Stories>,
}

impl Shipped {
    /// Load what stands in `dir`; `None` where there is no training.
    pub fn load(dir: &Path) -> Result<Option<Self>, DataError> {
        let path = dir.join(Training::FILE);
        if !path.exists() {
            return Ok(None);
        }
        let training: Training = read_json(&path)?;
        let path = dir.join(Stories::FILE);
        let stories: Option<Stories> = path.exists().then(|| read_json(&path)).transpose()?;
        let same = |stories: &Stories| stories.weights_sha256 == training.weights_sha256;
        Ok(Some(Self {
            stories: stories.filter(same),
            training,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_s_own_trainer_loads() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engines/train.toml");
        let registry = TrainRegistry::load(&path).unwrap();
        assert!(!registry.backends.is_empty());
        let nowhere = TrainRegistry::load(Path::new("nowhere.toml")).unwrap();
        assert_eq!(nowhere, TrainRegistry::default());
    }

    #[test]
    fn stories_of_other_weights_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Shipped::load(dir.path()).unwrap(), None);
        let training = Training {
            weights_sha256: "aa".into(),
            ..Training::default()
        };
        let stories = |weights: &str| Stories {
            weights_sha256: weights.into(),
            ..Stories::default()
        };
        let put = |name: &str, json: String| std::fs::write(dir.path().join(name), json).unwrap();
        put(Training::FILE, serde_json::to_string(&training).unwrap());
        for (weights, shown) in [("bb", false), ("aa", true)] {
            put(
                Stories::FILE,
                serde_json::to_string(&stories(weights)).unwrap(),
            );
            let shipped = Shipped::load(dir.path()).unwrap().unwrap();
            assert_eq!(shipped.stories.is_some(), shown);
        }
    }

    #[test]
    fn a_backend_stands_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.toml");
        let one = "[[backend]]\nid = \"a\"\nbuild = { kind = \"prebuilt\", path = \"a\" }\n";
        std::fs::write(&path, one.repeat(2)).unwrap();
        let error = TrainRegistry::load(&path).unwrap_err();
        assert!(error.message.contains("is listed twice"), "{error}");
    }
}
