//! Checks the names in a run's files, once: ids must be fit for a path, and the plan must have
//! everything that is named. Code that reads a loaded run looks things up without checking again.

use super::{LaunchLog, Run};
use crate::error::{DataError, check_id};
use crate::key::{CaseKey, original};
use crate::model::Model;
use crate::plan::Plan;
use crate::run_files::{HEADER, RunFiles};
use crate::scenario::PromptSource;
use std::collections::BTreeSet;
use std::path::Path;

/// Check that the model in a record is the plan's.
pub(super) fn check_model(path: &Path, plan: &Plan, model: &Model) -> Result<(), DataError> {
    model.check(path)?;
    if model.id == plan.model {
        return Ok(());
    }
    Err(unknown(path, "model", &model.id))
}

/// Check the ids of a plan, and its references to itself.
pub(super) fn check_plan(path: &Path, plan: &Plan) -> Result<(), DataError> {
    check_id(path, "profile", &plan.profile)?;
    check_id(path, "model", &plan.model)?;
    ids(path, "target", plan.targets.iter().map(|t| &t.id))?;
    ids(path, "scenario", plan.scenarios.iter().map(|s| &s.id))?;
    ids(path, "suite", plan.micro.suites.iter().map(|s| &s.id))?;
    if let Some(prompts) = &plan.prompts {
        prompts.check(path)?;
    }
    for scenario in &plan.scenarios {
        if scenario.prompts == PromptSource::Own && plan.prompts.is_none() {
            let message = format!("has no prompts, which scenario {:?} asks", scenario.id);
            return Err(DataError::new(path, message));
        }
        ids(path, "case", scenario.cases.iter().map(|case| &case.id))?;
        let sources = scenario
            .cases
            .iter()
            .filter_map(|case| case.measured_by.as_ref());
        for by in sources {
            known_case(path, plan, by)?;
        }
    }
    for suite in &plan.micro.suites {
        ids(path, "variant", suite.variants.iter().map(|v| &v.id))?;
        ids(path, "case", suite.cases.iter().map(|case| &case.id))?;
    }
    for launch in &plan.launches {
        known_target(path, plan, &launch.target)?;
        let cases = launch.cases.iter().map(String::as_str);
        known_cases(path, plan, &launch.scenario, cases)?;
    }
    for launch in &plan.micro.launches {
        let suite = plan.micro.suite(&launch.suite);
        if suite
            .and_then(|suite| suite.variant(&launch.variant))
            .is_none()
        {
            return Err(unknown(path, "suite", &launch.suite));
        }
    }
    Ok(())
}

/// Check the references of the records to the plan.
pub(super) fn check_records(run: &Run, files: &RunFiles) -> Result<(), DataError> {
    let plan = &run.header.plan;
    for log in run.launches.iter().chain(&run.twins) {
        let path = files.path(&log.file.to_string_lossy());
        known_cases(&path, plan, &log.launch.scenario, cases(log))?;
    }
    for cell in run.checks.keys() {
        let path = files.path("check.jsonl");
        known_case(&path, plan, &CaseKey::new(&cell.scenario, &cell.case))?;
        known_target(&path, plan, &cell.target)?;
    }
    for capacity in &run.capacities {
        known_target(&files.path("capacity.jsonl"), plan, &capacity.target)?;
    }
    let budget = run.budget.iter();
    for twin in budget.flat_map(|budget| &budget.twins) {
        known_target(&files.path("budget.json"), plan, &twin.target)?;
    }
    for traced in &run.kernels {
        let path = files.path(&traced.file.to_string_lossy());
        known_target(&path, plan, &traced.log.launch.target)?;
    }
    Ok(())
}

/// Every case that a record file names.
fn cases(log: &LaunchLog) -> impl Iterator<Item = &str> {
    let launched = log.launch.cases.iter();
    let requests = log.requests.iter().map(|request| &request.case);
    let unanswered = log.unanswered.iter().map(|request| &request.case);
    let ends = log.case_ends.iter().map(|end| &end.case);
    // The case of a reading is empty while the engine loads.
    let readings = log.telemetry.iter().map(|reading| &reading.case);
    let all = launched.chain(requests).chain(unanswered).chain(ends);
    all.chain(readings.filter(|case| !case.is_empty()))
        .map(String::as_str)
}

/// Check a scenario, and some of its cases.
fn known_cases<'a>(
    path: &Path,
    plan: &Plan,
    scenario: &str,
    mut cases: impl Iterator<Item = &'a str>,
) -> Result<(), DataError> {
    let Some(planned) = plan.scenario(scenario) else {
        return Err(unknown(path, "scenario", scenario));
    };
    match cases.find(|case| planned.case(case).is_none()) {
        Some(case) => Err(unknown(path, "case", case)),
        None => Ok(()),
    }
}

fn known_case(path: &Path, plan: &Plan, at: &CaseKey) -> Result<(), DataError> {
    match plan.case(at) {
        Some(_) => Ok(()),
        None => Err(unknown(path, "case", &at.to_string())),
    }
}

fn known_target(path: &Path, plan: &Plan, id: &str) -> Result<(), DataError> {
    match plan.target(original(id)) {
        Some(_) => Ok(()),
        None => Err(unknown(path, "target", id)),
    }
}

fn ids<'a>(
    path: &Path,
    what: &str,
    all: impl Iterator<Item = &'a String>,
) -> Result<(), DataError> {
    let mut seen = BTreeSet::new();
    for id in all {
        check_id(path, what, id)?;
        if !seen.insert(id) {
            let message = format!("{what} {id:?} is listed twice in the plan");
            return Err(DataError::new(path, message));
        }
    }
    Ok(())
}

fn unknown(path: &Path, what: &str, name: &str) -> DataError {
    let message = format!("names {what} {name:?}, which the plan in {HEADER} doesn't have");
    DataError::new(path, message)
}
