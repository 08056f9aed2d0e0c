//! Finds out what the server is and accepts, once, with requests that are as small as possible:
//! its model, its version, and whether a prompt may consist of token ids.

use crate::client::{Client, HttpError};
use crate::config::{Config, Route};
use crate::reply::{Recording, Reply};
use crate::tokens::ModelTokenizer;
use protocol::clock::now_ns;
use protocol::engine::EngineError;
use protocol::wire::Load;
use protocol::witness::Commits;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A server that answered, with the findings about it.
pub struct Endpoint {
    client: Client,
    tokenizer: ModelTokenizer,
    route: Route,
    model: String,
    form: Form,
    is_loopback: bool,
    /// The user's limit on requests in flight, if any.
    limit: Option<u32>,
    /// Number of requests that may be in flight.
    pub connections: u32,
    /// The version that the server reports, or `unknown`.
    pub version: String,
    /// Other facts that the server reports about itself, for `hello`.
    pub facts: BTreeMap<String, String>,
}

/// The form in which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    prompt: Prompt,
    /// Whether fields are sent that OpenAI's own API doesn't have.
    extras: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    Ids,
    Text { write_bos: bool },
}

/// A finished generation, with the time when it was sent.
pub struct Generated {
    /// The time just before the request was sent (ns).
    pub sent_ns: u64,
    /// The server's reply.
    pub reply: Reply,
}

/// Return the endpoint of this process. `hello` and `load` both need it; it is looked for only
/// once.
pub fn find(load: &Load) -> Result<Arc<Endpoint>, EngineError> {
    static FOUND: OnceLock<Result<Arc<Endpoint>, EngineError>> = OnceLock::new();
    let found = FOUND.get_or_init(|| Endpoint::new(load).map(Arc::new));
    found.clone()
}

impl Endpoint {
    fn new(load: &Load) -> Result<Self, EngineError> {
        let config = Config::read(|name| std::env::var(name).ok())?;
        let tokenizer = ModelTokenizer::load(Path::new(&load.model_dir))?;
        let (route, is_loopback) = (config.route, config.is_loopback());
        let (named, limit) = (config.model.clone(), config.connections);
        let asked = load.max_batch.max(1);
        let connections = limit.map_or(asked, |limit| limit.min(asked));
        let client = Client::new(config, connections as usize);
        // GET requests are only for finding out; a server may support neither.
        let models = client.get("/models");
        let server = models.as_ref().ok().and_then(|(_, server)| server.clone());
        let model = match (named, models) {
            (Some(model), _) => model,
            (None, Ok((list, _))) => first_model(&list)?,
            (None, Err(error)) => return Err(unreachable(error)),
        };
        let text = Prompt::Text { write_bos: false };
        let mut endpoint = Self {
            client,
            tokenizer,
            route,
            model,
            form: Form {
                prompt: text,
                extras: true,
            },
            is_loopback,
            limit,
            connections,
            version: String::new(),
            facts: BTreeMap::new(),
        };
        let reply = endpoint.find_form()?;
        let version = endpoint.client.get("../version").ok();
        let version = version.and_then(|(json, _)| json["version"].as_str().map(str::to_owned));
        let fingerprint = reply.fingerprint.map(|name| endpoint.client.clean(&name));
        let version = version.map(|version| endpoint.client.clean(&version));
        let facts = [
            ("served_model", Some(endpoint.client.clean(&endpoint.model))),
            ("server", server.clone()),
            ("system_fingerprint", fingerprint.clone()),
        ];
        let known = facts
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        endpoint.facts = known.collect();
        // mistral.rs gives the fingerprint `local` to every build.
        let fingerprint = fingerprint.filter(|name| name != "local");
        let version = version.or(fingerprint).or(server);
        endpoint.version = version.unwrap_or_else(|| "unknown".into());
        Ok(endpoint)
    }

