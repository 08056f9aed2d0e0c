//! Fetches models from a Hugging Face hub, through `hf-hub` and its cache, so that downloads of
//! other programs are used here and ours by them. The model's directory gets hard links (symbolic
//! ones across file systems): nothing is stored twice.
//!
//! `hf-hub` resumes a partial file and follows the hub's redirects. This module makes up for what
//! it lacks: it reads no `HF_TOKEN`; it never compares what arrived with the size or the hash that
//! the hub declared; it asks for the bytes after the end of a complete partial file (status 416,
//! for ever); its own retries can append at the wrong offset, so they stay off. It also has no
//! time-outs, and no way to set any.

use super::hub_error::{Failure, check_settings, explain};
use super::lock::ModelFiles;
use super::progress::Progress;
use super::stamp::sha256_of_file;
use super::{FetchedFile, How, Options, disk};
use anyhow::{Context, Result, anyhow, bail};
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use schema::model::HubFile;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A hub, the token to use there, and the directory of its cache.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// URL of the hub, `https://host`; `None` = hf-hub's default.
    pub endpoint: Option<String>,
    /// Access token, if there is one.
    pub token: Option<String>,
    /// Directory of the cache, in the hub's own layout; `None` = `.hub` in the models directory.
    pub cache_dir: Option<PathBuf>,
}

impl Hub {
    /// Read the environment as the hub's own tools do: `HF_ENDPOINT`, `HF_HOME`, and the token from
    /// `HF_TOKEN`, else from the file that their login wrote.
    pub fn from_env() -> Self {
        let text = |name| std::env::var(name).ok().filter(|v: &String| !v.is_empty());
        // hf-hub panics where there is neither HF_HOME nor a home directory.
        let cache =
            (text("HF_HOME").is_some() || std::env::home_dir().is_some()).then(Cache::from_env);
        Self {
            endpoint: text("HF_ENDPOINT").map(|url| url.trim_end_matches('/').to_owned()),
            token: text("HF_TOKEN").or_else(|| cache.as_ref()?.token()),
            cache_dir: cache.map(|cache| cache.path().clone()),
        }
    }

    /// The directory of the cache.
    pub fn cache_dir(&self, models_dir: &Path) -> PathBuf {
        let own = || models_dir.join(".hub");
        self.cache_dir.clone().unwrap_or_else(own)
    }
}

/// A connection to one hub.
pub(crate) struct Session<'a> {
    pub(super) api: Api,
    pub(super) cache: Cache,
    /// URL of the hub, for messages.
    pub endpoint: String,
    /// Whether there is a token, for messages: with one, a refusal has another meaning.
    pub has_token: bool,
    pub(super) options: &'a Options,
}

impl<'a> Session<'a> {
    /// Open a session with the hub that `options` name. Its cache is in `models_dir`, unless they
    /// name one.
    pub(crate) fn open(models_dir: &Path, options: &'a Options) -> Result<Self> {
        let hub = &options.hub;
        let cache_dir = hub.cache_dir(models_dir);
        // hf-hub computes relative links, which needs absolute paths.
        let cache = Cache::new(std::path::absolute(&cache_dir).context("no working directory")?);
        let mut builder = ApiBuilder::from_cache(cache.clone())
            .with_progress(false)
            .with_token(hub.token.clone());
        if let Some(endpoint) = &hub.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        let api = builder.build().context("can't set up the hub's client")?;
        let url = api.model("x".into()).url("y");
        Ok(Self {
            endpoint: url.trim_end_matches("/x/resolve/main/y").to_owned(),
            api,
            cache,
            has_token: hub.token.is_some(),
            options,
        })
    }

    pub(super) fn repo(file: &HubFile) -> Repo {
        Repo::with_revision(file.repo.clone(), RepoType::Model, file.revision.clone())
    }

    /// Explain an error that hf-hub reports of a file. `part` is the partial file, once there can
    /// be one.
    pub(super) fn explain(&self, why: &ApiError, file: &HubFile, part: Option<&Path>) -> Failure {
        explain(why, &self.endpoint, self.has_token, file, part)
    }

    /// The path of the file in the cache, whichever program put it there; `None` where it isn't
    /// cached.
    pub(super) fn cached(&self, file: &HubFile) -> Option<PathBuf> {
        std::fs::canonicalize(pointer(&self.cache, file)).ok()
    }

    /// Remove a file from the cache because its content is wrong.
    fn evict(&self, file: &HubFile, blob: &Path) {
        std::fs::remove_file(pointer(&self.cache, file)).ok();
        std::fs::remove_file(blob).ok();
    }

    /// Download a file, resuming an earlier download that broke off, and return its path in the
    /// cache.
    pub(super) fn download(&self, file: &HubFile, progress: &mut Progress) -> Result<PathBuf> {
        let repo = self.api.repo(Self::repo(file));
        self.retrying(progress, |progress| self.attempt(&repo, file, progress))
    }

