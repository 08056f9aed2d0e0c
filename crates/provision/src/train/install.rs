//! `--install`: the weights of a training become those that this repository ships.

use super::export::Made;
use crate::fetch;
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use base::whole::write_json;
use models::ModelFile;
use models::training::{Job, RunDir};
use schema::model::Source;
use schema::train::Training;
use std::path::Path;

/// Copy the weights and the curve, write down how they came to be, and let `fetch` record the
/// hashes of the files that are made of them.
pub fn install(repo: &Repo, job: &Job, run: &RunDir, made: &Made) -> Result<()> {
    let models = repo.models()?;
    let source = models.get(&job.model).map(|model| &model.source);
    let (Some(Source::Trained { weights }), Some(dir)) =
        (source, source.and_then(Source::trained_dir))
    else {
        bail!(
            "data/models.toml has no {} whose weights are trained: there is no place to install them",
            job.model
        );
    };
    std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
    let put = |from: &Path, to: &Path| {
        std::fs::copy(from, to)
            .with_context(|| format!("can't copy {} to {}", from.display(), to.display()))
    };
    put(&made.dir.join(ModelFile::Safetensors.name()), weights)?;
    put(&run.curve(), &dir.join("curve.jsonl"))?;
    let training = Training {
        model: job.model.clone(),
        command: command_line(job),
        backend: job.backend.clone(),
        seed: job.seed,
        steps: job.steps,
        tokens: (job.steps * job.batch * job.context) as u64,
        last_loss_nats: made.last_loss_nats,
        perplexity: made.perplexity,
        perplexity_tokens: made.perplexity_tokens,
        weights_sha256: schema::hash::sha256_hex(&std::fs::read(weights)?),
    };
    write_json(&dir.join(Training::FILE), &training)?;

    fetch::LockFile::open(&repo.models_lock_path())?.forget(&job.model)?;
    fetch::ensure(repo, std::slice::from_ref(&job.model))?;
    println!(
        "\ninstalled:  {}. Its goldens are now another model's: `cargo xtask verify --model {} --bless`",
        dir.display(),
        job.model
    );
    Ok(())
}

/// The command that trains it again.
fn command_line(job: &Job) -> String {
    format!(
        "cargo xtask train --model {} --backend {} --seed {} --steps {} --batch {} --context {} --learning-rate {} --checkpoint-steps {} --install",
        job.model,
        job.backend,
        job.seed,
        job.steps,
        job.batch,
        job.context,
        job.learning_rate,
        job.checkpoint_steps
    )
}