    /// Try several forms of a request, the best first, until the server accepts one.
    fn find_form(&mut self) -> Result<Reply, EngineError> {
        let sample = self.tokenizer.sample()?;
        let text = Prompt::Text { write_bos: false };
        let prompts = match self.route {
            Route::Completions => vec![Prompt::Ids, text],
            Route::Chat => vec![text],
        };
        let mut refusal = None;
        for extras in [true, false] {
            for &prompt in &prompts {
                self.form = Form { prompt, extras };
                match self.generate(&sample, 1, &Commits::default()) {
                    Ok(generated) => {
                        self.settle_bos(&sample, &generated.reply)?;
                        return Ok(generated.reply);
                    }
                    Err(Failed::Http(error)) if is_about_the_form(&error) => {
                        refusal.get_or_insert(error);
                    }
                    Err(Failed::Http(error)) => return Err(unreachable(error)),
                    Err(Failed::Other(error)) => return Err(error),
                }
            }
        }
        Err(unreachable(refusal.expect("at least one form was tried")))
    }

    /// Decide whether this client or the server adds BOS: the prompt must be exactly as long as
    /// the sample.
    fn settle_bos(&mut self, sample: &[u32], reply: &Reply) -> Result<(), EngineError> {
        if self.route == Route::Chat {
            return Ok(()); // the template's tokens come on top
        }
        let counted = match reply.prompt_tokens {
            Some(counted) => Some(counted),
            None => self.count_unstreamed(sample),
        };
        let asked = sample.len() as u64;
        match (self.form.prompt, counted) {
            (_, Some(counted)) if counted == asked => Ok(()),
            (Prompt::Text { .. }, Some(counted)) if counted + 1 == asked => {
                self.form.prompt = Prompt::Text { write_bos: true };
                let streamed = self.generate(sample, 1, &Commits::default()).ok();
                let counted = streamed.and_then(|generated| generated.reply.prompt_tokens);
                match counted.or_else(|| self.count_unstreamed(sample)) {
                    Some(counted) if counted == asked => Ok(()),
                    counted => Err(miscounted(asked, counted)),
                }
            }
            (_, counted @ Some(_)) => Err(miscounted(asked, counted)),
            // The server doesn't report a count; it is assumed to behave like the tokenizer.
            (Prompt::Ids, None) => Ok(()),
            (Prompt::Text { .. }, None) => {
                let write_bos = !self.tokenizer.adds_bos();
                self.form.prompt = Prompt::Text { write_bos };
                Ok(())
            }
        }
    }

    /// Return how many tokens the server counts in a prompt, asked without streaming, because some
    /// servers report their usage only then.
    fn count_unstreamed(&self, ids: &[u32]) -> Option<u64> {
        let mut body = self.body(ids, 1).ok()?;
        let fields = body.as_object_mut()?;
        fields.remove("stream_options");
        fields.insert("stream".into(), false.into());
        let mut answer = self
            .client
            .post(self.route.path(), body.to_string().as_bytes())
            .ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        let json: Value = serde_json::from_str(&text).ok()?;
        json["usage"]["prompt_tokens"].as_u64()
    }

    /// Run one generation.
    pub fn generate(
        &self,
        prompt_ids: &[u32],
        new_tokens: u32,
        commits: &Commits,
    ) -> Result<Generated, Failed> {
        let body = self.body(prompt_ids, new_tokens).map_err(Failed::Other)?;
        let body = body.to_string();
        let expected_bytes = (new_tokens as usize + 4) * 512;
        let broken = |why: String| {
            let message = format!("POST {}: {}", self.route.path(), self.client.clean(&why));
            let short: String = message.chars().take(400).collect();
            Failed::Other(EngineError::internal(short))
        };
        let sent_ns = now_ns();
        let posted = self.client.post(self.route.path(), body.as_bytes());
        let mut answer = posted.map_err(Failed::Http)?;
        let body = answer.body_mut().as_reader();
        let recording = Recording::make(body, expected_bytes, |piece| commits.piece(piece))
            .map_err(|error| broken(format!("the stream was cut off ({error})")))?;
        let reply = recording.read(self.route).map_err(broken)?;
        Ok(Generated { sent_ns, reply })
    }

    /// Return how many tokens a text has by itself.
    pub fn count_text(&self, text: &str) -> usize {
        self.tokenizer.count(text)
    }

    /// Check that the server read as many prompt tokens as were sent.
    pub fn check_prompt(&self, prompt_ids: &[u32], reply: &Reply) -> Result<(), EngineError> {
        let asked = prompt_ids.len() as u64;
        match reply.prompt_tokens {
            Some(counted) if self.route == Route::Completions && counted != asked => {
                Err(miscounted(asked, Some(counted)))
            }
            _ => Ok(()),
        }
    }

