//! Decides by a model's architecture whether a target can run it at all: known from the registry
//! and the model's `config.json`, before any program is started. An engine also refuses by itself
//! what it can't compute; this check saves starting it.

use crate::engine::EngineFailure;
use crate::prompts::read_config;
use schema::record::Status;
use schema::registry::{Registry, Target};
use std::path::Path;

/// The architecture (`model_type`) in the `config.json` of `model_dir`. `None` where there is none,
/// or the file can't be read: an engine will then say what is wrong with it.
pub fn of_model(model_dir: &Path) -> Option<String> {
    let config = read_config(model_dir).ok()?;
    config["model_type"].as_str().map(str::to_owned)
}

/// Why `target` can't run the model in `model_dir`: its engine doesn't list the model's
/// architecture. `None` where it can be tried.
pub fn refused(registry: &Registry, target: &Target, model_dir: &Path) -> Option<EngineFailure> {
    let architecture = of_model(model_dir)?;
    let listed = registry.architectures_of(target);
    if listed.is_empty() || registry.runs(target, &architecture) {
        return None;
    }
    let reason = format!(
        "the model's architecture is {architecture:?} (model_type in its config.json), and {} runs {}",
        target.id,
        listed.join(", ")
    );
    Some(EngineFailure::new(Status::Unsupported, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = r#"
baseline = "a.cpu.f32"
reference = "a.cpu.f32"
cross_check = "a.cpu.f32"
[[engine]]
id = "a"
name = "A"
about = ""
homepage = ""
architectures = ["llama", "qwen3"]
build = { kind = "prebuilt", path = "a" }
target = [
    { backend = "cpu", precision = "f32", weights = "w" },
    { backend = "cpu", precision = "q8_0", weights = "w", architectures = ["llama"] },
]
"#;

    fn asked(config: &str) -> Vec<Option<EngineFailure>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engines.toml");
        std::fs::write(&path, REGISTRY).unwrap();
        std::fs::write(dir.path().join("config.json"), config).unwrap();
        let registry = Registry::load(&path).unwrap();
        let targets = registry.targets();
        let refused = targets.iter().map(|t| refused(&registry, t, dir.path()));
        refused.collect()
    }

    #[test]
    fn a_target_is_asked_only_about_what_its_engine_lists() {
        assert_eq!(asked(r#"{"model_type": "llama"}"#), [None, None]);
        let [first, second]: [_; 2] = asked(r#"{"model_type": "qwen3"}"#).try_into().unwrap();
        assert_eq!(first, None);
        let failure = second.unwrap();
        assert_eq!(failure.status, Status::Unsupported);
        for word in ["qwen3", "a.cpu.q8_0", "runs llama"] {
            assert!(failure.reason.contains(word), "{}", failure.reason);
        }
        let neither = asked(r#"{"model_type": "phi3"}"#);
        assert!(neither.iter().all(Option::is_some));
    }

    #[test]
    fn where_a_model_does_not_say_the_engine_does() {
        for config in ["{}", "no JSON", r#"{"model_type": 3}"#] {
            assert_eq!(asked(config), [None, None], "{config}");
        }
        let nowhere = Path::new("/nonexistent");
        assert_eq!(of_model(nowhere), None);
    }
}
