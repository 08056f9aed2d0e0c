//! Checks the names in a run's files, once: ids must be fit for a path, and the plan must have
//! everything that is named. Sizes and counts must be within their limits. Code that reads a loaded
//! run looks things up without checking again.

use super::{LaunchLog, Run};
use crate::adoption::Adoption;
use crate::error::{DataError, check_id};
use crate::key::{CaseKey, original};
use crate::limits::{COUNT, within};
use crate::model::Model;
use crate::plan::Plan;
use crate::run_files::{HEADER, RunFiles};
use crate::scenario::PromptSource;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Check that the model in a record is the plan's.
pub(super) fn check_model(path: &Path, plan: &Plan, model: &Model) -> Result<(), DataError> {
    model.check(path)?;
    if model.id == plan.model {
        return Ok(());
    }
    Err(unknown(path, "model", &model.id))
}

/// Check the sizes and numbers of packages of programs; `programs` has them by the program's id.
pub(super) fn check_adoption(
    path: &Path,
    programs: &BTreeMap<String, Adoption>,
) -> Result<(), DataError> {
    for (program, cost) in programs {
        let all = [
            ("stripped_bytes", cost.stripped_bytes),
            ("crates", cost.crates),
            ("packages", cost.packages),
            ("packages_bytes", cost.packages_bytes),
            ("libraries_bytes", cost.libraries_bytes),
            ("adapter_lines", cost.adapter_lines),
        ];
        let known = all.map(|(key, count)| (key, count.unwrap_or(0)));
        counts(path, &format!("adoption of {program}"), &known)?;
    }
    Ok(())
}

/// Check that none of the counts of `what` is over the limit.
fn counts(path: &Path, what: &str, all: &[(&str, u64)]) -> Result<(), DataError> {
    let checked = all
        .iter()
        .try_for_each(|&(key, count)| within(key, count, COUNT));
    checked.map_err(|why| DataError::new(path, format!("{what}: {why}")))
}

/// Check the ids and sizes of a plan, and its references to itself.
pub(super) fn check_plan(path: &Path, plan: &Plan) -> Result<(), DataError> {
    plan.check_sizes()
        .map_err(|why| DataError::new(path, format!("plan: {why}")))?;
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
        known_block(&path, plan, log.launch.invocation)?;
    }
    for log in &run.micro {
        let path = files.path(&log.file.to_string_lossy());
        known_block(&path, plan, log.launch.invocation)?;
    }
    for (cell, check) in &run.checks {
        let path = files.path("check.jsonl");
        let all = [
            ("equal", check.equal),
            ("rescored", check.rescored),
            ("wrong", check.wrong),
            ("unchecked", check.unchecked),
        ];
        counts(&path, &cell.to_string(), &all)?;
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

/// Check the block (from 0) in the first line of a record file.
fn known_block(path: &Path, plan: &Plan, block: u32) -> Result<(), DataError> {
    let checked = plan.check_block(block);
    checked.map_err(|why| DataError::at(path, 1, why))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Case, Launch, PlannedScenario};

    /// A plan of one case in two blocks, without launches.
    fn plan() -> Plan {
        let case = Case {
            id: "p10".into(),
            ..Case::default()
        };
        Plan {
            profile: "x".into(),
            model: "m".into(),
            invocations: 2,
            scenarios: vec![PlannedScenario {
                id: "s".into(),
                cases: vec![case],
                ..PlannedScenario::default()
            }],
            ..Plan::default()
        }
    }

    #[test]
    fn a_plan_in_a_record_is_held_to_the_limits_of_profiles() {
        let path = Path::new("run.json");
        check_plan(path, &plan()).unwrap();
        type Change = fn(&mut Plan);
        let changes: [(Change, &str); 6] = [
            (
                |plan| plan.invocations = u32::MAX,
                "plan: invocations: 4294967295 is more than 1000",
            ),
            (
                |plan| plan.threads = u32::MAX,
                "plan: threads: 4294967295 is more than 4096",
            ),
            (
                |plan| plan.scenarios[0].cases[0].new_tokens = u32::MAX,
                "plan: s/p10: new_tokens: 4294967295 is more than 1048576",
            ),
            (
                |plan| plan.scenarios[0].cases[0].duration_s = 1e300,
                "plan: s/p10: duration_s: 1e300 is more than 604800.0",
            ),
            (
                |plan| plan.scenarios[0].cases[0].duration_s = -1.0,
                "plan: s/p10: duration_s must be a number of seconds, 0 or more",
            ),
            (
                |plan| {
                    plan.launches.push(Launch {
                        invocation: 2,
                        target: "t".into(),
                        scenario: "s".into(),
                        cases: vec![],
                    });
                },
                "plan: invocation: 2 is none of the plan's 2 blocks",
            ),
        ];
        for (change, said) in changes {
            let mut plan = plan();
            change(&mut plan);
            let error = check_plan(path, &plan).unwrap_err().to_string();
            assert!(error.starts_with(&format!("run.json: {said}")), "{error}");
        }
    }

    #[test]
    fn a_record_of_no_block_of_the_plan_is_refused() {
        let path = Path::new("t/s.jsonl");
        known_block(path, &plan(), 1).unwrap();
        for block in [2, u32::MAX] {
            let error = known_block(path, &plan(), block).unwrap_err().to_string();
            let said = format!("t/s.jsonl:1: invocation: {block} is none of");
            assert!(error.starts_with(&said), "{error}");
        }
    }

    #[test]
    fn counts_whose_sum_would_overflow_are_refused() {
        let path = Path::new("run.json");
        let of = |bytes| {
            let cost = Adoption {
                libraries_bytes: Some(bytes),
                ..Adoption::default()
            };
            check_adoption(path, &BTreeMap::from([("p".to_owned(), cost)]))
        };
        of(COUNT).unwrap();
        assert_eq!(
            of(u64::MAX).unwrap_err().to_string(),
            "run.json: adoption of p: libraries_bytes: 18446744073709551615 is more than 1099511627776"
        );
    }
}
