//! What is left to do: the plan less what is on disk. Pure, so that `--resume`
//! is the same path as a fresh start.

use super::{refusal, scenario};
use schema::plan::{Launch, Plan};
use schema::record::{Status, VerifyRecord};
use schema::run::LaunchLog;
use std::collections::{BTreeMap, BTreeSet};

/// A launch to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// With only the cases still missing.
    pub launch: Launch,
    /// 0, or one more than the last attempt on disk.
    pub attempt: u32,
}

/// The launches still to be made, in the plan's order.
///
/// Done is a case whose `case_end` is on disk. A launch that failed by the
/// engine's own doing is not tried again: its failure is the result. One that
/// was interrupted, or whose harness was killed, is.
pub fn pending(
    plan: &Plan,
    logs: &[LaunchLog],
    verify: &BTreeMap<String, VerifyRecord>,
) -> Vec<Pending> {
    let mut lost: BTreeSet<(&str, &str)> = BTreeSet::new();
    for log in logs {
        if log
            .end
            .as_ref()
            .is_some_and(|end| !matches!(end.status, Status::Ok | Status::NotRun))
        {
            lost.insert((&log.launch.target, &log.launch.scenario));
        }
    }
    let mut pending = Vec::new();
    for launch in &plan.launches {
        if lost.contains(&(launch.target.as_str(), launch.scenario.as_str())) {
            continue;
        }
        let scenario = scenario(plan, &launch.scenario);
        let earlier: Vec<&LaunchLog> = logs
            .iter()
            .filter(|log| {
                log.launch.target == launch.target
                    && log.launch.scenario == launch.scenario
                    && log.launch.invocation == launch.invocation
            })
            .collect();
        let cases: Vec<String> = launch
            .cases
            .iter()
            .filter(|id| {
                let case = scenario
                    .cases
                    .iter()
                    .find(|case| case.id == **id)
                    .expect("the plan names its cases");
                let done = earlier
                    .iter()
                    .any(|log| log.case_ends.iter().any(|end| end.case == **id));
                !done && refusal(verify, &launch.target, case).is_none()
            })
            .cloned()
            .collect();
        if cases.is_empty() {
            continue;
        }
        // Scenarios with a launch per case share the numbering of attempts.
        let attempt = earlier
            .iter()
            .filter(|log| {
                log.launch
                    .cases
                    .iter()
                    .any(|case| launch.cases.contains(case))
            })
            .map(|log| log.launch.attempt + 1)
            .max()
            .unwrap_or(0);
        pending.push(Pending {
            launch: Launch {
                cases,
                ..launch.clone()
            },
            attempt,
        });
    }
    pending
}
