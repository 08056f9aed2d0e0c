//! Who may be timed, and whether what was timed is right: the gate before measuring,
//! and the check of the timed outputs after it. How is judged stands in `verify` and
//! `run::check`; here is only of whom and by whom.

use crate::build::Programs;
use crate::deadline;
use crate::engine::session::Patience;
use crate::prompts::Prompts;
use crate::repo::Repo;
use crate::run::check::{Judge, check};
use crate::run::record::Appender;
use crate::verify::command::{limit, load_golden};
use crate::verify::question::Question;
use crate::verify::target::{not_verified, verify};
use anyhow::{Result, bail};
use schema::plan::Plan;
use schema::record::Status;
use schema::registry::{Registry, Target};
use schema::run::Run;
use std::path::Path;
use std::time::Duration;

/// Put every target that has no judgement yet through the gate.
pub(super) fn verify_targets(
    repo: &Repo,
    plan: &Plan,
    run_dir: &Path,
    programs: &Programs,
) -> Result<()> {
    let known = Run::load(run_dir)?.verify;
    let golden = load_golden(repo, &plan.model)?;
    let limits = repo.parity_limits()?;
    let mut batches: Vec<u32> = plan
        .scenarios
        .iter()
        .flat_map(|s| &s.cases)
        .map(|case| case.concurrency)
        .collect();
    batches.sort_unstable();
    batches.dedup();
    let model_dir = repo.model_dir(&plan.model);
    let mut file = Appender::open(&run_dir.join("verify.jsonl"))?;
    for target in plan
        .targets
        .iter()
        .filter(|target| !known.contains_key(&target.id))
    {
        deadline::next_piece(Duration::ZERO)?;
        let record = match programs.get(target) {
            Err(failure) => not_verified(target, &plan.model, failure),
            Ok(program) => {
                let question = Question {
                    golden: &golden,
                    limit: limit(&limits, &target.precision)?,
                    model_dir: &model_dir,
                    threads: plan.threads,
                    batches: &batches,
                    patience: Patience::of(plan),
                };
                verify(target, program, &question).record
            }
        };
        if record.status == Status::NotRun {
            bail!("interrupted");
        }
        let verdict = if record.status == Status::Ok {
            "verified"
        } else {
            record.status.id()
        };
        eprintln!("Parity: {} {verdict} {}", target.id, record.reason);
        file.append(&record)?;
    }
    file.sync()
}

/// Have every timed output that has no judgement yet judged by the reference, or who
/// may stand in for it.
pub(super) fn check_outputs(
    repo: &Repo,
    registry: &Registry,
    run_dir: &Path,
    programs: &Programs,
    prompts: &Prompts,
) -> Result<()> {
    let run = Run::load(run_dir)?;
    let judges = registry.judges();
    let usable = |target: &&Target| {
        let verified = run
            .verify
            .get(&target.id)
            .is_none_or(|record| record.status == Status::Ok);
        verified && programs.has(target)
    };
    let judge = judges.iter().find(usable);
    let model_dir = repo.model_dir(&run.header.plan.model);
    let judge = judge.and_then(|target| {
        let program = programs.get(target).ok()?;
        Some(Judge {
            target,
            program,
            model_dir: &model_dir,
        })
    });
    if judge.is_none() {
        eprintln!(
            "No reference engine on this machine: the timed outputs stay unchecked, and the report says so"
        );
    }
    check(
        &run,
        run_dir,
        prompts,
        &repo.parity_limits()?,
        judge.as_ref(),
    )
}
