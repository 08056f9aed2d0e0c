//! Verifies contexts of other lengths than the usual ones.
//!
//! Prompts of every length modulo 64 are checked, because kernels work on tiles: a kernel that is
//! wrong for a last tile that isn't full may be right at the few lengths of a golden's prompts.
//!
//! The reference needn't be asked anything more for this. The shortest golden prompt and the first
//! `n` of its 64 forced tokens are, taken together, a prompt of another length, after which the
//! golden knows the distributions too. So prompts of 64 consecutive lengths are fed at once, each
//! with a step after it.
//!
//! Contexts beyond the usual ones are asked about only where a plan needs them: in a process of its
//! own that has room for them, the nearest first. A target that can't be asked that far (no memory,
//! no time, a shorter table of positions) is verified as far as it goes, and is wrong only where it
//! answers wrongly.

use super::gate::{JUDGED_MIN, PromptJudgement};
use super::setup::{GateSetup, judge};
use super::told;
use crate::engine::load::load_request;
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program};
use schema::golden::{GoldenPrompt, Limit};
use schema::record::Status;
use schema::registry::Target;
use tokenizers::Tokenizer;

/// Positions judged after each prompt: an error in the cache shows at the second.
const POSITIONS: usize = 2;
/// Output tokens compared after each prompt, where there are no scores.
const NEW_TOKENS: usize = 4;
/// Factor by which limits are raised, because they are for the mean over 64 positions, and a mean
/// over two varies more. Measured on tiny-llama, the largest KL of the 64 prompts was 1.0 times the
/// unraised limit at bf16, 0.9 times at q4_k_m (then judged by the model's own weights) and 0.4 times
/// at q8_0. A prompt that is read wrongly is off by 4 nats, a hundred times what even q8_0 may be.
const SLACK: f64 = 4.0;

/// Check prompts of every length modulo 64, within `verified_positions`; returns a description of
/// the first failure.
pub fn check(
    session: &mut Session,
    setup: &GateSetup,
    tokenizer: &Tokenizer,
    verified_positions: u32,
) -> Result<Option<String>, EngineFailure> {
    let prompts = setup.golden.prompts.iter();
    let Some(golden) = prompts.min_by_key(|prompt| prompt.prompt_ids.len()) else {
        return Ok(None);
    };
    let scores = session.hello.capabilities.score;
    let positions = if scores { POSITIONS } else { NEW_TOKENS };
    let limit = Limit {
        kl_nats_max: SLACK * setup.limit.kl_nats_max,
        ..setup.limit.clone()
    };
    for taken in 0..golden.output_ids.len() {
        let prompt = longer_by(golden, taken, positions);
        if prompt.context_tokens() > verified_positions {
            break;
        }
        told::context(&prompt);
        let failure = judge(session, &limit, tokenizer, &prompt)?.failure;
        if !failure.is_empty() {
            let tokens = prompt.prompt_ids.len();
            return Ok(Some(format!(
                "after a prompt of {tokens} tokens: {failure}"
            )));
        }
    }
    Ok(None)
}

/// A golden prompt with `taken` of its forced tokens made part of the prompt, and at most
/// `positions` of those that follow.
fn longer_by(golden: &GoldenPrompt, taken: usize, positions: usize) -> GoldenPrompt {
    let end = (taken + positions).min(golden.output_ids.len());
    let prompt_ids = [&golden.prompt_ids[..], &golden.output_ids[..taken]].concat();
    GoldenPrompt {
        name: format!("{} tokens", prompt_ids.len()),
        prompt_ids,
        output_ids: golden.output_ids[taken..end].to_vec(),
        top_ids: golden.top_ids[taken..end].to_vec(),
        top_logprobs: golden.top_logprobs[taken..end].to_vec(),
    }
}

/// The judgements of the far contexts.
#[derive(Default)]
pub(super) struct Found {
    /// The judgements by prompt, nearest first; none after one that fails.
    pub judgements: Vec<PromptJudgement>,
    /// Why the farther prompts were not asked.
    pub not_asked: Option<String>,
}

/// Ask about `prompts`. `Err` only where the run was interrupted, the user skipped the target, or it
/// died of an instruction that a lower limit avoids.
pub(super) fn ask(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
    tokenizer: &Tokenizer,
    mut prompts: Vec<&GoldenPrompt>,
) -> Result<Found, EngineFailure> {
    prompts.sort_by_key(|prompt| prompt.context_tokens());
    let mut found = Found::default();
    while let Some(longest) = prompts.last().map(|prompt| prompt.context_tokens()) {
        let load = load_request(target, setup.model_dir, setup.threads, longest, 1);
        let opened = Session::open(program, &load, &setup.timeouts);
        let mut session = match opened {
            Ok(session) => session,
            Err(failure) => {
                found.give_up(program, longest, failure)?;
                prompts.pop();
                continue;
            }
        };
        for prompt in prompts {
            told::context(prompt);
            match judge(&mut session, setup.limit, tokenizer, prompt) {
                // An output that departs from the reference at a tie so early says nothing.
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
                    let failure = failure.with_stderr(session.process.abort());
                    found.give_up(program, prompt.context_tokens(), failure)?;
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
    /// Note why no farther context is asked about. `Err` where the target is to be judged anew: it
    /// was interrupted, or died of an instruction that a lower limit avoids.
    fn give_up(
        &mut self,
        program: &Program,
        context_tokens: u32,
        failure: EngineFailure,
    ) -> Result<(), EngineFailure> {
        if failure.status == Status::NotRun || program.after(&failure).is_some() {
            return Err(failure);
        }
        // The farthest prompts are dropped first, so the reason of the nearest context remains.
        self.not_asked = Some(format!("at {context_tokens} positions {failure}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_golden_prompt_gives_prompts_of_every_length_modulo_64() {
        let golden = GoldenPrompt {
            name: "short".into(),
            prompt_ids: (0..10).collect(),
            output_ids: (100..164).collect(),
            top_ids: (100..164).map(|id| vec![id, 0]).collect(),
            top_logprobs: vec![vec![-0.1, -3.0]; 64],
        };
        let prompts: Vec<GoldenPrompt> = (0..64).map(|n| longer_by(&golden, n, 2)).collect();
        let residues: BTreeSet<usize> = prompts.iter().map(|p| p.prompt_ids.len() % 64).collect();
        assert_eq!(residues.len(), 64);
        assert_eq!(prompts[0].prompt_ids, golden.prompt_ids);
        assert_eq!(prompts[3].prompt_ids[10..], [100, 101, 102]);
        assert_eq!(prompts[3].output_ids, [103, 104]);
        assert_eq!(prompts[3].top_ids[0], [103, 0]);
        // The last forced token has one position after it, not two.
        assert_eq!(prompts[63].output_ids, [163]);
        assert_eq!(prompts[63].forced_ids().len(), 73);
    }
}
