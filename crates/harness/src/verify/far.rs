//! Contexts beyond the usual ones, asked only where a plan needs them: in a process of their own
//! that has room for them, the nearest first. What can't be asked that far (no memory, no time, a
//! shorter table of positions) is verified as far as it goes, and is wrong only where it answers
//! wrongly.

use super::gate::{JUDGED_MIN, PromptJudgement};
use super::prompt::judge;
use super::question::{Question, load_request};
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program};
use schema::golden::GoldenPrompt;
use schema::record::Status;
use schema::registry::Target;
use tokenizers::Tokenizer;

/// What was found out.
#[derive(Default)]
pub(super) struct Found {
    /// By prompt, nearest first; none after one that fails.
    pub judgements: Vec<PromptJudgement>,
    /// Why the farther ones were not asked.
    pub not_asked: Option<String>,
}

/// Ask `prompts`. An error is only that nobody wants to know any more.
pub(super) fn ask(
    target: &Target,
    program: &Program,
    question: &Question,
    tokenizer: &Tokenizer,
    mut prompts: Vec<&GoldenPrompt>,
) -> Result<Found, (EngineFailure, String)> {
    prompts.sort_by_key(|prompt| prompt.context_tokens());
    let mut found = Found::default();
    while let Some(longest) = prompts.last().map(|prompt| prompt.context_tokens()) {
        let load = load_request(target, question.model_dir, question.threads, longest, 1);
        let opened = Session::open(program, &load, question.patience);
        let mut session = match opened {
            Ok(session) => session,
            Err((failure, tail)) => {
                found.give_up(longest, failure, tail)?;
                prompts.pop();
                continue;
            }
        };
        for prompt in prompts {
            match judge(&mut session, question, tokenizer, prompt) {
                // Of an output that leaves the reference at once, at a tie, nothing is known.
                Ok(judgement) if judgement.failure.is_empty() && judgement.judged < JUDGED_MIN => {
                    found.not_asked = Some(format!(
                        "at {} positions {} output tokens could be judged, and {JUDGED_MIN} must be",
                        prompt.context_tokens(),
                        judgement.judged
                    ));
                    break;
                }
                Ok(judgement) => {
                    let is_wrong = !judgement.failure.is_empty();
                    found.judgements.push(judgement);
                    if is_wrong {
                        break;
                    }
                }
                Err(failure) => {
                    let tail = session.abort();
                    found.give_up(prompt.context_tokens(), failure, tail)?;
                    return Ok(found);
                }
            }
        }
        let _ = session.close();
        return Ok(found);
    }
    Ok(found)
}

impl Found {
    fn give_up(
        &mut self,
        context_tokens: u32,
        failure: EngineFailure,
        tail: String,
    ) -> Result<(), (EngineFailure, String)> {
        if failure.status == Status::NotRun {
            return Err((failure, tail));
        }
        // The nearest that fails says most.
        self.not_asked = Some(format!("at {context_tokens} positions {failure}"));
        Ok(())
    }
}
