//! What a model trained on stories writes, in the reference's words: asked for with the
//! goldens, for the site to show.

use super::asked::Asked;
use crate::engine::session::Session;
use anyhow::Result;
use base::repo::Repo;
use base::whole::write_json;
use models::tokenizer::EOS_ID;
use models::training::{Split, Windows, opening};
use models::{Corpus, ModelSpec, stories};
use schema::train::{Stories, Written};
use std::path::PathBuf;

/// Openings that it is given, and what it may write on each (tokens).
const STORIES: u64 = 8;
const TOKENS: usize = 250;
/// Number of the first story that an opening is taken of: training saw none of its split.
const FIRST: u64 = 2_000_000;

/// The shape of `model`, if it is one that was trained on stories.
pub fn spec_of(model: &str) -> Option<ModelSpec> {
    ModelSpec::named(model).filter(|spec| spec.corpus == Corpus::Stories)
}

/// Ask the reference, which has the model loaded for at least `room` positions.
pub fn ask(spec: &ModelSpec, session: &mut Session, room: usize) -> Result<Vec<Written>> {
    let windows = Windows::new(spec, spec.max_position)?;
    let mut written = Vec::new();
    for index in 0..STORIES {
        let story = Split::Validation.story(spec.seed, FIRST + index);
        let prompt = opening(&story);
        let prompt_ids = windows.prompt(prompt)?;
        let tokens = TOKENS.min(room - prompt_ids.len());
        session.send_generate(prompt_ids, tokens as u32)?;
        let (done, _) = session.next_done()?;
        let text = windows.text(&done.output_ids)?;
        written.push(Written {
            follows: stories::follow(&format!("{prompt}{text}")).whole,
            ended: done.output_ids.contains(&EOS_ID),
            prompt: prompt.to_owned(),
            text,
        });
    }
    Ok(written)
}

/// Put them beside the model's weights.
pub fn write(repo: &Repo, asked: &Asked) -> Result<()> {
    let golden = &asked.golden;
    let (false, Some(path)) = (asked.stories.is_empty(), path(repo, &golden.model)?) else {
        return Ok(());
    };
    let stories = Stories {
        model: golden.model.clone(),
        weights_sha256: golden.weights_sha256.clone(),
        reference: golden.reference.clone(),
        stories: asked.stories.clone(),
    };
    write_json(&path, &stories)?;
    println!(
        "{}: {} of {} stories end by themselves and follow the grammar",
        path.display(),
        stories.whole(),
        stories.stories.len()
    );
    Ok(())
}

fn path(repo: &Repo, model: &str) -> Result<Option<PathBuf>> {
    let models = repo.models()?;
    let dir = models
        .get(model)
        .and_then(|model| model.source.trained_dir());
    Ok(dir.map(|dir| dir.join(Stories::FILE)))
}
