//! Checks which of our crates use which, and their modules: sibling modules must not use each other
//! in a circle, and the map in ARCHITECTURE.md must match the source.

use super::imports::Modules;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The page that holds the map.
pub const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- map: `cargo xtask tidy --write` -->\n";
const END: &str = "<!-- end of the map -->\n";
/// Crates whose modules are on the map, because several people work in them.
const SHOWN: [&str; 4] = ["xtask", "site", "crates/", "engines/protocol"];
const WIDTH: usize = 96;

/// One of our crates.
struct Package {
    name: String,
    /// Its directory, relative to the root.
    dir: String,
    /// Those of our crates that it depends on.
    uses: BTreeSet<String>,
    modules: Modules,
}

/// Return complaints about the crates among `names`, the tracked files of `root`.
pub fn check(root: &Path, names: &[&str]) -> Result<Vec<String>> {
    let packages = packages(root, names)?;
    let mut complaints = Vec::new();
    for package in &packages {
        for cycle in package.modules.cycles() {
            complaints.push(format!(
                "{}/src: modules use each other in a circle, {cycle}: move what both need into a third",
                package.dir
            ));
        }
    }
    if complaints.is_empty() && names.contains(&PAGE) {
        let page = std::fs::read_to_string(root.join(PAGE))?;
        match with_map(&page, &map(&packages)) {
            Some(right) if right == page => {}
            Some(_) => complaints.push(format!(
                "{PAGE}: its map is not what the source says: `cargo xtask tidy --write` draws it anew"
            )),
            None => complaints.push(format!("{PAGE}: there is no place for the map: {BEGIN}")),
        }
    }
    Ok(complaints)
}

/// Redraw the map; return whether the page changed.
pub fn write(root: &Path, names: &[&str]) -> Result<bool> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("{PAGE} can't be read"))?;
    let map = map(&packages(root, names)?);
    let right = with_map(&page, &map).with_context(|| format!("{PAGE} has no line {BEGIN:?}"))?;
    if right != page {
        base::files::write_whole(&path, right.as_bytes())?;
    }
    Ok(right != page)
}

fn packages(root: &Path, names: &[&str]) -> Result<Vec<Package>> {
    let manifests = names
        .iter()
        .filter_map(|name| name.strip_suffix("/Cargo.toml"));
    let mut found = Vec::new();
    for dir in manifests {
        let path = root.join(dir).join("Cargo.toml");
        let text = std::fs::read_to_string(&path)?;
        let manifest: toml::Table =
            toml::from_str(&text).with_context(|| format!("{dir}/Cargo.toml"))?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"));
        let Some(name) = name.and_then(toml::Value::as_str) else {
            continue;
        };
        let uses = manifest.get("dependencies").and_then(toml::Value::as_table);
        let source = format!("{dir}/src/");
        let mut files = BTreeMap::new();
        for file in names.iter().filter(|file| file.ends_with(".rs")) {
            // A file that is deleted but not yet committed is still listed.
            if let Some(inside) = file.strip_prefix(&source)
                && let Ok(text) = std::fs::read_to_string(root.join(file))
            {
                files.insert(inside, text);
            }
        }
        found.push(Package {
            name: name.to_owned(),
            dir: dir.to_owned(),
            uses: uses
                .into_iter()
                .flat_map(|table| table.keys().cloned())
                .collect(),
            modules: Modules::read(files.iter().map(|(name, text)| (*name, text.as_str())))?,
        });
    }
    let ours: BTreeSet<String> = found.iter().map(|package| package.name.clone()).collect();
    for package in &mut found {
        package.uses.retain(|name| ours.contains(name));
    }
    Ok(found)
}

/// Return the page with another map; `None` where it has no place for one.
fn with_map(page: &str, map: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{map}{END}{after}"))
}

fn map(packages: &[Package]) -> String {
    let mut text = "```text\n".to_owned();
    text.push_str("a crate             the crates of ours that it uses\n");
    for package in packages {
        let uses: Vec<&str> = package.uses.iter().map(String::as_str).collect();
        text.push_str(format!("{:<18}  {}", package.dir, uses.join(" ")).trim_end());
        text.push('\n');
    }
    for package in packages {
        let dir = &package.dir;
        let shown = SHOWN.iter().any(|place| match place.strip_suffix('/') {
            Some(_) => dir.starts_with(place),
            None => dir == place,
        });
        let layers = package.modules.layers().unwrap_or_default();
        if !shown || layers.len() < 2 {
            continue;
        }
        text += &format!("\nmodules of {dir}, each using lower lines only\n");
        for layer in layers.iter().rev() {
            text.push_str(&lines(layer));
        }
    }
    text + "```\n"
}

/// Break a layer's names into lines of readable length; continuation lines are indented.
fn lines(layer: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for name in layer {
        match lines.last_mut() {
            Some(line) if line.len() + name.len() < WIDTH => {
                line.push(' ');
                line.push_str(name);
            }
            Some(_) => lines.push(format!("    {name}")),
            None => lines.push(format!("  {name}")),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 7] = [
        (
            "ARCHITECTURE.md",
            "a\n<!-- map: `cargo xtask tidy --write` -->\n<!-- end of the map -->\nb\n",
        ),
        ("Cargo.toml", "[workspace]\n"),
        (
            "crates/low/Cargo.toml",
            "[package]\nname = \"low\"\n[dependencies]\nserde = \"1\"\n",
        ),
        ("crates/low/src/lib.rs", "mod a;\nmod b;\n"),
        ("crates/low/src/a.rs", "use crate::b::B;\n"),
        ("crates/low/src/b.rs", "pub struct B;\n"),
        (
            "site/Cargo.toml",
            "[package]\nname = \"site\"\n[dependencies]\nlow.workspace = true\n",
        ),
    ];

    #[test]
    fn a_stale_map_is_found_and_drawn_anew_and_a_planted_cycle_is_found() {
        let names = FILES.map(|(name, _)| name);
        let dir = tempfile::tempdir().unwrap();
        let shell = xshell::Shell::new().unwrap();
        for (name, text) in FILES {
            shell.write_file(dir.path().join(name), text).unwrap();
        }
        let stale = check(dir.path(), &names).unwrap();
        assert!(
            stale[0].contains("its map is not what the source says"),
            "{stale:?}"
        );
        assert!(write(dir.path(), &names).unwrap());
        assert!(!write(dir.path(), &names).unwrap(), "it is right now");
        assert_eq!(check(dir.path(), &names).unwrap(), [""; 0]);
        let page = std::fs::read_to_string(dir.path().join(PAGE)).unwrap();
        assert!(page.contains("site                low\n"), "{page}");
        let layers = "modules of crates/low, each using lower lines only\n  a\n  b\n";
        assert!(page.contains(layers), "{page}");
        assert!(page.starts_with("a\n") && page.ends_with("b\n"), "{page}");

        std::fs::write(dir.path().join("crates/low/src/b.rs"), "use crate::a::A;\n").unwrap();
        let circle = check(dir.path(), &names).unwrap();
        assert_eq!(
            circle,
            [
                "crates/low/src: modules use each other in a circle, a → b → a: move what both need into a third"
            ]
        );
    }
}
