//! What people write by hand and a page is made of: style sheet, script and texts.
//! They are compiled in; while somebody edits them (`cargo xtask site --serve`) the
//! caller gives what is on disk, by its path in this crate, and that counts.

use std::collections::BTreeMap;

/// Path in this crate (`pages/glossary.md`) → what stands there now.
pub type Authored = BTreeMap<String, String>;

/// A file that is compiled in.
pub struct File {
    path: &'static str,
    text: &'static str,
}

impl File {
    /// As it is on disk where that is known, else as it was compiled in.
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
/// What switches, sorts, filters and copies.
pub const SITE_JS: File = file!("assets/site.js");
/// What recomputes the cost page.
pub const COST_JS: File = file!("assets/cost.js");
/// How everything is measured.
pub const METHODOLOGY: File = file!("pages/methodology.md");
/// What changed in that, and when.
pub const CHANGELOG: File = file!("pages/changelog.md");
/// What the words mean.
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
