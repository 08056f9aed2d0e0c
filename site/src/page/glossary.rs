//! The glossary: an authored list that defines each term once, and the metrics, whose definitions
//! are those of the program that computes them.

use crate::authored::GLOSSARY;
use crate::html::slug;
use crate::view::frame::Frame;
use crate::view::paths;
use crate::view::place;
use crate::{Input, markdown};
use serde::Serialize;
use stats::analysis::MetricId;

/// The glossary page.
#[derive(Serialize)]
pub struct GlossaryPage {
    frame: Frame,
    terms: Vec<Term>,
    metrics: Vec<(String, &'static str)>,
}

/// One term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Term {
    /// The fragment for links, e.g. `ttft`.
    pub id: String,
    /// The term as it is written.
    pub name: String,
    /// The definition, as HTML.
    pub text: String,
}

/// Make the glossary page.
pub fn page(input: &Input) -> GlossaryPage {
    GlossaryPage {
        frame: place::frame(
            input,
            paths::GLOSSARY,
            "What the words mean",
            "Every term of these pages, each defined once.",
        ),
        terms: terms(GLOSSARY.text(input.authored)),
        metrics: MetricId::ALL
            .into_iter()
            .map(|id| (id.describe().title.to_owned(), id.describe().name))
            .collect(),
    }
}

/// Read the terms of a text, sorted alphabetically: each is a second-level heading with the text
/// below it. Text before the first heading is left out.
pub fn terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = text
        .split("\n## ")
        .skip(1)
        .filter_map(|part| part.split_once('\n'))
        .map(|(name, body)| Term {
            id: anchor(name),
            name: name.trim().to_owned(),
            text: markdown::render(body, 3),
        })
        .collect();
    terms.sort_by_key(|term| term.name.to_lowercase());
    terms
}

/// The fragment of a term: its words up to a bracket, as a slug.
fn anchor(name: &str) -> String {
    let words = name.split('(').next().unwrap_or(name).trim();
    slug(&words.to_lowercase().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authored::Authored;
    use std::collections::BTreeSet;

    #[test]
    fn a_term_is_a_heading_and_what_follows() {
        let all =
            terms("Intro\n\n## TTFT (time to first token)\n\nThe *wait*.\n\n## A/A pair\n\nTwo.\n");
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].name, "A/A pair");
        assert_eq!(all[1].id, "ttft");
        assert_eq!(all[1].text, "<p>The <em>wait</em>.</p>\n");
    }

    #[test]
    fn each_term_of_ours_stands_once_and_says_something() {
        let all = terms(GLOSSARY.text(&Authored::new()));
        let ids: BTreeSet<&str> = all.iter().map(|t| t.id.as_str()).collect();
        assert_eq!(ids.len(), all.len());
        assert!(all.iter().all(|t| t.text.len() > 20));
        for needed in [
            "ttft",
            "itl",
            "tpot",
            "goodput",
            "mbu",
            "mfu",
            "error-factor",
            "launch",
            "block",
        ] {
            assert!(ids.contains(needed), "{needed}");
        }
    }
}
