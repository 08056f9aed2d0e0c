//! The input of a training as numbers, and the files of a training run, which its trainer writes
//! and `cargo xtask train` reads. The input is windows of token ids, each a function of (seed,
//! split, index), so that a run can be resumed anywhere.
//!
//! Nothing is trained here; the trainer is a program of its own (`engines/train.toml`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;

use crate::prng::{self, Rng};
use crate::spec::ModelSpec;
use crate::stories;
use crate::tokenizer::{BOS_ID, EOS_ID, tokenizer_json, vocabulary};

/// The job of a training run: what it trains, on what and for how long. It is stored as `job.json`
/// in the run's directory. A run that is resumed reads it there, and must be asked for the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Id of the model, as for [`ModelSpec::named`].
    pub model: String,
    /// The trainer's backend that computes.
    pub backend: String,
    /// Seed of the first weights and of the training text.
    pub seed: u64,
    /// Total number of optimiser steps.
    pub steps: usize,
    /// Number of steps between two checkpoints, each with a validation; the last may come sooner.
    pub checkpoint_steps: usize,
    /// Number of windows of full length per step.
    pub batch: usize,
    /// Length of a window (tokens). The first steps have shorter windows, and more of them
    /// ([`Job::context_at`]).
    pub context: usize,
    /// Highest learning rate of the schedule.
    pub learning_rate: f64,
    /// Number of windows of the validation.
    pub validation_windows: usize,
}

/// Lengths of windows during a run. An entry `(end, shorter)` says that until `end` twentieths of
/// the steps, windows are `shorter` times shorter than the job's. After the last entry they have
/// the job's length.
const WINDOWS: [(usize, usize); 4] = [(2, SHORTER), (14, 8), (16, 4), (18, 2)];
/// How many times shorter the windows of the first steps are.
const SHORTER: usize = 16;

/// A line of a run's `curve.jsonl`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Point {
    /// A training step.
    Step {
        /// Number of the step, from 1.
        step: usize,
        /// Mean cross-entropy of the step's tokens, before the weights are updated (nats).
        loss: f64,
        /// Learning rate of the step.
        lr: f64,
    },
    /// A validation.
    Validation {
        /// Number of steps so far.
        step: usize,
        /// Mean cross-entropy of the validation's tokens (nats).
        valid_loss: f64,
        /// Perplexity: e to `valid_loss`.
        perplexity: f64,
    },
}

impl Point {
    /// Rounds losses to four decimals and rates to four digits: precise enough to look at, in half
    /// the bytes.
    pub fn rounded(mut self) -> Self {
        let decimals = |x: f64| (x * 1e4).round() / 1e4;
        let digits = |x: f64| format!("{x:.3e}").parse().unwrap_or(x);
        match &mut self {
            Point::Step { loss, lr, .. } => (*loss, *lr) = (decimals(*loss), digits(*lr)),
            Point::Validation {
                valid_loss,
                perplexity,
                ..
            } => (*valid_loss, *perplexity) = (decimals(*valid_loss), decimals(*perplexity)),
        }
        self
    }

    /// Number of the step at which the point was taken.
    pub fn step(&self) -> usize {
        match *self {
            Self::Step { step, .. } | Self::Validation { step, .. } => step,
        }
    }
}

/// The directory of a training run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir(pub PathBuf);

impl RunDir {
    /// Path of the file with the [`Job`].
    pub fn job(&self) -> PathBuf {
        self.0.join("job.json")
    }

    /// Path of the file with the curve: a [`Point`] a line, in order.
    pub fn curve(&self) -> PathBuf {
        self.0.join("curve.jsonl")
    }

    /// Path of the weights after the last step, in f32. The file exists only once a run is over.
    pub fn weights(&self) -> PathBuf {
        self.0.join("trained.safetensors")
    }

    /// Reads the job.
    ///
    /// # Errors
    /// If the file is missing or damaged.
    pub fn read_job(&self) -> Result<Job> {
        let path = self.job();
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "{} can't be read: no training was begun in {}",
                path.display(),
                self.0.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Reads the curve, up to a line that was cut short when the trainer was killed.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn read_curve(&self) -> Result<Vec<Point>> {
        let path = self.curve();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{} can't be read", path.display()))?;
        let points = text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok());
        Ok(points.collect())
    }
}

impl Job {
    /// Number of checkpoints of the run.
    pub fn checkpoints(&self) -> usize {
        self.steps.div_ceil(self.checkpoint_steps)
    }

