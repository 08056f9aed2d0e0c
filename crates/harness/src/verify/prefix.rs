//! Prompts that begin alike, asked only of a target that declares a prefix cache and where a plan
//! uses it: in a process of its own that is told to keep what it computed.
//!
//! Each prompt comes after two others that begin like it and end otherwise. A first one lacks its
//! last token, and a second one leaves it two tokens before its end: whoever keeps a position too
//! many of the second, or lets it overwrite what is kept of the first, reads a wrong token just
//! where the output begins. What it generates is held against what the same target generates
//! where nothing is kept, as requests in company are, because sums may be rounded otherwise. How
//! near two tokens are is asked of a process that keeps nothing, of a target that scores.

use super::batch::{NEW_TOKENS, differ_unscored, differs, equal_length_prompts, no_ids};
use super::output::{self, Output};
use super::question::{Question, load_request};
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program};
use protocol::wire::Load;
use schema::golden::GoldenPrompt;
use schema::registry::Target;
use tokenizers::Tokenizer;

/// What a target generates after each prompt where nothing is kept.
pub(super) fn alone(
    session: &mut Session,
    question: &Question,
) -> Result<Vec<Output>, EngineFailure> {
    let prompts = equal_length_prompts(&question.golden.prompts).into_iter();
    prompts
        .map(|prompt| generate(session, prompt.prompt_ids.clone()))
        .collect()
}

/// What is wrong with what it generates where prompts are kept, given what it says `alone`.
pub(super) fn check(
    target: &Target,
    program: &Program,
    question: &Question,
    tokenizer: &Tokenizer,
    alone: &[Output],
) -> Result<Option<String>, (EngineFailure, String)> {
    let prompts = equal_length_prompts(&question.golden.prompts);
    let lengths = prompts.iter().map(|prompt| prompt.prompt_ids.len() as u32);
    let longest = lengths.max().unwrap_or(0) + NEW_TOKENS;
    let mut load = load_request(target, question.model_dir, question.threads, longest, 1);
    load.prefix_cache = true;
    let keeping = |(mut failure, tail): (EngineFailure, String)| {
        failure.reason = format!("with its prefix cache: {}", failure.reason);
        (failure, tail)
    };
    let mut session = Session::open(program, &load, question.patience).map_err(keeping)?;
    let outputs = match after_others(&mut session, &prompts) {
        Ok(outputs) => outputs,
        Err(failure) => return Err(keeping((failure, session.abort()))),
    };
    let scores = session.hello.capabilities.score;
    let _ = session.close();
    if scores {
        load.prefix_cache = false;
        let failure = differ_scored(program, &load, question, (&outputs, alone), &prompts)?;
        return Ok(failure.map(|why| format!("{AFTER_OTHERS}: {why}")));
    }
    let judge = |row: usize, output: &Output| {
        let golden = output::head(prompts[row], NEW_TOKENS as usize);
        output::judge(&golden, output, question.limit.tie_width_nats, tokenizer)
    };
    let failure = differ_unscored(&outputs, alone, judge);
    Ok(failure.map(|why| format!("{AFTER_OTHERS}: {why}")))
}

const AFTER_OTHERS: &str = "with its prefix cache, after prompts that begin alike";

/// The first of `outputs`, (row, output) each, that is not what its row says `alone`, nor tied
/// with it by the target's own log-probabilities where it keeps nothing.
fn differ_scored(
    program: &Program,
    load: &Load,
    question: &Question,
    (outputs, alone): (&[(usize, Output)], &[Output]),
    prompts: &[&GoldenPrompt],
) -> Result<Option<String>, (EngineFailure, String)> {
    let others: Vec<_> = outputs
        .iter()
        .filter(|(row, o)| *o != alone[*row])
        .collect();
    if others.is_empty() {
        return Ok(None);
    }
    let mut session = Session::open(program, load, question.patience)?;
    for (row, output) in others {
        let (Output::Ids(alone), Output::Ids(output)) = (&alone[*row], output) else {
            return Err((no_ids(), session.abort()));
        };
        match differs(&mut session, question, prompts[*row], alone, output) {
            Ok(None) => {}
            Ok(reason) => {
                let _ = session.close();
                return Ok(reason);
            }
            Err(failure) => return Err((failure, session.abort())),
        }
    }
    let _ = session.close();
    Ok(None)
}

/// (row, output) of each prompt after two that begin like it.
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
/// None where it is too short for that.
fn others(ids: &[u32]) -> Vec<Vec<u32>> {
    let [beginning @ .., last_but_one, last] = ids else {
        return Vec::new();
    };
    if beginning.is_empty() {
        return Vec::new();
    }
    // Some token of its own, so that the vocabulary has it.
    let different = |from: u32| ids.iter().copied().find(|&id| id != from).unwrap_or(from);
    let mut leaves = beginning.to_vec();
    leaves.extend([different(*last_but_one), different(*last)]);
    vec![ids[..ids.len() - 1].to_vec(), leaves]
}

fn generate(session: &mut Session, prompt: Vec<u32>) -> Result<Output, EngineFailure> {
    session.send_generate(prompt, NEW_TOKENS)?;
    let (done, _) = session.next_done()?;
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
