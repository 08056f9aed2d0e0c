//! Making goldens: the reference generates and scores, an independent target
//! must agree, and only then is the file written.

use super::gate::judge_scores;
use super::question::{default_patience, load_request};
use super::stories;
use crate::build::Programs;
use crate::engine::session::Session;
use crate::prompts::{Prompts, read_config};
use crate::repo::Repo;
use anyhow::{Context, Result, bail};
use schema::golden::{Golden, GoldenPrompt, POSITIONS, TOP};
use schema::registry::{Registry, Target};
use schema::train::Written;

/// Prompt lengths (tokens) of the goldens but the long one. Four are equal, so
/// that they can share a batch.
const LENGTHS: [(&str, usize); 7] = [
    ("row0", 32),
    ("row1", 32),
    ("row2", 32),
    ("row3", 32),
    ("short", 10),
    ("medium", 50),
    ("page", 200),
];
/// The long prompt ends at this position, or at the model's end.
const LONG_POSITIONS_MAX: u64 = 1024;
/// Seed of the golden prompts' text: not a profile's, which may change.
const SEED: u64 = 1;

/// What the reference was asked.
pub struct Asked {
    /// The goldens.
    pub golden: Golden,
    /// What the model writes, where it was trained on stories.
    pub stories: Vec<Written>,
}

/// Make the goldens of `model` with the registry's reference and cross-check.
pub fn bless(
    repo: &Repo,
    registry: &Registry,
    programs: &Programs,
    model: &str,
    threads: u32,
) -> Result<Asked> {
    let model_dir = repo.model_dir(model);
    let [reference, cross_check] = registry.judges();
    let limit = repo
        .parity_limits()?
        .precision
        .remove("f32")
        .context("data/parity.toml has no [precision.f32]")?;
    let positions_max = read_config(&model_dir)?["max_position_embeddings"]
        .as_u64()
        .context("config.json has no max_position_embeddings")?
        .min(LONG_POSITIONS_MAX);
    let text = Prompts::new(&model_dir, SEED)?;
    let mut prompts = Vec::new();
    for (name, length) in LENGTHS
        .into_iter()
        .chain([("long", positions_max as usize - POSITIONS)])
    {
        let ids = text.take("golden", name, 0, length, 1)?.remove(0);
        prompts.push((name, ids));
    }

    let load = |target: &Target| load_request(target, &model_dir, threads, positions_max as u32, 1);
    let open = |target: &Target| {
        let program = programs
            .get(target)
            .map_err(|failure| anyhow::anyhow!("{}: {failure}", target.id))?;
        Session::open(program, &load(target), default_patience())
            .map_err(|(failure, tail)| anyhow::anyhow!("{}: {failure}\n{tail}", target.id))
    };
    let mut session = open(&reference)?;
    let mut golden_prompts = Vec::new();
    for (name, prompt_ids) in prompts {
        session.send_generate(prompt_ids.clone(), POSITIONS as u32)?;
        let (done, _) = session.next_done()?;
        let mut golden = GoldenPrompt {
            name: name.into(),
            prompt_ids,
            output_ids: done.output_ids,
            top_ids: Vec::new(),
            top_logprobs: Vec::new(),
        };
        let scored = session.score(
            golden.forced_ids(),
            vec![Vec::new(); POSITIONS],
            TOP as u32,
            false,
        )?;
        golden.top_ids = scored.top_ids;
        golden.top_logprobs = scored
            .top_logprobs
            .iter()
            .map(|row| row.iter().map(|lp| (lp * 1e7).round() / 1e7).collect())
            .collect();
        golden_prompts.push(golden);
    }
    let room = positions_max as usize;
    let spec = stories::spec_of(model);
    let written = spec.map(|spec| stories::ask(&spec, &mut session, room));
    let written = written.transpose()?;
    let reference_name = format!("{} {}", reference.id, session.hello.version);
    let _ = session.close();

    let mut session = open(&cross_check)?;
    let mut kl_worst: f64 = 0.0;
    for prompt in &golden_prompts {
        let scored = session.score(prompt.forced_ids(), prompt.top_ids.clone(), 0, false)?;
        let judged = judge_scores(prompt, &scored, &limit);
        if !judged.failure.is_empty() {
            bail!(
                "{} and {} disagree on {model}, prompt {:?}: {}; no golden was written",
                reference.id,
                cross_check.id,
                judged.name,
                judged.failure
            );
        }
        kl_worst = kl_worst.max(judged.kl_nats.unwrap_or(f64::INFINITY));
    }
    let cross_check_name = format!("{} {}", cross_check.id, session.hello.version);
    let _ = session.close();

    let lock = repo.models_lock()?;
    let weights_sha256 = lock
        .models
        .get(model)
        .and_then(|files| files.get(&reference.weights))
        .with_context(|| {
            format!(
                "data/models.lock has no hash of {model}/{}: run `cargo xtask fetch`",
                reference.weights
            )
        })?
        .clone();
    let golden = Golden {
        model: model.to_owned(),
        weights_sha256,
        reference: reference_name,
        cross_check: cross_check_name,
        cross_check_kl_nats: kl_worst,
        prompts: golden_prompts,
    };
    Ok(Asked {
        golden,
        stories: written.unwrap_or_default(),
    })
}
