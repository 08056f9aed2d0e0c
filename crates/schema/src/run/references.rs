//! Checks the names in a run's files, once: ids must be fit for a path, and the plan must have
//! everything that is named. Sizes and counts must be within their limits. Code that reads a loaded
//! run looks things up without checking again.

use super::{LaunchLog, Run, RunHeader};
use crate::adoption::Adoption;
use crate::error::{DataError, fits};
use crate::key::{CaseKey, original};
use crate::limits::{COUNT, within};
use crate::plan::Plan;
use crate::run_files::{HEADER, RunFiles};
use crate::scenario::PromptSource;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Check `run.json`: its plan, the costs of programs, and that the model in it is the plan's.
pub(super) fn check_header(path: &Path, header: &RunHeader) -> Result<(), DataError> {
    let (plan, provenance) = (&header.plan, &header.provenance);
    let checked = check_plan(plan).and_then(|()| check_adoption(&provenance.adoption));
    checked.map_err(|why| DataError::new(path, why))?;
    let Some(model) = &provenance.model else {
        return Ok(());
    };
    model.check(path)?;
    match model.id == plan.model {
        true => Ok(()),
        false => Err(DataError::new(path, unknown("model", &model.id))),
    }
}

/// Check the sizes and numbers of packages of programs; `programs` has them by the program's id.
fn check_adoption(programs: &BTreeMap<String, Adoption>) -> Result<(), String> {
    programs.iter().try_for_each(|(program, cost)| {
        let all = [
            ("stripped_bytes", cost.stripped_bytes),
            ("crates", cost.crates),
            ("packages", cost.packages),
            ("packages_bytes", cost.packages_bytes),
            ("libraries_bytes", cost.libraries_bytes),
            ("adapter_lines", cost.adapter_lines),
        ];
        let known = all.map(|(key, count)| (key, count.unwrap_or(0)));
        counts(&format!("adoption of {program}"), &known)
    })
}

/// Check that none of the counts of `what` is over the limit.
fn counts(what: &str, all: &[(&str, u64)]) -> Result<(), String> {
    let mut all = all.iter();
    let checked = all.try_for_each(|&(key, count)| within(key, count, COUNT));
    checked.map_err(|why| format!("{what}: {why}"))
}

/// Check the ids and sizes of a plan, and its references to itself.
fn check_plan(plan: &Plan) -> Result<(), String> {
    plan.check_sizes().map_err(|why| format!("plan: {why}"))?;
    fits("profile", &plan.profile)?;
    fits("model", &plan.model)?;
    ids("target", plan.targets.iter().map(|t| &t.id))?;
    ids("scenario", plan.scenarios.iter().map(|s| &s.id))?;
    ids("suite", plan.micro.suites.iter().map(|s| &s.id))?;
    if let Some(prompts) = &plan.prompts {
        prompts.check()?;
    }
    for scenario in &plan.scenarios {
        if scenario.prompts == PromptSource::Own && plan.prompts.is_none() {
            let id = &scenario.id;
            return Err(format!("has no prompts, which scenario {id:?} asks"));
        }
        ids("case", scenario.cases.iter().map(|case| &case.id))?;
        let cases = scenario.cases.iter();
        let mut sources = cases.filter_map(|case| case.measured_by.as_ref());
        sources.try_for_each(|by| known_case(plan, by))?;
    }
    for suite in &plan.micro.suites {
        ids("variant", suite.variants.iter().map(|v| &v.id))?;
        ids("case", suite.cases.iter().map(|case| &case.id))?;
    }
    for launch in &plan.launches {
        known_target(plan, &launch.target)?;
        let cases = launch.cases.iter().map(String::as_str);
        known_cases(plan, &launch.scenario, cases)?;
    }
    for launch in &plan.micro.launches {
        let suite = plan.micro.suite(&launch.suite);
        let variant = suite.and_then(|suite| suite.variant(&launch.variant));
        variant.ok_or_else(|| unknown("suite", &launch.suite))?;
    }
    Ok(())
}

