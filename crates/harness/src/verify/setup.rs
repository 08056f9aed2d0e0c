//! What a target is verified with: which golden, which limits, which batch sizes. Also asks and judges
//! one prompt of a golden.

use super::gate::PromptJudgement;
use super::output::Output;
use super::{gate, output};
use crate::engine::session::{Session, Timeouts};
use crate::engine::{EngineFailure, Program};
use anyhow::{Context, Result};
use protocol::wire::Load;
use schema::golden::{Golden, GoldenPrompt, Limit, ParityLimits};
use schema::record::Status;
use std::path::Path;
use std::time::Duration;
use tokenizers::Tokenizer;

/// The inputs of a verification.
pub struct GateSetup<'a> {
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
    /// The model with outliers, if the target is asked about it.
    pub outliers: Outliers<'a>,
    /// How long loading and answering may take.
    pub timeouts: Timeouts,
}

/// How the model with outliers takes part in a verification.
#[derive(Clone, Copy)]
pub enum Outliers<'a> {
    /// It takes no part.
    None,
    /// It is the very model that is verified.
    Itself,
    /// The target is asked about it after it has passed.
    Beside {
        /// Its id.
        model: &'a str,
        /// Its golden, or why there is none for the target's weights.
        golden: Result<&'a Golden, &'a str>,
        /// The directory of its files.
        model_dir: &'a Path,
    },
}

impl Outliers<'_> {
    /// How it takes part where no target is asked about a second model.
    pub fn alone(limits: &ParityLimits, verified: &str) -> Self {
        match limits.outliers.as_deref() == Some(verified) {
            true => Self::Itself,
            false => Self::None,
        }
    }
}

/// The time limits of a verification outside a run. A first start may compile and tune every kernel
/// for a device, and keep the results: on a software device that takes ten minutes.
pub fn default_timeouts() -> Timeouts {
    Timeouts::outside_a_run(Duration::from_secs(1200), Duration::from_secs(300))
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

/// Ask in a process of its own, which is closed afterwards, or killed where it fails.
pub(super) fn in_session<T>(
    program: &Program,
    load: &Load,
    setup: &GateSetup,
    ask: impl FnOnce(&mut Session) -> Result<T, EngineFailure>,
) -> Result<T, EngineFailure> {
    let mut session = Session::open(program, load, &setup.timeouts)?;
    match ask(&mut session) {
        Ok(answer) => {
            let _ = session.close();
            Ok(answer)
        }
        Err(failure) => Err(failure.with_stderr(session.process.abort())),
    }
}

/// Judge one prompt: by scores, or by the output where the target gives no scores.
pub(super) fn judge(
    session: &mut Session,
    limit: &Limit,
    tokenizer: &Tokenizer,
    prompt: &GoldenPrompt,
) -> Result<PromptJudgement, EngineFailure> {
    if session.hello.capabilities.score {
        let scored = session.score(prompt.forced_ids(), prompt.top_ids.clone(), 0, false)?;
        return Ok(gate::judge_scores(prompt, &scored, limit));
    }
    let positions = prompt.output_ids.len();
    session.send_one_of(1, prompt.prompt_ids.clone(), positions as u32)?;
    let judged = match session.next_done() {
        Ok((done, _)) => {
            output::judge(prompt, &Output::from(done), limit.tie_width_nats, tokenizer)
        }
        // A prompt that the target can't take says nothing about it: no position is judged.
        Err(failure) if failure.status == Status::Unsupported => Ok(output::Agreement::default()),
        Err(failure) => return Err(failure),
    };
    // A prompt that passes counts up to the positions compared, one that fails in full.
    let (agreement, reached, failure) = match judged {
        Ok(agreement) => (agreement, agreement.judged, String::new()),
        Err(failure) => (output::Agreement::default(), positions, failure),
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
