//! Models and files that are made here. The `models` crate computes their content.
//!
//! GGUF files are made of a model's safetensors, where its source has none and a target wants them:
//! they are written into a temporary file, hashed, recorded in the lock like any other file, and
//! put into place. Embedded models need none of this, because all of their files are generated.
//!
//! Embedded models are generated into a staging directory, verified and moved into place.

use super::lock::{LockFile, ModelFiles};
use super::progress::Progress;
use super::stamp::sha256_of_file;
use super::{FetchedFile, How, Options, disk, keep, known};
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use base::shelf::{INDEX, WEIGHTS};
use models::checkpoint::Conversion;
use models::{ModelFile, ModelSpec, Origin, Trained};
use schema::hash::sha256_hex;
use schema::model::{Model, Source};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The GGUF files that can be made of the model's safetensors: those that its source doesn't have.
pub fn makeable(model: &Model) -> Vec<ModelFile> {
    let names: Vec<&str> = match &model.source {
        Source::Embedded | Source::Trained { .. } => return Vec::new(),
        Source::Hub { files } => files.iter().map(|file| file.name.as_str()).collect(),
        Source::Directory { files } => files.iter().map(String::as_str).collect(),
    };
    if !names.contains(&WEIGHTS) && !names.contains(&INDEX) {
        return Vec::new();
    }
    let lacks = |file: &ModelFile| !names.contains(&file.name());
    ModelFile::GGUF.into_iter().filter(lacks).collect()
}

/// Make those GGUF files in `wanted` that can be made and aren't here, and verify the others. The
/// model itself must have been fetched. A file that can't be made of this model is left out with a
/// warning; its targets are then without weights.
pub fn make(
    repo: &Repo,
    id: &str,
    wanted: &[String],
    options: &Options,
    progress: &mut Progress,
) -> Result<Vec<FetchedFile>> {
    let models = repo.models()?;
    let model = known(&models, id)?;
    let is_wanted = |file: &ModelFile| wanted.iter().any(|name| name == file.name());
    let to_make: Vec<ModelFile> = makeable(model).into_iter().filter(is_wanted).collect();
    if to_make.is_empty() {
        return Ok(Vec::new());
    }
    let _only_one = super::exclusive(&repo.models_dir, progress)?;
    let dir = repo.model_dir(id);
    let mut lock = LockFile::open(&keep::lock_of(repo, id))?;
    let parts = keep::safetensors_files(&dir)?;
    let source = source(id, &parts, &lock)?;
    let files = &mut ModelFiles::open(id, &dir, &mut lock, options, progress)?;
    let (mut made, mut missing) = (Vec::new(), Vec::new());
    for file in to_make {
        match files.good_or_deleted(file.name(), &source)? {
            Some(present) => made.push(present),
            None => missing.push(file),
        }
    }
    if missing.is_empty() {
        return Ok(made);
    }
    let conversion = match Conversion::open(&dir, &parts, &model.name) {
        Ok(conversion) => conversion,
        Err(error) => {
            let why = format!("no GGUF file is made of {id}: {error:#}");
            files.progress.warn(&why);
            return Ok(made);
        }
    };
    for file in missing {
        made.push(one(files, &conversion, file, &source)?);
    }
    Ok(made)
}

/// The source that the stamps of GGUF files name: a hash of the safetensors that they are made of,
/// because a file made of others is another file.
fn source(id: &str, parts: &[PathBuf], lock: &LockFile) -> Result<String> {
    let mut lines = String::new();
    for part in parts {
        let name = part.file_name().unwrap_or_default().to_string_lossy();
        let sha256 = lock.expected(id, &name).with_context(|| {
            format!(
                "{} has no hash of {id}/{name}: run `cargo xtask fetch {id}`",
                lock.path().display()
            )
        })?;
        lines += &format!("{sha256}  {name}\n");
    }
    Ok(format!("made of {}", sha256_hex(lines.as_bytes())))
}

