//! Makes goldens: the reference generates and scores, and an independent target must agree, or
//! there is no golden. `judges` chooses the targets that are asked, `goldens` which golden holds.
//!
//! A model trained on stories also generates some with the reference, for the site to show.

use super::gate::judge_scores;
use super::subject::Subject;
use super::{judges, own_weights};
use crate::engine::EngineFailure;
use crate::engine::load::load_request;
use crate::engine::session::Session;
use crate::programs::Programs;
use crate::prompts::{Prompts, read_config};
use anyhow::{Context, Result, bail};
use base::files::write_json;
use base::repo::Repo;
use models::tokenizer::EOS_ID;
use models::training::{Split, Windows, opening};
use models::{Corpus, ModelSpec, stories};
use schema::golden::{Golden, GoldenPrompt, POSITIONS, TOP, USUAL_POSITIONS};
use schema::model::weights_identity;
use schema::registry::{Registry, Target};
use schema::train::{Stories, Written};

/// Names and lengths (tokens) of the golden prompts, except the long one. Four lengths are equal,
/// so that these prompts can share a batch.
const LENGTHS: [(&str, u32); 7] = [
    ("row0", 32),
    ("row1", 32),
    ("row2", 32),
    ("row3", 32),
    ("short", 10),
    ("medium", 50),
    ("page", 200),
];
/// The seed of the golden prompts' text: not a profile's, which may change.
const SEED: u64 = 1;

/// The inputs for making a model's golden.
pub struct Maker<'a> {
    /// The checkout, with the model's files.
    pub repo: &'a Repo,
    /// The registry, which names the reference and the target that it is checked against.
    pub registry: &'a Registry,
    /// The programs of these targets, those of [`judges::to_build`] among them.
    pub programs: &'a Programs,
    /// The model, and the weights that the reference reads.
    pub subject: Subject<'a>,
    /// The number of compute threads.
    pub threads: u32,
}

