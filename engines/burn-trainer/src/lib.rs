//! Trains a Llama of one of this project's shapes with Burn's `Learner`, on stories that are
//! generated during training.
//!
//! A run is a directory ([`RunDir`]): its job is read from there, checkpoints, curve and weights
//! are written there, and it can be resumed after a kill. `cargo xtask train` makes a model of the
//! weights.

mod backend;
mod curve;
mod data;
mod lines;
mod model;
mod schedule;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use anyhow::{Context, Result, anyhow, bail};
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::AdamWConfig;
use burn::train::checkpoint::KeepLastNCheckpoints;
use burn::train::metric::LossMetric;
use burn::train::{Learner, SupervisedTraining};
use models::ModelSpec;
use models::training::{Job, Point, RunDir, Split, Windows, rewind};

use curve::Curve;
use data::Loader;
use model::Llama;
use schedule::Schedule;

/// Number of checkpoints that are kept; several, because the curve may be behind the last one
/// after a kill.
const CHECKPOINTS_KEPT: usize = 3;
/// The files of a checkpoint, as Burn's checkpointer names them.
const CHECKPOINT_PARTS: [&str; 3] = ["model", "optim", "scheduler"];

/// Train as the job of `run` says, from its last complete checkpoint on; `tui`: with Burn's
/// dashboard.
///
/// # Errors
/// Fails if the job is not valid, the backend isn't available, or a file can't be written.
pub fn run(run: &RunDir, tui: bool) -> Result<()> {
    let job = run.read_job()?;
    let spec = ModelSpec::named(&job.model)
        .with_context(|| format!("no embedded model {:?}", job.model))?;
    let device = backend::device(&job.backend)?;
    let checkpoint = last_checkpoint(run, &job)?;
    let done = job.steps_at(checkpoint);
    rewind(&run.curve(), done)?;

    let windows = Arc::new(Windows::new(&spec, job.context)?);
    let (job, done) = (Arc::new(job), Arc::new(AtomicUsize::new(done)));
    let loader = |split| {
        Arc::new(Loader {
            windows: windows.clone(),
            job: job.clone(),
            split,
            device: device.clone(),
            done: done.clone(),
        })
    };
    let curve = Curve::open(run, Schedule::new(&job), job.steps, !tui)?;
    let mut training =
        SupervisedTraining::new(&run.0, loader(Split::Training), loader(Split::Validation))
            .metric_train_numeric(LossMetric::new())
            .metric_valid_numeric(LossMetric::new())
            .metric_train(curve.clone())
            .metric_valid(curve.clone())
            .with_default_checkpointers()
            .with_checkpointing_strategy(KeepLastNCheckpoints::new(CHECKPOINTS_KEPT))
            .with_application_logger(None)
            .num_epochs(job.checkpoints());
    if checkpoint > 0 {
        training = training.checkpoint(checkpoint);
    }
    if !tui {
        training = training.renderer(Box::new(lines::Silent));
    }

    let model = Llama::new(&spec, job.seed, job.context, &device);
    let optimizer = AdamWConfig::new()
        .with_beta_2(0.95)
        .with_epsilon(1e-8)
        .with_weight_decay(0.01)
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)))
        .init();
    let learner = Learner::new(model, optimizer, Schedule::new(&job));
    let result = training.launch(learner);
    curve.fault()?;
    if let Some(error) = result.error {
        bail!("the training broke off: {error}");
    }
    if result.interrupted.is_some() {
        bail!("the training was stopped before its last step");
    }
    write_weights(&result.model, &run.weights())
}

/// Return the newest checkpoint whose files are all present and which the curve reaches; 0 if
/// there is none. A file gets its name only once it is complete.
fn last_checkpoint(run: &RunDir, job: &Job) -> Result<usize> {
    let curve = match run.curve().exists() {
        true => run.read_curve()?,
        false => return Ok(0),
    };
    let whole = |n: &usize| {
        let dir = run.0.join("checkpoint");
        let step = job.steps_at(*n);
        let validated = |point: &Point| matches!(point, Point::Validation { .. });
        CHECKPOINT_PARTS
            .iter()
            .all(|part| dir.join(format!("{part}-{n}.bpk")).is_file())
            && curve
                .iter()
                .any(|point| point.step() == step && validated(point))
    };
    Ok((1..=job.checkpoints()).rev().find(whole).unwrap_or(0))
}

/// Write all weights in f32, under a temporary name until the file is complete.
fn write_weights(model: &Llama, path: &Path) -> Result<()> {
    use safetensors::tensor::{Dtype, TensorView};
    let weights = model.weights();
    let bytes: Vec<Vec<u8>> = weights
        .iter()
        .map(|(_, values)| values.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let views = weights.iter().zip(&bytes).map(|((def, _), bytes)| {
        let view = TensorView::new(Dtype::F32, def.shape(), bytes)?;
        Ok((def.name.clone(), view))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let partial = path.with_extension("partial");
    safetensors::serialize_to_file(views, None, &partial)
        .map_err(|error| anyhow!("can't write {}: {error}", partial.display()))?;
    std::fs::rename(&partial, path).with_context(|| format!("can't write {}", path.display()))
}
