//! Asks a target about the model with outliers (`data/parity.toml` names it, `models::outliers`
//! makes it), whatever model is measured. Keys in 8 bits, small activations that are left out and a
//! wrong epsilon change its answers by tens of times what 8-bit weights do. They change the answers
//! of a model without outliers less.
//!
//! A target that openly keeps keys and values in 8 bits may differ as much as these cost there.

use super::gate::{self, PromptJudgement, Scope};
use super::goldens::Goldens;
use super::setup::{self, GateSetup, in_session, judge};
use super::told;
use crate::engine::load::load_request;
use crate::engine::{EngineFailure, Program, kv};
use anyhow::Result;
use base::repo::Repo;
use schema::golden::{Golden, GoldenPrompt, Limit, ParityLimits};
use schema::plan::Plan;
use schema::record::{Outliers, Status, VerifyRecord};
use schema::registry::{DeviceKind, Target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The largest mean KL divergence (nats) that keys and values of 8 bits excuse.
const EIGHT_BITS_KL_NATS: f64 = 1.5;

/// The model with outliers, for the targets of a run.
pub(super) struct Model {
    id: String,
    goldens: Goldens,
    dir: PathBuf,
}

impl Model {
    /// Load it for a run of `measured`; `None` where the run measures that model itself, or `limits`
    /// name none.
    pub fn load(
        repo: &Repo,
        limits: &ParityLimits,
        measured: &str,
        targets: &[Target],
    ) -> Result<Option<Self>> {
        let Some(id) = limits.outliers_beside(measured, targets) else {
            return Ok(None);
        };
        Ok(Some(Self {
            id: id.to_owned(),
            goldens: Goldens::load(repo, id, targets, &[])?,
            dir: repo.model_dir(id),
        }))
    }

    /// What a target is asked with.
    pub fn for_target(&self, target: &Target) -> setup::Outliers<'_> {
        if is_served(target) {
            return setup::Outliers::None;
        }
        setup::Outliers::Beside {
            model: &self.id,
            golden: self.goldens.of_target(target),
            model_dir: &self.dir,
        }
    }
}

/// Whether the target is a server, which serves one model and so isn't asked about another.
fn is_served(target: &Target) -> bool {
    DeviceKind::of_backend(&target.backend) == DeviceKind::Unknown
}

/// Whether a run has passed targets without asking them, as runs did before there was this model.
pub(super) fn is_begun_without(plan: &Plan, judged: &BTreeMap<String, VerifyRecord>) -> bool {
    let asked = plan.targets.iter().filter(|target| !is_served(target));
    let mut records = asked.filter_map(|target| judged.get(&target.id));
    records.any(|record| record.status == Status::Ok && record.outliers.is_none())
}

/// What a target answered, and what is wrong with it.
pub(super) struct Asked {
    pub found: Outliers,
    pub failure: Option<String>,
}

/// Ask a target, where `setup` has the model; `None` where it doesn't.
///
/// # Errors
/// Where it can't be asked. A target that doesn't support the model is excused.
pub(super) fn ask(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
) -> Result<Option<Asked>, EngineFailure> {
    let setup::Outliers::Beside {
        model,
        golden,
        model_dir,
    } = setup.outliers
    else {
        return Ok(None);
    };
    told::part(model);
    let asked = match golden {
        Ok(golden) => answers(target, program, setup, golden, model_dir),
        Err(why) => Err(EngineFailure::new(Status::Unsupported, why)),
    };
    let mut found = Outliers {
        model: model.to_owned(),
        ..Outliers::default()
    };
    let answers = match asked {
        Ok(answers) => answers,
        Err(failure) if failure.status == Status::Unsupported => {
            found.excuse = failure.reason;
            let failure = None;
            return Ok(Some(Asked { found, failure }));
        }
        Err(failure) => return Err(failure.at(&format!("on {model}"))),
    };
    let kl_nats = answers.judgements.iter().filter_map(|j| j.kl_nats);
    found.kl_nats = kl_nats.reduce(f64::max).filter(|kl| kl.is_finite());
    let passes = gate::scope(&answers.judgements, answers.has_position_gap) != Scope::None;
    let mut failure = None;
    if !passes {
        match excuse(answers.keeps_8_bits, found.kl_nats, setup.limit) {
            Some(excuse) => found.excuse = excuse.to_owned(),
            None => failure = Some(in_words(model, &answers.judgements)),
        }
    }
    Ok(Some(Asked { found, failure }))
}

/// Why a target that failed isn't wrong; `None` where nothing excuses it. `kl_nats` is its largest
/// mean KL divergence.
pub(super) fn excuse(
    keeps_8_bits: bool,
    kl_nats: Option<f64>,
    limit: &Limit,
) -> Option<&'static str> {
    let costs_as_much = |kl: f64| kl > limit.kl_nats_max && kl < EIGHT_BITS_KL_NATS;
    (keeps_8_bits && kl_nats.is_some_and(costs_as_much))
        .then_some("its keys and values have 8 bits, which shows on this model")
}

fn in_words(model: &str, judgements: &[PromptJudgement]) -> String {
    let shortcuts = format!(
        "on {model}, where shortcuts show (keys of fewer bits than it reports, activations left out, another epsilon)"
    );
    match judgements.iter().find(|j| !j.failure.is_empty()) {
        Some(first) => format!("{shortcuts}, prompt {:?}: {}", first.name, first.failure),
        None => format!("{shortcuts}: too little of its output could be judged"),
    }
}

/// What a target says of the usual prompts.
struct Answers {
    judgements: Vec<PromptJudgement>,
    has_position_gap: bool,
    keeps_8_bits: bool,
}

fn answers(
    target: &Target,
    program: &Program,
    setup: &GateSetup,
    golden: &Golden,
    model_dir: &Path,
) -> Result<Answers, EngineFailure> {
    let usual = golden.prompts.iter().filter(|prompt| !prompt.is_long());
    let mut prompts: Vec<&GoldenPrompt> = usual.collect();
    prompts.sort_by_key(|prompt| prompt.context_tokens());
    let longest = prompts.last().map_or(1, |prompt| prompt.context_tokens());
    let tokenizer = crate::prompts::tokenizer(model_dir)
        .map_err(|error| EngineFailure::new(Status::Unavailable, format!("{error:#}")))?;
    let load = load_request(target, model_dir, setup.threads, longest, 1);
    in_session(program, &load, setup, |session| {
        let judged = prompts.into_iter();
        let judged = judged.map(|prompt| judge(session, setup.limit, &tokenizer, prompt));
        Ok(Answers {
            judgements: judged.collect::<Result<_, _>>()?,
            has_position_gap: session.hello.capabilities.position_gap.is_some(),
            keeps_8_bits: kv::keeps_8_bits(target, model_dir, &session.loaded),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_8_bits_cost_is_excused_and_only_where_they_are_declared() {
        let limit = gate::tests::limit();
        let excused = |keeps_8_bits, kl_nats| excuse(keeps_8_bits, kl_nats, &limit).is_some();
        assert!(excused(true, Some(0.3)));
        // A KL too large for 8 bits, an output that was compared without scores, and a KL within
        // the limit, so that something else failed.
        for kl_nats in [Some(2.0), None, Some(1e-3)] {
            assert!(!excused(true, kl_nats), "{kl_nats:?}");
        }
        assert!(!excused(false, Some(0.3)));
    }
}
