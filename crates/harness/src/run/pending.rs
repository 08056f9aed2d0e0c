//! Says what has become of every planned launch: which are left to make, and why others aren't made.
//! Pure, so that `--resume` takes the same path as a fresh start.

use super::{refusal, scenario};
use crate::twins;
use schema::capacity;
use schema::key::original;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Launch, PlannedScenario};
use schema::record::Status;
use schema::run::Run;

/// A launch to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The planned launch, with only the cases that are still missing.
    pub launch: Launch,
    /// The attempt's number: 0, or one more than that of the last attempt that could be read.
    pub attempt: u32,
}

/// A launch of a target or of its twin.
pub struct Planned {
    /// The launch, with all its cases.
    pub launch: Launch,
    /// What has become of it.
    pub state: State,
}

/// What has become of a planned launch.
pub enum State {
    /// Cases of it are still to be made.
    Left(Pending),
    /// It was made, with all cases that may be timed.
    Done,
    /// A launch of its target in its scenario failed: how.
    Failed(String),
    /// None of its cases may be timed: why the first may not.
    Refused(String),
}

/// The launches of a run that this machine still has to make. `logs`: see [`planned`].
pub fn of_run(run: &Run, logs: &[LaunchLog]) -> Vec<Pending> {
    left(&planned(run, logs))
}

/// The launches still to be made, in the same order.
pub fn left(planned: &[Planned]) -> Vec<Pending> {
    let left = planned.iter().filter_map(|planned| match &planned.state {
        State::Left(pending) => Some(pending.clone()),
        _ => None,
    });
    left.collect()
}

/// The launches of a run that this machine makes, in the plan's order, those of the budget's twins
/// among them. `logs` are all records of the run, its twins' included.
pub fn planned(run: &Run, logs: &[LaunchLog]) -> Vec<Planned> {
    let header = &run.header;
    let twins = run.budget.as_ref().map_or(&[][..], |budget| &budget.twins);
    let launches = twins::launches(&header.plan, twins).into_iter();
    launches
        .filter(|launch| header.origin.has(launch.invocation))
        .map(|launch| {
            let state = state(run, logs, &launch);
            Planned { launch, state }
        })
        .collect()
}

/// What has become of a launch. A case is done if its `case_end` is on disk. Once a launch has
/// failed, no launch of its target and scenario is made any more: the failure is the result. A
/// launch that was interrupted, or whose harness was killed, is tried again.
fn state(run: &Run, logs: &[LaunchLog], launch: &Launch) -> State {
    let of_item = logs
        .iter()
        .filter(|log| log.launch.target == launch.target && log.launch.scenario == launch.scenario);
    let ends = of_item.clone().filter_map(|log| log.end.as_ref());
    let mut failures = ends.filter(|end| !matches!(end.status, Status::Ok | Status::NotRun));
    if let Some(end) = failures.next() {
        return State::Failed(format!("{}: {}", end.status.id(), end.reason));
    }
    let earlier: Vec<&LaunchLog> = of_item
        .filter(|log| log.launch.invocation == launch.invocation)
        .collect();
    let done = |id: &String| {
        let mut ends = earlier.iter().flat_map(|log| &log.case_ends);
        ends.any(|end| end.case == *id)
    };
    let scenario = scenario(&run.header.plan, &launch.scenario);
    let refused = |case: &Case| case_refusal(run, scenario, case, &launch.target);
    let may_be_timed = |id: &&String| {
        let case = scenario.case(id);
        refused(case.expect("the plan names its cases")).is_none()
    };
    let mut cases: Vec<String> = launch.cases.iter().filter(may_be_timed).cloned().collect();
    // Cases whose ratio is taken within a launch are done together or not at all.
    if !scenario.reuses_prompts() || cases.iter().all(done) {
        cases.retain(|id| !done(id));
    }
    if cases.is_empty() {
        let is_of_launch = |case: &&Case| launch.cases.contains(&case.id);
        let mut of_launch = scenario.cases.iter().filter(is_of_launch);
        return match of_launch.find_map(refused) {
            Some(why) if !launch.cases.iter().any(done) => State::Refused(why),
            _ => State::Done,
        };
    }
    // Scenarios with a launch per case share the numbering of attempts.
    let has_case = |log: &LaunchLog| log.launch.cases.iter().any(|id| launch.cases.contains(id));
    let of_cases = earlier.iter().filter(|log| has_case(log));
    let next = of_cases.map(|log| log.launch.attempt + 1).max();
    let attempt = next.unwrap_or(0);
    State::Left(Pending {
        launch: Launch {
            cases,
            ..launch.clone()
        },
        attempt,
    })
}

