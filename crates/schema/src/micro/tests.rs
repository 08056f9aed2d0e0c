//! The suites' files of this repository load, fit each other, and what is wrong in one
//! is refused with its place.

use super::*;
use crate::profile::Profile;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn every_suite_has_a_text_contenders_and_a_limit_for_each_precision() {
    let suites = Suite::load_all(&root().join("data/scenarios/micro")).unwrap();
    let registry = MicroRegistry::load(&root().join("engines/micro.toml")).unwrap();
    assert_eq!(suites.len(), registry.suites.len());
    for contenders in &registry.suites {
        let suite = suites.iter().find(|suite| suite.id == contenders.id);
        let suite = suite.unwrap_or_else(|| panic!("{} has no text", contenders.id));
        for variant in contenders.variants.iter().chain([&contenders.reference]) {
            assert!(
                suite.limits.contains_key(&variant.precision),
                "{}: no limit for {}",
                suite.id,
                variant.precision
            );
        }
    }
    for name in ["cpu", "gpu", "smoke"] {
        let profile = Profile::load(&root().join(format!("data/profiles/{name}.toml"))).unwrap();
        for (id, cases) in profile.micro.expect("it has suites").suites {
            let suite = suites
                .iter()
                .find(|suite| suite.id == id)
                .expect("it is there");
            for case in cases {
                assert!(
                    suite.cases.iter().any(|known| known.id == case),
                    "{id}: {case}"
                );
            }
        }
    }
}

#[test]
fn names_mean_suites() {
    assert!(asks_for("micro/*", "sdpa") && asks_for("micro/sdpa", "sdpa"));
    assert!(!asks_for("micro/sd", "sdpa") && !asks_for("sdpa", "sdpa"));
    assert!(is_micro("micro/*") && !is_micro("micro") && !is_micro("microscope/x"));
    assert_eq!(scenario_id("sdpa"), "micro/sdpa");
}

#[test]
fn a_registry_that_names_what_is_not_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("micro.toml");
    let load = |program: &str, baseline: &str| {
        let variant = |id: &str| {
            format!(
                "{{ id = {id:?}, about = \"\", program = {program:?}, run = \"r\", backend = \"cpu\", precision = \"f32\" }}"
            )
        };
        let text = format!(
            "[[program]]\nid = \"p\"\nbuild = {{ kind = \"prebuilt\", path = \"p\" }}\n[[suite]]\nid = \"s\"\n\
             baseline = {baseline:?}\nreference = {}\nvariant = [{}]\n",
            variant("reference"),
            variant("v")
        );
        std::fs::write(&path, text).unwrap();
        MicroRegistry::load(&path)
    };
    assert!(load("p", "v").is_ok());
    assert!(load("q", "v").unwrap_err().message.contains("\"q\""));
    assert!(load("p", "w").unwrap_err().message.contains("baseline"));
    assert_eq!(
        MicroRegistry::load(&dir.path().join("none.toml"))
            .unwrap()
            .suites
            .len(),
        0
    );
}

#[test]
fn a_publishable_profile_keeps_the_sample_floor_in_its_suites() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpu.toml");
    let text = std::fs::read_to_string(root().join("data/profiles/cpu.toml")).unwrap();
    let from = text.find("[micro]").expect("it has suites");
    let fewer = text[from..].replacen("samples = 20", "samples = 19", 1);
    std::fs::write(&path, format!("{}{fewer}", &text[..from])).unwrap();
    let error = Profile::load(&path).unwrap_err();
    assert!(error.message.contains("19 samples × 5"), "{error}");
}
