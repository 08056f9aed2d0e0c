//! Explains errors of a hub: what failed, where, why, and what to do; and whether waiting may help.
//! Also checks what the environment says of a hub, before the first request. It retries nothing
//! itself.

use anyhow::{Result, anyhow, ensure};
use hf_hub::api::sync::ApiError;
use schema::model::HubFile;
use std::io::{self, ErrorKind};
use std::path::Path;
use ureq::http::{HeaderValue, Uri};

/// A failed attempt to get something from a hub.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Whether the same request may succeed a little later.
    pub may_pass: bool,
    pub error: anyhow::Error,
}

impl Failure {
    /// Create a failure that another attempt would meet again.
    pub fn last(error: anyhow::Error) -> Self {
        Self {
            may_pass: false,
            error,
        }
    }

    /// Create a failure that another attempt may not meet.
    pub fn passing(error: anyhow::Error) -> Self {
        Self {
            may_pass: true,
            error,
        }
    }
}

/// Refuse an address that is no URL and a token that no request can have in its header: every
/// attempt would fail in the same way. The token isn't printed.
pub(crate) fn check_settings(endpoint: &str, token: Option<&str>) -> Result<()> {
    let address: Option<Uri> = endpoint.parse().ok();
    let is_url = address.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    ensure!(
        is_url,
        "HF_ENDPOINT is {endpoint:?}, which is no URL: set it to a hub's, such as https://huggingface.co, or unset it"
    );
    ensure!(
        token.is_none_or(|token| HeaderValue::from_str(token).is_ok()),
        "HF_TOKEN, or else the token that a login to the hub saved, has a line break or another character that a token can't have: set HF_TOKEN to the token alone"
    );
    Ok(())
}

/// Explain an error that hf-hub reports of the hub at `endpoint`. With a token, a refusal has
/// another meaning. `part` is the partial file, once there can be one.
pub(crate) fn explain(
    error: &ApiError,
    endpoint: &str,
    has_token: bool,
    file: &HubFile,
    part: Option<&Path>,
) -> Failure {
    let what = format!("{} of {} at {}", file.path, file.repo, file.revision);
    match error {
        ApiError::RequestError(error) => match &**error {
            ureq::Error::StatusCode(code) => status(*code, endpoint, has_token, file, &what),
            error => Failure {
                // A name that doesn't resolve, a port that refuses and a firewall that forbids mean
                // that there is no network. Waiting would only delay that message.
                may_pass: match error {
                    ureq::Error::HostNotFound => false,
                    ureq::Error::Io(error) => !matches!(
                        error.kind(),
                        ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied
                    ),
                    _ => true,
                },
                error: anyhow!(
                    "can't reach {endpoint} for {what}: {error}; check the network and HF_ENDPOINT. Without a network, use an embedded model ({}), or copy the model's directory from a machine that has it: files that match data/models.lock are accepted",
                    models::ModelSpec::ids().join(", ")
                ),
            },
        },
        ApiError::IoError(error) => match from_disk(error) {
            Some(why) => disk(error, why, &what, part),
            None => Failure::passing(anyhow!(
                "the download of {what} broke off: {error}; {}fetch again",
                kept(part)
            )),
        },
        ApiError::LockAcquisition(path) => Failure::last(anyhow!(
            "another program is downloading {what} (it holds {}); wait for it and fetch again",
            path.display()
        )),
        ApiError::MissingHeader(_) | ApiError::InvalidHeader(_) | ApiError::ParseIntError(_) => {
            Failure::last(anyhow!(
                "{endpoint} doesn't answer like a hub when asked for {what}: {error}; check HF_ENDPOINT"
            ))
        }
        error => Failure::last(anyhow!("can't download {what} from {endpoint}: {error}")),
    }
}