/// Why a case of a target, or of its twin, may not be timed in this run; `None` where it may.
fn case_refusal(run: &Run, scenario: &PlannedScenario, case: &Case, name: &str) -> Option<String> {
    let target = original(name);
    if let Some(why) = refusal(&run.verify, target, case) {
        return Some(why);
    }
    let cell = scenario.cell_key(case, name);
    let budget = run.budget.as_ref();
    if budget.is_some_and(|budget| budget.refusal(&cell).is_some()) {
        return Some("over_budget".into());
    }
    let capacity = capacity::find(&run.capacities, target, case);
    let is_scaled = capacity.is_some_and(|capacity| capacity.status == Status::Ok);
    (scenario.load.is_open() && !is_scaled).then(|| "its capacity is not known".into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fixtures::plan;
    use schema::capacity::Capacity;
    use schema::record::{CaseEnd, End, LaunchRecord, VerifyRecord};
    use schema::run::RunHeader;
    use std::collections::BTreeMap;

    pub(crate) fn verified(positions: u32) -> BTreeMap<String, VerifyRecord> {
        let record = VerifyRecord {
            model: "m".into(),
            verified_positions: Some(positions),
            ..fixtures::verified("t")
        };
        BTreeMap::from([("t".to_owned(), record)])
    }

    fn log(invocation: u32, attempt: u32, done: &[&str], status: Option<Status>) -> LaunchLog {
        let ended = |case: &&str| CaseEnd {
            case: (*case).into(),
            ..CaseEnd::default()
        };
        LaunchLog {
            launch: LaunchRecord {
                target: "t".into(),
                scenario: "s".into(),
                invocation,
                attempt,
                cases: vec!["p10".into(), "p500".into()],
                ..LaunchRecord::default()
            },
            case_ends: done.iter().map(ended).collect(),
            end: status.map(|status| End {
                status,
                ..End::default()
            }),
            ..LaunchLog::default()
        }
    }

    /// A run of the example's plan, whose target is verified up to `positions`.
    fn run(positions: u32) -> Run {
        Run {
            header: RunHeader {
                plan: plan(),
                ..RunHeader::default()
            },
            verify: verified(positions),
            ..Run::default()
        }
    }

    fn left(logs: &[LaunchLog], positions: u32) -> Vec<(u32, u32, Vec<String>)> {
        of_run(&run(positions), logs)
            .into_iter()
            .map(|p| (p.launch.invocation, p.attempt, p.launch.cases))
            .collect()
    }

    fn both() -> Vec<String> {
        vec!["p10".into(), "p500".into()]
    }

    #[test]
    fn a_fresh_run_has_everything_to_do() {
        assert_eq!(left(&[], 1024), [(0, 0, both()), (1, 0, both())]);
    }

    #[test]
    fn a_killed_launch_is_gone_on_with_and_a_finished_one_is_not() {
        let logs = [
            log(0, 0, &["p10", "p500"], Some(Status::Ok)),
            log(1, 0, &["p10"], None),
        ];
        assert_eq!(left(&logs, 1024), [(1, 1, vec!["p500".to_owned()])]);
        let interrupted = [log(0, 0, &[], Some(Status::NotRun))];
        assert_eq!(left(&interrupted, 1024)[0], (0, 1, both()));
    }

    #[test]
    fn a_failure_of_the_engine_is_a_result_and_not_tried_again() {
        let logs = [log(0, 0, &["p10"], Some(Status::Crashed))];
        assert_eq!(left(&logs, 1024), []);
    }

    #[test]
    fn nothing_is_timed_beyond_what_is_verified() {
        let short = vec!["p10".to_owned()];
        assert_eq!(left(&[], 96), [(0, 0, short.clone()), (1, 0, short)]);
        let mut nothing = run(1024);
        nothing.verify.clear();
        assert!(of_run(&nothing, &[]).is_empty());
    }

    #[test]
    fn prompts_that_begin_alike_are_timed_where_they_are_kept() {
        let mut run = run(1024);
        for case in &mut run.header.plan.scenarios[0].cases {
            case.shared_percent = Some(0);
        }
        let why = |run: &Run| refusal(&run.verify, "t", &run.header.plan.scenarios[0].cases[0]);
        assert!(of_run(&run, &[]).is_empty());
        let said = why(&run).unwrap();
        assert!(said.contains("our adapter uses no prefix cache"), "{said}");
        run.verify.get_mut("t").unwrap().prefix_cache = true;
        assert_eq!(of_run(&run, &[]).len(), 2);
        // One case was done when the harness was killed: a ratio needs both cases of one process.
        run.header.plan.scenarios[0].axis = schema::scenario::Axis::SharedPercent;
        let rest = of_run(&run, &[log(0, 0, &["p10"], None)]);
        assert_eq!(rest[0].launch.cases, ["p10", "p500"]);
        assert_eq!(rest[0].attempt, 1);
        let whole = [log(0, 0, &["p10", "p500"], None)];
        assert_eq!(of_run(&run, &whole).len(), 1);
        let record = run.verify.get_mut("t").unwrap();
        record.prefix_cache = false;
        let failed = "with its prefix cache: it crashed".to_owned();
        record.prefix_cache_failure = failed.clone();
        assert!(of_run(&run, &[]).is_empty());
        assert_eq!(why(&run), Some(failed));
    }

    #[test]
    fn a_twin_is_launched_beside_its_original_and_resumed_by_its_own_records() {
        let mut run = run(1024);
        run.budget.get_or_insert_default().twins = vec![schema::key::Twin {
            target: "t".into(),
            role: schema::key::TwinRole::Fastest,
            cost_s: 1.0,
        }];
        let left = |logs: &[LaunchLog]| -> Vec<(u32, String)> {
            of_run(&run, logs)
                .into_iter()
                .map(|p| (p.launch.invocation, p.launch.target))
                .collect()
        };
        let all = left(&[]);
        assert_eq!(all.len(), 4);
        assert_eq!(all.iter().filter(|l| l.1 == "t@twin").count(), 2);
        let mut of_the_twin = log(0, 0, &["p10", "p500"], Some(Status::Ok));
        of_the_twin.launch.target = "t@twin".into();
        let rest = left(&[of_the_twin.clone()]);
        assert_eq!(rest.len(), 3);
        assert!(!rest.contains(&(0, "t@twin".to_owned())));
        of_the_twin.end.as_mut().unwrap().status = Status::Crashed;
        let rest = left(&[of_the_twin]);
        assert!(rest.iter().all(|l| l.1 == "t"), "its failure is its own");
    }

    #[test]
    fn nothing_is_timed_that_there_is_no_time_for() {
        let mut run = run(1024);
        run.budget.get_or_insert_default().over = vec![fixtures::over("t", "s", "p10", "slow")];
        assert_eq!(of_run(&run, &[])[0].launch.cases, ["p500"]);
    }

    #[test]
    fn an_open_loop_waits_for_its_capacity_and_goes_without_where_there_is_none() {
        let mut run = run(1024);
        run.header.plan.scenarios[0].load = schema::scenario::LoadShape::Poisson;
        assert!(of_run(&run, &[]).is_empty());
        run.capacities = vec![Capacity {
            target: "t".into(),
            prompt_tokens: 10,
            new_tokens: 16,
            concurrency: 1,
            status: Status::Crashed,
            requests_per_s: 20.0,
            ..Capacity::default()
        }];
        assert!(of_run(&run, &[]).is_empty());
        run.capacities[0].status = Status::Ok;
        // The long prompts are another kind of work, whose capacity is not known.
        let cases: Vec<_> = of_run(&run, &[])
            .into_iter()
            .map(|p| p.launch.cases)
            .collect();
        assert_eq!(cases, [["p10"], ["p10"]]);
    }
}