fn one(
    files: &mut ModelFiles<'_>,
    conversion: &Conversion,
    file: ModelFile,
    source: &str,
) -> Result<FetchedFile> {
    let (id, name) = (files.model, file.name());
    if let Some((needed, free)) = disk::shortage(files.dir, conversion.bytes(file)) {
        bail!(
            "not enough disk space to make {id}/{name}: it has {needed}, and {free} are free in {}; free some space, or point BENCH_MODELS_DIR at a larger disk",
            files.dir.display()
        );
    }
    let line = format!("making {id}/{name} of the model's safetensors");
    files.progress.say(&line);
    files.put(
        name,
        source,
        How::Generated,
        |files, partial| {
            let label = format!("{id}: {name}");
            let written = write(conversion, file, partial, &mut |share| {
                files.progress.fraction(&label, share);
                !(files.options.interrupted)()
            });
            files.progress.end();
            written
        },
        |files, expected, found| {
            format!(
                "{}\nIt is made of the same weights, so what makes it has changed, or this machine computes differently. {}",
                files.mismatch(name, expected, found),
                files.if_wanted(name)
            )
        },
    )
}

/// Write a file. `go_on` is given the share that is done (0 to 1), and returns whether to go on.
fn write(
    conversion: &Conversion,
    file: ModelFile,
    path: &Path,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<()> {
    let what = || format!("can't write {}", path.display());
    let out = std::fs::File::create(path).with_context(what)?;
    let mut out = BufWriter::with_capacity(1 << 20, out);
    conversion.write(file, &mut out, go_on).with_context(what)?;
    out.flush().with_context(what)
}

/// The source that the stamps of embedded models name. It has no seed, because a changed generator
/// is noticed by the lock.
const SOURCE: &str = "embedded";

/// Names of the files that make up an embedded model.
pub(crate) fn file_names(id: &str) -> Result<Vec<String>> {
    Ok(spec(id)?.file_names())
}

fn spec(id: &str) -> Result<ModelSpec> {
    ModelSpec::named(id).with_context(|| {
        format!(
            "data/models.toml calls {id:?} embedded, but the generator knows only {}",
            ModelSpec::ids().join(", ")
        )
    })
}

/// Make the model, unless every file is there and matches the lock. `weights`: the file with its
/// weights, where they were trained.
pub(crate) fn fetch(
    files: &mut ModelFiles<'_>,
    weights: Option<&PathBuf>,
) -> Result<Vec<FetchedFile>> {
    let (id, dir, options) = (files.model, files.dir, files.options);
    let spec = spec(id)?;
    let names = spec.file_names();
    // A file that isn't in the lock may come from an older generator. Deleting a
    // line from the lock therefore means: make it again.
    let is_locked = |name: &String| files.lock.expected(id, name).is_some();
    if names.iter().all(is_locked) {
        let present = names.iter().map(|name| files.good_or_deleted(name, SOURCE));
        if let Some(present) = present.collect::<Result<Option<Vec<_>>>>()? {
            return Ok(present);
        }
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
    files.progress.say(&format!(
        "generating {id} into {} ({from}, the same on every machine)",
        dir.display()
    ));
    let generated = models::generate(&spec, origin, &staging, &mut |what, fraction| {
        files.progress.fraction(&format!("{id}: {what}"), fraction);
        !(options.interrupted)()
    });
    files.progress.end();
    if let Err(error) = generated {
        // Half a model is of no use and may be what filled the disk.
        std::fs::remove_dir_all(&staging).ok();
        if (options.interrupted)() {
            bail!("interrupted while {id} was generated");
        }
        return Err(error.context(format!(
            "can't generate {id} into {}: if the disk is full, free some space there or choose another models directory",
            dir.display()
        )));
    }

    let mut hashes = Vec::new();
    for name in &names {
        let found = sha256_of_file(&staging.join(name), files.progress)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn model(source: Source) -> Model {
        Model {
            source,
            ..Model::default()
        }
    }

    #[test]
    fn what_a_source_has_is_not_made() {
        let of = |names: &[&str]| {
            let files = names.iter().map(|name| (*name).to_owned()).collect();
            makeable(&model(Source::Directory { files }))
        };
        assert_eq!(of(&[WEIGHTS, "model-f32.gguf"]), ModelFile::GGUF[1..]);
        assert_eq!(of(&[INDEX]), ModelFile::GGUF);
        assert_eq!(
            of(&["model-q8_0.gguf"]),
            [],
            "there is nothing to make it of"
        );
        assert_eq!(makeable(&model(Source::Embedded)), []);
    }
}
