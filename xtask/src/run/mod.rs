//! Measuring: the plan's launches, one after the other, each into its own
//! append-only file.
//!
//! `pilot` learns each target's pace, `capacity` what it serves when kept busy, `load` and
//! `open_loop` issue requests, `telemetry` reads counters, `record` writes, `launch` is one
//! process from start to end, `pending` says what is left to do, `weights` sees that the
//! model stays, `told` is what all this tells, `check` judges the timed outputs afterwards, `trace`
//! looks at the kernels of CUDA targets in launches that nobody times.

pub mod capacity;
pub mod check;
pub mod launch;
pub mod load;
pub mod open_loop;
pub mod pending;
pub mod pilot;
pub mod record;
pub mod telemetry;
pub mod told;
pub mod trace;
pub mod weights;

use crate::build::Programs;
use crate::prompts::Prompts;
use crate::watch::{self, control};
use anyhow::Result;
use pending::Pending;
use schema::capacity::Capacity;
use schema::plan::{Case, Plan, PlannedScenario};
use schema::record::{Status, VerifyRecord};
use schema::twin::original;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use weights::Weights;

/// Measure everything in `pending`. A target's failure is recorded and the rest
/// goes on; only what makes recording itself impossible is an error.
pub fn run(
    plan: &Plan,
    run_dir: &Path,
    model_dir: &Path,
    programs: &Programs,
    prompts: &Prompts,
    capacities: &[Capacity],
    pending: Vec<Pending>,
) -> Result<()> {
    let weights = Weights::of(plan, model_dir);
    // A cell needs every invocation, so after one failure the others of the same
    // target and scenario would be measured in vain. What the user skips is left to a
    // resumed run.
    let mut lost: BTreeMap<(String, String), Status> = BTreeMap::new();
    for item in pending {
        watch::checkpoint()?;
        let key = (item.launch.target.clone(), item.launch.scenario.clone());
        if let Some(&status) = lost.get(&key) {
            told::dropped(&item.launch, status);
            continue;
        }
        crate::deadline::next_piece(at_least(plan, &item))?;
        let target = plan
            .targets
            .iter()
            .find(|t| t.id == original(&item.launch.target))
            .expect("the plan names its targets");
        let Ok(program) = programs.get(target) else {
            continue;
        };
        told::begin(&item.launch);
        let context = launch::Context {
            plan,
            run_dir,
            model_dir,
            program,
            target,
            prompts,
            weights: &weights,
            capacities,
        };
        control::skippable();
        let end = launch::launch(&context, &item)?;
        let skipped = control::skipped() && !crate::interrupt::requested();
        told::end(&item.launch, &end, skipped);
        if skipped {
            lost.insert(key, Status::NotRun);
        } else if end.status == Status::NotRun {
            anyhow::bail!("{}", end.reason);
        } else if end.status != Status::Ok {
            lost.insert(key, end.status);
        }
    }
    Ok(())
}

/// What the cases of a launch take at the very least, by their own durations.
fn at_least(plan: &Plan, item: &Pending) -> Duration {
    let cases = scenario(plan, &item.launch.scenario).cases.iter();
    let planned = cases.filter(|case| item.launch.cases.contains(&case.id));
    Duration::from_secs_f64(planned.map(|case| case.duration_s).sum())
}

/// Why a case of a target may not be timed, if so: the target is not verified, or
/// not as far as the case goes.
pub fn refusal(
    verify: &BTreeMap<String, VerifyRecord>,
    target: &str,
    case: &Case,
) -> Option<String> {
    let Some(record) = verify.get(target) else {
        return Some("it was not verified".into());
    };
    if record.status != Status::Ok {
        return Some(record.reason.clone());
    }
    let context = case.prompt_tokens + case.new_tokens;
    match record.verified_positions {
        Some(positions) if context <= positions => None,
        positions => Some(format!(
            "it needs {context} positions, {} are verified",
            positions.unwrap_or(0)
        )),
    }
}

/// A scenario of the plan by id.
pub fn scenario<'a>(plan: &'a Plan, id: &str) -> &'a PlannedScenario {
    plan.scenarios
        .iter()
        .find(|s| s.id == id)
        .expect("the plan names its scenarios")
}
