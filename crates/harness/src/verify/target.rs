//! Takes one target through the gate: scores every golden prompt, or compares outputs where it
//! can't score; checks prompts of every length, generation at every batch size that will be timed,
//! prompts asked twice, the longer contexts that a plan needs, prompts that begin alike, and a model
//! with outliers; and makes a record of the result.

use super::gate::{JUDGED_MIN, PromptJudgement, Scope};
use super::output::Output;
use super::setup::{GateSetup, in_session, judge};
use super::{batch, gate, lengths, outliers, prefix, repeats, setup, told};
use crate::engine::life::check_engine;
use crate::engine::load::load_request;
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program, kv};
use schema::golden::GoldenPrompt;
use schema::record::{Outliers, Status, VerifyRecord};
use schema::registry::Target;
use tokenizers::Tokenizer;
use watch::warn;

/// The record of a target that could not be verified.
pub fn not_verified(target: &Target, model: &str, failure: &EngineFailure) -> VerifyRecord {
    VerifyRecord {
        target: target.id.clone(),
        model: model.to_owned(),
        status: failure.status,
        reason: failure.reason.clone(),
        scope: "none".into(),
        ..VerifyRecord::default()
    }
}

/// Verify one target; returns its record. One that dies of an illegal instruction is tried once
/// more, its library limited to fewer; the record has that limit, for all launches that follow.
pub fn verify(target: &Target, program: &Program, setup: &GateSetup) -> VerifyRecord {
    let mut result = ask(target, program, setup);
    let failure = result.as_ref().err();
    let lower = failure.and_then(|failure| program.after(failure));
    let limit = lower.as_ref().unwrap_or(program).isa_limit();
    if let Some(lower) = &lower {
        if let Some(limit) = limit {
            let (id, limit) = (&target.id, limit.assignment());
            warn(format!(
                "{id} died of an illegal instruction and is asked once more with {limit}"
            ));
        }
        result = ask(target, lower, setup);
    }
    let record = result.unwrap_or_else(|failure| failed(target, setup, failure));
    VerifyRecord {
        isa_limit: limit.cloned(),
        ..record
    }
}

fn failed(target: &Target, setup: &GateSetup, mut failure: EngineFailure) -> VerifyRecord {
    // The last line of stderr is usually the cause; the rest is in the terminal's scrollback.
    let last = failure.stderr_tail.lines().last().unwrap_or_default();
    if failure.status == Status::Crashed && !last.is_empty() {
        failure.reason = format!("{}; its last words: {last}", failure.reason);
    }
    not_verified(target, &setup.golden.model, &failure)
}

fn ask(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
) -> Result<VerifyRecord, EngineFailure> {
    let (far, usual): (Vec<_>, Vec<_>) = setup.golden.prompts.iter().partition(|p| p.is_long());
    let longest = usual.iter().map(|p| p.context_tokens()).max().unwrap_or(1);
    let max_batch = setup.batches.iter().copied().max().unwrap_or(1);
    let tokenizer = crate::prompts::tokenizer(setup.model_dir)
        .map_err(|error| EngineFailure::new(Status::Unavailable, format!("{error:#}")))?;
    let load = load_request(target, setup.model_dir, setup.threads, longest, max_batch);
    let mut answers = in_session(program, &load, setup, |session| {
        check_engine(&session.hello.engine, &target.engine)?;
        kv::check(target, setup.model_dir, &session.loaded)?;
        let mut answers = questions(session, setup, &tokenizer, &usual)?;
        answers.keeps_8_bits = kv::keeps_8_bits(target, setup.model_dir, &session.loaded);
        Ok(answers)
    })?;
    if let (None, Some(alone)) = (&answers.failure, &answers.alone) {
        told::part("prompts that begin alike");
        match prefix::check(target, program, setup, &tokenizer, alone) {
            Ok(failure) => {
                answers.prefix_cache = failure.is_none();
                answers.failure = failure;
            }
            Err(failure) if failure.judges_nothing() => return Err(failure),
            // Only the prefix cache failed; the target is verified for everything else.
            Err(failure) => answers.prefix_cache_failure = failure.to_string(),
        }
    }
    let passes = matches!(answers.scope(), Scope::Whole(_));
    if passes && answers.failure.is_none() && !far.is_empty() {
        let found = lengths::ask(target, program, setup, &tokenizer, far)?;
        answers.judgements.extend(found.judgements);
        answers.not_asked = found.not_asked;
    }
    let passes = answers.failure.is_none() && answers.scope() != Scope::None;
    if passes && let Some(asked) = outliers::ask(target, program, setup)? {
        answers.failure = asked.failure;
        answers.outliers = Some(asked.found);
    }
    Ok(conclude(target, setup, answers))
}

/// The results of all checks of a target.
#[derive(Default)]
struct Answers {
    /// Whether it gives log-probabilities.
    scores: bool,
    /// The gap in its positions that its `hello` declares.
    position_gap: Option<String>,
    /// The judgements by prompt, shortest first.
    judgements: Vec<PromptJudgement>,
    /// What is wrong with prompts of other lengths, with requests in a batch, with prompts asked
    /// twice or with prompts that begin alike.
    failure: Option<String>,
    /// Time that prompts take when asked again, relative to the first time.
    repeat_ratio: Option<f64>,
    /// Why longer contexts that the plan needs were not asked.
    not_asked: Option<String>,
    /// The outputs without a prefix cache, if the cache is to be checked.
    alone: Option<Vec<Output>>,
    /// Whether the prefix cache was checked and passed.
    prefix_cache: bool,
    /// How its process with the prefix cache failed; empty where it didn't.
    prefix_cache_failure: String,
    /// The answers about the model with outliers, if it was asked.
    outliers: Option<Outliers>,
    /// Whether it keeps keys and values in 8 bits.
    keeps_8_bits: bool,
}

