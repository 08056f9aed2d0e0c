//! Holds the page templates and fills them in.
//!
//! They are embedded, so that the binary alone renders a site. Everything that is printed is
//! escaped unless a template says `safe`, which it does only for pictures and Markdown made by this
//! crate. A name that a view lacks, or has no value for, is an error and not an empty place.

use crate::authored::Authored;
use crate::fmt::{self, Unit};
use crate::html::{escape, slug, with_code};
use crate::markdown::safe_href;
use crate::view::paths;
use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

/// Make an array of (name, text) of the named files in `templates/`.
macro_rules! templates {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../templates/", $name)))),*] };
}

const TEMPLATES: [(&str, &str); 23] = templates! {
    "base.html" "macros.html" "guide.html" "hypotheses.html" "roadmap.html" "index.html"
    "empty.html" "scenario.html" "engines.html" "engine.html" "run.html"
    "coverage.html" "kernels.html" "compare.html" "compare_target.html" "cost.html" "data.html"
    "glossary.html" "search.html" "text.html" "micro.html" "micro_index.html" "methodology.html"
};

/// The templates, parsed.
pub struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    /// Parse the templates: the text in `authored` (`templates/<name>`) where there is one, else
    /// the embedded text.
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
            // minijinja's own escaping would turn every '/' into an entity.
            let text = value.to_string();
            let plain = value.is_safe() || *state.auto_escape() != AutoEscape::Html;
            out.write_str(&if plain { text } else { escape(&text) })
                .map_err(|_| Error::new(ErrorKind::WriteFailure, "out of memory"))
        });
        add_filters(&mut environment);
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

    /// Fill in a template; return the page's bytes.
    pub fn render(&self, name: &str, view: &impl Serialize) -> Result<Vec<u8>> {
        let html = self
            .environment
            .get_template(name)
            .and_then(|template| template.render(Value::from(Serde(view))))
            .with_context(|| format!("rendering {name}"))?;
        Ok(html.into_bytes())
    }
}

/// Add what templates format the values of a view with. They may print a record's own number, if a
/// filter says how.
fn add_filters(environment: &mut Environment) {
    environment.add_filter("moment", |text: &str| fmt::moment(text));
    environment.add_filter("percent", fmt::percent);
    environment.add_filter("small_percent", fmt::small_percent);
    let units = [
        ("ns", Unit::Ns),
        ("bytes", Unit::Bytes),
        ("tok_per_s", Unit::TokPerS),
        ("requests_per_s", Unit::RequestsPerS),
    ];
    for (name, unit) in units {
        environment.add_filter(name, move |value: f64| fmt::quantity(unit, value));
    }
    environment.add_filter("ratio", |value: f64, ci95: Option<Serde<(f64, f64)>>| {
        Value::from(Serde(fmt::ratio(value, ci95.map(|Serde(ends)| ends))))
    });
    environment.add_filter("grouped", fmt::count);
    environment.add_filter("nats", fmt::nats);
    environment.add_filter("money", fmt::money);
    // With as many digits as the number has, with an exponent, and with one digit after the point.
    environment.add_filter("number", |value: f64| value.to_string());
    environment.add_filter("exponent", |value: f64| format!("{value:e}"));
    environment.add_filter("tenths", |value: f64| format!("{value:.1}"));
    environment.add_filter("slug", |id: &str| slug(id));
    environment.add_filter("run_path", |id: &str| paths::run_path(id));
    environment.add_filter("engine_path", |id: &str| paths::engine_path(id));
    environment.add_filter("code", |text: &str| {
        Value::from_safe_string(with_code(text))
    });
    environment.add_test("safe_href", |address: &str| safe_href(address));
}
