//! Describes what a target is verified with: which golden, which limits, and how it is loaded; and
//! asks and judges one prompt of a golden.

use super::gate::PromptJudgement;
use super::output::Output;
use super::{gate, output};
use crate::engine::EngineFailure;
use crate::engine::session::{Patience, Session};
use anyhow::{Context, Result};
use protocol::wire::Load;
use schema::golden::{Golden, GoldenPrompt, Limit, ParityLimits};
use schema::plan::Case;
use schema::record::Status;
use schema::registry::Target;
use std::path::Path;
use std::time::Duration;
use tokenizers::Tokenizer;

/// The inputs of a verification.
pub struct Question<'a> {
    /// The golden of the model.
    pub golden: &'a Golden,
    /// The limit of the target's precision.
    pub limit: &'a Limit,
    /// The directory of the model's files, its tokenizer among them.
    pub model_dir: &'a Path,
    /// The number of compute threads.
    pub threads: u32,
    /// The batch sizes that will be timed, at least one.
    pub batches: &'a [u32],
    /// Whether to check prompts that begin alike, where `hello` declares a prefix cache.
    pub prefix_cache: bool,
    /// How long loading and answering may take.
    pub patience: Patience,
}

/// The `load` request for a target.
pub fn load_request(
    target: &Target,
    model_dir: &Path,
    threads: u32,
    max_context: u32,
    max_batch: u32,
) -> Load {
    Load {
        model_dir: model_dir.display().to_string(),
        weights: target.weights.clone(),
        precision: target.precision.clone(),
        backend: target.backend.clone(),
        variant: target.variant.clone(),
        device: 0,
        threads,
        max_context,
        max_batch,
        prefix_cache: false,
    }
}

/// The `load` request for a target that is about to run `cases`.
pub fn load_for_cases<'a>(
    target: &Target,
    model_dir: &Path,
    threads: u32,
    cases: impl IntoIterator<Item = &'a Case>,
) -> Load {
    let (mut max_context, mut max_batch) = (1, 1);
    for case in cases {
        max_context = max_context.max(case.prompt_tokens + case.new_tokens);
        max_batch = max_batch.max(case.concurrency);
    }
    load_request(target, model_dir, threads, max_context, max_batch)
}

/// The time limits of a verification outside a run. A first start may compile and tune every kernel
/// for a device, and keep the results: on a software device that takes ten minutes.
pub fn default_patience() -> Patience {
    Patience::outside_a_run(Duration::from_secs(1200), Duration::from_secs(300))
}

/// The batch sizes that are checked outside a run.
pub const BATCHES: [u32; 3] = [1, 4, 8];

/// The number of CPUs that this process may use.
pub fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// The limit of a precision, or an error where `data/parity.toml` has none.
pub fn limit<'a>(limits: &'a ParityLimits, precision: &str) -> Result<&'a Limit> {
    limits
        .precision
        .get(precision)
        .with_context(|| format!("data/parity.toml has no [precision.{precision}]: add its limits, with the measurement they come from"))
}

/// Judge one prompt: by scores, or by the output where the target gives no scores.
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

/// Judge one prompt by the target's output.
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
        // Where the target can't take a prompt, nothing is known of it.
        Err(failure) if failure.status == Status::Unsupported => Ok(output::Agreement::default()),
        Err(failure) => return Err(failure),
    };
    let (agreement, failure) = match judged {
        Ok(agreement) => (agreement, String::new()),
        Err(failure) => (output::Agreement::default(), failure),
    };
    // Only the positions compared are claimed; a failure counts at the prompt's whole length.
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