/// Check the references of the records to the plan.
pub(super) fn check_records(run: &Run, files: &RunFiles) -> Result<(), DataError> {
    let plan = &run.header.plan;
    let at = |name: &str, checked: Result<(), String>| {
        checked.map_err(|why| DataError::new(&files.path(name), why))
    };
    for log in run.launches.iter().chain(&run.twins) {
        let name = log.file.to_string_lossy();
        at(&name, known_cases(plan, &log.launch.scenario, cases(log)))?;
        known_block(&files.path(&name), plan, log.launch.invocation)?;
    }
    for log in &run.micro {
        let path = files.path(&log.file.to_string_lossy());
        known_block(&path, plan, log.launch.invocation)?;
    }
    for (cell, check) in &run.checks {
        let all = [
            ("equal", check.equal),
            ("rescored", check.rescored),
            ("wrong", check.wrong),
            ("unchecked", check.unchecked),
        ];
        let checked = counts(&cell.to_string(), &all)
            .and_then(|()| known_case(plan, &CaseKey::new(&cell.scenario, &cell.case)))
            .and_then(|()| known_target(plan, &cell.target));
        at("check.jsonl", checked)?;
    }
    for capacity in &run.capacities {
        at("capacity.jsonl", known_target(plan, &capacity.target))?;
    }
    for twin in run.budget.iter().flat_map(|budget| &budget.twins) {
        at("budget.json", known_target(plan, &twin.target))?;
    }
    for traced in &run.kernels {
        let target = &traced.log.launch.target;
        at(&traced.file.to_string_lossy(), known_target(plan, target))?;
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
    plan: &Plan,
    scenario: &str,
    mut cases: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let planned = plan.scenario(scenario);
    let planned = planned.ok_or_else(|| unknown("scenario", scenario))?;
    match cases.find(|case| planned.case(case).is_none()) {
        Some(case) => Err(unknown("case", case)),
        None => Ok(()),
    }
}

/// Check the block (from 0) in the first line of a record file.
fn known_block(path: &Path, plan: &Plan, block: u32) -> Result<(), DataError> {
    let checked = plan.check_block(block);
    checked.map_err(|why| DataError::at(path, 1, why))
}

fn known_case(plan: &Plan, at: &CaseKey) -> Result<(), String> {
    let case = plan.case(at);
    case.map(drop)
        .ok_or_else(|| unknown("case", &at.to_string()))
}

fn known_target(plan: &Plan, id: &str) -> Result<(), String> {
    let target = plan.target(original(id));
    target.map(drop).ok_or_else(|| unknown("target", id))
}

fn ids<'a>(what: &str, all: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for id in all {
        fits(what, id)?;
        if !seen.insert(id) {
            return Err(format!("{what} {id:?} is listed twice in the plan"));
        }
    }
    Ok(())
}

fn unknown(what: &str, name: &str) -> String {
    format!("names {what} {name:?}, which the plan in {HEADER} doesn't have")
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

    /// What is wrong with the header of a record of that plan, once it is changed.
    fn wrong(change: fn(&mut RunHeader)) -> Option<String> {
        let mut header = RunHeader {
            plan: plan(),
            ..RunHeader::default()
        };
        change(&mut header);
        let checked = check_header(Path::new("run.json"), &header);
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn a_plan_in_a_record_is_held_to_the_limits_of_profiles() {
        assert_eq!(wrong(|_| {}), None);
        let refused = |said: &str, change: fn(&mut RunHeader)| {
            let wrong = wrong(change).expect(said);
            let said = format!("run.json: plan: {said}");
            assert!(wrong.starts_with(&said), "{wrong}");
        };
        refused("invocations: 4294967295 is more than 1000", |header| {
            header.plan.invocations = u32::MAX;
        });
        refused("threads: 4294967295 is more than 4096", |header| {
            header.plan.threads = u32::MAX;
        });
        let said = "s/p10: new_tokens: 4294967295 is more than 1048576";
        refused(said, |header| {
            header.plan.scenarios[0].cases[0].new_tokens = u32::MAX;
        });
        let said = "s/p10: duration_s: 1e300 is more than 604800.0";
        refused(said, |header| {
            header.plan.scenarios[0].cases[0].duration_s = 1e300;
        });
        let said = "s/p10: duration_s must be a number of seconds, 0 or more";
        refused(said, |header| {
            header.plan.scenarios[0].cases[0].duration_s = -1.0;
        });
        let said = "invocation: 2 is none of the plan's 2 blocks";
        refused(said, |header| {
            header.plan.launches.push(Launch {
                invocation: 2,
                target: "t".into(),
                scenario: "s".into(),
                cases: vec![],
            });
        });
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
        fn of(header: &mut RunHeader, bytes: u64) {
            let cost = Adoption {
                libraries_bytes: Some(bytes),
                ..Adoption::default()
            };
            header.provenance.adoption.insert("p".to_owned(), cost);
        }
        assert_eq!(wrong(|header| of(header, COUNT)), None);
        let said = "run.json: adoption of p: libraries_bytes: 18446744073709551615 is more than 1099511627776";
        assert_eq!(wrong(|header| of(header, u64::MAX)).as_deref(), Some(said));
    }
}
