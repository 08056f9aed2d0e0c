//! Models that the user brings: `--model hf:org/repo[@revision]` and `--model path/to/dir`. A model
//! is checked before anything large is read or written. What prevents its use is reported then, in
//! one line and with exit status 2. A usable model is stored with an id of its own in the models
//! directory (`fetch::keep`), and from then on it is a model like any other.
//!
//! This module downloads, copies and makes no weights: `fetch` does.

mod check;
mod directory;
mod hub;

use crate::fetch::{self, Options, Progress};
use anyhow::Result;
use base::names::Refused;
use base::repo::Repo;
use base::shelf::Brought;
use models::checkpoint::Shape;
use schema::model::{Model, Models, Source};
use schema::run::RunHeader;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The prefix of a model's name that stands for a repository of a hub.
const HUB: &str = "hf:";

/// The way in which a model was named.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    /// By an id, which may be unknown.
    Id,
    /// By a repository of a hub, at a revision if one was given.
    Hub {
        repo: String,
        revision: Option<String>,
    },
    Directory(PathBuf),
}

/// A model that was checked and can be used.
#[derive(Debug)]
pub struct Checked {
    /// The description that is to be stored.
    pub brought: Brought,
    /// Known sha256 of its files, by name: of all files of a directory, and of none of a
    /// repository.
    pub hashes: BTreeMap<String, String>,
}

/// Find the [`id`] of each of these models.
pub fn ids(repo: &Repo, names: &[String]) -> Result<Vec<String>> {
    names.iter().map(|name| id(repo, name)).collect()
}

/// Find the id of a model that is named by id, repository or directory. One named by repository or
/// directory is stored.
pub fn id(repo: &Repo, name: &str) -> Result<String> {
    let options = Options::from_env();
    let models = repo.models()?;
    let places = Places {
        models_dir: &repo.models_dir,
        downloads_to: None,
    };
    match look(name, &models, &places, &options, &mut Progress::stderr())? {
        Resolved::Id(id) => Ok(id),
        Resolved::New(looked) => {
            fetch::keep(&repo.models_dir, &looked.brought, &looked.hashes)?;
            Ok(looked.brought.model.id)
        }
    }
}

/// Make sure that the model of a record is known here. A record has the revision and hashes of a
/// model that was brought from a hub, so the model is stored again as it was.
pub fn of_record(repo: &Repo, header: &RunHeader) -> Result<()> {
    let Some(model) = &header.provenance.model else {
        return Ok(());
    };
    if repo.models()?.get(&model.id).is_some() {
        return Ok(());
    }
    model.check(Path::new("run.json"))?;
    if !matches!(model.source, Source::Hub { .. }) {
        return Err(Refused(format!(
            "the run's model {} was copied from a directory that the record doesn't name: bring the same files with `cargo xtask fetch path/to/dir`",
            model.id
        ))
        .into());
    }
    let prefix = format!("{}/", model.id);
    let recorded = header.provenance.model_files.iter();
    let hashes = recorded.filter_map(|(name, sha256)| {
        let name = name.strip_prefix(&prefix)?;
        Some((name.to_owned(), sha256.clone()))
    });
    let brought = Brought {
        model: model.clone(),
        from: None,
    };
    fetch::keep(&repo.models_dir, &brought, &hashes.collect())
}

/// The places where a model's files would be written.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The models directory.
    pub models_dir: &'a Path,
    /// The directory that must have room for a download; `None` = the hub's cache in use.
    pub downloads_to: Option<&'a Path>,
}

/// What a model's name stands for.
#[derive(Debug)]
pub enum Resolved {
    /// An id, of a known model or of none.
    Id(String),
    /// A model that was checked. It may be stored already.
    New(Box<Checked>),
}

/// Check the model that the user named. Only the hub's cache is written, and no weights are put
/// into that.
pub fn look(
    name: &str,
    models: &Models,
    places: &Places<'_>,
    options: &Options,
    progress: &mut Progress,
) -> Result<Resolved> {
    let looked = match given(name, models)? {
        Given::Id => return Ok(Resolved::Id(name.to_owned())),
        Given::Hub { repo, revision } => {
            let revision = revision.as_deref();
            if let Some(id) = pinned(models, &repo, revision) {
                return Ok(Resolved::Id(id));
            }
            hub::look(&repo, revision, places, options, progress)?
        }
        Given::Directory(path) => {
            let looked = directory::look(&path, places.models_dir, progress);
            looked.map_err(|error| about(&path.display().to_string(), error))?
        }
    };
    Ok(Resolved::New(Box::new(looked)))
}

/// Put the model's name before the reason why it is refused; another error stays as it is.
fn about(what: &str, error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(Refused(why)) => Refused(format!("{what}: {why}")).into(),
        Err(error) => error,
    }
}

