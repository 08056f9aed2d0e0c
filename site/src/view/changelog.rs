//! The changelog of the methodology: an authored text, dated.

use super::frame::Frame;
use super::paths;
use super::place;
use crate::authored::CHANGELOG;
use crate::{Input, markdown};
use serde::Serialize;

/// A page that is a text and nothing else.
#[derive(Serialize)]
pub struct TextPage {
    frame: Frame,
    kicker: &'static str,
    text: String,
}

/// The page.
pub fn page(input: &Input) -> TextPage {
    TextPage {
        frame: place::frame(
            input,
            paths::CHANGELOG,
            "What changed in how this is measured",
            "Dated changes of the methodology, with the results that each touches.",
        ),
        kicker: "Changelog",
        text: markdown::render(CHANGELOG.of(input.authored), 2),
    }
}
