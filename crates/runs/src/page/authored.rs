//! The hand-written files of the `site` crate as they are on disk now, so that who
//! edits one sees it without compiling.

use anyhow::{Context, Result};
use site::authored::Authored;
use std::path::Path;

/// Directories of the `site` crate in which people write.
pub const DIRS: [&str; 3] = ["templates", "pages", "assets"];

/// All texts of those directories, by their path in the crate. A file that is no
/// text (a picture) is left out.
pub fn read(site: &Path) -> Result<Authored> {
    let mut all = Authored::new();
    for dir in DIRS {
        let path = site.join(dir);
        let entries =
            std::fs::read_dir(&path).with_context(|| format!("listing {}", path.display()))?;
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if let Ok(text) = std::fs::read_to_string(&path) {
                all.insert(format!("{dir}/{name}"), text);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_pictures_are_not() {
        let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../site");
        let all = read(&site).unwrap();
        assert!(all.contains_key("templates/base.html") && all.contains_key("pages/glossary.md"));
        assert!(all.contains_key("assets/site.css") && !all.contains_key("assets/report.png"));
    }
}
