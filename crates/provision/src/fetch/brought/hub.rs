//! Looks at a repository of a hub: its commit, its files and their sizes, and the content of its
//! small files. Where the weights are in shards, the index decides which files these are.

use super::check::{OPTIONAL, shape, shards, unusable};
use super::{Checked, Places, about, described, id_of};
use crate::fetch::disk::shortage;
use crate::fetch::hub::{cached_bytes, partial_bytes};
use crate::fetch::{Options, Progress, Repository, Session};
use anyhow::Result;
use base::names::Refused;
use base::shelf::{Brought, INDEX, WEIGHTS};
use models::ModelFile;
use schema::model::{HubFile, Model, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// Check the model in a repository; nothing large is downloaded.
pub(super) fn look(
    repo: &str,
    revision: Option<&str>,
    places: &Places<'_>,
    options: &Options,
    progress: &mut Progress,
) -> Result<Checked> {
    let session = Session::open(places.models_dir, options)?;
    let found = session.repository(repo, revision, progress)?;
    let what = format!("hf:{repo} at {:.12}", found.commit);
    let checked = look_into(&session, found, places.downloads_to, progress);
    checked.map_err(|error| about(&what, error))
}

fn look_into(
    session: &Session<'_>,
    found: Repository,
    downloads_to: Option<&Path>,
    progress: &mut Progress,
) -> Result<Checked> {
    let repo = found.repo.as_str();
    let config = file(&found, "config.json")?;
    if found.gated && !session.has_token && !session.has(&config) {
        let text = format!(
            "it is gated: accept its terms at {}/{repo} and set HF_TOKEN to a token of that account",
            session.endpoint
        );
        return Err(Refused(text).into());
    }
    let mut small = |file: &HubFile| {
        let content = session.small_file(file, progress);
        content.map_err(|error| match found.gated {
            true => unusable(error).into(),
            false => error,
        })
    };
    let tokenizer = file(&found, "tokenizer.json")?;
    let mut files = vec![config.clone(), tokenizer.clone()];
    let optional = OPTIONAL
        .into_iter()
        .filter(|name| found.files.contains_key(*name));
    files.extend(optional.map(|name| found.file(name, name)));
    let shape = shape(&small(&config)?, &small(&tokenizer)?)?;
    match (
        found.files.contains_key(WEIGHTS),
        found.files.contains_key(INDEX),
    ) {
        (true, _) => files.push(found.file(WEIGHTS, WEIGHTS)),
        (false, true) => {
            let index = found.file(INDEX, INDEX);
            let names = shards(&small(&index)?)?;
            files.push(index);
            for name in names {
                files.push(file(&found, &name)?);
            }
        }
        (false, false) => {
            let text = format!(
                "it has no {WEIGHTS} and no {INDEX}: a reference needs safetensors, and nothing else is read"
            );
            return Err(Refused(text).into());
        }
    }
    files.extend(gguf(&found));
    let sizes = sizes(session, &found, &files)?;
    let bytes: u64 = sizes.values().sum();
    let room = downloads_to.unwrap_or_else(|| session.cache_dir());
    check_room(session, &files, &sizes, room)?;
    let name = repo.rsplit('/').next().unwrap_or(repo);
    let commit = &found.commit;
    let origin = format!("from {repo} of a Hugging Face hub at revision {commit:.12}");
    let model = Model {
        gated: found.gated,
        source: Source::Hub { files },
        ..described(id_of(name, commit), repo, &shape, bytes, &origin)
    };
    Ok(Checked {
        brought: Brought { model, from: None },
        hashes: BTreeMap::new(),
    })
}

/// A file of the repository that a model can't do without. An error where it is missing.
fn file(found: &Repository, name: &str) -> Result<HubFile, Refused> {
    match found.files.contains_key(name) {
        true => Ok(found.file(name, name)),
        false => Err(Refused(format!(
            "it lacks {name}: a model has config.json, tokenizer.json and safetensors, whole or in all of its shards"
        ))),
    }
}

/// The repository's GGUF files in formats that targets read, which are recognised by the end of
/// their names.
fn gguf(found: &Repository) -> Vec<HubFile> {
    let formats = [
        (ModelFile::GgufF16, "f16.gguf"),
        (ModelFile::GgufQ8_0, "q8_0.gguf"),
        (ModelFile::GgufQ4KM, "q4_k_m.gguf"),
    ];
    let of_format = |(format, end): (ModelFile, &str)| {
        // `bf16.gguf` is another format.
        let is_it = |path: &&String| {
            let path = path.to_lowercase();
            let stem = path.strip_suffix(end);
            stem.is_some_and(|stem| !stem.contains('/') && stem.ends_with(['-', '.', '_']))
        };
        let path = found.files.keys().find(is_it)?;
        Some(found.file(path, format.name()))
    };
    formats.into_iter().filter_map(of_format).collect()
}

/// The size of each file (bytes), by its path.
fn sizes<'f>(
    session: &Session<'_>,
    found: &Repository,
    files: &'f [HubFile],
) -> Result<BTreeMap<&'f str, u64>> {
    let size = |file: &'f HubFile| {
        let known = found.files.get(&file.path).copied().flatten();
        let size = known.map_or_else(|| session.size(file), Ok)?;
        Ok((file.path.as_str(), size))
    };
    files.iter().map(size).collect()
}

/// Refuse a download that there is no room for, before its first byte.
fn check_room(
    session: &Session<'_>,
    files: &[HubFile],
    sizes: &BTreeMap<&str, u64>,
    room: &Path,
) -> Result<(), Refused> {
    let is_here = |file: &HubFile| session.has(file) || cached_bytes(room, file).is_some();
    let missing: Vec<&HubFile> = files.iter().filter(|file| !is_here(file)).collect();
    let whole: u64 = missing.iter().map(|file| sizes[file.path.as_str()]).sum();
    // A download goes on after what an earlier one left.
    let needed = whole.saturating_sub(partial_bytes(room, missing));
    match shortage(room, needed) {
        None => Ok(()),
        Some((needed, free)) => Err(Refused(format!(
            "not enough disk space: {needed} are to be downloaded into {}, where {free} are free; free some space, or point HF_HOME at a larger disk",
            room.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gguf_files_are_known_by_how_their_names_end() {
        let paths = [
            "a-BF16.gguf",
            "a-f16.gguf",
            "a.Q8_0.gguf",
            "q4/a-q4_k_m.gguf",
            "aq4_k_m.gguf",
        ];
        let found = Repository {
            repo: "o/r".into(),
            commit: "0".repeat(40),
            files: paths.map(|path| (path.to_owned(), None)).into(),
            gated: false,
        };
        let files = gguf(&found);
        let named: Vec<(&str, &str)> = files.iter().map(|f| (&*f.name, &*f.path)).collect();
        assert_eq!(
            named,
            [
                ("model-f16.gguf", "a-f16.gguf"),
                ("model-q8_0.gguf", "a.Q8_0.gguf")
            ]
        );
    }
}