/// Find out in which way a model was named. The id of a known model always means that model, even
/// if there is a directory of this name.
fn given(name: &str, models: &Models) -> Result<Given, Refused> {
    if models.get(name).is_some() {
        return Ok(Given::Id);
    }
    if let Some(rest) = name.strip_prefix(HUB) {
        let (repo, revision) = match rest.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (rest, None),
        };
        let is_word = |text: &str| {
            !text.is_empty()
                && !text.starts_with(['.', '-'])
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        let parts: Vec<&str> = repo.split('/').collect();
        let is_revision = revision.is_none_or(|at| at.split('/').all(is_word));
        if parts.len() != 2 || !parts.into_iter().all(is_word) || !is_revision {
            return Err(Refused(format!(
                "{name:?} names no repository: it has the form hf:org/repo or hf:org/repo@revision"
            )));
        }
        return Ok(Given::Hub {
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
        });
    }
    // Ids contain no slash.
    let path = Path::new(name);
    match name.contains('/') || name.starts_with('.') || path.is_dir() {
        true => Ok(Given::Directory(path.to_owned())),
        false => Ok(Given::Id),
    }
}

/// Find the id of a model that was already brought from a repository at this commit. Then the hub
/// need not be asked again.
fn pinned(models: &Models, repo: &str, revision: Option<&str>) -> Option<String> {
    let known = models.models.iter().find(|model| match &model.source {
        Source::Hub { files } => {
            let name = repo.rsplit('/').next().unwrap_or(repo);
            // A model of data/models.toml may be from this repository too, with other files.
            model.id == id_of(name, revision.unwrap_or_default())
                && files
                    .iter()
                    .all(|file| file.repo == repo && Some(&*file.revision) == revision)
        }
        _ => false,
    });
    known.map(|model| model.id.clone())
}

/// Make an id: the model's name, in the characters that an id may have, and the beginning of
/// `mark`, which distinguishes models of that name.
fn id_of(name: &str, mark: &str) -> String {
    let name = name.to_lowercase();
    let letters = name.chars().map(|c| match c {
        'a'..='z' | '0'..='9' | '.' | '_' | '-' | '+' => c,
        _ => '-',
    });
    let name: String = letters.take(48).collect();
    let name = name.trim_start_matches(['.', '-']).trim_end_matches('-');
    let name = if name.is_empty() { "model" } else { name };
    format!("{name}-{mark:.8}")
}

/// Describe a model that was checked. `origin`: what follows `Chosen by the person who measured`.
fn described(id: String, name: &str, shape: &Shape, bytes: u64, origin: &str) -> Model {
    Model {
        id,
        name: name.to_owned(),
        parameters: shape.parameters(),
        size_mb: bytes.div_ceil(1_000_000),
        positions: u32::try_from(shape.spec.max_position).unwrap_or(u32::MAX),
        about: format!(
            "Chosen by the person who measured, {origin}. This project has not checked its quality."
        ),
        ..Model::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::error::check_id;

    fn none() -> Models {
        Models { models: Vec::new() }
    }

    #[test]
    fn a_refusal_names_the_model() {
        let refused = about("m", Refused("it lacks a".into()).into());
        assert_eq!(refused.to_string(), "m: it lacks a");
        assert!(refused.is::<Refused>(), "{refused:?}");
        assert_eq!(about("m", anyhow::anyhow!("b")).to_string(), "b");
    }

    #[test]
    fn a_name_says_how_the_model_was_given() {
        let of = |name: &str| given(name, &none()).unwrap();
        let hub = |repo: &str, revision: Option<&str>| Given::Hub {
            repo: repo.into(),
            revision: revision.map(str::to_owned),
        };
        assert_eq!(of("tiny-llama"), Given::Id);
        assert_eq!(of("hf:Org/a-Repo_1.5"), hub("Org/a-Repo_1.5", None));
        assert_eq!(of("hf:o/r@refs/pr/1"), hub("o/r", Some("refs/pr/1")));
        for path in ["./x", "models/x", "/x", "."] {
            assert_eq!(of(path), Given::Directory(path.into()));
        }
        for wrong in [
            "hf:", "hf:repo", "hf:a/b/c", "hf:../x", "hf:a/b@", "hf:a/b?x", "hf:-a/b",
        ] {
            let error = given(wrong, &none()).unwrap_err().to_string();
            assert!(error.contains("hf:org/repo@revision"), "{wrong}: {error}");
        }
    }

    #[test]
    fn ids_are_ids_whatever_the_name() {
        let mark = "0123456789abcdef";
        assert_eq!(id_of("SmolLM2-135M", mark), "smollm2-135m-01234567");
        assert_eq!(id_of("Größe (2)", mark), "gr--e--2-01234567");
        assert_eq!(id_of("..", mark), "model-01234567");
        let long = "x".repeat(200);
        for name in ["Größe (2)", "..", "-a", "A b/c", &long] {
            check_id(Path::new("x"), "model", &id_of(name, mark)).unwrap();
        }
    }
}