    /// Make attempts until one succeeds, until one fails for good, or as often as the options say.
    pub(super) fn retrying<T>(
        &self,
        progress: &mut Progress,
        mut attempt: impl FnMut(&mut Progress) -> Result<T, Failure>,
    ) -> Result<T> {
        check_settings(&self.endpoint, self.options.hub.token.as_deref())?;
        let mut wait = self.options.backoff;
        for left in (0..=self.options.retries).rev() {
            let failure = match attempt(progress) {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            progress.end();
            if left == 0 || !failure.may_pass {
                return Err(failure.error);
            }
            progress.warn(&format!("{:#}; trying again in {wait:?}", failure.error));
            std::thread::sleep(wait);
            wait *= 2;
        }
        unreachable!("the last attempt returns")
    }

    fn attempt(
        &self,
        repo: &ApiRepo,
        file: &HubFile,
        progress: &mut Progress,
    ) -> Result<PathBuf, Failure> {
        let url = repo.url(&file.path);
        let metadata = self.api.metadata(&url);
        let metadata = metadata.map_err(|error| self.explain(&error, file, None))?;
        let size = metadata.size() as u64;
        if metadata.commit_hash() != file.revision {
            return Err(Failure::last(anyhow!(
                "{} answers for {} with revision {} where {} was asked for; correct the revision in data/models.toml",
                self.endpoint,
                file.repo,
                metadata.commit_hash(),
                file.revision
            )));
        }
        // The etag becomes a file name in the cache.
        let etag = metadata.etag();
        if etag.is_empty() || !etag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(Failure::last(anyhow!(
                "{url} has the etag {etag:?}, which is not a hub's; check HF_ENDPOINT"
            )));
        }
        let blob = self.cache.repo(Self::repo(file)).blob_path(etag);
        if std::fs::metadata(&blob).is_ok_and(|m| m.len() == size) {
            return Ok(blob);
        }
        let part = blob.with_extension("part");
        let have = prepare_part(&part, size).map_err(Failure::last)?;
        self.check_space(&part, size, have).map_err(Failure::last)?;

        let mut relay = Relay {
            progress,
            position: 0,
            interrupted: self.options.interrupted,
        };
        let downloaded = unwinding(|| repo.download_with_progress(&file.path, &mut relay));
        progress.end();
        match downloaded {
            None => {
                return Err(Failure::last(anyhow!(
                    "interrupted; what arrived of {} is kept, the next fetch goes on from there",
                    file.path
                )));
            }
            Some(Err(error)) => return Err(self.explain(&error, file, Some(&part))),
            Some(Ok(_)) => {}
        }
        let arrived = std::fs::metadata(&blob).map_or(0, |m| m.len());
        if arrived != size {
            self.evict(file, &blob);
            return Err(Failure::passing(anyhow!(
                "{url}: {arrived} bytes arrived where the hub declared {size}; the file is deleted, the next attempt starts over"
            )));
        }
        Ok(blob)
    }

    /// Refuse a download that there is no room for, before its first byte.
    fn check_space(&self, part: &Path, size: u64, have: u64) -> Result<()> {
        if let Some((needed, free)) = disk::shortage(part, size.saturating_sub(have)) {
            bail!(
                "not enough disk space: {needed} more are needed under {}, {free} are free; free some space, or point HF_HOME at a larger disk",
                self.cache.path().display()
            )
        }
        Ok(())
    }
}

/// The path by which a hub's cache gives a file to programs; nothing is there where it lacks the
/// file.
fn pointer(cache: &Cache, file: &HubFile) -> PathBuf {
    let snapshot = cache.repo(Session::repo(file)).pointer_path(&file.revision);
    snapshot.join(&file.path)
}

/// The size of a file (bytes) in the hub's cache at `cache_dir`, whichever program put it there;
/// `None` where it isn't cached.
pub(crate) fn cached_bytes(cache_dir: &Path, file: &HubFile) -> Option<u64> {
    let cache = Cache::new(cache_dir.to_owned());
    let metadata = std::fs::metadata(pointer(&cache, file)).ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// How many bytes the hub's cache at `cache_dir` has of downloads that broke off, in the
/// repositories of these files. Nothing says which file a partial one belongs to, so this may
/// include others of the same repository.
pub(crate) fn partial_bytes<'f>(
    cache_dir: &Path,
    files: impl IntoIterator<Item = &'f HubFile>,
) -> u64 {
    let cache = Cache::new(cache_dir.to_owned());
    // The path of a blob with any etag: the directory is what counts.
    let blob = |file: &HubFile| cache.repo(Session::repo(file)).blob_path("any");
    let blobs: BTreeSet<PathBuf> = files
        .into_iter()
        .filter_map(|file| blob(file).parent().map(Path::to_owned))
        .collect();
    let entries = blobs.iter().flat_map(std::fs::read_dir).flatten().flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "part"))
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

