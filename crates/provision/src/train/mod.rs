//! `cargo xtask train`: builds the trainer, starts it on a run's directory, and makes a model of
//! what it leaves there.
//!
//! This module knows no trainer by name (`engines/train.toml` does) and trains nothing itself.

mod export;

use crate::build;
use anyhow::{Context, Result, bail, ensure};
use base::files::write_json;
use base::names::{self, Kind};
use base::repo::Repo;
use base::text::shell_word;
use clap::Args;
use harness::engine::Program;
use harness::engine::start::launch;
use models::training::{Job, RunDir};
use models::{Architecture, ModelSpec};
use schema::train::{TrainBackend, TrainRegistry};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line says.
#[derive(Args)]
pub struct Options {
    /// Embedded model whose shape, tokenizer and text are taken.
    #[arg(long, default_value = "tiny-stories", conflicts_with = "resume")]
    model: String,
    /// Backend of engines/train.toml; by default its first.
    #[arg(long, conflicts_with = "resume")]
    backend: Option<String>,
    /// Optimiser steps.
    #[arg(long, default_value_t = 4000, value_parser = at_least_one, conflicts_with = "resume")]
    steps: usize,
    /// Seed of the first weights and of the text; by default the model's own.
    #[arg(long, conflicts_with = "resume")]
    seed: Option<u64>,
    /// Windows of full length a step; all but the last tenth of the steps have shorter ones, and more.
    #[arg(long, default_value_t = 1, value_parser = at_least_one, conflicts_with = "resume")]
    batch: usize,
    /// Length of a window (tokens).
    #[arg(long, default_value_t = 1024, value_parser = at_least_one, conflicts_with = "resume")]
    context: usize,
    /// Highest learning rate: reached after a tenth of the steps, then falling to a tenth.
    #[arg(long, default_value_t = 3e-3, value_parser = positive, conflicts_with = "resume")]
    learning_rate: f64,
    /// Steps between two checkpoints, each with a validation.
    #[arg(long, default_value_t = 250, value_parser = at_least_one, conflicts_with = "resume")]
    checkpoint_steps: usize,
    /// Directory of the run; by default a new one under target/train.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with an interrupted run from its last checkpoint: its directory, or `latest`.
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// Show the trainer's own dashboard instead of lines.
    #[arg(long)]
    tui: bool,
    /// Put the weights into data/models, as the ones that this repository ships.
    #[arg(long)]
    install: bool,
}

/// Number of windows of held-out text in a validation.
const VALIDATION_WINDOWS: usize = 8;

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        Ok(_) => Err("a number above 0, such as 0.003".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// Run the command: train, make the model, and install it where that is wanted.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let registry = repo.train_registry()?;
    let (run, job) = match &options.resume {
        Some(name) => {
            let run = find(repo, name)?;
            let job = run.read_job()?;
            (run, job)
        }
        None => begin(repo, &registry, options)?,
    };
    let spec = trainable(&job)?;
    let backend = backend(&registry, &job.backend)?;
    let id = format!("train-{}", backend.id);
    let program = build::program(repo, &repo.registry()?, &id, &backend.build)
        .map_err(|failure| anyhow::anyhow!("the trainer for {}: {failure}", job.backend))?;
    eprintln!("training {} in {}", job.model, run.0.display());
    train(&program, &run, options.tui)?;
    let made = export::export(&spec, &job, &run)?;
    made.print();
    if options.install {
        export::install(repo, &job, &run, &made)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The model that a job trains, or an error where this model or the job's sizes can't be trained.
fn trainable(job: &Job) -> Result<ModelSpec> {
    let spec = ModelSpec::named(&job.model).with_context(|| {
        format!(
            "no embedded model {:?}: there are {}",
            job.model,
            ModelSpec::ids().join(", ")
        )
    })?;
    ensure!(
        spec.architecture == Architecture::Llama && spec.tied,
        "{} can't be trained: the trainer knows Llamas with tied embeddings, and this is of the architecture {}",
        job.model,
        spec.architecture.model_type()
    );
    ensure!(
        job.context <= spec.max_position,
        "windows of {} tokens are too long: {} has {} positions; give a smaller --context",
        job.context,
        job.model,
        spec.max_position
    );
    let sizes = [job.steps, job.batch, job.context, 20];
    ensure!(
        sizes.into_iter().try_fold(1, usize::checked_mul).is_some(),
        "{} steps of {} windows of {} tokens are too many to be counted: give fewer --steps or a smaller --batch",
        job.steps,
        job.batch,
        job.context
    );
    Ok(spec)
}

fn backend<'a>(registry: &'a TrainRegistry, id: &str) -> Result<&'a TrainBackend> {
    let known = || registry.backends.iter();
    known().find(|backend| backend.id == id).with_context(|| {
        let ids: Vec<&str> = known().map(|backend| backend.id.as_str()).collect();
        format!(
            "no backend {id:?} in engines/train.toml: there are {}",
            ids.join(", ")
        )
    })
}

