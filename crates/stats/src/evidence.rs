//! The records that a cell rests on: for each planned invocation the attempt that counts, and what
//! went wrong where there is none.
//!
//! Nothing is judged (see [`crate::judge`]) or computed here.

use schema::key::{CellKey, is_twin, original};
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Plan, PlannedScenario};
use schema::profile::Slo;
use schema::record::{CaseEnd, RequestRecord, Status};
use schema::run::Run;
use std::collections::{BTreeMap, BTreeSet};

/// The attempt of one invocation that counts, with its complete case.
pub(crate) struct Attempt<'a> {
    /// Number of the block.
    pub(crate) invocation: u32,
    /// Log of the whole launch.
    pub(crate) log: &'a LaunchLog,
    /// Record that makes the case complete.
    pub(crate) end: &'a CaseEnd,
    /// Id of the case that was measured.
    pub(crate) case: &'a str,
    /// Scenario that was measured.
    pub(crate) scenario: &'a PlannedScenario,
    /// Timed requests of this case, in order of completion.
    pub(crate) timed: Vec<&'a RequestRecord>,
    /// Latency limits of the run's profile.
    pub(crate) slo: Option<Slo>,
}

/// The records of a cell.
pub(crate) struct Evidence<'a> {
    /// Invocations that the plan has for the cell.
    pub(crate) planned: BTreeSet<u32>,
    /// The attempts that count, in order of invocation; an invocation without one is missing.
    pub(crate) complete: Vec<Attempt<'a>>,
    /// Status and reason of the first invocation that reports a failure, even one after the case.
    pub(crate) failure: Option<(Status, String)>,
}

impl<'a> Evidence<'a> {
    /// Gather the records of a cell, or of its twin where `name` is a twin's. Where another case is
    /// measured for this one, they are that case's records.
    ///
    /// A case counts where its `case_end` line was written. Of several such attempts (a run
    /// resumed, then resumed again) the highest counts, and requests of other attempts are no
    /// samples: mixing them would join two processes into one invocation.
    pub(crate) fn gather(
        run: &'a Run,
        name: &str,
        scenario: &'a PlannedScenario,
        case: &'a Case,
    ) -> Self {
        let (scenario, case) = run.header.plan.measured(scenario, case);
        let target = original(name);
        let planned = planned_invocations(&run.header.plan, &scenario.cell_key(case, target));
        let all = match is_twin(name) {
            true => &run.twins,
            false => &run.launches,
        };
        let mut logs: BTreeMap<u32, Vec<&'a LaunchLog>> = BTreeMap::new();
        for log in all {
            let of = &log.launch;
            if of.target == name
                && of.scenario == scenario.id
                && of.cases.contains(&case.id)
                && planned.contains(&of.invocation)
            {
                logs.entry(of.invocation).or_default().push(log);
            }
        }
        let mut complete = Vec::new();
        let mut failure = None;
        for (&invocation, logs) in &mut logs {
            // The sort is stable: of equal attempts the last by path counts.
            logs.sort_by_key(|log| log.launch.attempt);
            let found = logs.iter().rev().find_map(|log| {
                let end = log.case_ends.iter().rfind(|end| end.case == case.id)?;
                Some((*log, end))
            });
            match found {
                Some((log, end)) => {
                    complete.push(Attempt {
                        invocation,
                        log,
                        end,
                        case: &case.id,
                        scenario,
                        timed: log
                            .requests
                            .iter()
                            .filter(|r| r.case == case.id && !r.warmup)
                            .collect(),
                        slo: run.header.plan.slo,
                    });
                    // The launch may have failed after the case, which explains why later
                    // invocations are missing.
                    failure = failure.or_else(|| why(log, &case.id));
                }
                None => {
                    let reasons = || logs.iter().rev().find_map(|log| why(log, &case.id));
                    failure = failure.or_else(reasons);
                }
            }
        }
        Self {
            planned,
            complete,
            failure,
        }
    }

    /// Count the distinct prompt indices among the timed requests of complete cases.
    pub(crate) fn requests(&self) -> u64 {
        self.complete
            .iter()
            .flat_map(|attempt| attempt.timed.iter().map(|request| request.prompt))
            .collect::<BTreeSet<_>>()
            .len() as u64
    }
}

fn planned_invocations(plan: &Plan, cell: &CellKey) -> BTreeSet<u32> {
    plan.launches
        .iter()
        .filter(|launch| {
            launch.target == cell.target
                && launch.scenario == cell.scenario
                && launch.cases.contains(&cell.case)
        })
        .map(|launch| launch.invocation)
        .collect()
}

/// Return the status and reason of a launch that failed. The reason says so where the launch failed
/// in an earlier case than this one. `None` where the launch reports no failure.
fn why(log: &LaunchLog, case: &str) -> Option<(Status, String)> {
    let end = log.end.as_ref().filter(|end| end.status != Status::Ok)?;
    let open = log
        .launch
        .cases
        .iter()
        .find(|id| !log.case_ends.iter().any(|end| end.case == **id));
    let place = match open {
        Some(open) if open != case && log.ready.is_some() => {
            format!(", in case {open} before this one was reached")
        }
        _ => String::new(),
    };
    let reason = if end.reason.is_empty() {
        end.status.id()
    } else {
        end.reason.as_str()
    };
    Some((
        end.status,
        format!("{reason} (invocation {}{place})", log.launch.invocation),
    ))
}
