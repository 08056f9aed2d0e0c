//! What the tests of `fetch` share: a hub with two files, a directory to fetch into, and this
//! program started again as a child.

use crate::hub::{COMMIT, FakeHub, File};
use base::repo::Repo;
use provision::fetch::{FetchedFile, Hub, Options, Progress, fetch};
use schema::model::{HubFile, Model, Models, Source};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

pub const WEIGHTS: &str = "model.safetensors";

/// 300 kB of which no two offsets look alike.
pub fn weights() -> Vec<u8> {
    (0..75_000_u32)
        .flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

/// A hub with a small file and a large one, and a directory to fetch into.
pub struct World {
    pub hub: FakeHub,
    pub dir: TempDir,
    pub options: Options,
}

impl World {
    pub fn new() -> Self {
        let hub = FakeHub::start(vec![
            File {
                path: "config.json",
                bytes: b"{}".to_vec(),
                large: false,
            },
            File {
                path: "weights/model.safetensors",
                bytes: weights(),
                large: true,
            },
        ]);
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        let options = options(&hub, dir.path());
        Self { hub, dir, options }
    }

    pub fn fetch(&self) -> anyhow::Result<Vec<FetchedFile>> {
        fetch_into(self.dir.path(), &self.options, &models())
    }

    /// Fetch, which must fail with an error that has each of these parts; return the error.
    #[track_caller]
    pub fn fails(&self, parts: &[&str]) -> String {
        let error = format!("{:#}", self.fetch().unwrap_err());
        says(&error, parts);
        error
    }

    /// Check that the large file is there as the hub has it.
    #[track_caller]
    pub fn has_weights(&self) {
        assert_eq!(std::fs::read(self.path(WEIGHTS)).unwrap(), weights());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("models/m").join(name)
    }

    pub fn lock(&self) -> PathBuf {
        Repo::under(self.dir.path()).models_lock_path()
    }

    pub fn lock_text(&self) -> String {
        std::fs::read_to_string(self.lock()).unwrap_or_default()
    }

    /// Return the path of the large file's blob in the hub's cache, without its ending.
    pub fn blob(&self) -> PathBuf {
        let sha256 = schema::hash::sha256_hex(&weights());
        self.dir
            .path()
            .join("hub/models--owner--repo/blobs")
            .join(sha256)
    }

    pub fn part(&self) -> PathBuf {
        self.blob().with_extension("part")
    }

    /// Leave these bytes as what an earlier download of the large file kept.
    pub fn has_part(&self, bytes: &[u8]) {
        std::fs::create_dir_all(self.part().parent().unwrap()).unwrap();
        std::fs::write(self.part(), bytes).unwrap();
    }
}

pub fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// Check that a text has each of these parts.
#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "it does not say {part:?}:\n{text}");
    }
}

/// Options that ask `hub`, and keep its cache in `dir`.
pub fn options(hub: &FakeHub, dir: &Path) -> Options {
    Options {
        full: false,
        hub: Hub {
            endpoint: Some(hub.url.clone()),
            token: None,
            cache_dir: Some(dir.join("hub")),
        },
        retries: 0,
        backoff: Duration::from_millis(1),
        interrupted: || false,
        small: false,
    }
}

/// Fetch the first of `models` in the checkout `dir`, which lists these models.
pub fn fetch_into(
    dir: &Path,
    options: &Options,
    models: &Models,
) -> anyhow::Result<Vec<FetchedFile>> {
    let repo = listing(dir, models);
    let ids = vec![models.models[0].id.clone()];
    fetch(&repo, &ids, options, &mut Progress::silent())
}

/// The checkout `dir`, after its list of models was written.
pub fn listing(dir: &Path, models: &Models) -> Repo {
    let text = toml::to_string(models).unwrap();
    std::fs::write(dir.join("data/models.toml"), text).unwrap();
    Repo::under(dir)
}

pub fn models() -> Models {
    let file = |name: &str, path: &str| HubFile {
        name: name.into(),
        repo: "owner/repo".into(),
        revision: COMMIT.into(),
        path: path.into(),
    };
    let files = vec![
        file("config.json", "config.json"),
        file(WEIGHTS, "weights/model.safetensors"),
    ];
    list("m", Source::Hub { files })
}

pub fn list(id: &str, source: Source) -> Models {
    let model = Model {
        id: id.into(),
        name: id.into(),
        parameters: 1,
        source,
        ..Model::default()
    };
    Models {
        models: vec![model],
    }
}

/// Return the command that starts this test program again, running only `test`, with the hub's
/// variables set. All tests share the environment of this process, so it isn't changed.
pub fn child(test: &str, world: &World) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("FETCH_TEST_DIR", world.dir.path())
        .env("HF_ENDPOINT", format!("{}/", world.hub.url))
        .env("HF_HOME", world.dir.path())
        .env("HF_TOKEN", "hf_env");
    command
}