/// Begin a new run: make its directory, and write the job into it.
fn begin(repo: &Repo, registry: &TrainRegistry, options: &Options) -> Result<(RunDir, Job)> {
    let first = registry.backends.first().context(
        "engines/train.toml names no trainer: a bundle has none, a checkout of the repository has",
    )?;
    let known = ModelSpec::ids();
    names::check(Kind::Model, std::slice::from_ref(&options.model), &known)?;
    let seed = options
        .seed
        .or_else(|| ModelSpec::named(&options.model).map(|spec| spec.seed));
    let job = Job {
        model: options.model.clone(),
        backend: options.backend.as_ref().unwrap_or(&first.id).clone(),
        seed: seed.unwrap_or(0),
        steps: options.steps,
        checkpoint_steps: options.checkpoint_steps,
        batch: options.batch,
        context: options.context,
        learning_rate: options.learning_rate,
        validation_windows: VALIDATION_WINDOWS,
    };
    backend(registry, &job.backend)?;
    trainable(&job)?;
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let name = format!("{now}-{}", job.model);
    let usual = || runs_dir(repo).join(name);
    let dir = options.out.clone().unwrap_or_else(usual);
    let run = RunDir(std::path::absolute(&dir)?);
    ensure!(
        !run.job().exists(),
        "{} holds a run: go on with it by `--resume {}`, or name another directory",
        dir.display(),
        shell_word(&dir)
    );
    std::fs::create_dir_all(&run.0).with_context(|| format!("can't make {}", dir.display()))?;
    write_json(&run.job(), &job)?;
    Ok((run, job))
}

fn runs_dir(repo: &Repo) -> PathBuf {
    repo.build_dir.join("train")
}

/// The run in the directory `name`, or the newest run for `latest`.
fn find(repo: &Repo, name: &str) -> Result<RunDir> {
    if name != "latest" {
        return Ok(RunDir(std::path::absolute(name)?));
    }
    let dir = runs_dir(repo);
    let entries = std::fs::read_dir(&dir).into_iter().flatten();
    let runs = entries.filter_map(|entry| Some(entry.ok()?.path()));
    // The names begin with the time, so the last one is the newest.
    let newest = runs.filter(|run| run.join("job.json").exists()).max();
    let newest = newest.with_context(|| format!("no run in {}", dir.display()))?;
    Ok(RunDir(newest))
}

/// Start the trainer and wait for it. The trainer uses the terminal meanwhile.
fn train(program: &Program, run: &RunDir, tui: bool) -> Result<()> {
    let mut command = program.command();
    command.arg(&run.0);
    if tui {
        command.arg("--tui");
    }
    let status = launch(command)
        .and_then(|mut child| child.wait())
        .with_context(|| format!("{} can't be started", program.argv[0]))?;
    if !status.success() || base::interrupt::requested() {
        bail!(
            "the training ended early ({status}): go on with `cargo xtask train --resume {}`",
            shell_word(&run.0)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::registry::Build;

    fn registry() -> TrainRegistry {
        let backends = ["a", "b"].map(|id| TrainBackend {
            id: id.into(),
            build: Build::Prebuilt {
                path: id.into(),
                needs: Vec::new(),
                libtorch: None,
            },
        });
        TrainRegistry {
            backends: backends.into(),
        }
    }

    fn options(out: PathBuf) -> Options {
        Options {
            model: "tiny-stories".into(),
            backend: None,
            steps: 3,
            seed: None,
            batch: 1,
            context: 16,
            learning_rate: 1e-3,
            checkpoint_steps: 2,
            out: Some(out),
            resume: None,
            tui: false,
            install: false,
        }
    }

    #[test]
    fn a_run_is_begun_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::under(dir.path());
        let out = runs_dir(&repo).join("20260101-000000-tiny-stories");
        let (run, job) = begin(&repo, &registry(), &options(out.clone())).unwrap();
        assert_eq!(job.backend, "a", "the first");
        assert_eq!(job.seed, ModelSpec::tiny_stories().seed);
        assert_eq!(run.read_job().unwrap(), job);
        assert_eq!(find(&repo, "latest").unwrap(), run);
        let again = begin(&repo, &registry(), &options(out)).unwrap_err();
        assert!(again.to_string().contains("--resume"), "{again}");
    }

    #[test]
    fn sizes_that_cannot_be_trained_are_refused_before_a_run_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::under(dir.path());
        let out = dir.path().join("r");
        let refused = |options: Options, wanted: &str| {
            let error = begin(&repo, &registry(), &options).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
            assert!(!out.exists(), "{wanted}");
        };
        let too_long = Options {
            context: 1 << 30,
            ..options(out.clone())
        };
        refused(too_long, "give a smaller --context");
        let too_many = Options {
            steps: usize::MAX,
            ..options(out.clone())
        };
        refused(too_many, "too many to be counted");
    }

    #[test]
    fn a_learning_rate_is_a_number_above_zero() {
        assert_eq!(positive("3e-3"), Ok(3e-3));
        for wrong in ["nan", "inf", "1e999", "0", "-1", "fast", ""] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_backend_is_told_which_there_are() {
        let error = backend(&registry(), "c").unwrap_err().to_string();
        assert!(error.contains("there are a, b"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let none = TrainRegistry::default();
        let repo = Repo::under(dir.path());
        let error = begin(&repo, &none, &options(dir.path().join("r")));
        assert!(error.unwrap_err().to_string().contains("names no trainer"));
        assert!(find(&repo, "latest").is_err());
    }
}