impl Maker<'_> {
    /// Make the golden with the prompts that every model has and those that end at the far contexts
    /// (tokens); with stories by the model, where it was trained on them.
    pub fn whole(&self, far: &[u32]) -> Result<MadeGolden> {
        let mut lengths = usual(self.positions()?)?;
        lengths.extend(far.iter().copied().map(of_context));
        self.make(&lengths, true)
    }

    /// Make a golden with only the prompts that end at far contexts (tokens).
    pub fn far(&self, contexts: &[u32]) -> Result<Golden> {
        let lengths: Vec<_> = contexts.iter().copied().map(of_context).collect();
        Ok(self.make(&lengths, false)?.golden)
    }

    /// Make a golden with only the prompts that every model has.
    pub fn usual(&self) -> Result<Golden> {
        Ok(self.make(&usual(self.positions()?)?, false)?.golden)
    }

    fn positions(&self) -> Result<u32> {
        let config = read_config(&self.repo.model_dir(self.subject.model))?;
        let positions = config["max_position_embeddings"].as_u64();
        let positions = positions.context("config.json has no max_position_embeddings")?;
        Ok(u32::try_from(positions).unwrap_or(u32::MAX))
    }

    /// Make a golden with prompts of these names and lengths (tokens) by the reference, and check
    /// that the other target agrees.
    fn make(&self, lengths: &[(String, u32)], with_stories: bool) -> Result<MadeGolden> {
        let Self { repo, subject, .. } = *self;
        let Subject { model, own_weights } = subject;
        let model_dir = own_weights::model_dir(repo, subject)?;
        let text = Prompts::new(&model_dir, SEED)?;
        let longest = lengths.iter().map(|(_, length)| length + POSITIONS as u32);
        let room = longest.max().unwrap_or(1);
        let [reference, cross_check] = judges::candidates(self.registry);
        let load = |target: &Target| load_request(target, &model_dir, self.threads, room, 1);

        let (target, mut session) = judges::open(self.programs, &reference, load)
            .with_context(|| format!("the reference can't be asked about {model}"))?;
        let mut prompts = Vec::new();
        for (name, length) in lengths {
            base::interrupt::check()?;
            let ids = text
                .take(&format!("golden/{name}"), 0, *length as usize, 1)?
                .remove(0);
            let prompt = ask(&mut session, name, ids)
                .with_context(|| format!("{} fails at {length} tokens", target.id))?;
            prompts.push(prompt);
        }
        let has_stories = |spec: &ModelSpec| spec.corpus == Corpus::Stories;
        let spec = ModelSpec::named(model).filter(has_stories);
        let spec = spec.filter(|_| with_stories && own_weights.is_none());
        let written = spec.map(|spec| stories(&spec, &mut session, room as usize));
        let written = written.transpose()?;
        let reference_name = format!("{} {}", target.id, session.hello.version);
        let weights = own_weights.unwrap_or(&target.weights).to_owned();
        let _ = session.close();

        let (cross_check_name, kl_worst) = self.cross_check(&cross_check, load, &prompts)?;
        let lock = repo.models_lock()?;
        let files = lock.models.get(model);
        let weights_sha256 = files.and_then(|files| weights_identity(files, &weights));
        let golden = Golden {
            model: model.to_owned(),
            weights_sha256: weights_sha256.with_context(|| {
                format!("data/models.lock has no hash of {model}/{weights}: run `cargo xtask fetch {model}`")
            })?,
            reference: reference_name,
            cross_check: cross_check_name,
            cross_check_kl_nats: kl_worst,
            prompts,
        };
        Ok(MadeGolden {
            golden,
            stories: written.unwrap_or_default(),
        })
    }

    /// The target that agrees with all prompts, and the largest mean KL divergence (nats); an error
    /// where it doesn't agree.
    fn cross_check(
        &self,
        judge: &[Target],
        load: impl Fn(&Target) -> protocol::wire::Load,
        prompts: &[GoldenPrompt],
    ) -> Result<(String, f64)> {
        let model = self.subject.model;
        let mut limits = self.repo.parity_limits()?;
        let (target, mut session) =
            judges::open(self.programs, judge, load).with_context(|| {
                format!(
                    "no second engine can check the reference on {model}, so no golden was written"
                )
            })?;
        let limit = limits
            .precision
            .remove(&target.precision)
            .with_context(|| format!("data/parity.toml has no [precision.{}]", target.precision))?;
        let mut kl_worst: f64 = 0.0;
        for prompt in prompts {
            base::interrupt::check()?;
            let scored = session
                .score(prompt.forced_ids(), prompt.top_ids.clone(), 0, false)
                .with_context(|| format!("{} fails at prompt {:?}", target.id, prompt.name))?;
            let judged = judge_scores(prompt, &scored, &limit);
            if !judged.failure.is_empty() {
                bail!(
                    "the reference and {} disagree on {model}, prompt {:?}: {}; no golden was written",
                    target.id,
                    judged.name,
                    judged.failure
                );
            }
            kl_worst = kl_worst.max(judged.kl_nats.unwrap_or(f64::INFINITY));
        }
        let name = format!("{} {}", target.id, session.hello.version);
        let _ = session.close();
        Ok((name, kl_worst))
    }
}

/// Names and lengths (tokens) of the usual prompts of a model with this many positions: one ends at
/// the last of them, or at [`USUAL_POSITIONS`]; of the others, those that there is room for.
fn usual(positions: u32) -> Result<Vec<(String, u32)>> {
    let room = positions
        .min(USUAL_POSITIONS)
        .saturating_sub(POSITIONS as u32);
    let fitting = LENGTHS.into_iter().filter(|(_, length)| *length < room);
    let lengths = fitting.chain([("long", room)]);
    let lengths: Vec<_> = lengths
        .map(|(name, length)| (name.to_owned(), length))
        .collect();
    if lengths.len() < 5 {
        bail!(
            "the model has {positions} positions only: the gate's shortest prompts need more than {}",
            LENGTHS[0].1 + POSITIONS as u32
        );
    }
    Ok(lengths)
}

/// Name and length (tokens) of the prompt whose golden ends at a context of `context` tokens.
fn of_context(context: u32) -> (String, u32) {
    let length = context.saturating_sub(POSITIONS as u32).max(1);
    (format!("context-{context}"), length)
}

