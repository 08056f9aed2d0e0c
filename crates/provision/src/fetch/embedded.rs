//! Models that are made here: generate into a staging directory, verify, move
//! into place. What the weights are is the `models` crate's business.

use super::files::{Found, ModelFiles};
use super::lock::LockFile;
use super::progress::Progress;
use super::{FetchedFile, How, Options, hash::sha256_of_file};
use anyhow::{Context, Result, bail};
use models::{ModelSpec, Origin, Trained};
use std::path::{Path, PathBuf};

/// The stamp's source. Not the seed: a changed generator is seen by the lock.
const SOURCE: &str = "embedded";

/// Names of the files that make up an embedded model.
pub(crate) fn file_names(id: &str) -> Result<Vec<String>> {
    Ok(spec(id)?.file_names())
}

fn spec(id: &str) -> Result<ModelSpec> {
    ModelSpec::named(id).with_context(|| {
        let known: Vec<_> = ModelSpec::all().into_iter().map(|spec| spec.id).collect();
        format!(
            "data/models.toml calls {id:?} embedded, but the generator knows only {}",
            known.join(", ")
        )
    })
}

/// Make the model, unless every file is there and matches the lock. `weights`: the file of
/// its weights, where they were trained.
pub(crate) fn fetch(
    id: &str,
    weights: Option<&PathBuf>,
    dir: &Path,
    lock: &mut LockFile,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Vec<FetchedFile>> {
    let spec = spec(id)?;
    let names = file_names(id)?;
    // A file that isn't in the lock may come from an older generator. Deleting a
    // line from the lock therefore means: make it again.
    let all_locked = names.iter().all(|name| lock.expected(id, name).is_some());
    let mut files = ModelFiles::open(id, dir, lock, options.verify)?;
    if all_locked && let Some(present) = all_present(&mut files, &names, progress)? {
        return Ok(present);
    }

    let staging = dir.join(".generating");
    if staging.exists() {
        std::fs::remove_dir_all(&staging)
            .with_context(|| format!("can't clear {}", staging.display()))?;
    }
    std::fs::create_dir_all(&staging)
        .with_context(|| format!("can't make {}", staging.display()))?;
    let trained = weights.map(|path| Trained::load(&spec, path)).transpose()?;
    let (origin, from) = match &trained {
        Some(trained) => (Origin::Trained(trained), "from its trained weights"),
        None => (Origin::Seed, "seeded"),
    };
    progress.say(&format!(
        "generating {id} into {} ({from}, the same on every machine)",
        dir.display()
    ));
    let generated = models::generate(&spec, origin, &staging, &mut |what, fraction| {
        progress.fraction(&format!("{id}: {what}"), fraction);
    });
    progress.end();
    if let Err(error) = generated {
        // Half a model is of no use and may be what filled the disk.
        std::fs::remove_dir_all(&staging).ok();
        return Err(error.context(format!(
            "can't generate {id} into {}: if the disk is full, free some space there or choose another models directory",
            dir.display()
        )));
    }

    let mut hashes = Vec::new();
    for name in &names {
        let found = sha256_of_file(&staging.join(name), progress)?;
        if let Some(expected) = files.lock.expected(id, name)
            && expected != found
        {
            bail!(
                "{}\nAn embedded model is the same on every machine, so the generator has changed (or its trained weights), or this machine computes differently. The new files are in {}. {}",
                files.mismatch(name, expected, &found),
                staging.display(),
                files.if_wanted(name)
            );
        }
        hashes.push(found);
    }
    let mut fetched = Vec::new();
    for (name, sha256) in names.iter().zip(&hashes) {
        std::fs::rename(staging.join(name), files.path(name))
            .with_context(|| format!("can't put {name} into {}", dir.display()))?;
        fetched.push(files.accept(name, sha256, SOURCE, How::Generated)?);
    }
    std::fs::remove_dir_all(&staging).ok();
    Ok(fetched)
}

/// All files, if all are good. A bad one is deleted and made again, so it is no
/// error here.
fn all_present(
    files: &mut ModelFiles<'_>,
    names: &[String],
    progress: &mut dyn Progress,
) -> Result<Option<Vec<FetchedFile>>> {
    let mut present = Vec::new();
    for name in names {
        match files.look(name, SOURCE, progress)? {
            Found::Good(file) => present.push(file),
            Found::Nothing => return Ok(None),
            Found::Bad { expected, found } => {
                progress.warn(&files.mismatch(name, &expected, &found));
                let path = files.path(name);
                std::fs::remove_file(&path)
                    .with_context(|| format!("can't delete {}", path.display()))?;
                return Ok(None);
            }
        }
    }
    Ok(Some(present))
}
