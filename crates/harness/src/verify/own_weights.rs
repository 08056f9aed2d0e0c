//! Weights of few bits, as the reference reads them.
//!
//! A file of 4 bits a weight rounds so much that its model is another one: held against the model's
//! own weights, an engine could do a lot wrong before it showed. So the reference reads what such a
//! file holds, each weight as the number that it stands for, and what is left is what the engine
//! itself rounds and does.

use anyhow::{Context, Result};
use base::files::write_whole;
use base::repo::Repo;
use models::checkpoint::{GgufFile, Shape, dequantise};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The directory from which the reference reads a model: the model's own, or for the weights of a
/// GGUF file one with these in f32, which is made beside them where it isn't there.
pub(crate) fn model_dir(repo: &Repo, model: &str, own_weights: Option<&str>) -> Result<PathBuf> {
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
    let made = dir.join("model.safetensors");
    if !made.exists() {
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
    // Renamed when it is whole, because its name says that it is.
    let part = dir.join("model.safetensors.part");
    let write = || -> Result<()> {
        let mut out = BufWriter::new(File::create(&part)?);
        dequantise::write(&gguf, &Shape::read(&config)?, &mut out)?;
        out.flush()?;
        Ok(std::fs::rename(&part, dir.join("model.safetensors"))?)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&part)))
}

#[cfg(test)]
mod tests {
    use crate::verify::gate::kl_divergence_nats;
    use base::repo::Repo;
    use schema::golden::Golden;

    /// Positions after which nothing was generated yet, so that both goldens know the same one.
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
}