/// The golden of a prompt, its log-probabilities rounded for the file.
fn ask(session: &mut Session, name: &str, prompt_ids: Vec<u32>) -> Result<GoldenPrompt> {
    let mut golden = continuation(session, name, prompt_ids, POSITIONS, false)?;
    for logprob in golden.top_logprobs.iter_mut().flatten() {
        *logprob = (*logprob * 1e7).round() / 1e7;
    }
    Ok(golden)
}

/// The reference's continuation of a prompt by `new_tokens`, and its likeliest ids at each position
/// of it, which it may compute in one pass if `parallel`. Nothing else may be in flight.
pub(crate) fn continuation(
    session: &mut Session,
    name: &str,
    prompt_ids: Vec<u32>,
    new_tokens: usize,
    parallel: bool,
) -> Result<GoldenPrompt, EngineFailure> {
    let (done, ..) = session.generate(prompt_ids.clone(), new_tokens as u32)?;
    let mut golden = GoldenPrompt {
        name: name.into(),
        prompt_ids,
        output_ids: done.output_ids,
        top_ids: Vec::new(),
        top_logprobs: Vec::new(),
    };
    let nothing = vec![Vec::new(); new_tokens];
    let scored = session.score(golden.forced_ids(), nothing, TOP as u32, parallel)?;
    golden.top_ids = scored.top_ids;
    golden.top_logprobs = scored.top_logprobs;
    Ok(golden)
}

/// A golden that was just made, and the stories.
pub struct MadeGolden {
    /// The golden.
    pub golden: Golden,
    /// Stories that the model wrote; empty where it was not trained on stories.
    pub stories: Vec<Written>,
}

/// The number of stories, and the maximum length of each (tokens).
const STORIES: u64 = 8;
const TOKENS: usize = 250;
/// Number of the first story whose opening is used; no training used the stories of its split.
const FIRST: u64 = 2_000_000;

/// Have the reference write stories; its session has room for at least `room` positions.
fn stories(spec: &ModelSpec, session: &mut Session, room: usize) -> Result<Vec<Written>> {
    let windows = Windows::new(spec, spec.max_position)?;
    let mut written = Vec::new();
    for index in 0..STORIES {
        let story = Split::Validation.story(spec.seed, FIRST + index);
        let prompt = opening(&story);
        let prompt_ids = windows.prompt(prompt)?;
        let tokens = TOKENS.min(room - prompt_ids.len());
        let (done, ..) = session.generate(prompt_ids, tokens as u32)?;
        let text = windows.text(&done.output_ids)?;
        written.push(Written {
            follows: stories::follows(&format!("{prompt}{text}")),
            ended: done.output_ids.contains(&EOS_ID),
            prompt: prompt.to_owned(),
            text,
        });
    }
    Ok(written)
}

/// Write the stories beside the model's weights.
pub fn write(repo: &Repo, asked: &MadeGolden) -> Result<()> {
    let golden = &asked.golden;
    let models = repo.models()?;
    let listed = models.get(&golden.model);
    let dir = listed.and_then(|model| model.source.trained_dir());
    let (false, Some(dir)) = (asked.stories.is_empty(), dir) else {
        return Ok(());
    };
    let path = dir.join(Stories::FILE);
    let stories = Stories {
        model: golden.model.clone(),
        weights_sha256: golden.weights_sha256.clone(),
        reference: golden.reference.clone(),
        stories: asked.stories.clone(),
    };
    write_json(&path, &stories)?;
    let (whole, all, path) = (stories.whole(), stories.stories.len(), path.display());
    println!("{path}: {whole} of {all} stories end by themselves and follow the grammar");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_asked_what_it_has_room_for() {
        let lengths = |positions| usual(positions).map(|all| all.iter().map(|l| l.1).collect());
        let all: Vec<u32> = lengths(131_072).unwrap();
        assert_eq!(all, [32, 32, 32, 32, 10, 50, 200, 960]);
        let short: Vec<u32> = lengths(256).unwrap();
        assert_eq!(short, [32, 32, 32, 32, 10, 50, 192]);
        let error = lengths(96).map(|_: Vec<u32>| ()).unwrap_err().to_string();
        assert!(error.contains("96 positions only"), "{error}");
    }

    #[test]
    fn a_far_prompt_ends_where_its_context_does() {
        assert_eq!(of_context(8256), ("context-8256".to_owned(), 8192));
    }
}
