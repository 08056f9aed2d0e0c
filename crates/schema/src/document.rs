//! Describes the data formats field by field. The descriptions are the doc comments of the very
//! source that defines the formats, so that none can be missing or say something else.
//!
//! This is no parser of Rust: it understands what the types on disk are made of (documented structs
//! and enums with public fields, some of them renamed or skipped), and a test checks that it does.

use serde::Serialize;

/// The source files of this crate that define formats on disk, each with its subject.
pub const SOURCES: [(&str, &str); 10] = [
    ("run.json and what a run holds", include_str!("run.rs")),
    (
        "where and with what it was made, in run.json",
        include_str!("provenance.rs"),
    ),
    ("the plan in run.json", include_str!("plan.rs")),
    (
        "the user's prompts in the plan",
        include_str!("own_prompts.rs"),
    ),
    ("a line of a record file", include_str!("record.rs")),
    (
        "the counters of a record file",
        include_str!("telemetry.rs"),
    ),
    ("budget.json", include_str!("budget.rs")),
    ("calibration.json", include_str!("calibration.rs")),
    ("a line of capacity.jsonl", include_str!("capacity.rs")),
    ("data/prices/<date>.toml", include_str!("prices.rs")),
];

/// A documented type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Type {
    /// Name of the type.
    pub name: String,
    /// Description of the type.
    pub about: String,
    /// Fields or variants of the type, in order.
    pub fields: Vec<Field>,
}

/// A field of a struct, or a variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Name as in the file; variants that aren't renamed are spelt in snake case there.
    pub name: String,
    /// Rust type; empty for a variant without content.
    pub kind: String,
    /// Description of the field.
    pub about: String,
}

/// The public types of a source file that can stand on disk (those that derive
/// `Serialize` or `Deserialize`), in order.
pub fn types(source: &str) -> Vec<Type> {
    let mut types = Vec::new();
    let mut about: Vec<&str> = Vec::new();
    let mut attributes = String::new();
    let mut in_attribute = false;
    let mut open: Option<Type> = None;
    // Tests come last, and define nothing that is on disk.
    let source = source.split("#[cfg(test)]").next().unwrap_or(source);
    for line in source.lines() {
        let text = line.trim();
        if let Some(doc) = text.strip_prefix("/// ") {
            about.push(doc);
        } else if text == "///" {
            about.push("");
        } else if in_attribute || text.starts_with("#[") {
            in_attribute = !text.ends_with(']');
            attributes += text;
        } else if let Some(current) = &mut open {
            match line {
                "}" => types.extend(open.take()),
                _ if !about.is_empty() => {
                    let found = field(text, &joined(&about), &attributes);
                    current.fields.extend(found);
                    about.clear();
                }
                _ => {}
            }
            attributes.clear();
        } else {
            let named = text
                .strip_prefix("pub struct ")
                .or_else(|| text.strip_prefix("pub enum "))
                .and_then(|rest| rest.strip_suffix(" {"));
            if let Some(name) = named.filter(|_| attributes.contains("erialize")) {
                open = Some(Type {
                    name: name.into(),
                    about: joined(&about),
                    fields: Vec::new(),
                });
            }
            about.clear();
            attributes.clear();
        }
    }
    types
}

/// Parse a field or a variant: `pub name: Kind,`, `Variant,`, `Variant(Kind),` or, inside a
/// variant, `name: Kind,`. `None` where serde's `attributes` skip it.
fn field(text: &str, about: &str, attributes: &str) -> Option<Field> {
    if attributes.contains("serde(skip)") {
        return None;
    }
    let text = text.strip_suffix(',').or(text.strip_suffix(" {"))?;
    let (name, kind) = if let Some(rest) = text.strip_prefix("pub ") {
        rest.split_once(": ")?
    } else if let Some((name, kind)) = text.split_once('(') {
        (name, kind.strip_suffix(')')?)
    } else {
        text.split_once(": ").unwrap_or((text, ""))
    };
    let renamed = attributes.split_once("rename = \"");
    let renamed = renamed.and_then(|(_, rest)| rest.split_once('"'));
    Some(Field {
        name: renamed.map_or(name, |(renamed, _)| renamed).into(),
        kind: kind.into(),
        about: about.into(),
    })
}

