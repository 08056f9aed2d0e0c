//! A model that the user has in a directory: copied into the models directory, so that nothing
//! that happens to the original later changes a run. A hard link would not do, because it is
//! the same file; where the file system can share blocks until one copy changes, the copy costs no
//! space.
//!
//! What the files have to be was written into the model's lock when it was brought.

use super::files::{Found, ModelFiles};
use super::lock::LockFile;
use super::progress::Progress;
use super::{FetchedFile, How, Options, hash::sha256_of_file};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The stamp's source.
const SOURCE: &str = "directory";

/// Copy every file of a model that isn't here, and verify the rest. `from`: the directory, where it
/// is known.
pub(crate) fn fetch(
    id: &str,
    names: &[String],
    from: Option<&Path>,
    dir: &Path,
    lock: &mut LockFile,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Vec<FetchedFile>> {
    let mut files = ModelFiles::open(id, dir, lock, options.verify)?;
    let mut fetched = Vec::new();
    for name in names {
        fetched.push(match files.look(name, SOURCE, progress)? {
            Found::Good(present) => present,
            Found::Nothing => copy(&mut files, name, from, options, progress)?,
            Found::Bad { expected, found } => {
                let rejected = files.reject(name)?;
                bail!(
                    "{}\nIt was changed or damaged after it was copied; it is now {}. Fetch again to copy it anew",
                    files.mismatch(name, &expected, &found),
                    rejected.display()
                );
            }
        });
    }
    Ok(fetched)
}

fn copy(
    files: &mut ModelFiles<'_>,
    name: &str,
    from: Option<&Path>,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<FetchedFile> {
    let id = files.model;
    let (Some(from), Some(expected)) = (from, files.lock.expected(id, name).map(str::to_owned))
    else {
        bail!(
            "{id}/{name} isn't here, and nothing says what it is or where it was copied from: name its directory with --model again"
        );
    };
    if (options.interrupted)() {
        bail!("interrupted; what was copied is kept, the next fetch goes on from there");
    }
    let original = from.join(name);
    let partial = files.dir.join(format!(".{name}.partial"));
    let copied = std::fs::copy(&original, &partial)
        .with_context(|| {
            format!(
                "can't copy {} into {}",
                original.display(),
                files.dir.display()
            )
        })
        .and_then(|_| sha256_of_file(&partial, progress))
        .and_then(|found| match found == expected {
            true => Ok(found),
            false => bail!(
                "{} is no longer the file that was brought as {id} (it was sha256 {expected}, it is {found}): name its directory with --model again, to bring it as another model",
                original.display()
            ),
        })
        .and_then(|found| {
            std::fs::rename(&partial, files.path(name))
                .with_context(|| format!("can't put {name} into {}", files.dir.display()))?;
            Ok(found)
        });
    match copied {
        Ok(found) => files.accept(name, &found, SOURCE, How::Copied),
        Err(error) => {
            std::fs::remove_file(&partial).ok();
            Err(error)
        }
    }
}
