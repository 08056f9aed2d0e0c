//! A model's chat template: found beside its files, and rendered as the library for which it was
//! written renders it, with the same names, trimmed blocks, and no escaping.

use super::file::Message;
use super::python;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error};
use serde_json::json;
use std::path::Path;

/// The file that holds a template alone. It takes precedence over the one in [`CONFIG`].
const FILE: &str = "chat_template.jinja";
/// The file that holds special tokens, and perhaps a template.
const CONFIG: &str = "tokenizer_config.json";
/// The template's name in its environment.
const NAME: &str = "chat_template";
/// The special tokens that a template may name.
const TOKENS: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];

pub(super) struct Chat {
    environment: Environment<'static>,
    /// The name of the file that has the template, for messages.
    place: String,
    tokens: Vec<(&'static str, String)>,
}

impl Chat {
    /// Load the template of the model in `dir`; `Err` says why there is none.
    pub(super) fn load(dir: &Path, model: &str) -> Result<Self, String> {
        let read = |name: &str| {
            let path = dir.join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(format!("{}: can't be read: {error}", path.display())),
            }
        };
        let config: serde_json::Value = match read(CONFIG)? {
            None => json!({}),
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| format!("{model}: its {CONFIG} is no JSON: {error}"))?,
        };
        let (place, source) = match read(FILE)? {
            Some(source) => (FILE, Some(source)),
            None => {
                let found = in_config(&config["chat_template"]);
                (CONFIG, found.map_err(|why| format!("{model}: {why}"))?)
            }
        };
        let source = source.ok_or_else(|| {
            format!(
                "{model} has no chat template ({FILE}, or `chat_template` in {CONFIG}): give it prompts as text, not as messages"
            )
        })?;
        let tokens = TOKENS
            .into_iter()
            .filter_map(|name| Some((name, token(&config[name])?)));
        Self::new(place, source, tokens.collect()).map_err(|error| {
            let why = error_text(place, &error);
            format!("{model}: its chat template can't be used ({why})")
        })
    }

    fn new(
        place: &str,
        source: String,
        tokens: Vec<(&'static str, String)>,
    ) -> Result<Self, Error> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?;
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        python::add(&mut environment);
        environment.add_template_owned(NAME, source)?;
        Ok(Self {
            environment,
            place: place.to_owned(),
            tokens,
        })
    }

    /// Render `messages` as the text that a model is to continue, or say why that fails.
    pub(super) fn render(&self, messages: &[Message]) -> Result<String, String> {
        let mut view = json!({
            "messages": messages,
            "add_generation_prompt": true,
            // The library passes null where the caller gives none.
            "tools": null,
            "documents": null,
        });
        for (name, token) in &self.tokens {
            view[*name] = json!(token);
        }
        let template = self.environment.get_template(NAME);
        let rendered = template.and_then(|template| template.render(Value::from(Serde(view))));
        rendered.map_err(|error| {
            let why = error_text(&self.place, &error);
            format!("the model's chat template refuses it ({why})")
        })
    }
}

/// A template's error and the line of the template, as one line of text.
fn error_text(place: &str, error: &Error) -> String {
    let line = error
        .line()
        .map_or_else(String::new, |line| format!(", line {line}"));
    let detail = error.detail().map(str::to_owned);
    let detail = detail.unwrap_or_else(|| error.kind().to_string());
    let detail = base::text::without_escapes(&detail).replace('\n', " ");
    format!("{place}{line}: {detail}")
}

/// The template in a configuration, which has one, or several with names.
fn in_config(value: &serde_json::Value) -> Result<Option<String>, String> {
    if let Some(one) = value.as_str() {
        return Ok(Some(one.to_owned()));
    }
    let Some(several) = value.as_array() else {
        return Ok(None);
    };
    let names: Vec<&str> = several.iter().filter_map(|t| t["name"].as_str()).collect();
    let default = several.iter().find(|t| t["name"] == "default");
    match default.and_then(|t| t["template"].as_str()) {
        Some(source) => Ok(Some(source.to_owned())),
        None => Err(format!(
            "{CONFIG} names the chat templates {:?} and no default, which is the one that prompts are rendered by",
            names.join(", ")
        )),
    }
}

/// A special token: a string, or an object whose `content` is one.
fn token(value: &serde_json::Value) -> Option<String> {
    let text = value.as_str().or_else(|| value["content"].as_str());
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests;
