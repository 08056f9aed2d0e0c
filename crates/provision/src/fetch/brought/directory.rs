//! Looks at a directory of the user's: whether a whole model is in it, and the hash of each file.
//! The model's id is made of these hashes, so a directory whose files change is another model from
//! then on.

use super::check::{OPTIONAL, shape, shards, unusable};
use super::{Checked, described, id_of};
use crate::fetch::disk::shortage;
use crate::fetch::{Progress, sha256_of_file};
use anyhow::Result;
use base::names::Refused;
use base::shelf::{self, Brought, INDEX, WEIGHTS};
use models::ModelFile;
use models::checkpoint::Weights;
use schema::hash::sha256_hex;
use schema::model::{Model, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// Check the model in a directory, and hash its files; nothing is copied.
pub(super) fn look(path: &Path, models_dir: &Path, progress: &mut Progress) -> Result<Checked> {
    let path = std::fs::canonicalize(path).map_err(|error| {
        Refused(format!(
            "no such directory ({error}); --model takes an id of `cargo xtask list models`, hf:org/repo or a directory"
        ))
    })?;
    if !path.is_dir() {
        let why = "it is no directory; name the one that the file is in";
        return Err(Refused(why.into()).into());
    }
    let shape = shape(
        &read(&path, "config.json")?,
        &read(&path, "tokenizer.json")?,
    )?;
    let has = |name: &str| path.join(name).is_file();
    let mut weights = vec![WEIGHTS.to_owned()];
    let mut names = vec!["config.json".to_owned(), "tokenizer.json".to_owned()];
    if !has(WEIGHTS) && has(INDEX) {
        weights = shards(&read(&path, INDEX)?)?.into_iter().collect();
        names.push(INDEX.to_owned());
    }
    if let Some(lacking) = weights.iter().find(|name| !has(name)) {
        return Err(lacks(lacking).into());
    }
    // GGUF files are taken as they are, if they have the names that targets use.
    let gguf = ModelFile::GGUF.map(ModelFile::name);
    let others = OPTIONAL.into_iter().chain(gguf);
    names.extend(others.filter(|name| has(name)).map(str::to_owned));
    let parts: Vec<_> = weights.iter().map(|name| path.join(name)).collect();
    names.extend(weights);
    Weights::open(&parts)
        .and_then(|weights| weights.check(&shape))
        .map_err(unusable)?;

    let (mut bytes, mut hashes) = (0, BTreeMap::new());
    for name in &names {
        let file = path.join(name);
        bytes += std::fs::metadata(&file).map_or(0, |data| data.len());
        hashes.insert(name.clone(), sha256_of_file(&file, progress)?);
    }
    let lines: String = hashes
        .iter()
        .map(|(name, sha256)| format!("{sha256}  {name}\n"))
        .collect();
    let content = sha256_hex(lines.as_bytes());
    let name = path.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let id = id_of(&name, &content);
    if shelf::get(models_dir, &id)?.is_none() {
        check_room(bytes, models_dir)?;
    }
    let origin = format!("as files with the hash {content:.12}");
    let model = Model {
        source: Source::Directory { files: names },
        ..described(id, &name, &shape, bytes, &origin)
    };
    Ok(Checked {
        brought: Brought {
            model,
            from: Some(path),
        },
        hashes,
    })
}

fn read(path: &Path, name: &str) -> Result<Vec<u8>, Refused> {
    std::fs::read(path.join(name)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => lacks(name),
        _ => Refused(format!("{name} can't be read: {error}")),
    })
}

fn lacks(name: &str) -> Refused {
    Refused(format!(
        "it lacks {name}: a model has config.json, tokenizer.json and {WEIGHTS}, or {INDEX} and all of its shards"
    ))
}

/// Refuse a copy that there is no room for, before it begins. Where the file system shares blocks a
/// copy would take less, but that can't be known beforehand.
fn check_room(bytes: u64, models_dir: &Path) -> Result<(), Refused> {
    match shortage(models_dir, bytes) {
        None => Ok(()),
        Some((needed, free)) => Err(Refused(format!(
            "not enough disk space: its {needed} are to be copied into {}, where {free} are free; free some space, or point BENCH_MODELS_DIR at a larger disk",
            models_dir.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_with_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let error = check_room(u64::MAX, dir.path()).unwrap_err().to_string();
        let begin = "not enough disk space: its 18.4 EB";
        assert!(error.starts_with(begin), "{error}");
        check_room(1, dir.path()).unwrap();
    }
}
