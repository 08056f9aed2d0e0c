//! The HTTP client: one pool of connections, kept open between requests, with errors as text. It
//! deliberately retries nothing, follows no redirect, uses no proxy and has no time-out: a
//! benchmark that retries hides load, and the harness has its own deadlines.

use crate::config::{Config, Secret};
use serde_json::Value;
use std::io::Read;
use ureq::http::Response;
use ureq::{Agent, Body};

/// Characters of an error response's body that are passed on.
const EXCERPT_CHARS: usize = 200;
/// Bytes of an error response's body that are read.
const EXCERPT_BYTES: u64 = 16 << 10;

/// A client of one server.
pub struct Client {
    agent: Agent,
    base_url: String,
    key: Secret,
}

/// The error of a request that failed.
pub struct HttpError {
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// What failed, where and why, in one line and without the API key.
    pub message: String,
}

impl Client {
    /// Create a client with room for `connections` connections at a time.
    pub fn new(config: Config, connections: usize) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .no_delay(true)
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            .user_agent("openai-bench")
            // A compressed stream would arrive in blocks.
            .accept_encoding("identity")
            .build()
            .new_agent();
        Self {
            agent,
            base_url: config.base_url,
            key: config.key,
        }
    }

    /// Return `text` without the key, in one line.
    pub fn clean(&self, text: &str) -> String {
        let text = self.key.redact(text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// GET `path` below the base URL, or below the server's root if it begins with `../`; return
    /// the JSON of the response and its `Server` header.
    pub fn get(&self, path: &str) -> Result<(Value, Option<String>), HttpError> {
        let url = match path.strip_prefix("..") {
            Some(path) => format!("{}{path}", self.base_url.trim_end_matches("/v1")),
            None => format!("{}{path}", self.base_url),
        };
        let mut request = self.agent.get(url);
        if let Some(bearer) = self.key.bearer() {
            request = request.header("authorization", bearer);
        }
        let what = format!("GET {path}");
        let answer = request.call().map_err(|error| self.failed(&what, &error))?;
        let mut answer = self.accepted(&what, answer)?;
        let server = answer
            .headers()
            .get("server")
            .and_then(|value| value.to_str().ok());
        let server = server.map(|value| self.clean(value));
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| self.failed(&what, &error))?;
        let json = serde_json::from_str(&text).map_err(|error| HttpError {
            status: None,
            message: self.clean(&format!("{what}: the answer is no JSON ({error})")),
        })?;
        Ok((json, server))
    }

    /// POST JSON; return the response with its body not yet read.
    pub fn post(&self, path: &str, json: &[u8]) -> Result<Response<Body>, HttpError> {
        let url = format!("{}{path}", self.base_url);
        let mut request = self.agent.post(url).content_type("application/json");
        if let Some(bearer) = self.key.bearer() {
            request = request.header("authorization", bearer);
        }
        let what = format!("POST {path}");
        let answer = request
            .send(json)
            .map_err(|error| self.failed(&what, &error))?;
        self.accepted(&what, answer)
    }

    fn failed(&self, what: &str, error: &ureq::Error) -> HttpError {
        HttpError {
            status: None,
            message: self.clean(&format!("{what}: {error}")),
        }
    }

    fn accepted(
        &self,
        what: &str,
        mut answer: Response<Body>,
    ) -> Result<Response<Body>, HttpError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let mut message = format!("{what}: the server answered {}", status.as_u16());
        let wait = answer.headers().get("retry-after");
        if let Some(wait) = wait.and_then(|value| value.to_str().ok()) {
            message.push_str(&format!(", Retry-After {wait}"));
        }
        let mut body = Vec::new();
        // A part of the body is better than none, so a failed read is ignored.
        let _ = answer
            .body_mut()
            .as_reader()
            .take(EXCERPT_BYTES)
            .read_to_end(&mut body);
        // The key is removed before the body is cut: a cut could leave half a key behind.
        let body = self.clean(&String::from_utf8_lossy(&body));
        let excerpt: String = body.chars().take(EXCERPT_CHARS).collect();
        Err(HttpError {
            status: Some(status.as_u16()),
            message: self.clean(&format!("{message}: {excerpt}")),
        })
    }
}
