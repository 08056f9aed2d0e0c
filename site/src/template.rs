//! The page templates and how they are filled.
//!
//! They are embedded, so that the binary alone renders a site. Everything
//! printed is escaped unless a template says `safe`, which it does only for
//! pictures and Markdown made by this crate. A name that a view does not have,
//! or has no value for, is an error and not an empty place.

use crate::authored::Authored;
use crate::html::escape;
use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

const TEMPLATES: [(&str, &str); 24] = [
    ("base.html", include_str!("../templates/base.html")),
    ("macros.html", include_str!("../templates/macros.html")),
    ("several.html", include_str!("../templates/several.html")),
    ("guide.html", include_str!("../templates/guide.html")),
    (
        "hypotheses.html",
        include_str!("../templates/hypotheses.html"),
    ),
    ("roadmap.html", include_str!("../templates/roadmap.html")),
    ("index.html", include_str!("../templates/index.html")),
    ("empty.html", include_str!("../templates/empty.html")),
    ("scenario.html", include_str!("../templates/scenario.html")),
    ("engines.html", include_str!("../templates/engines.html")),
    ("engine.html", include_str!("../templates/engine.html")),
    ("run.html", include_str!("../templates/run.html")),
    ("coverage.html", include_str!("../templates/coverage.html")),
    ("kernels.html", include_str!("../templates/kernels.html")),
    ("compare.html", include_str!("../templates/compare.html")),
    (
        "compare_target.html",
        include_str!("../templates/compare_target.html"),
    ),
    ("cost.html", include_str!("../templates/cost.html")),
    ("data.html", include_str!("../templates/data.html")),
    ("glossary.html", include_str!("../templates/glossary.html")),
    ("search.html", include_str!("../templates/search.html")),
    ("text.html", include_str!("../templates/text.html")),
    ("micro.html", include_str!("../templates/micro.html")),
    (
        "micro_index.html",
        include_str!("../templates/micro_index.html"),
    ),
    (
        "methodology.html",
        include_str!("../templates/methodology.html"),
    ),
];

/// The templates, parsed.
pub struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    /// Parse them: those that `authored` has (`templates/<name>`), else our own.
    pub fn load(authored: &Authored) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(
            SyntaxConfig::builder()
                .trim_blocks(true)
                .lstrip_blocks(true)
                .build()
                .context("template syntax")?,
        );
        environment.set_formatter(|out, state, value| {
            if value.is_undefined() || value.is_none() {
                return Err(Error::new(ErrorKind::UndefinedError, "no value to print"));
            }
            // minijinja's own escaping turns every '/' into an entity.
            let text = value.to_string();
            let plain = value.is_safe() || *state.auto_escape() != AutoEscape::Html;
            out.write_str(&if plain { text } else { escape(&text) })
                .map_err(|_| Error::new(ErrorKind::WriteFailure, "out of memory"))
        });
        environment.add_filter("moment", |text: &str| crate::fmt::moment(text));
        for (name, source) in TEMPLATES {
            let source = authored
                .get(&format!("templates/{name}"))
                .map_or(source, String::as_str);
            environment
                .add_template_owned(name, source.to_owned())
                .with_context(|| format!("template {name}"))?;
        }
        Ok(Self { environment })
    }

    /// Fill a template.
    pub fn render(&self, name: &str, view: &impl Serialize) -> Result<Vec<u8>> {
        let html = self
            .environment
            .get_template(name)
            .and_then(|template| template.render(Value::from(Serde(view))))
            .with_context(|| format!("rendering {name}"))?;
        Ok(html.into_bytes())
    }
}
