//! The hand-written files that pages are made of: style sheet, scripts and texts. They are compiled
//! in. While somebody edits them (`cargo xtask site --serve`), the caller passes what is on disk,
//! by path in this crate, and that text is used instead.

use std::collections::BTreeMap;

/// Path in this crate (`pages/glossary.md`) → current text of the file on disk.
pub type Authored = BTreeMap<String, String>;

/// A hand-written file with the text that was compiled in.
pub struct File {
    path: &'static str,
    text: &'static str,
}

impl File {
    /// Return the text on disk where `authored` has the path, else the compiled-in text.
    pub fn text<'a>(&self, authored: &'a Authored) -> &'a str {
        authored.get(self.path).map_or(self.text, String::as_str)
    }
}

macro_rules! file {
    ($path:literal) => {
        File {
            path: $path,
            text: include_str!(concat!("../", $path)),
        }
    };
}

/// The style sheet, without the colours.
pub const SITE_CSS: File = file!("assets/site.css");
/// The script of every page: it switches, sorts, filters and copies.
pub const SITE_JS: File = file!("assets/site.js");
/// The script that recomputes the cost page from the reader's prices.
pub const COST_JS: File = file!("assets/cost.js");
/// The text of the methodology page.
pub const METHODOLOGY: File = file!("pages/methodology.md");
/// The text of the changelog of the methodology.
pub const CHANGELOG: File = file!("pages/changelog.md");
/// The text of the glossary.
pub const GLOSSARY: File = file!("pages/glossary.md");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_disk_counts_and_else_what_was_compiled_in() {
        let mut authored = Authored::new();
        assert_eq!(GLOSSARY.text(&authored), GLOSSARY.text);
        authored.insert("pages/glossary.md".into(), "new".into());
        assert_eq!(GLOSSARY.text(&authored), "new");
        assert_eq!(METHODOLOGY.text(&authored), METHODOLOGY.text);
    }
}
