//! Checks prompts that begin alike, only for a target that declares a prefix cache and where a plan
//! uses it: in a process of its own that is told to keep what it computed.
//!
//! Each prompt comes after two others that begin like it and end differently. The first one lacks
//! its last token, and the second one departs from it two tokens before its end: a cache that keeps
//! a position too many of the second, or lets it overwrite entries of the first, reads a wrong
//! token just where the output begins. The output is compared with what the same target generates
//! without a cache, as requests in a batch are, because sums may be rounded differently. For a
//! target that scores, a process without a cache says how near two tokens are.

use super::batch::{NEW_TOKENS, differ_scored, differ_unscored, equal_length_prompts};
use super::output::{self, Output};
use super::setup::{GateSetup, in_session};
use crate::engine::load::load_request;
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program};
use schema::golden::GoldenPrompt;
use schema::registry::Target;
use tokenizers::Tokenizer;

/// The target's output after each prompt where nothing is cached.
pub(super) fn alone(
    session: &mut Session,
    setup: &GateSetup,
) -> Result<Vec<Output>, EngineFailure> {
    let prompts = equal_length_prompts(&setup.golden.prompts).into_iter();
    prompts
        .map(|prompt| generate(session, prompt.prompt_ids.clone()))
        .collect()
}

/// What is wrong with the target's outputs with its prefix cache on, compared with those `alone`.
/// `Err` where a process failed, so that nothing can be judged.
pub(super) fn check(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
    tokenizer: &Tokenizer,
    alone: &[Output],
) -> Result<Option<String>, EngineFailure> {
    let prompts = equal_length_prompts(&setup.golden.prompts);
    let lengths = prompts.iter().map(|prompt| prompt.prompt_ids.len() as u32);
    let longest = lengths.max().unwrap_or(0) + NEW_TOKENS;
    let mut load = load_request(target, setup.model_dir, setup.threads, longest, 1);
    load.prefix_cache = true;
    let (scores, outputs) = in_session(program, &load, setup, |session| {
        let outputs = after_others(session, &prompts)?;
        Ok((session.hello.capabilities.score, outputs))
    })
    .map_err(|failure| failure.at("with its prefix cache"))?;
    let failure = if outputs.iter().all(|(row, output)| *output == alone[*row]) {
        None
    } else if scores {
        load.prefix_cache = false;
        in_session(program, &load, setup, |session| {
            differ_scored(session, setup, &prompts, &outputs, alone)
        })
        .map_err(unjudged)?
    } else {
        differ_unscored(&outputs, alone, |row, output| {
            let golden = output::head(prompts[row], NEW_TOKENS as usize);
            output::judge(&golden, output, setup.limit.tie_width_nats, tokenizer)
        })
    };
    Ok(failure.map(|why| format!("with its prefix cache, after prompts that begin alike: {why}")))
}

/// The failure of the process without a cache, which was to judge the outputs of the one with it.
fn unjudged(failure: EngineFailure) -> EngineFailure {
    if failure.judges_nothing() {
        return failure;
    }
    failure.at("with its prefix cache the outputs differ, and without it they couldn't be judged")
}

/// The output of each prompt after two that begin like it, as (row, output).
fn after_others(
    session: &mut Session,
    prompts: &[&GoldenPrompt],
) -> Result<Vec<(usize, Output)>, EngineFailure> {
    let mut outputs = Vec::new();
    for (row, prompt) in prompts.iter().enumerate() {
        let ids = &prompt.prompt_ids;
        for other in others(ids) {
            generate(session, other)?;
        }
        outputs.push((row, generate(session, ids.clone())?));
    }
    Ok(outputs)
}

/// Prompts that begin like `ids`: one that lacks its last token, and one whose last two differ.
/// Empty where `ids` is too short for that.
fn others(ids: &[u32]) -> Vec<Vec<u32>> {
    let [beginning @ .., last_but_one, last] = ids else {
        return Vec::new();
    };
    if beginning.is_empty() {
        return Vec::new();
    }
    // Another token of the prompt, so that the vocabulary surely has it.
    let different = |from: u32| ids.iter().copied().find(|&id| id != from).unwrap_or(from);
    let mut leaves = beginning.to_vec();
    leaves.extend([different(*last_but_one), different(*last)]);
    vec![ids[..ids.len() - 1].to_vec(), leaves]
}

fn generate(session: &mut Session, prompt: Vec<u32>) -> Result<Output, EngineFailure> {
    let (done, ..) = session.generate(prompt, NEW_TOKENS)?;
    Ok(Output::from(done))
}

#[cfg(test)]
mod tests {
    use super::others;

    #[test]
    fn the_others_begin_alike_and_leave_the_prompt_two_tokens_before_its_end() {
        assert_eq!(
            others(&[1, 5, 6, 7]),
            [vec![1, 5, 6], vec![1, 5, 1, 1]],
            "the last token is not kept by anyone"
        );
        assert_eq!(others(&[1, 5, 1, 1])[1], [1, 5, 5, 5]);
        assert!(others(&[1, 5]).is_empty() && others(&[]).is_empty());
    }
}