fn status(code: u16, endpoint: &str, has_token: bool, file: &HubFile, what: &str) -> Failure {
    let page = format!("{endpoint}/{}", file.repo);
    match code {
        404 => Failure::last(anyhow!(
            "{endpoint} has no {what} (HTTP 404); check repo, revision and path in data/models.toml, and HF_TOKEN if the repository is private"
        )),
        401 | 403 if has_token => Failure::last(anyhow!(
            "{endpoint} refuses {what} (HTTP {code}): the token in use may not read it; accept the licence at {page} with that account, or set HF_TOKEN to another token"
        )),
        401 | 403 => Failure::last(anyhow!(
            "{endpoint} refuses {what} (HTTP {code}) without a token; accept the licence at {page} and set HF_TOKEN"
        )),
        429 | 500..=599 => Failure::passing(anyhow!(
            "{endpoint} can't serve {what} now (HTTP {code}); try later"
        )),
        code => Failure::last(anyhow!("{endpoint} answers HTTP {code} to {what}")),
    }
}

/// The reason why writing failed, where the disk is at fault and not the network; otherwise `None`.
fn from_disk(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::ENOSPC => Some("the disk is full"),
        libc::EDQUOT => Some("the disk quota is used up"),
        libc::EFBIG => Some("the file is larger than this process may write (ulimit -f)"),
        libc::EACCES | libc::EPERM => Some("permission denied"),
        libc::EROFS => Some("the file system is read-only"),
        libc::EIO => Some("the disk reports an I/O error"),
        _ => None,
    }
}

fn disk(error: &io::Error, why: &str, what: &str, part: Option<&Path>) -> Failure {
    let place = part
        .and_then(Path::parent)
        .map_or_else(|| "the hub's cache".to_owned(), |p| p.display().to_string());
    Failure::last(anyhow!(
        "can't write {what} under {place}: {why} ({error}); {}mend that, or point HF_HOME at another disk, and fetch again",
        kept(part)
    ))
}

/// Say how much of a download is kept and will be resumed.
fn kept(part: Option<&Path>) -> String {
    let metadata = part.and_then(|part| std::fs::metadata(part).ok());
    match metadata.map_or(0, |metadata| metadata.len()) {
        0 => String::new(),
        size => format!(
            "what arrived ({}) is kept and will be resumed; ",
            super::disk::human_bytes(size)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_no_request_can_use_are_named() {
        let said = |endpoint: &str, token: Option<&str>| {
            check_settings(endpoint, token).map_err(|error| error.to_string())
        };
        assert_eq!(said("https://hub.example/a", Some("hf_ab")), Ok(()));
        assert_eq!(said("http://127.0.0.1:80", None), Ok(()));
        for no_url in ["notaurl", "ftp://hub.example", "https://", "https://a b"] {
            let error = said(no_url, None).unwrap_err();
            assert!(
                error.contains(&format!("HF_ENDPOINT is {no_url:?}")),
                "{error}"
            );
        }
        let error = said("https://hub.example", Some("hf_bad\ntoken")).unwrap_err();
        assert!(error.starts_with("HF_TOKEN"), "{error}");
        assert!(
            !error.contains("hf_bad"),
            "a token is never printed: {error}"
        );
    }

    #[test]
    fn a_connection_that_is_forbidden_is_no_fault_of_the_disk() {
        let file = HubFile {
            name: String::new(),
            repo: "a/b".into(),
            revision: "c".into(),
            path: "d".into(),
        };
        let forbidden = || io::Error::from_raw_os_error(libc::EPERM);
        let said = |error: &ApiError| explain(error, "https://hub.example", false, &file, None);
        let connecting = said(&ApiError::RequestError(Box::new(ureq::Error::Io(
            forbidden(),
        ))));
        let message = connecting.error.to_string();
        assert!(message.contains("check the network"), "{message}");
        assert!(!connecting.may_pass);
        let message = said(&ApiError::IoError(forbidden())).error.to_string();
        assert!(message.contains("permission denied"), "{message}");
    }
}