    /// Length of the training windows (tokens) of step number `step`, from 1. They begin short
    /// (Press et al. 2021, "Shortformer") and have the length of a story for most of a run. In a
    /// short window few earlier words can be the name that must be repeated, so it is learned much
    /// sooner.
    pub fn context_at(&self, step: usize) -> usize {
        let at = |(end, _): &&(usize, usize)| step * 20 <= end * self.steps;
        let shorter = WINDOWS.iter().find(at).map_or(1, |(_, shorter)| *shorter);
        self.context.div_ceil(shorter)
    }

    /// Numbers of the windows of step number `step`, from 1; every step has about as many tokens.
    pub fn windows_at(&self, step: usize) -> std::ops::Range<u64> {
        let first = ((step - 1) * self.batch * SHORTER) as u64;
        let count = (self.batch * self.context).div_ceil(self.context_at(step));
        first..first + count as u64
    }

    /// Number of steps done at checkpoint number `n`, from 1; 0 for `n` = 0.
    pub fn steps_at(&self, n: usize) -> usize {
        (n * self.checkpoint_steps).min(self.steps)
    }
}

/// A part of the text: for training, or for validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Text that is learned from.
    Training,
    /// Text that training never sees, for measuring how well the model has learned.
    Validation,
}

impl Split {
    /// The seed of the split's stories.
    fn seed(self, seed: u64) -> u64 {
        match self {
            Self::Training => prng::stream_key(seed, "training"),
            Self::Validation => prng::stream_key(seed, "validation"),
        }
    }

    /// The split's story number `index`.
    pub fn story(self, seed: u64, index: u64) -> String {
        stories::story(self.seed(seed), index)
    }
}

/// Makes windows of stories with one tokenizer.
pub struct Windows {
    tokenizer: Tokenizer,
    context: usize,
}

/// Number of stories that are reserved for one window; no story is in two windows.
const STORIES_A_WINDOW: u64 = 1 << 10;

impl Windows {
    /// Windows of `context` tokens in the vocabulary of `spec`.
    ///
    /// # Errors
    /// If the vocabulary can't be made.
    pub fn new(spec: &ModelSpec, context: usize) -> Result<Self> {
        let tokenizer = Tokenizer::from_bytes(tokenizer_json(&vocabulary(spec)?))
            .map_err(|error| anyhow!("the tokenizer of {}: {error}", spec.id))?;
        Ok(Self { tokenizer, context })
    }

    /// Window number `index`: `context + 1` ids, of which all but the last are the input and all
    /// but the first the target. Stories follow each other, each between begin and end of text.
    /// About half of the windows begin in the middle of a story, as the harness cuts its prompts.
    ///
    /// # Errors
    /// If a story can't be encoded.
    pub fn window(&self, seed: u64, split: Split, index: u64) -> Result<Vec<u32>> {
        self.window_of(self.context, seed, split, index)
    }

    /// Like [`Windows::window`] for another length: the first `context + 1` ids of the window.
    ///
    /// # Errors
    /// If a story can't be encoded.
    pub fn window_of(
        &self,
        context: usize,
        seed: u64,
        split: Split,
        index: u64,
    ) -> Result<Vec<u32>> {
        let mut rng = Rng::new(prng::bits(split.seed(seed), index), "window");
        let first = index * STORIES_A_WINDOW;
        let mut ids = self.story(&split.story(seed, first))?;
        if rng.one_in(2) {
            ids.drain(1..rng.between(1, ids.len() - 1));
        }
        for next in first + 1.. {
            if ids.len() > context {
                break;
            }
            ids.extend(self.story(&split.story(seed, next))?);
        }
        ids.truncate(context + 1);
        Ok(ids)
    }

    /// The ids of a story, with begin and end of text.
    fn story(&self, story: &str) -> Result<Vec<u32>> {
        let mut ids = self.prompt(story)?;
        ids.push(EOS_ID);
        Ok(ids)
    }

    /// The ids of a text, without begin or end of text.
    ///
    /// # Errors
    /// If the text can't be encoded.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, false);
        let encoding = encoding.map_err(|error| anyhow!("can't encode {text:?}: {error}"))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of a prompt that a model continues: begin of text, then the ids of `text`.
    ///
    /// # Errors
    /// If the text can't be encoded.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.ids(text)?;
        Ok([BOS_ID].into_iter().chain(ids).collect())
    }

    /// The text of `ids`, up to the end of text.
    ///
    /// # Errors
    /// If the ids can't be decoded.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        let end = ids.iter().position(|id| *id == EOS_ID);
        let ids = &ids[..end.unwrap_or(ids.len())];
        let text = self.tokenizer.decode(ids, true);
        text.map_err(|error| anyhow!("can't decode {ids:?}: {error}"))
    }
}

