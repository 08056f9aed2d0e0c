//! Finds out, before anything is fetched, what getting a model would take: how much of it is
//! missing, where that would be stored and whether there is room, and whether the hub requires a
//! token. It looks at this machine only.

use super::hub::{self, Hub};
use super::{disk, known, missing};
use anyhow::Result;
use schema::model::{Models, Source};
use std::path::{Path, PathBuf};

/// What is still needed of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Names of the files that are neither in the models directory nor in the hub's cache.
    pub files: Vec<String>,
    /// About how many bytes these files have; 0 = not known.
    pub bytes: u64,
    /// The directory that they would be stored in.
    pub place: PathBuf,
    /// Bytes that are free in that directory; `None` where that can't be read.
    pub free: Option<u64>,
    /// Whether the hub may refuse the files: the model is gated, and there is no token.
    pub lacks_token: bool,
}

/// Find out what is needed of the model `id`.
pub fn need(models: &Models, id: &str, models_dir: &Path, hub: &Hub) -> Result<Need> {
    let model = known(models, id)?;
    let mut files = missing(models, id, models_dir)?;
    let mut place = models_dir.to_owned();
    let mut in_cache = 0;
    if let Source::Hub { files: all } = &model.source {
        place = hub.cache_dir(models_dir);
        files.retain(|name| {
            let file = all.iter().find(|file| file.name == *name);
            let cached = file.and_then(|file| hub::cached_bytes(&place, file));
            in_cache += cached.unwrap_or(0);
            cached.is_none()
        });
        // What a broken-off download left is kept, and the next one goes on from there.
        let missing = all.iter().filter(|file| files.contains(&file.name));
        in_cache += hub::partial_bytes(&place, missing);
    }
    let size = |name: &String| std::fs::metadata(models_dir.join(id).join(name)).map(|m| m.len());
    let here: u64 = super::file_names(models, id)?
        .iter()
        .filter_map(|name| size(name).ok())
        .sum();
    let is_ours = hub.endpoint.is_none();
    Ok(Need {
        bytes: match files.is_empty() {
            true => 0,
            false => (model.size_mb * 1_000_000).saturating_sub(here + in_cache),
        },
        free: disk::free_bytes(&place),
        // Another endpoint is a mirror, which may have other rules.
        lacks_token: model.gated && !files.is_empty() && is_ours && hub.token.is_none(),
        files,
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::model::{HubFile, Model};

    fn gated() -> Models {
        let file = |name: &str| HubFile {
            name: name.into(),
            repo: "o/r".into(),
            revision: "0a".repeat(20),
            path: name.into(),
        };
        Models {
            models: vec![Model {
                id: "m".into(),
                name: "M".into(),
                parameters: 1,
                size_mb: 5,
                gated: true,
                source: Source::Hub {
                    files: vec![file("config.json"), file("model.safetensors")],
                },
                ..Model::default()
            }],
        }
    }

    #[test]
    fn what_a_broken_off_download_left_is_not_needed() {
        let dir = tempfile::tempdir().unwrap();
        let hub = Hub::default();
        let repo = dir.path().join(".hub/models--o--r");
        crate::write(repo.join("blobs/ab.part"), vec![0; 4_000_000]);
        let rest = need(&gated(), "m", dir.path(), &hub).unwrap();
        assert_eq!((rest.files.len(), rest.bytes), (2, 1_000_000));
        // A file that is cached whole is not needed either.
        let snapshot = repo.join("snapshots").join("0a".repeat(20));
        crate::write(snapshot.join("config.json"), [0; 1000]);
        let rest = need(&gated(), "m", dir.path(), &hub).unwrap();
        assert_eq!(rest.files, ["model.safetensors"]);
        assert_eq!(rest.bytes, 999_000);
    }

    #[test]
    fn what_is_here_or_cached_is_not_needed() {
        let dir = tempfile::tempdir().unwrap();
        let mut hub = Hub::default();
        let need = |hub: &Hub| super::need(&gated(), "m", dir.path(), hub).unwrap();
        let all = need(&hub);
        assert_eq!(all.files, ["config.json", "model.safetensors"]);
        assert_eq!((all.bytes, all.lacks_token), (5_000_000, true));
        assert_eq!(all.place, dir.path().join(".hub"));
        assert!(all.free > Some(0));

        crate::write(dir.path().join("m/config.json"), [0; 1000]);
        let rest = need(&hub);
        assert_eq!(rest.files, ["model.safetensors"]);
        assert_eq!(rest.bytes, 4_999_000);
        hub.token = Some("t".into());
        assert!(!need(&hub).lacks_token);
        hub.token = None;

        let snapshot = format!("models--o--r/snapshots/{}", "0a".repeat(20));
        let snapshot = dir.path().join(".hub").join(snapshot);
        crate::write(snapshot.join("model.safetensors"), "");
        let nothing = need(&hub);
        assert_eq!((nothing.files.len(), nothing.bytes), (0, 0));
        assert!(!nothing.lacks_token);
    }
}
