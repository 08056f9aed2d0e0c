//! Weights of few bits, as the reference reads them.
//!
//! A file of 4 bits a weight rounds so much that its model is another one: held against the model's
//! own weights, an engine could make large errors unnoticed. So the reference reads what such a
//! file holds, each weight as the number that it stands for, and what is left is what the engine
//! itself rounds and does.

use super::subject::Subject;
use anyhow::{Context, Result};
use base::files::{write_whole, write_whole_by};
use base::repo::Repo;
use models::checkpoint::{GgufFile, Shape, dequantise};
use std::path::{Path, PathBuf};

/// The file with the weights in f32.
const WEIGHTS: &str = "model.safetensors";

/// The directory from which the reference reads a model: the model's own, or for the weights of a
/// GGUF file one with these in f32, which is made beside them where it isn't there. Files of
/// gigabytes take a while.
pub(crate) fn model_dir(repo: &Repo, subject: Subject) -> Result<PathBuf> {
    let Subject { model, own_weights } = subject;
    let model_dir = repo.model_dir(model);
    let Some(weights) = own_weights else {
        return Ok(model_dir);
    };
    let lock = repo.models_lock()?;
    let sha256 = lock.models.get(model).and_then(|files| files.get(weights));
    let sha256 = sha256.with_context(|| {
        format!(
            "data/models.lock has no hash of {model}/{weights}: run `cargo xtask fetch {model}`"
        )
    })?;
    // Another file of the same name has another directory.
    let short = sha256.get(..8).unwrap_or(sha256);
    let dir = model_dir.join(format!("{weights}-{short}.f32"));
    if !dir.join(WEIGHTS).exists() {
        eprintln!("Writing the weights of {model}/{weights} in f32, for the reference to read");
        make(&model_dir, weights, &dir).with_context(|| {
            format!(
                "the reference can't read {} ({} must have room for its weights in f32)",
                model_dir.join(weights).display(),
                model_dir.display()
            )
        })?;
    }
    Ok(dir)
}

fn make(model_dir: &Path, weights: &str, dir: &Path) -> Result<()> {
    let config = std::fs::read_to_string(model_dir.join("config.json"))?;
    let gguf = GgufFile::open(&model_dir.join(weights))?;
    std::fs::create_dir_all(dir)?;
    for name in ["config.json", "tokenizer.json"] {
        write_whole(&dir.join(name), std::fs::read(model_dir.join(name))?)?;
    }
    let shape = Shape::read(&config)?;
    // A file of this name is complete, even where two processes are here at once.
    write_whole_by(&dir.join(WEIGHTS), |out| {
        dequantise::write(&gguf, &shape, out, &mut base::interrupt::check)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::gate::kl_divergence_nats;
    use models::{ModelFile, ModelSpec, Origin};
    use schema::golden::Golden;

    /// The first position: nothing was generated before it, so both goldens have it in common.
    const FIRST: usize = 0;

    #[test]
    fn the_model_s_own_weights_are_far_beyond_the_limit_of_four_bits() {
        let repo = Repo::find().unwrap();
        let golden = |weights| Golden::load(&repo.golden_path("tiny-llama", weights)).unwrap();
        let (model, file) = (golden(None), golden(Some("model-q4_k_m.gguf")));
        let limit = &repo.parity_limits().unwrap().precision["q4_k_m"];
        assert!(limit.own_weights);
        let mut kl_nats = 0.0;
        for (model, file) in model.prompts.iter().zip(&file.prompts) {
            assert_eq!(model.prompt_ids, file.prompt_ids);
            let known = |id| model.top_ids[FIRST].iter().position(|known| known == id);
            let logprobs = &model.top_logprobs[FIRST];
            // An id that isn't among the likeliest is no likelier than the last of them.
            let of_model: Vec<f64> = file.top_ids[FIRST]
                .iter()
                .map(|id| logprobs[known(id).unwrap_or(logprobs.len() - 1)])
                .collect();
            kl_nats += kl_divergence_nats(&file.top_logprobs[FIRST], &of_model);
        }
        let mean = kl_nats / model.prompts.len() as f64;
        assert!(mean > 5.0 * limit.kl_nats_max, "{mean}");
    }

    #[test]
    fn weights_are_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let spec = ModelSpec {
            num_layers: 1,
            files: vec![ModelFile::GgufQ4KM],
            ..ModelSpec::tiny_stories()
        };
        models::generate(&spec, Origin::Seed, dir.path(), &mut |_, _| true).unwrap();
        let weights = ModelFile::GgufQ4KM.name();
        let names = |dir: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(dir).unwrap().flatten();
            let mut names: Vec<String> = entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        };
        let made = dir.path().join("made");
        make(dir.path(), weights, &made).unwrap();
        assert_eq!(names(&made), ["config.json", WEIGHTS, "tokenizer.json"]);

        // Another model's configuration: a tensor is missing, and nothing is left half written.
        let config = dir.path().join("config.json");
        let text = std::fs::read_to_string(&config).unwrap();
        let deeper = text.replace("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
        assert_ne!(deeper, text);
        std::fs::write(&config, deeper).unwrap();
        let other = dir.path().join("other");
        let error = make(dir.path(), weights, &other).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("lack the tensor"), "{error}");
        assert_eq!(names(&other), ["config.json", "tokenizer.json"]);
    }
}