/// The first sentence of a story, which a model is given to continue.
pub fn opening(story: &str) -> &str {
    let end = story.find(". ").map_or(story.len(), |at| at + 1);
    &story[..end]
}

/// Cuts the curve at `path` off after step `step`: a run that is resumed there writes the rest
/// again.
///
/// # Errors
/// If the file can't be read or written.
pub fn rewind(path: &Path, step: usize) -> Result<()> {
    let what = || format!("{} can't be rewound", path.display());
    if !path.exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).with_context(what)?;
    let mut kept = String::new();
    for line in text.lines() {
        match serde_json::from_str::<Point>(line) {
            Ok(point) if point.step() <= step => kept += &format!("{line}\n"),
            _ => break,
        }
    }
    std::fs::write(path, kept).with_context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(steps: usize, checkpoint_steps: usize) -> Job {
        Job {
            model: "tiny-stories".into(),
            backend: "x".into(),
            seed: 1,
            steps,
            checkpoint_steps,
            batch: 2,
            context: 16,
            learning_rate: 1e-3,
            validation_windows: 1,
        }
    }

    #[test]
    fn the_last_checkpoint_is_at_the_last_step() {
        let job = job(50, 20);
        let ends: Vec<usize> = (0..=job.checkpoints()).map(|n| job.steps_at(n)).collect();
        assert_eq!(ends, [0, 20, 40, 50]);
    }

    #[test]
    fn windows_are_short_at_first_and_none_comes_twice() {
        let job = job(10, 2);
        let contexts: Vec<usize> = (1..=10).map(|step| job.context_at(step)).collect();
        assert_eq!(contexts, [1, 2, 2, 2, 2, 2, 2, 4, 8, 16]);
        let of: Vec<_> = (1..=10).map(|step| job.windows_at(step)).collect();
        assert!(of.is_sorted_by(|a, b| a.end <= b.start), "{of:?}");
        let tokens = |step: usize| of[step - 1].clone().count() * job.context_at(step);
        assert!((1..=10).all(|step| tokens(step) == 2 * 16));
    }

    #[test]
    fn a_window_is_a_function_of_its_number() {
        let windows = Windows::new(&ModelSpec::tiny_stories(), 300).unwrap();
        let ids = |split, index| windows.window(7, split, index).unwrap();
        let one = ids(Split::Training, 3);
        assert_eq!(one, ids(Split::Training, 3));
        assert_eq!(one.len(), 301);
        assert!(one[0] == BOS_ID && one.contains(&EOS_ID));
        assert_ne!(one, ids(Split::Training, 4));
        assert_ne!(one, ids(Split::Validation, 3));
        let whole = (0..40).filter(|i| {
            let text = windows.text(&ids(Split::Training, *i)).unwrap();
            stories::follows(&text)
        });
        let whole = whole.count();
        assert!(
            (10..=30).contains(&whole),
            "{whole} of 40 begin with a story's beginning"
        );
    }

    #[test]
    fn a_curve_is_rewound_to_a_step_and_loses_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir(dir.path().to_owned());
        let points: Vec<Point> = (1..=4)
            .map(|step| Point::Step {
                step,
                loss: 1.0 / step as f64,
                lr: 1e-3,
            })
            .chain([Point::Validation {
                step: 4,
                valid_loss: 0.5,
                perplexity: 0.5f64.exp(),
            }])
            .collect();
        let lines = points
            .iter()
            .map(|p| serde_json::to_string(p).unwrap() + "\n");
        let text: String = lines.collect();
        std::fs::write(run.curve(), &text[..text.len() - 5]).unwrap();
        assert_eq!(run.read_curve().unwrap(), points[..4]);
        rewind(&run.curve(), 2).unwrap();
        assert_eq!(run.read_curve().unwrap(), points[..2]);
        std::fs::write(run.curve(), &text).unwrap();
        assert_eq!(run.read_curve().unwrap(), points);
    }

    #[test]
    fn an_opening_is_one_sentence() {
        assert_eq!(opening("One. Two. Three."), "One.");
        assert_eq!(opening("One."), "One.");
    }

    #[test]
    fn a_point_is_rounded_for_the_eye() {
        let point = Point::Step {
            step: 2,
            loss: 9.187_664_031,
            lr: 0.000_012_345_6,
        };
        let Point::Step { loss, lr, .. } = point.rounded() else {
            panic!("a step stays one");
        };
        assert_eq!((loss, lr), (9.1877, 0.000_012_35));
    }
}
