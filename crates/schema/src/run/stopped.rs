//! Analyses a run that was stopped before its end, such as one on a machine that is lent for
//! minutes: the blocks that were measured whole are an experiment of their own, since the moment of
//! stopping doesn't depend on what was measured. Nothing is written: `bench-all --resume` continues
//! the run as ever.

use super::Run;
use crate::launch_log::LaunchLog;
use crate::origin::Stopped;
use crate::profile::{INVOCATIONS_MIN, SAMPLES_MIN};
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
        // A refused target is launched in no block.
        let begun = |block: u32| -> BTreeSet<(&str, &str)> {
            let of_block = logs().filter(|log| log.launch.invocation == block);
            of_block.map(name).collect()
        };
        let first = begun(0);
        let whole = (0..plan.invocations)
            .take_while(|block| begun(*block).is_superset(&first))
            .count() as u32;
        let nothing_after = (whole + 1..plan.invocations).all(|block| begun(block).is_empty());
        let all_ended = logs().all(|log| log.end.is_some());
        (whole >= BLOCKS_MIN && nothing_after && all_ended).then_some(whole)
    }
}

fn name(log: &LaunchLog) -> (&str, &str) {
    (&log.launch.target, &log.launch.scenario)
}
