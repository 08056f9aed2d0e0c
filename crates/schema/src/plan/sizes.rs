//! The upper limits that a plan is held to, however it was made.

use super::{Case, Plan};
use crate::limits::{self, OfAllScenarios, within};
use crate::profile::Sizes;

impl Plan {
    /// Check that all sizes are within their limits, and that every launch belongs to a block. The
    /// error begins with the key or the case.
    pub fn check_sizes(&self) -> Result<(), String> {
        let blocks_max = self.until.map_or(0, |until| until.blocks_max);
        OfAllScenarios {
            invocations: self.invocations,
            threads: self.threads,
            warmup_requests: self.warmup_requests,
            request_timeout_s: self.request_timeout_s,
            load_timeout_s: self.load_timeout_s,
            budget_s: self.budget_s,
        }
        .check()?;
        within("until.blocks_max", blocks_max, limits::INVOCATIONS)?;
        for scenario in &self.scenarios {
            for case in &scenario.cases {
                let length = match self.own_prompts(scenario) {
                    Some(_) => 0,
                    None => case.prompt_tokens,
                };
                let blocks = self.invocations.max(blocks_max);
                let checked = case.sizes().check_limits(length, blocks);
                checked.map_err(|why| format!("{}: {why}", scenario.case_key(case)))?;
            }
        }
        for suite in &self.micro.suites {
            let key = format!("suite {}: samples", suite.id);
            within(&key, suite.samples, limits::REQUESTS)?;
        }
        let blocks = self.launches.iter().map(|launch| launch.invocation);
        let micro = self.micro.launches.iter().map(|launch| launch.invocation);
        blocks
            .chain(micro)
            .try_for_each(|block| self.check_block(block))
    }

    /// Check that the plan has a block (from 0).
    pub fn check_block(&self, block: u32) -> Result<(), String> {
        match block < self.invocations {
            true => Ok(()),
            false => Err(format!(
                "invocation: {block} is none of the plan's {} blocks, the first of which is 0",
                self.invocations
            )),
        }
    }
}

impl Case {
    /// Its sizes, as a profile has them.
    fn sizes(&self) -> Sizes {
        Sizes {
            prompt_tokens: vec![self.prompt_tokens],
            new_tokens: self.new_tokens,
            concurrency: vec![self.concurrency],
            load_percent: self.load_percent.into_iter().collect(),
            shared_percent: self.shared_percent.into_iter().collect(),
            requests: self.requests,
            duration_s: self.duration_s,
            ..Sizes::default()
        }
    }
}
