//! Asks a target about the model with outliers (`data/parity.toml` names it, `models::outliers`
//! makes it), whatever model is measured: keys in 8 bits, small activations that are left out and a
//! wrong epsilon change its answers by tens of times what weights of 8 bits do, and those of a model
//! without outliers by less.
//!
//! A target that declares keys and values of 8 bits may fail: that is what its format costs there.

use super::goldens::Goldens;
use super::setup::{self, GateSetup, judge};
use crate::engine::load::load_request;
use crate::engine::session::Session;
use crate::engine::{EngineFailure, Program};
use anyhow::Result;
use base::repo::Repo;
use schema::golden::GoldenPrompt;
use schema::record::{Outliers, Status, VerifyRecord};
use schema::registry::{KvFormat, Target};
use std::path::PathBuf;

/// Why a target that keeps keys and values in 8 bits may fail.
const EIGHT_BITS: &str =
    "it keeps keys and values in 8 bits, as it declares, which this model shows";

/// The model with outliers, for the targets of a run.
pub(super) struct Model {
    goldens: Goldens,
    dir: PathBuf,
}

impl Model {
    /// Load it for a run of `measured`; `None` where the run measures that model itself, or
    /// `data/parity.toml` names none.
    pub fn load(repo: &Repo, measured: &str, targets: &[Target]) -> Result<Option<Self>> {
        let limits = repo.parity_limits()?;
        let Some(model) = limits.outliers_beside(measured) else {
            return Ok(None);
        };
        Ok(Some(Self {
            goldens: Goldens::load(repo, model, targets, &[])?,
            dir: repo.model_dir(model),
        }))
    }

    /// What a target is asked with; `None` where its weights have no golden.
    pub fn for_target(&self, target: &Target) -> Option<setup::Outliers<'_>> {
        Some(setup::Outliers {
            golden: self.goldens.for_target(target).ok()?,
            model_dir: &self.dir,
        })
    }
}

/// Ask one target. Returns what it answered, and what is wrong with it.
///
/// # Errors
/// Where it can't be asked. A target that doesn't support the model is excused.
pub(super) fn ask(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
    model: &setup::Outliers,
) -> Result<(Outliers, Option<String>), EngineFailure> {
    let mut found = Outliers {
        model: model.golden.model.clone(),
        ..Outliers::default()
    };
    let judgements = match judgements(target, program, setup, model) {
        Err(failure) if failure.status == Status::Unsupported => {
            found.excuse = failure.reason;
            return Ok((found, None));
        }
        judgements => judgements?,
    };
    let kl_nats = judgements.iter().filter_map(|(_, kl, _)| *kl);
    found.kl_nats = kl_nats.reduce(f64::max).filter(|kl| kl.is_finite());
    let failed = judgements.iter().find(|(.., failure)| !failure.is_empty());
    let Some((prompt, _, failure)) = failed else {
        return Ok((found, None));
    };
    if target.kv == Some(KvFormat::Int8) {
        found.excuse = EIGHT_BITS.to_owned();
        return Ok((found, None));
    }
    let failure = format!(
        "it takes a shortcut that {} shows (keys of fewer bits than it declares, activations left out, another epsilon): prompt {prompt:?}: {failure}",
        found.model
    );
    Ok((found, Some(failure)))
}

/// The name of each usual prompt, with its mean KL divergence (nats) and what is wrong with it.
type Judged<'a> = Vec<(&'a str, Option<f64>, String)>;

fn judgements<'a>(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
    model: &setup::Outliers<'a>,
) -> Result<Judged<'a>, EngineFailure> {
    let prompts = model
        .golden
        .prompts
        .iter()
        .filter(|prompt| !prompt.is_long());
    let mut prompts: Vec<&GoldenPrompt> = prompts.collect();
    prompts.sort_by_key(|prompt| prompt.context_tokens());
    let longest = prompts.last().map_or(1, |prompt| prompt.context_tokens());
    let tokenizer = crate::prompts::tokenizer(model.model_dir)
        .map_err(|error| EngineFailure::new(Status::Unavailable, format!("{error:#}")))?;
    let load = load_request(target, model.model_dir, setup.threads, longest, 1);
    let mut session = Session::open(program, &load, &setup.timeouts)?;
    let mut judged = Judged::new();
    for prompt in prompts {
        match judge(&mut session, setup.limit, &tokenizer, prompt) {
            Ok(found) => judged.push((&prompt.name, found.kl_nats, found.failure)),
            Err(failure) => return Err(failure.with_stderr(session.abort())),
        }
    }
    let _ = session.close();
    Ok(judged)
}

/// The record of a whole verification on the model with outliers, `unsupported` where it failed for
/// the keys and values of 8 bits that its target declares.
pub fn excused(target: &Target, record: VerifyRecord) -> VerifyRecord {
    if record.status != Status::WrongOutput || target.kv != Some(KvFormat::Int8) {
        return record;
    }
    VerifyRecord {
        status: Status::Unsupported,
        reason: format!("{EIGHT_BITS}: {}", record.reason),
        ..record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::example;

    #[test]
    fn only_declared_8_bits_excuse_a_failure() {
        let found = |kv, status| {
            let target = Target {
                kv,
                ..example::target("a.cpu.q8_0")
            };
            let record = VerifyRecord {
                status,
                reason: "mean KL".into(),
                ..VerifyRecord::default()
            };
            excused(&target, record)
        };
        let int8 = Some(KvFormat::Int8);
        let record = found(int8, Status::WrongOutput);
        assert_eq!(record.status, Status::Unsupported);
        assert!(record.reason.ends_with("this model shows: mean KL"));
        assert_eq!(found(int8, Status::Ok).status, Status::Ok);
        assert_eq!(found(int8, Status::Crashed).status, Status::Crashed);
        let f16 = Some(KvFormat::F16);
        assert_eq!(found(f16, Status::WrongOutput).status, Status::WrongOutput);
    }
}
