//! Reads which endpoint to use from the environment. A request of the protocol names a model
//! directory and no address, so that the records of different machines stay comparable.
//!
//! Also keeps the API key. It is put into one header and nowhere else: every text from a server
//! passes through [`Secret::redact`] before it gets into a message or a record. The key's type
//! deliberately has no `Debug` and no `Display`.

use protocol::engine::EngineError;
use protocol::wire::FailureKind;

/// The endpoint, and how to send requests to it.
pub struct Config {
    /// The API's base URL without a trailing slash, e.g. `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// The API key, sent as a bearer token.
    pub key: Secret,
    /// The server's name of the model; if absent, the first model that the server lists.
    pub model: Option<String>,
    /// The API's route.
    pub route: Route,
    /// Largest number of requests in flight, if it is smaller than the number asked for.
    pub connections: Option<u32>,
}

/// The two routes of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/completions`: the prompt is sent unchanged.
    Completions,
    /// `/chat/completions`: the server applies its chat template to the prompt.
    Chat,
}

impl Route {
    /// Return the route's path.
    pub fn path(self) -> &'static str {
        match self {
            Route::Completions => "/completions",
            Route::Chat => "/chat/completions",
        }
    }
}

impl Config {
    /// Read the configuration from environment variables; `get` reads one.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, EngineError> {
        let unavailable = |message: String| EngineError::new(FailureKind::Unavailable, message);
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let base_url = set("OPENAI_BASE_URL").ok_or_else(|| {
            unavailable(
                "OPENAI_BASE_URL is not set: start a server and set it to its address, e.g. http://127.0.0.1:8000/v1".into(),
            )
        })?;
        let bare = base_url
            .strip_prefix("http://")
            .or(base_url.strip_prefix("https://"));
        // The URL is not quoted in the message, because it may contain a password.
        if !bare.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#'])) {
            return Err(unavailable(
                "OPENAI_BASE_URL must be http:// or https://, a host and a path, and nothing else; a key belongs into OPENAI_API_KEY".into(),
            ));
        }
        let key = Secret::new(get("OPENAI_API_KEY"))
            .map_err(|why| unavailable(format!("OPENAI_API_KEY {why}")))?;
        let route = match set("BENCH_OPENAI_ROUTE").as_deref() {
            None | Some("completions") => Route::Completions,
            Some("chat") => Route::Chat,
            Some(other) => {
                return Err(unavailable(format!(
                    "BENCH_OPENAI_ROUTE is {other:?}: set it to completions or chat"
                )));
            }
        };
        let connections = match set("BENCH_OPENAI_CONNECTIONS") {
            None => None,
            Some(text) => Some(text.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
                unavailable(format!(
                    "BENCH_OPENAI_CONNECTIONS is {text:?}: set it to the most requests that may be in flight, 1 or more"
                ))
            })?),
        };
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            key,
            model: set("OPENAI_MODEL"),
            route,
            connections,
        })
    }

    /// Whether the server is on this machine, judged by the host's name alone.
    pub fn is_loopback(&self) -> bool {
        let host = self.base_url.split("://").nth(1).unwrap_or_default();
        ["127.", "localhost", "[::1]"]
            .iter()
            .any(|name| host.starts_with(name))
    }
}

/// The text that replaces the key.
const REDACTED: &str = "[key]";

/// An API key, or none.
pub struct Secret(Option<String>);

impl Secret {
    /// Create a secret; an empty key counts as none. A key that can't be sent in a header is
    /// refused without being quoted.
    pub fn new(key: Option<String>) -> Result<Self, &'static str> {
        let key = key.filter(|key| !key.is_empty());
        let visible = |key: &String| key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if !key.as_ref().is_none_or(visible) {
            return Err("has characters that can't stand in an HTTP header");
        }
        Ok(Self(key))
    }

    /// Return the value of the `Authorization` header.
    pub fn bearer(&self) -> Option<String> {
        self.0.as_ref().map(|key| format!("Bearer {key}"))
    }

    /// Return `text` without the key, also where it is escaped as in JSON.
    pub fn redact(&self, text: &str) -> String {
        let Some(key) = &self.0 else {
            return text.to_owned();
        };
        let quoted = serde_json::Value::from(key.as_str()).to_string();
        let escaped = quoted.trim_matches('"');
        text.replace(key, REDACTED).replace(escaped, REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, EngineError> {
        Config::read(|name| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_address_is_all_it_needs() {
        let config = read(&[("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")]).unwrap();
        assert_eq!(config.base_url, "http://127.0.0.1:8000/v1");
        assert_eq!(
            (config.model.as_deref(), config.route),
            (None, Route::Completions)
        );
        assert!(config.is_loopback());
        let far = read(&[("OPENAI_BASE_URL", "https://example.org/v1")]).unwrap();
        assert!(!far.is_loopback());
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do_and_without_secrets() {
        let fails = |pairs: &[(&str, &str)], word: &str| {
            let error = read(pairs).err().unwrap();
            assert_eq!(error.kind, FailureKind::Unavailable);
            assert!(error.message.contains(word), "{}", error.message);
            assert!(!error.message.contains("hunter2"), "{}", error.message);
        };
        fails(&[], "OPENAI_BASE_URL is not set");
        fails(
            &[("OPENAI_BASE_URL", "http://me:hunter2@host/v1")],
            "OPENAI_API_KEY",
        );
        fails(&[("OPENAI_BASE_URL", "localhost:8000")], "http://");
        let url = ("OPENAI_BASE_URL", "http://h/v1");
        fails(&[url, ("OPENAI_API_KEY", "hunter2\n")], "OPENAI_API_KEY");
        fails(
            &[url, ("BENCH_OPENAI_ROUTE", "responses")],
            "completions or chat",
        );
        for none in ["0", "many"] {
            fails(&[url, ("BENCH_OPENAI_CONNECTIONS", none)], "1 or more");
        }
    }

    #[test]
    fn the_key_is_taken_out_however_it_is_written() {
        let secret = Secret::new(Some("sk-\\7".into())).ok().unwrap();
        assert_eq!(secret.bearer().unwrap(), "Bearer sk-\\7");
        let said = r#"bad key sk-\7, as in {"h":"Bearer sk-\\7"}"#;
        assert_eq!(
            secret.redact(said),
            r#"bad key [key], as in {"h":"Bearer [key]"}"#
        );
    }

    #[test]
    fn no_key_is_no_header_and_a_broken_one_is_refused_unquoted() {
        for none in [None, Some(String::new())] {
            assert_eq!(Secret::new(none).ok().unwrap().bearer(), None);
        }
        let error = Secret::new(Some("two\nlines".into())).err().unwrap();
        assert!(!error.contains("lines"), "{error}");
    }
}
