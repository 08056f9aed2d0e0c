//! Runs the gate within a run: verifies targets that have no judgement yet, and writes their
//! records.

use super::goldens::Goldens;
use super::setup::{GateSetup, Outliers, limit};
use super::target::{not_verified, verify};
use super::{architecture, outliers, told};
use crate::engine::session::Timeouts;
use crate::positions;
use crate::programs::Programs;
use anyhow::{Result, bail};
use base::files::Appender;
use base::repo::Repo;
use schema::plan::{Plan, PlannedScenario};
use schema::record::{Status, VerifyRecord};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use watch::Control;
use watch::event::Stage;

/// Verify every target of `plan` that is not among those `judged`, and add their records. A target
/// that the user skips gets none, and a resumed run verifies it. Returns the programs, each limited
/// to the instructions that it was judged with. Through `control` the user pauses, skips or ends
/// it.
pub fn verify_targets(
    repo: &Repo,
    plan: &Plan,
    run_dir: &Path,
    programs: &Programs,
    judged: &mut BTreeMap<String, VerifyRecord>,
    control: &Control,
) -> Result<Programs> {
    let goldens = Goldens::load(repo, &plan.model, &plan.targets, &positions::of_plan(plan))?;
    let limits = repo.parity_limits()?;
    // A run that was begun without them goes on without them.
    let outliers = match outliers::is_begun_without(plan, judged) {
        true => None,
        false => outliers::Model::load(repo, &limits, &plan.model, &plan.targets)?,
    };
    let registry = repo.registry()?;
    let batches = positions::batches(plan);
    let model_dir = repo.model_dir(&plan.model);
    let mut file = Appender::open(&run_dir.join("verify.jsonl"))?;
    watch::stage(Stage::Gate);
    told::group(&plan.model, plan.targets.iter(), |target| {
        judged.contains_key(&target.id)
    });
    for target in &plan.targets {
        if judged.contains_key(&target.id) {
            continue;
        }
        control.checkpoint()?;
        control.next_piece(Duration::ZERO)?;
        told::begin(&plan.model, target);
        let program = programs.get(target);
        let refused = architecture::refused(&registry, target, &model_dir);
        let record = match (&refused, program, goldens.for_target(target)) {
            (Some(failure), ..) | (None, Err(failure), _) => {
                not_verified(target, &plan.model, failure)
            }
            (None, Ok(_), Err(failure)) => not_verified(target, &plan.model, &failure),
            (None, Ok(program), Ok(golden)) => {
                let setup = GateSetup {
                    golden,
                    limit: limit(&limits, &target.precision)?,
                    model_dir: &model_dir,
                    threads: plan.threads,
                    batches: &batches,
                    prefix_cache: plan.scenarios.iter().any(PlannedScenario::reuses_prompts),
                    outliers: match &outliers {
                        Some(model) => model.for_target(target),
                        None => Outliers::alone(&limits, &plan.model),
                    },
                    timeouts: Timeouts::new(plan, control),
                };
                control.skippable();
                verify(target, program, &setup)
            }
        };
        let skipped = control.skipped();
        if record.status == Status::NotRun {
            if !skipped || base::interrupt::requested() {
                bail!("interrupted");
            }
            told::skipped();
            continue;
        }
        let verdict = match record.status {
            Status::Ok => "verified",
            status => status.id(),
        };
        // A program that could not be built was reported at that time.
        let was_said = record.status == Status::Ok || refused.is_none() && program.is_err();
        if was_said {
            let words = in_words(verdict, &record.reason);
            eprintln!("Parity: {} {words}", target.id);
        }
        told::end(&record, was_said);
        file.append(&record)?;
        judged.insert(record.target.clone(), record);
    }
    file.sync()?;
    Ok(programs.clone().as_judged(judged))
}

/// A verdict and its reason as one text; the reason may begin with the verdict.
fn in_words(verdict: &str, reason: &str) -> String {
    match reason {
        "" => verdict.to_owned(),
        reason if reason.starts_with(verdict) => reason.to_owned(),
        reason => format!("{verdict}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn a_verdict_is_said_once() {
        assert_eq!(in_words("verified", ""), "verified");
        assert_eq!(
            in_words("verified", "verified to 264 positions only: why"),
            "verified to 264 positions only: why"
        );
        assert_eq!(in_words("crashed", "it died"), "crashed: it died");
    }
}