    fn body(&self, prompt_ids: &[u32], new_tokens: u32) -> Result<Value, EngineError> {
        let mut body = json!({
            "model": self.model,
            "max_tokens": new_tokens,
            "temperature": 0,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let prompt = match self.form.prompt {
            Prompt::Ids => json!(prompt_ids),
            Prompt::Text { write_bos } => json!(self.tokenizer.prompt(prompt_ids, write_bos)?),
        };
        match self.route {
            Route::Completions => body["prompt"] = prompt,
            Route::Chat => body["messages"] = json!([{ "role": "user", "content": prompt }]),
        }
        if self.form.extras {
            let extras = json!({
                "ignore_eos": true,
                "min_tokens": new_tokens,
                "top_k": 1,
                // Ask for ids: vLLM's field, then two of llama.cpp's.
                "return_token_ids": true,
                "return_tokens": true,
                "verbose": true,
                // Otherwise llama.cpp would reuse what it cached of the last prompt.
                "cache_prompt": false,
            });
            let fields = body.as_object_mut().expect("it was made as an object");
            fields.extend(extras.as_object().expect("so was this").clone());
        }
        Ok(body)
    }

    /// Whether the user allows only one request in flight.
    pub fn serves_one_at_a_time(&self) -> bool {
        self.limit == Some(1)
    }

    /// Return the remarks that a reader of the numbers must know.
    pub fn notes(&self) -> Vec<String> {
        let way = if self.is_loopback {
            "over this machine's loopback"
        } else {
            "over the network to another machine"
        };
        let prompts = match (self.route, self.form.prompt) {
            (Route::Chat, _) => {
                "prompts are sent as chat messages: the server's template changes them, so the output can't be compared and the target can't pass the gate"
            }
            (_, Prompt::Ids) => "prompts are sent as token ids",
            (_, Prompt::Text { .. }) => {
                "the server takes no token ids: prompts are sent as text, and one that would be read as other tokens is refused"
            }
        };
        let mut notes = vec![
            format!("measured at the client, HTTP included, {way}; a request that fails is never repeated"),
            prompts.to_owned(),
            "what the server does with threads, precision and memory is its own affair: the target's name says what its user says it serves, and load time, memory and CPU are this client's".to_owned(),
            "the batch size is how many requests this client had in flight".to_owned(),
        ];
        if let Some(limit) = self.limit {
            notes.push(format!("no more than {limit} requests are sent to it at a time (BENCH_OPENAI_CONNECTIONS): the rest wait in this client"));
        }
        if !self.form.extras {
            notes.push(
                "the server refuses ignore_eos: an answer that ends early is an error".into(),
            );
        }
        notes
    }
}

/// The error of a generation.
pub enum Failed {
    /// The HTTP request failed.
    Http(HttpError),
    /// Another error.
    Other(EngineError),
}

impl From<Failed> for EngineError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Http(error) => EngineError::internal(error.message),
            Failed::Other(error) => error,
        }
    }
}

/// Whether a refusal may be about the form of the request, so that another form may be accepted.
/// Some servers answer 500 to a request that they can't read.
fn is_about_the_form(error: &HttpError) -> bool {
    matches!(error.status, Some(400 | 415 | 422 | 500 | 501))
}

fn unreachable(error: HttpError) -> EngineError {
    let what_to_do = match error.status {
        Some(401 | 403) => "set OPENAI_API_KEY",
        Some(404) => {
            "check OPENAI_BASE_URL (it ends in /v1 mostly), OPENAI_MODEL and BENCH_OPENAI_ROUTE"
        }
        Some(_) => "see the server's log",
        None => "is the server running at OPENAI_BASE_URL?",
    };
    EngineError::unavailable(format!("{}; {what_to_do}", error.message))
}

fn first_model(list: &Value) -> Result<String, EngineError> {
    let id = list["data"][0]["id"].as_str();
    id.map(str::to_owned)
        .ok_or_else(|| EngineError::unavailable("GET /models lists no model: set OPENAI_MODEL"))
}

fn miscounted(asked: u64, counted: Option<u64>) -> EngineError {
    let counted = counted.map_or("none".into(), |counted| counted.to_string());
    EngineError::unsupported(format!(
        "the server counts {counted} prompt tokens where {asked} were sent: it serves another model, or adds tokens of its own"
    ))
}
