//! Makes a model of a finished training: the files that `fetch` makes of an embedded model, its
//! perplexity as it will be shipped, and samples of its text.
//!
//! With `--install` the weights of a training become those that this repository ships.

use crate::fetch;
use anyhow::{Context, Result, bail};
use base::files::write_json;
use base::repo::Repo;
use base::shelf::WEIGHTS;
use models::measure::{greedy_to_end, perplexity};
use models::reference::Reference;
use models::training::{Job, Point, RunDir, Split, Windows, opening};
use models::{Corpus, ModelFile, ModelSpec, Origin, Trained, stories};
use schema::hash::sha256_hex;
use schema::model::Source;
use schema::train::Training;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the model's directory, inside the run's.
const MODEL: &str = "model";
/// The name that it has until it is complete.
const STAGING: &str = ".model";
/// Number of story openings that the model is given, and the most that it may write on each
/// (tokens).
const STORIES: u64 = 20;
const STORY_TOKENS: usize = 250;
/// Number of the first story: far from any story that a validation uses.
const FIRST_STORY: u64 = 1 << 40;

/// The model that was made, and measurements of it.
pub struct Made {
    pub dir: PathBuf,
    pub training: Training,
    /// How many of the [`STORIES`] stories follow the grammar from the first word to the end.
    pub whole: usize,
    /// The first of the [`STORIES`] stories.
    pub first: String,
}

/// Make the model of `run`, and measure it.
pub fn export(spec: &ModelSpec, job: &Job, run: &RunDir) -> Result<Made> {
    let curve = run.read_curve()?;
    let last = curve.iter().rev().find_map(|point| match point {
        Point::Step { loss, .. } => Some(*loss),
        Point::Validation { .. } => None,
    });
    let trained = Trained::load(spec, &run.weights())?;
    let (dir, staging) = (run.0.join(MODEL), run.0.join(STAGING));
    for old in [&staging, &dir].into_iter().filter(|old| old.exists()) {
        fs::remove_dir_all(old).with_context(|| format!("can't clear {}", old.display()))?;
    }
    models::generate(spec, Origin::Trained(&trained), &staging, &mut |_, _| true)
        .with_context(|| format!("can't make the model in {}", staging.display()))?;
    fs::rename(&staging, &dir)
        .with_context(|| format!("can't put the model into {}", dir.display()))?;

    let reference = Reference::with_origin(spec, Origin::Trained(&trained), ModelFile::Safetensors);
    let windows = Windows::new(spec, job.context)?;
    let held_out = (0..job.validation_windows as u64)
        .map(|index| windows.window(job.seed, Split::Validation, index));
    let held_out = held_out.collect::<Result<Vec<_>>>()?;
    let asked = held_out.iter().map(|ids| ids.len() as u64 - 1).sum();
    let mut made = Made {
        training: Training {
            model: job.model.clone(),
            command: command_line(job),
            backend: job.backend.clone(),
            seed: job.seed,
            steps: job.steps,
            tokens: (job.steps * job.batch * job.context) as u64,
            last_loss_nats: last.context("the run's curve has no step")?,
            perplexity: perplexity(&reference, &held_out),
            perplexity_tokens: asked,
            weights_sha256: sha256_hex(&fs::read(dir.join(WEIGHTS))?),
        },
        dir,
        whole: 0,
        first: String::new(),
    };
    if spec.corpus == Corpus::Stories {
        for index in 0..STORIES {
            let story = Split::Validation.story(job.seed, FIRST_STORY + index);
            let (text, ended) = tell(&reference, &windows, opening(&story))?;
            made.whole += usize::from(ended && stories::follows(&text));
            if index == 0 {
                made.first = text;
            }
        }
    }
    Ok(made)
}

/// Let the model continue an opening. Returns the story, opening included, and whether it came to
/// an end.
fn tell(model: &Reference, windows: &Windows, opening: &str) -> Result<(String, bool)> {
    let prompt = windows.prompt(opening)?;
    let room = model.spec.max_position - prompt.len();
    let (output, ended) = greedy_to_end(model, &prompt, STORY_TOKENS.min(room));
    Ok((format!("{opening}{}", windows.text(&output)?), ended))
}

impl Made {
    pub fn print(&self) {
        println!("model:      {}", self.dir.display());
        println!(
            "perplexity: {:.3} over {} held-out tokens, weights as exported",
            self.training.perplexity, self.training.perplexity_tokens
        );
        if !self.first.is_empty() {
            println!(
                "stories:    {} of {STORIES} follow the grammar to their end, such as\n\n{}",
                self.whole, self.first
            );
        }
    }
}

/// Install the model: copy the weights and the curve, write down how they were made, and let
/// `fetch` record the hashes of the files that are made of them.
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
    fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
    let put = |from: &Path, to: &Path| {
        fs::copy(from, to)
            .with_context(|| format!("can't copy {} to {}", from.display(), to.display()))
    };
    put(&made.dir.join(WEIGHTS), weights)?;
    let points = run.read_curve()?.into_iter().map(Point::rounded);
    let lines: Result<Vec<String>, _> = points.map(|p| serde_json::to_string(&p)).collect();
    base::files::write_whole(&dir.join("curve.jsonl"), &(lines?.join("\n") + "\n"))?;
    write_json(&dir.join(Training::FILE), &made.training)?;

    fetch::LockFile::open(&repo.models_lock_path())?.forget(&job.model)?;
    fetch::ensure(repo, std::slice::from_ref(&job.model))?;
    println!(
        "\ninstalled:  {}. Its goldens are now another model's: `cargo xtask verify --model {} --bless`",
        dir.display(),
        job.model
    );
    Ok(())
}

/// The command line that trains the model again.
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