/// How many bytes of a partial file can be kept, so that the download goes on after them.
///
/// A partial file longer than the whole one can't belong to it and is deleted. A complete one
/// (the process was killed just before the rename) is shortened by its last byte, because a
/// server refuses to send bytes that begin at the end of a file.
fn prepare_part(part: &Path, size: u64) -> Result<u64> {
    let what = || format!("can't use the partial file {}", part.display());
    let Ok(metadata) = std::fs::metadata(part) else {
        return Ok(0);
    };
    let have = metadata.len();
    if have > size {
        std::fs::remove_file(part).with_context(what)?;
        return Ok(0);
    }
    if have == size && size > 0 {
        let file = std::fs::File::options().write(true).open(part);
        let shortened = file.and_then(|file| file.set_len(size - 1));
        shortened.with_context(what)?;
        return Ok(size - 1);
    }
    Ok(have)
}

/// Passes hf-hub's progress on, and ends the download when the user interrupts it.
struct Relay<'a> {
    progress: &'a mut Progress,
    position: u64,
    interrupted: fn() -> bool,
}

impl hf_hub::api::Progress for &mut Relay<'_> {
    fn init(&mut self, size: usize, filename: &str) {
        // hf-hub calls this twice for one file.
        self.position = 0;
        self.progress.begin(filename, size as u64);
    }

    fn update(&mut self, size: usize) {
        self.position += size as u64;
        self.progress.at(self.position);
        if (self.interrupted)() {
            std::panic::resume_unwind(Box::new(Interrupted));
        }
    }

    fn finish(&mut self) {}
}

struct Interrupted;

/// Run `download`; `None` if it was interrupted. hf-hub's progress can't return an
/// error, so unwinding (without the panic message) is the way out of its copy
/// loop; its file and lock close on the way, and the partial file stays.
fn unwinding<T>(download: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(download)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Interrupted>() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Fetch all wanted files of a model that aren't here, and verify the others.
pub(crate) fn fetch(
    files: &mut ModelFiles<'_>,
    wanted: &[HubFile],
    models_dir: &Path,
) -> Result<Vec<FetchedFile>> {
    let session = Session::open(models_dir, files.options)?;
    let mut fetched = Vec::new();
    for file in wanted {
        let source = format!("{}@{}:{}", file.repo, file.revision, file.path);
        let present = files.good(&file.name, &source, |files, mismatch| {
            bail!(
                "{mismatch}\nIt was changed or damaged after it was fetched; it is now {}. Fetch again to download it anew. {}",
                files.reject(&file.name)?.display(),
                files.if_wanted(&file.name)
            );
        })?;
        fetched.push(match present {
            Some(present) => present,
            None => obtain(&session, files, file, &source)?,
        });
    }
    Ok(fetched)
}

/// Take a file from the cache, else from the hub, verify it, and put it into place.
fn obtain(
    session: &Session<'_>,
    files: &mut ModelFiles<'_>,
    file: &HubFile,
    source: &str,
) -> Result<FetchedFile> {
    let mut how = How::Cached;
    let mut blob = session.cached(file);
    loop {
        let path = match blob.take() {
            Some(path) => path,
            None => {
                how = How::Downloaded;
                session.download(file, files.progress)?
            }
        };
        let found = sha256_of_file(&path, files.progress)?;
        // Large files' etags, and so their names in the cache, are their sha256.
        let declared = path
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|name| name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()));
        let intact = declared.is_none_or(|declared| declared == found);
        let expected = files.lock.expected(files.model, &file.name);
        let matches = expected.is_none_or(|expected| expected == found);
        if intact && matches {
            place(&path, files.dir, &file.name)?;
            return files.accept(&file.name, &found, source, how);
        }
        // A file is kept only if its hash is the one that the hub declares. Then the lock or the
        // revision must be changed, and gigabytes need not be downloaded again.
        if !intact || declared.is_none() {
            session.evict(file, &path);
            if how == How::Cached {
                continue;
            }
        }
        match expected {
            Some(expected) if intact => bail!(
                "{}\nIt is what {} has at that revision, and is not put into place. {}",
                files.mismatch(&file.name, expected, &found),
                file.repo,
                files.if_wanted(&file.name)
            ),
            _ => bail!(
                "{}/{} was damaged on the way: the hub declares sha256 {}, what arrived has {found}; it is deleted, fetch again",
                files.model,
                file.name,
                declared.unwrap_or("?")
            ),
        }
    }
}

/// Link a cached file under its final name, atomically.
fn place(blob: &Path, dir: &Path, name: &str) -> Result<()> {
    let what = || format!("can't put {name} into {}", dir.display());
    let partial = dir.join(format!(".{name}.partial"));
    std::fs::remove_file(&partial).ok();
    if std::fs::hard_link(blob, &partial).is_err() {
        std::os::unix::fs::symlink(blob, &partial).with_context(what)?;
    }
    std::fs::rename(&partial, dir.join(name)).with_context(what)?;
    // Renaming one hard link onto another of the same file does nothing.
    std::fs::remove_file(&partial).ok();
    Ok(())
}