/// Join lines into one. Links to types lose their brackets and keep their backquotes.
fn joined(lines: &[&str]) -> String {
    lines.join(" ").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AuditResult, CanaryReading, CaseEnd, End, Ready, RequestRecord};

    fn fields_of(name: &str) -> Vec<String> {
        let found = SOURCES
            .iter()
            .flat_map(|(_, source)| types(source))
            .find(|t| t.name == name);
        let fields = found
            .unwrap_or_else(|| panic!("{name} is described"))
            .fields;
        assert!(fields.iter().all(|f| !f.about.is_empty()), "{name}");
        fields.into_iter().map(|f| f.name).collect()
    }

    /// Check that every key that stands in a record has a description.
    fn check(name: &str, value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert!(!keys.is_empty());
        for key in keys {
            assert!(fields_of(name).contains(key), "{name}.{key}");
        }
    }

    #[test]
    fn every_key_of_a_record_is_described() {
        check(
            "RequestRecord",
            &RequestRecord {
                output_text: Some(String::new()),
                ..RequestRecord::default()
            },
        );
        check(
            "CaseEnd",
            &CaseEnd {
                peak_rss_bytes: Some(1),
                witnessed: Some(AuditResult::default()),
                canary: vec![CanaryReading::default()],
                ..CaseEnd::default()
            },
        );
        check(
            "End",
            &End {
                stderr_tail: "x".into(),
                ..End::default()
            },
        );
        check("Ready", &Ready::default());
        check("Budget", &crate::budget::Budget::default());
    }

    #[test]
    fn structs_and_enums_are_read_and_nothing_else() {
        let source = "//! x\n/// Not on disk.\npub struct No {\n    /// f\n    pub f: u8,\n}\n\
                      /// A `b`,\n/// twice.\n#[derive(Serialize, Deserialize)]\npub struct Yes {\n    \
                      /// First, see [`No`].\n    #[serde(default)]\n    pub a_ns: Option<u64>,\n}\n\
                      /// E.\n#[derive(Deserialize)]\npub enum E {\n    /// One.\n    One,\n    /// Two.\n    \
                      Two(Yes),\n    /// Three.\n    Three {\n        /// In it.\n        x: u8,\n    },\n}\n\
                      #[cfg(test)]\nmod tests {}\n";
        let all = types(source);
        let names: Vec<&str> = all.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["Yes", "E"]);
        assert_eq!(all[0].about, "A `b`, twice.");
        let a = &all[0].fields[0];
        assert_eq!((a.name.as_str(), a.kind.as_str()), ("a_ns", "Option<u64>"));
        assert_eq!(a.about, "First, see `No`.");
        let variants: Vec<(&str, &str)> = all[1]
            .fields
            .iter()
            .map(|f| (f.name.as_str(), f.kind.as_str()))
            .collect();
        assert_eq!(
            variants,
            [("One", ""), ("Two", "Yes"), ("Three", ""), ("x", "u8")]
        );
    }

    #[test]
    fn fields_are_named_as_in_the_file() {
        let source = "/// T.\n#[derive(Serialize)]\npub struct T {\n    /// A.\n    #[serde(skip)]\n    \
                      pub a: u8,\n    /// B.\n    #[serde(\n        default,\n        \
                      rename = \"c\"\n    )]\n    pub b: u8,\n    /// D.\n    pub d: u8,\n}\n";
        let fields = types(source).remove(0).fields;
        let named: Vec<(&str, &str)> = fields
            .iter()
            .map(|f| (f.name.as_str(), f.about.as_str()))
            .collect();
        assert_eq!(named, [("c", "B."), ("d", "D.")]);
        let plan = fields_of("Plan");
        assert!(plan.iter().any(|name| name == "noise_floor"), "{plan:?}");
    }

    #[test]
    fn every_source_describes_something() {
        for (title, source) in SOURCES {
            assert!(!types(source).is_empty(), "{title}");
        }
    }
}
