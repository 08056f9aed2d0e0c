//! The list of components of an archive, as CycloneDX 1.6 in JSON, which scanners read.
//! No serial number and no time: equal archives have equal lists.

use super::crates::Package;
use anyhow::Result;
use serde_json::{Value, json};

/// The document.
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
        // Before Cargo knew SPDX expressions, a slash meant either.
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
    fn a_crate_of_a_registry_has_its_hash_and_one_of_ours_has_none() {
        let theirs = Package {
            name: "serde".into(),
            version: "1.0.1".into(),
            license: Some("MIT/Apache-2.0".into()),
            repository: Some("https://example.org/serde".into()),
            dir: "/x".into(),
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
            "where the source lay is nobody's business"
        );
    }
}
