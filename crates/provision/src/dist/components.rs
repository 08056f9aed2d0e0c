//! Lists what is inside an archive: licences, and components for scanners.
//!
//! The licence file says which crate has which licence, and has every licence text that came with a
//! crate's source, once. It is no legal advice: whether the licences are acceptable is checked by
//! `deny.toml`.
//!
//! The list of components has the format CycloneDX 1.6 in JSON. It has no serial number and no
//! time, so that equal archives have equal lists.

use super::crates::Package;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How deep a crate's folders are searched for licences: vendored sources have texts of their own.
const DEPTH_MAX: usize = 2;

/// Write the licence file: the list of crates, then the texts.
pub fn licence_texts(packages: &[&Package]) -> Result<String> {
    let mut list = String::from("What the programs in this archive are linked from.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let (name, version) = (&package.name, &package.version);
        let license = package.license.as_deref().unwrap_or("see its text below");
        let from = package.repository.as_deref().unwrap_or("no homepage given");
        list.push_str(&format!("{name} {version}: {license}\n    {from}\n"));
        let mut files = Vec::new();
        find(package.dir(), 0, &mut files);
        files.sort();
        for file in files {
            let bytes = std::fs::read(&file)
                .with_context(|| format!("{} can't be read", file.display()))?;
            let inside = file.strip_prefix(package.dir()).unwrap_or(&file);
            let owner = format!("{name} {version} ({})", inside.display());
            let text = String::from_utf8_lossy(&bytes).trim().replace('\r', "");
            texts.entry(text).or_default().push(owner);
        }
    }
    for (text, owners) in &texts {
        let line = "─".repeat(80);
        list.push_str(&format!(
            "\n{line}\n{}\n{line}\n\n{text}\n",
            owners.join("\n")
        ));
    }
    Ok(list)
}

/// Whether a file's name says that it is a licence or a notice that belongs to one.
fn is_license(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_source = [".rs", ".py", ".c", ".h", ".cpp", ".toml", ".json", ".html"];
    let stems = [
        "license",
        "licence",
        "copying",
        "notice",
        "unlicense",
        "copyright",
    ];
    stems.iter().any(|stem| name.starts_with(stem)) && !is_source.iter().any(|e| name.ends_with(e))
}

fn find(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            let others = ["target", "tests", "node_modules"];
            if depth < DEPTH_MAX && !name.starts_with('.') && !others.contains(&&*name) {
                find(&path, depth + 1, files);
            }
        } else if is_license(&name) {
            files.push(path);
        }
    }
}

/// Write the list of components, as CycloneDX in JSON.
pub fn cyclonedx(part: &str, packages: &[&Package]) -> Result<String> {
    let components: Vec<Value> = packages.iter().map(|package| component(package)).collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": format!("llm-engine-bench/{part}"),
                "name": format!("llm-engine-bench/{part}"),
                "version": env!("CARGO_PKG_VERSION"),
            },
        },
        "components": components,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(package: &Package) -> Value {
    let (name, version) = (&package.name, &package.version);
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("{name}@{version}"),
        "name": name,
        "version": version,
    });
    if let Some(license) = &package.license {
        // Before Cargo supported SPDX expressions, a slash meant a choice.
        let expression = license.replace(" / ", " OR ").replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(checksum) = &package.checksum {
        component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_once_with_all_who_brought_it() {
        let dir = tempfile::tempdir().unwrap();
        let package = |name: &str, license: Option<&str>| {
            let at = dir.path().join(name);
            crate::write(at.join("LICENSE-MIT"), "the MIT text\r\n");
            Package {
                name: name.into(),
                version: "1.0.0".into(),
                license: license.map(str::to_owned),
                repository: None,
                manifest_path: at.join("Cargo.toml"),
                checksum: None,
            }
        };
        let (a, b) = (package("a", Some("MIT")), package("b", None));
        crate::write(b.dir().join("vendored/deep/COPYING"), "another text");
        std::fs::write(b.dir().join("license.rs"), "code").unwrap();
        let text = licence_texts(&[&a, &b]).unwrap();
        assert!(text.contains("a 1.0.0: MIT\n") && text.contains("b 1.0.0: see its text"));
        assert_eq!(text.matches("the MIT text").count(), 1);
        assert!(text.contains("a 1.0.0 (LICENSE-MIT)\nb 1.0.0 (LICENSE-MIT)\n"));
        assert!(text.contains("another text") && !text.contains("code"));
    }

    #[test]
    fn a_crate_of_a_registry_has_its_hash_and_one_of_ours_has_none() {
        let theirs = Package {
            name: "serde".into(),
            version: "1.0.1".into(),
            license: Some("MIT/Apache-2.0".into()),
            repository: Some("https://example.org/serde".into()),
            manifest_path: "/x/Cargo.toml".into(),
            checksum: Some("ab".into()),
        };
        let ours = Package {
            name: "stats".into(),
            checksum: None,
            ..theirs.clone()
        };
        let text = cyclonedx("a", &[&theirs, &ours]).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["bomFormat"], "CycloneDX");
        let [first, second] = document["components"].as_array().unwrap().as_slice() else {
            panic!("two crates: {text}")
        };
        assert_eq!(first["purl"], "pkg:cargo/serde@1.0.1");
        assert_eq!(first["hashes"][0]["content"], "ab");
        assert_eq!(first["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(second.get("purl").is_none() && second.get("hashes").is_none());
        assert!(
            !text.contains("/x"),
            "the directory of the source is private"
        );
    }
}
