//! Analyses a run that was stopped before its end, such as one on a machine that is lent for
//! minutes: the blocks that were measured whole are an experiment of their own, since the moment of
//! stopping doesn't depend on what was measured. Nothing is written: `bench-all --resume` continues
//! the run as ever.

use super::Run;
use crate::launch_log::LaunchLog;
use crate::origin::Stopped;
use crate::profile::{INVOCATIONS_MIN, SAMPLES_MIN};
use crate::record::Status;
use std::collections::BTreeSet;

/// Least number of blocks that give an interval.
const BLOCKS_MIN: u32 = 2;

impl Run {
    /// Return the run as if the blocks that were measured whole were all of its plan, where it was
    /// stopped between two launches and everything that was begun has ended. Any other run is
    /// returned unchanged, because what is missing from it may be missing because of what it did.
    pub fn as_far_as_measured(mut self) -> Self {
        let planned = self.header.plan.invocations;
        let Some(whole) = self.whole_blocks().filter(|whole| *whole < planned) else {
            return self;
        };
        let plan = &mut self.header.plan;
        plan.launches.retain(|launch| launch.invocation < whole);
        plan.invocations = whole;
        let cases = plan.scenarios.iter().flat_map(|scenario| &scenario.cases);
        let samples = cases.map(|case| case.requests.saturating_mul(whole)).min();
        plan.publishable &= whole >= INVOCATIONS_MIN && samples >= Some(SAMPLES_MIN);
        for logs in [&mut self.launches, &mut self.twins] {
            logs.retain(|log| log.launch.invocation < whole);
        }
        self.header.origin.stopped = Some(Stopped { whole, planned });
        self
    }

    /// Return how many blocks, from the first, were measured whole; `None` where the run wasn't
    /// simply stopped.
    fn whole_blocks(&self) -> Option<u32> {
        let plan = &self.header.plan;
        if self.header.origin.shard.is_some() {
            return None;
        }
        let logs = || self.launches.iter().chain(&self.twins);
        let of_block = |block: u32| logs().filter(move |log| log.launch.invocation == block);
        // A refused target is launched in no block.
        let ended = |block: u32| {
            of_block(block)
                .flat_map(cases_ended)
                .collect::<BTreeSet<_>>()
        };
        let first = ended(0);
        let whole = (0..plan.invocations)
            .take_while(|block| ended(*block).is_superset(&first))
            .count() as u32;
        let nothing_after =
            (whole + 1..plan.invocations).all(|block| of_block(block).next().is_none());
        let all_ended = logs().all(|log| log.end.is_some());
        (whole >= BLOCKS_MIN && nothing_after && all_ended).then_some(whole)
    }
}

/// A target, a scenario and a case.
type Measured<'a> = (&'a str, &'a str, &'a str);

/// The cases of a launch that came to an end: those that were measured and, where the launch
/// failed, those that it was to measure. A scenario may have a launch per case.
fn cases_ended(log: &LaunchLog) -> impl Iterator<Item = Measured<'_>> {
    let launch = &log.launch;
    let end = log.end.as_ref().map(|end| end.status);
    let failed = end.is_some_and(|status| !matches!(status, Status::Ok | Status::NotRun));
    let lost = launch.cases.iter().filter(move |_| failed);
    let measured = log.case_ends.iter().map(|end| &end.case);
    let cases = measured.chain(lost);
    cases.map(move |case| (&*launch.target, &*launch.scenario, &**case))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::record::{CaseEnd, End, LaunchRecord};
    use crate::run::RunHeader;

    /// A launch that was to measure one case, and measured it where it ended well.
    fn log(invocation: u32, case: &str, status: Status) -> LaunchLog {
        let end = CaseEnd {
            case: case.into(),
            ..CaseEnd::default()
        };
        LaunchLog {
            launch: LaunchRecord {
                target: "t".into(),
                scenario: "memory".into(),
                invocation,
                cases: vec![case.into()],
                ..LaunchRecord::default()
            },
            case_ends: Vec::from_iter((status == Status::Ok).then_some(end)),
            end: Some(End {
                status,
                ..End::default()
            }),
            ..LaunchLog::default()
        }
    }

    /// A run with two whole blocks of five, and further launches.
    fn run(more: impl IntoIterator<Item = LaunchLog>) -> Run {
        let plan = Plan {
            publishable: true,
            invocations: 5,
            ..Plan::default()
        };
        let whole = [(0, "b1"), (0, "b8"), (1, "b1"), (1, "b8")];
        let whole = whole.map(|(block, case)| log(block, case, Status::Ok));
        Run {
            header: RunHeader {
                plan,
                ..RunHeader::default()
            },
            launches: whole.into_iter().chain(more).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn a_block_with_some_of_a_scenarios_launches_is_not_whole() {
        let whole = |more: Vec<LaunchLog>| {
            let stopped = run(more).as_far_as_measured().header.origin.stopped;
            stopped.map(|stopped| stopped.whole)
        };
        let ok = |case| log(2, case, Status::Ok);
        assert_eq!(whole(vec![]), Some(2));
        assert_eq!(whole(vec![ok("b1")]), Some(2));
        assert_eq!(whole(vec![ok("b1"), log(2, "b8", Status::NotRun)]), Some(2));
        assert_eq!(whole(vec![ok("b1"), ok("b8")]), Some(3));
        // A failure isn't cut off.
        let failed = log(2, "b8", Status::Crashed);
        assert_eq!(whole(vec![ok("b1"), failed]), Some(3));
    }
}
