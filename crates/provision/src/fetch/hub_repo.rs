//! Asks a hub about a whole repository: its commit, its files and their sizes. It also gets small
//! files, which tell the rest before gigabytes are downloaded.

use super::hub::Session;
use super::hub_error::Failure;
use super::progress::Progress;
use anyhow::{Context, Result, anyhow, bail};
use base::names::Refused;
use hf_hub::api::sync::ApiError;
use hf_hub::{Repo, RepoType};
use schema::model::HubFile;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Most bytes of the hub's answer about a repository, and of a small file.
const BYTES_MAX: u64 = 64 << 20;

/// A repository of a hub at one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// The repository's name, `owner/name`.
    pub repo: String,
    /// The full commit id.
    pub commit: String,
    /// The size of each file (bytes), by its path; `None` where the hub doesn't give it.
    pub files: BTreeMap<String, Option<u64>>,
    /// Whether only users who accepted the repository's terms may download its files.
    pub gated: bool,
}

impl Repository {
    /// The file at `path`, with the name that it will have in the model's directory.
    pub(crate) fn file(&self, path: &str, name: &str) -> HubFile {
        HubFile {
            name: name.to_owned(),
            repo: self.repo.clone(),
            revision: self.commit.clone(),
            path: path.to_owned(),
        }
    }
}

/// The part of the hub's answer that is used.
#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
    /// `false`, or in which way access is granted.
    #[serde(default)]
    gated: Value,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: Option<u64>,
}

impl Session<'_> {
    /// Ask for a repository at a revision: a branch, a tag or a commit; `None` = its current state.
    pub(crate) fn repository(
        &self,
        repo: &str,
        revision: Option<&str>,
        progress: &mut Progress,
    ) -> Result<Repository> {
        let at = revision.unwrap_or("main");
        let answer = self.retrying(progress, |_| self.ask(repo, at))?;
        self.understood(repo, at, answer)
    }

    fn ask(&self, repo: &str, at: &str) -> Result<Answer, Failure> {
        let asked = Repo::with_revision(repo.to_owned(), RepoType::Model, at.to_owned());
        let response = self.api.repo(asked).info_request().query("blobs", "true");
        let failed = |error: ureq::Error| self.refused(repo, at, error);
        let mut response = response.call().map_err(failed)?;
        let body = response.body_mut().with_config().limit(BYTES_MAX);
        let bytes = body.read_to_vec().map_err(failed)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::last(anyhow!(
                "{} doesn't answer like a hub when asked for {repo}: {error}; check HF_ENDPOINT",
                self.endpoint
            ))
        })
    }

    /// The failure for a refused request. A hub answers 401 both for a repository that doesn't
    /// exist and for a private one, to keep it secret which private ones exist.
    fn refused(&self, repo: &str, at: &str, error: ureq::Error) -> Failure {
        let endpoint = &self.endpoint;
        let unusable = |text: String| Failure::last(Refused(text).into());
        match error {
            ureq::Error::StatusCode(404) => unusable(format!(
                "{endpoint} has no {repo} at {at} (HTTP 404): check its name and revision"
            )),
            ureq::Error::StatusCode(code @ (401 | 403)) => unusable(match self.has_token {
                false => format!(
                    "{endpoint} doesn't show {repo} at {at} without a token (HTTP {code}): check its name; if it is private or gated, set HF_TOKEN"
                ),
                true => format!(
                    "{endpoint} doesn't show {repo} at {at} to the token in use (HTTP {code}): check its name; if it is gated, accept its terms at {endpoint}/{repo} with that account"
                ),
            }),
            error => {
                let about = HubFile {
                    name: String::new(),
                    repo: repo.to_owned(),
                    revision: at.to_owned(),
                    path: "the list of files".into(),
                };
                self.explain(&ApiError::RequestError(Box::new(error)), &about, None)
            }
        }
    }

    fn understood(&self, repo: &str, at: &str, answer: Answer) -> Result<Repository> {
        let is_commit = answer.sha.len() == 40
            && answer
                .sha
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !is_commit {
            bail!(
                "{} answers for {repo} at {at} with {:?}, which is no commit; check HF_ENDPOINT",
                self.endpoint,
                answer.sha
            );
        }
        let files = answer.siblings.into_iter();
        Ok(Repository {
            repo: repo.to_owned(),
            commit: answer.sha,
            files: files.map(|file| (file.rfilename, file.size)).collect(),
            gated: !matches!(answer.gated, Value::Null | Value::Bool(false)),
        })
    }

    /// Read a small file from the cache, into which it is downloaded if need be.
    pub(crate) fn small_file(&self, file: &HubFile, progress: &mut Progress) -> Result<Vec<u8>> {
        let path = match self.cached(file) {
            Some(path) => path,
            None => self.download(file, progress)?,
        };
        let what = || format!("can't read {}", path.display());
        let size = std::fs::metadata(&path).with_context(what)?.len();
        if size > BYTES_MAX {
            bail!(
                "{} of {} has {size} bytes, which is no {}",
                file.path,
                file.repo,
                file.name
            );
        }
        std::fs::read(&path).with_context(what)
    }

    /// Ask for the size of a file (bytes) for which the list of files gave none.
    pub(crate) fn size(&self, file: &HubFile) -> Result<u64> {
        let url = self.api.repo(Self::repo(file)).url(&file.path);
        let metadata = self.api.metadata(&url);
        let metadata = metadata.map_err(|error| self.explain(&error, file, None).error)?;
        Ok(metadata.size() as u64)
    }

    /// Whether the file is in the cache, so that it needn't be downloaded.
    pub(crate) fn has(&self, file: &HubFile) -> bool {
        self.cached(file).is_some()
    }

    /// The directory that downloads are written to.
    pub(crate) fn cache_dir(&self) -> &Path {
        self.cache.path()
    }
}