impl Answers {
    fn scope(&self) -> Scope {
        gate::scope(&self.judgements, self.position_gap.is_some())
    }
}

fn questions(
    session: &mut Session,
    setup: &GateSetup,
    tokenizer: &Tokenizer,
    prompts: &[&GoldenPrompt],
) -> Result<Answers, EngineFailure> {
    let mut judgements = Vec::new();
    for prompt in prompts {
        told::context(prompt);
        judgements.push(judge(session, setup.limit, tokenizer, prompt)?);
    }
    judgements.sort_by_key(|judgement| judgement.context_tokens);
    let mut answers = Answers {
        scores: session.hello.capabilities.score,
        position_gap: session.hello.capabilities.position_gap.clone(),
        judgements,
        ..Answers::default()
    };
    let (Scope::Whole(positions) | Scope::Limited(positions)) = answers.scope() else {
        return Ok(answers); // it has failed already
    };
    answers.failure = lengths::check(session, setup, tokenizer, positions)?;
    if answers.failure.is_none() {
        told::part("requests in company");
        answers.failure = batch::check(session, setup, tokenizer, positions)?;
    }
    if answers.failure.is_none() {
        told::part("prompts asked twice");
        answers.repeat_ratio = repeats::ratio(session, setup, positions)?;
        answers.failure = answers.repeat_ratio.and_then(repeats::failure);
    }
    let keeps = setup.prefix_cache && session.hello.capabilities.prefix_cache;
    if answers.failure.is_none() && keeps {
        answers.alone = Some(prefix::alone(session, setup)?);
    }
    Ok(answers)
}

fn conclude(target: &Target, setup: &GateSetup, answers: Answers) -> VerifyRecord {
    let scope = answers.scope();
    let judged_mean = gate::judged_mean(&answers.judgements);
    let why = match answers.judgements.iter().find(|j| !j.failure.is_empty()) {
        Some(first) => format!(
            "prompt {:?} ({} positions): {}",
            first.name, first.context_tokens, first.failure
        ),
        None => format!(
            "its output leaves the reference's at a tie after {judged_mean:.1} tokens on average, and a wrong engine's might too: {JUDGED_MIN} must be judged"
        ),
    };
    let (mut status, mut positions, mut reason) = match scope {
        Scope::Whole(positions) if !answers.scores => (
            Status::Ok,
            Some(positions),
            format!(
                "no log-probabilities: its output was compared, {judged_mean:.1} tokens a prompt on average"
            ),
        ),
        Scope::Whole(positions) => (Status::Ok, Some(positions), String::new()),
        Scope::Limited(positions) => {
            let gap = answers.position_gap.unwrap_or_default();
            let reason = format!("verified to {positions} positions only: {gap}; {why}");
            (Status::Ok, Some(positions), reason)
        }
        Scope::None => match answers.position_gap {
            // The engine itself declares that it doesn't do what this model needs.
            Some(gap) => (Status::Unsupported, None, format!("{gap}; {why}")),
            None => (Status::WrongOutput, None, why),
        },
    };
    let mut say = |more: String| match reason.is_empty() {
        true => reason = more,
        false => reason = format!("{reason}; {more}"),
    };
    if let (Some(positions), Some(why)) = (positions, answers.not_asked) {
        say(format!("verified to {positions} positions only: {why}"));
    }
    if let Some(failure) = answers.failure {
        status = Status::WrongOutput;
        positions = None;
        say(failure);
    }
    // The record's closeness is about the contexts that may be timed.
    let is_within = |j: &&PromptJudgement| positions.is_none_or(|limit| j.context_tokens <= limit);
    let within: Vec<_> = answers.judgements.iter().filter(is_within).collect();
    let decisive: usize = within.iter().map(|j| j.decisive).sum();
    let agreed: usize = within.iter().map(|j| j.agreed).sum();
    let kl_nats = within.iter().filter_map(|j| j.kl_nats).reduce(f64::max);
    let excuse = outliers::excuse(answers.keeps_8_bits, kl_nats, setup.limit);
    if let (Scope::None, setup::Outliers::Itself, Some(excuse)) = (scope, setup.outliers, excuse) {
        status = Status::Unsupported;
        reason = format!("{excuse}: {reason}");
    }
    let scope_name = match (status, answers.scores) {
        (Status::Ok, true) => "logits",
        (Status::Ok, false) => "text",
        _ => "none",
    };
    VerifyRecord {
        target: target.id.clone(),
        model: setup.golden.model.clone(),
        status,
        reason,
        verified_positions: positions,
        scope: scope_name.into(),
        kl_nats: kl_nats.filter(|kl| kl.is_finite()),
        argmax_agreement: (decisive > 0).then(|| agreed as f64 / decisive as f64),
        batches: setup.batches.to_vec(),
        isa_limit: None,
        prefix_cache: answers.prefix_cache,
        prefix_cache_failure: answers.prefix_cache_failure,
        repeat_ratio: answers.repeat_ratio,
        outliers: answers.outliers,
    }
}
