//! Chooses the judge of the timed outputs; `run::check` does the judging.

use super::Opened;
use anyhow::Result;
use base::repo::Repo;
use harness::programs::Programs;
use harness::run::check::{Judge, check};
use harness::verify::judges;
use schema::record::{Status, VerifyRecord};
use schema::registry::{Registry, Target};
use schema::run::Run;
use std::collections::BTreeMap;
use watch::event::Stage;

/// Choose the reference, else the target that may replace it: each on a device where there is one,
/// since a processor takes minutes for outputs of a large model that a GPU judges in seconds.
pub(super) fn judge(
    registry: &Registry,
    verify: &BTreeMap<String, VerifyRecord>,
    programs: &Programs,
) -> Option<Target> {
    let mut candidates = judges::candidates(registry).into_iter().flatten();
    // Its program must be built, and the gate must not have rejected it.
    candidates.find(|target| {
        let known = verify.get(&target.id);
        known.is_none_or(|record| record.status == Status::Ok) && programs.has(target)
    })
}

/// Have the chosen judge check the timed outputs of every cell without a judgement that stands.
pub(super) fn check_outputs(
    repo: &Repo,
    registry: &Registry,
    opened: &Opened,
    run: &mut Run,
) -> Result<()> {
    if opened.header.plan.targets.is_empty() {
        return Ok(());
    }
    watch::stage(Stage::Check);
    let programs = &opened.programs;
    let judge = judge(registry, &run.verify, programs);
    let judge = judge.as_ref().and_then(|target| {
        let program = programs.get(target).ok()?;
        Some(Judge {
            target,
            program,
            repo,
        })
    });
    if judge.is_none() {
        watch::warn(
            "No reference engine on this machine: the timed outputs stay unchecked, and the report says so",
        );
    }
    check(
        run,
        &opened.run_dir,
        &opened.prompts,
        &repo.parity_limits()?,
        judge.as_ref(),
        &opened.control,
    )
}
