//! One prompt of a golden, asked of a target and judged.

use super::gate::{self, PromptJudgement};
use super::output::{self, Output};
use super::question::Question;
use crate::engine::EngineFailure;
use crate::engine::session::Session;
use schema::golden::GoldenPrompt;
use schema::record::Status;
use tokenizers::Tokenizer;

/// Judge one prompt: by scores, or by what the target generates where it gives none.
pub(super) fn judge(
    session: &mut Session,
    question: &Question,
    tokenizer: &Tokenizer,
    prompt: &GoldenPrompt,
) -> Result<PromptJudgement, EngineFailure> {
    if !session.hello.capabilities.score {
        return judge_generated(session, question, tokenizer, prompt);
    }
    let scored = session.score(prompt.forced_ids(), prompt.top_ids.clone(), 0, false)?;
    Ok(gate::judge_scores(prompt, &scored, question.limit))
}

/// Judge one prompt by what the target generates.
fn judge_generated(
    session: &mut Session,
    question: &Question,
    tokenizer: &Tokenizer,
    prompt: &GoldenPrompt,
) -> Result<PromptJudgement, EngineFailure> {
    let positions = prompt.output_ids.len();
    session.send_generate(prompt.prompt_ids.clone(), positions as u32)?;
    let judged = match session.next_done() {
        Ok((done, _)) => {
            let tie_width_nats = question.limit.tie_width_nats;
            output::judge(prompt, &Output::from(done), tie_width_nats, tokenizer)
        }
        // A prompt that it can't be asked is one of which nothing is known.
        Err(failure) if failure.status == Status::Unsupported => Ok(output::Agreement::default()),
        Err(failure) => return Err(failure),
    };
    let (agreement, failure) = match judged {
        Ok(agreement) => (agreement, String::new()),
        Err(failure) => (output::Agreement::default(), failure),
    };
    // Only what was compared is claimed; a failure counts against all of its length.
    let reached = if failure.is_empty() {
        agreement.judged
    } else {
        positions
    };
    Ok(PromptJudgement {
        name: prompt.name.clone(),
        context_tokens: (prompt.prompt_ids.len() + reached) as u32,
        judged: agreement.judged,
        kl_nats: None,
        decisive: agreement.decisive,
        agreed: agreement.decisive,
        failure,
    })
}
