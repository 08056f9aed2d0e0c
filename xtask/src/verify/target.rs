//! One target through the gate: score every golden prompt, generate at every
//! batch size that will be timed, and say what was found as a record.

use super::batch;
use super::gate::{self, PromptJudgement, Scope};
use super::question::{Question, load_request};
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program};
use schema::record::{Status, VerifyRecord};
use schema::registry::Target;

/// What was found: the record, and each prompt's judgement for whoever asks why.
pub struct Verified {
    /// For `verify.jsonl`.
    pub record: VerifyRecord,
    /// By prompt, shortest first.
    pub judgements: Vec<PromptJudgement>,
}

/// A record of a target that could not be asked.
pub fn not_verified(target: &Target, model: &str, failure: &EngineFailure) -> VerifyRecord {
    VerifyRecord {
        target: target.id.clone(),
        model: model.to_owned(),
        status: failure.status,
        reason: failure.reason.clone(),
        verified_positions: None,
        scope: "none".into(),
        kl_nats: None,
        argmax_agreement: None,
        batches: Vec::new(),
    }
}

/// Put one target through the gate.
pub fn verify(target: &Target, program: &Program, question: &Question) -> Verified {
    match ask(target, program, question) {
        Ok(verified) => verified,
        Err((failure, stderr_tail)) => {
            let mut failure = failure;
            // The last line of stderr is usually the cause; the rest is in the terminal's scrollback.
            if failure.status == Status::Crashed
                && let Some(last) = stderr_tail.lines().last().filter(|line| !line.is_empty())
            {
                failure.reason = format!("{}; its last words: {last}", failure.reason);
            }
            Verified {
                record: not_verified(target, &question.golden.model, &failure),
                judgements: Vec::new(),
            }
        }
    }
}

fn ask(
    target: &Target,
    program: &Program,
    question: &Question,
) -> Result<Verified, (EngineFailure, String)> {
    let prompts = &question.golden.prompts;
    let longest = prompts
        .iter()
        .map(|p| p.prompt_ids.len() + p.output_ids.len())
        .max()
        .unwrap_or(1);
    let max_batch = question.batches.iter().copied().max().unwrap_or(1);
    let load = load_request(
        target,
        question.model_dir,
        question.threads,
        longest as u32,
        max_batch,
    );
    let mut session = Session::open(program, &load, question.patience)?;
    let result = questions(&mut session, question);
    match result {
        Ok((judgements, batch_failure)) => {
            let gap = session.hello.capabilities.position_gap.clone();
            let (_, _) = session.close();
            Ok(conclude(target, question, judgements, batch_failure, gap))
        }
        Err(failure) => {
            let tail = session.abort();
            Err((failure, tail))
        }
    }
}

type Answers = (Vec<PromptJudgement>, Option<String>);

fn questions(session: &mut Session, question: &Question) -> Result<Answers, EngineFailure> {
    if !session.hello.capabilities.score {
        return Err(EngineFailure::new(
            Status::Unsupported,
            "it reports no log-probabilities, and a text-only scope isn't implemented",
        ));
    }
    let mut judgements = Vec::new();
    for prompt in &question.golden.prompts {
        let scored = session.score(prompt.forced_ids(), prompt.top_ids.clone(), 0, false)?;
        judgements.push(gate::judge_scores(prompt, &scored, question.limit));
    }
    judgements.sort_by_key(|judgement| judgement.context_tokens);
    let declared = session.hello.capabilities.position_gap.is_some();
    let batch_failure = match gate::scope(&judgements, declared) {
        Scope::Whole(positions) | Scope::Limited(positions) => {
            batch::check(session, question, positions)?
        }
        Scope::None => None, // it has failed already
    };
    Ok((judgements, batch_failure))
}

fn conclude(
    target: &Target,
    question: &Question,
    judgements: Vec<PromptJudgement>,
    batch_failure: Option<String>,
    position_gap: Option<String>,
) -> Verified {
    let scope = gate::scope(&judgements, position_gap.is_some());
    let first_failure = judgements.iter().find(|j| !j.failure.is_empty()).map(|j| {
        format!(
            "prompt {:?} ({} positions): {}",
            j.name, j.context_tokens, j.failure
        )
    });
    let (mut status, mut positions, mut reason) = match scope {
        Scope::Whole(positions) => (Status::Ok, Some(positions), String::new()),
        Scope::Limited(positions) => {
            let gap = position_gap.unwrap_or_default();
            let why = first_failure.unwrap_or_default();
            (
                Status::Ok,
                Some(positions),
                format!("verified to {positions} positions only: {gap}; {why}"),
            )
        }
        Scope::None => {
            let why = first_failure.unwrap_or_default();
            match position_gap {
                // By its own word the engine doesn't do what this model needs.
                Some(gap) => (Status::Unsupported, None, format!("{gap}; {why}")),
                None => (Status::WrongOutput, None, why),
            }
        }
    };
    if let Some(batch_failure) = batch_failure {
        status = Status::WrongOutput;
        positions = None;
        reason = if reason.is_empty() {
            batch_failure
        } else {
            format!("{reason}; {batch_failure}")
        };
    }
    // What the record says of closeness is about what may be timed.
    let within: Vec<_> = judgements
        .iter()
        .filter(|j| positions.is_none_or(|limit| j.context_tokens <= limit))
        .collect();
    let decisive: usize = within.iter().map(|j| j.decisive).sum();
    let agreed: usize = within.iter().map(|j| j.agreed).sum();
    let kl_nats = within.iter().map(|j| j.kl_nats).fold(0.0, f64::max);
    let record = VerifyRecord {
        target: target.id.clone(),
        model: question.golden.model.clone(),
        status,
        reason,
        verified_positions: positions,
        scope: if status == Status::Ok {
            "logits"
        } else {
            "none"
        }
        .into(),
        kl_nats: kl_nats.is_finite().then_some(kl_nats),
        argmax_agreement: (decisive > 0).then(|| agreed as f64 / decisive as f64),
        batches: question.batches.to_vec(),
    };
    Verified { record, judgements }
}
