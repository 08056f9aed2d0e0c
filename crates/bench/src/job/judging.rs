//! Whether what was timed is right: by whom the timed outputs are judged. How stands in
//! `run::check`.

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

/// Who will judge, if nothing happens to it: the id, or nothing.
pub(super) fn likely(
    registry: &Registry,
    verify: &BTreeMap<String, VerifyRecord>,
    programs: &Programs,
) -> String {
    let judge = judge(registry, verify, programs);
    judge.map(|target| target.id).unwrap_or_default()
}

/// The reference, else who may stand in for it: each on a device where one is here, since a
/// processor takes minutes over outputs of a large model that a GPU judges in seconds.
fn judge(
    registry: &Registry,
    verify: &BTreeMap<String, VerifyRecord>,
    programs: &Programs,
) -> Option<Target> {
    let candidates = judges::candidates(registry).into_iter().flatten();
    let mut usable = candidates.filter(|target| is_usable(target, verify, programs));
    usable.next()
}

/// Whether a target may judge: its program is there, and it wasn't found to be wrong.
fn is_usable(
    target: &Target,
    verify: &BTreeMap<String, VerifyRecord>,
    programs: &Programs,
) -> bool {
    let known = verify.get(&target.id);
    known.is_none_or(|record| record.status == Status::Ok) && programs.has(target)
}

/// Have every timed output that has no judgement yet judged by the reference, or who
/// may stand in for it.
pub(super) fn check_outputs(
    repo: &Repo,
    registry: &Registry,
    opened: &Opened,
    run: &mut Run,
) -> Result<()> {
    let programs = &opened.programs;
    let judge = judge(registry, &run.verify, programs);
    let model_dir = repo.model_dir(&run.header.plan.model);
    let judge = judge.as_ref().and_then(|target| {
        let program = programs.get(target).ok()?;
        Some(Judge {
            target,
            program,
            model_dir: &model_dir,
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
