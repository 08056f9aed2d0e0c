//! Reads the few fields of a model's `config.json` that several adapters need before they load
//! anything.
//!
//! Each function reads the file again: it is small, and no field is asked for twice. A file that
//! can't be read gives `None`, because the engine that loads the model will report what is wrong
//! with it.

use serde_json::Value;
use std::path::Path;

/// Return the model's architecture: `model_type` in the `config.json` of `model_dir`.
pub fn architecture(model_dir: &Path) -> Option<String> {
    let architecture = read(model_dir)?["model_type"].as_str()?.to_owned();
    Some(architecture)
}

/// Return how many positions back a token of the model in `model_dir` attends. `None` unless its
/// `config.json` gives a window that is in use and shorter than the model's longest context.
pub fn sliding_window(model_dir: &Path) -> Option<u64> {
    let config = read(model_dir)?;
    let window = config["sliding_window"].as_u64()?;
    let positions = config["max_position_embeddings"].as_u64();
    let is_short = positions.is_none_or(|positions| window < positions);
    (is_short && config["use_sliding_window"] != false).then_some(window)
}

/// Describe the error of an engine that computes no sliding window, if the model in `model_dir` is
/// a Mistral or a Phi-3 that has one. `engine` is the engine's name in the sentence.
pub fn window_gap(model_dir: &Path, engine: &str) -> Option<String> {
    let window = sliding_window(model_dir)?;
    let architecture = architecture(model_dir)?;
    matches!(architecture.as_str(), "mistral" | "phi3").then(|| {
        format!(
            "{engine} runs {architecture} without its sliding window of {window} positions: beyond \
             it, it attends to too much"
        )
    })
}

fn read(model_dir: &Path) -> Option<Value> {
    let text = std::fs::read(model_dir.join("config.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(config: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), config).unwrap();
        dir
    }

    #[test]
    fn a_window_counts_where_it_is_short_and_in_use() {
        for (config, window) in [
            (
                r#"{"sliding_window": 16, "max_position_embeddings": 32}"#,
                Some(16),
            ),
            (
                r#"{"sliding_window": 32, "max_position_embeddings": 32}"#,
                None,
            ),
            (r#"{"sliding_window": 16}"#, Some(16)),
            (
                r#"{"sliding_window": null, "max_position_embeddings": 32}"#,
                None,
            ),
            (
                r#"{"sliding_window": 16, "use_sliding_window": false}"#,
                None,
            ),
            (
                r#"{"sliding_window": 16, "use_sliding_window": true}"#,
                Some(16),
            ),
            ("no JSON", None),
        ] {
            assert_eq!(sliding_window(dir(config).path()), window, "{config}");
        }
    }

    #[test]
    fn an_architecture_is_what_the_model_says() {
        let of = |config: &str| architecture(dir(config).path());
        assert_eq!(of(r#"{"model_type": "phi3"}"#).as_deref(), Some("phi3"));
        assert_eq!(of("{}"), None);
        assert_eq!(architecture(Path::new("/nonexistent")), None);
    }
}
