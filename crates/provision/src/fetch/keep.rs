//! Stores models that the user brought, and checks them against their own hashes.
//!
//! A model from a directory is copied into the models directory, so that later changes of the
//! original don't change a run. A hard link would not do, because it is the same file. Where the
//! file system can share blocks until one copy changes, the copy costs no space.
//!
//! The expected hashes were written into the model's lock when it was brought.

use super::lock::{LockFile, ModelFiles};
use super::{FetchedFile, How};
use anyhow::{Context, Result, bail};
use base::files::write_json;
use base::names::Refused;
use base::repo::Repo;
use base::shelf::{self, Brought, MODEL, WEIGHTS};
use models::checkpoint::{Shape, Weights};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The path of the lock that has the hashes of a model's files: the model's own where it was
/// brought, else that of the listed models.
pub(super) fn lock_of(repo: &Repo, id: &str) -> PathBuf {
    match repo.model_dir(id).join(MODEL).is_file() {
        true => shelf::lock(&repo.models_dir, id),
        false => repo.models_lock_path(),
    }
}

/// Store the description of a model, and the known hashes of its files. The same model may be
/// brought again; another model with the same id is refused.
pub fn keep(models_dir: &Path, new: &Brought, hashes: &BTreeMap<String, String>) -> Result<()> {
    let id = &new.model.id;
    if let Some(old) = shelf::get(models_dir, id)?
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
    // A file that is in the lock but no longer in the source would be noticed by its hash.
    let mut lock = LockFile::open(&shelf::lock(models_dir, id))?;
    for (name, sha256) in hashes {
        lock.record(id, name, sha256)?;
    }
    write_json(&dir.join(MODEL), new)
}

/// Check that the weights in place are those that config.json describes. Where they aren't, the
/// model's directory is deleted, because its files would otherwise be taken for good ones. Files
/// that can't be read just now are kept.
pub(super) fn check_weights(models_dir: &Path, id: &str, what: &str) -> Result<()> {
    let dir = models_dir.join(id);
    let files = safetensors_files(&dir).with_context(|| what.to_owned())?;
    let Err(error) = weights_fit(&dir, &files) else {
        return Ok(());
    };
    if was_unreadable(&error) {
        return Err(error.context(what.to_owned()));
    }
    std::fs::remove_dir_all(&dir)
        .with_context(|| format!("{what}: {error:#}; {} can't be deleted", dir.display()))?;
    Err(Refused(format!("{what}: {error:#}")).into())
}

fn weights_fit(dir: &Path, files: &[PathBuf]) -> Result<()> {
    let config = std::fs::read_to_string(dir.join("config.json"))
        .with_context(|| format!("{} can't be read", dir.join("config.json").display()))?;
    Weights::open(files)?.check(&Shape::read(&config)?)
}

/// Whether an error says that a file could not be read, and so nothing about what it contains.
fn was_unreadable(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        // These two are about the content: text that isn't UTF-8, a length that can't be mapped.
        cause.downcast_ref::<io::Error>().is_some_and(|cause| {
            !matches!(
                cause.kind(),
                ErrorKind::InvalidData | ErrorKind::InvalidInput
            )
        })
    })
}

pub(super) fn safetensors_files(dir: &Path) -> Result<Vec<PathBuf>> {
    protocol::safetensors_files(dir, WEIGHTS).map_err(|error| anyhow::anyhow!(error.message))
}

/// The source that a stamp of these files names.
const SOURCE: &str = "directory";

/// Copy every file of a model that isn't here, and verify the others. `from`: the directory to copy
/// from, where it is known.
pub(crate) fn fetch(
    files: &mut ModelFiles<'_>,
    names: &[String],
    from: Option<&Path>,
) -> Result<Vec<FetchedFile>> {
    let mut fetched = Vec::new();
    for name in names {
        let present = files.good(name, SOURCE, |files, mismatch| {
            bail!(
                "{mismatch}\nIt was changed or damaged after it was copied; it is now {}. Fetch again to copy it anew",
                files.reject(name)?.display()
            );
        })?;
        fetched.push(match present {
            Some(present) => present,
            None => copy(files, name, from)?,
        });
    }
    Ok(fetched)
}

fn copy(files: &mut ModelFiles<'_>, name: &str, from: Option<&Path>) -> Result<FetchedFile> {
    let id = files.model;
    let is_known = files.lock.expected(id, name).is_some();
    let Some(from) = from.filter(|_| is_known) else {
        bail!(
            "{id}/{name} isn't here, and nothing says what it is or where it was copied from: name its directory with --model again"
        );
    };
    if (files.options.interrupted)() {
        bail!("interrupted; what was copied is kept, the next fetch goes on from there");
    }
    let original = from.join(name);
    let from = original.display();
    files.put(
        name,
        SOURCE,
        How::Copied,
        |files, partial| {
            let copied = std::fs::copy(&original, partial).map(drop);
            copied.with_context(|| format!("can't copy {from} into {}", files.dir.display()))
        },
        |_, expected, found| {
            format!(
                "{from} is no longer the file that was brought as {id} (it was sha256 {expected}, it is {found}): name its directory with --model again, to bring it as another model"
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::shelf::{brought, get};
    use schema::model::{Model, Source};

    fn model(id: &str, file: &str) -> Brought {
        let files = vec![file.to_owned()];
        Brought {
            model: Model {
                id: id.into(),
                name: "Mine".into(),
                parameters: 1,
                size_mb: 1,
                source: Source::Directory { files },
                ..Model::default()
            },
            from: None,
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
        let found = brought(dir.path()).unwrap();
        let ids: Vec<&str> = found.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["a-2", "mine-1"]);
        assert_eq!(get(dir.path(), "mine-1").unwrap(), Some(one));
        let repo = Repo {
            models_dir: dir.path().to_owned(),
            ..Repo::under("/r")
        };
        let lock = LockFile::open(&lock_of(&repo, "mine-1")).unwrap();
        assert_eq!(lock.expected("mine-1", "config.json"), Some("ab"));
        let listed = lock_of(&repo, "tiny-llama");
        assert_eq!(listed, Path::new("/r/data/models.lock"));
    }

    #[test]
    fn a_model_that_can_not_be_read_is_kept_and_a_wrong_one_deleted() {
        let models = tempfile::tempdir().unwrap();
        let dir = models.path().join("m");
        // A directory can be opened and not read.
        std::fs::create_dir_all(dir.join("config.json")).unwrap();
        std::fs::write(dir.join(WEIGHTS), "no tensors").unwrap();
        let check = || check_weights(models.path(), "m", "M").unwrap_err();
        let error = check();
        assert!(!error.is::<Refused>() && dir.exists(), "{error:#}");
        std::fs::remove_dir(dir.join("config.json")).unwrap();
        std::fs::write(dir.join("config.json"), "{}").unwrap();
        let error = check();
        assert!(error.is::<Refused>() && !dir.exists(), "{error:#}");
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
}
