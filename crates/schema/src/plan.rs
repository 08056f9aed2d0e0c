//! The resolved plan of a run: which cells are measured, in which order. It is
//! made purely (from scenarios, profile, registry and seed), stands in `run.json`,
//! and is all that `--resume` needs.

use crate::key::{CaseKey, CellKey};
use crate::micro::MicroPlan;
use crate::own_prompts::OwnPrompts;
use crate::profile::{MATTERS_PERCENT, Slo, matters_percent};
use crate::registry::Target;
use crate::scenario::{Axis, LoadShape, PromptSource};
use serde::{Deserialize, Serialize};

/// Everything that will be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Profile id.
    pub profile: String,
    /// Whether numbers may be published.
    pub publishable: bool,
    /// Model id.
    pub model: String,
    /// Seed of the order, of arrivals, and of the prompts where they have none of their own.
    pub seed: u64,
    /// Seed of the prompts, drawn as the run began: nobody can have prepared answers to them.
    /// Absent: the one above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_seed: Option<u64>,
    /// Compute threads per engine process.
    pub threads: u32,
    /// Process launches per target and scenario.
    pub invocations: u32,
    /// How narrow intervals must be before no more launches are added; absent: as many as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Untimed requests at the start of each case.
    pub warmup_requests: u32,
    /// See the profile.
    pub request_timeout_s: u32,
    /// See the profile.
    pub load_timeout_s: u32,
    /// See the profile.
    #[serde(default)]
    pub budget_s: f64,
    /// See the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// See the profile.
    #[serde(
        default,
        rename = "noise_floor",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub aa_pairs: bool,
    /// See the profile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_process: bool,
    /// See the profile. The usual one is left out, so that equal plans keep their hash.
    #[serde(default = "matters_percent", skip_serializing_if = "is_usual")]
    pub matters_percent: f64,
    /// The prompts that the user brought, for the scenarios that ask them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<OwnPrompts>,
    /// The targets, in the registry's order.
    pub targets: Vec<Target>,
    /// The scenarios with their cases.
    pub scenarios: Vec<PlannedScenario>,
    /// The order of work: blocks of launches, each block in its own random order.
    pub launches: Vec<Launch>,
    /// The suites below the engines.
    #[serde(default, skip_serializing_if = "MicroPlan::is_empty")]
    pub micro: MicroPlan,
}

fn is_usual(percent: &f64) -> bool {
    *percent == MATTERS_PERCENT
}

/// When a run ends that goes on block by block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Half the width of a 95 % interval of a ratio of leading metrics (of a target that is compared
    /// with nothing, of its own), in percent of the value: narrow enough.
    pub percent: f64,
    /// Most blocks.
    pub blocks_max: u32,
}

impl Until {
    /// A percentage of the command line, `5` or `5%`; else what it should be.
    pub fn parse_percent(text: &str) -> Result<f64, String> {
        let number: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
        let fits = |percent: &f64| *percent > 0.0 && percent.is_finite();
        number
            .filter(fits)
            .ok_or_else(|| format!("{text:?} is no percentage over 0: say 5%"))
    }
}

/// A scenario with its sizes resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedScenario {
    /// Scenario id.
    pub id: String,
    /// Its version.
    pub version: u32,
    /// How requests are issued.
    pub load: LoadShape,
    /// Where its prompts come from.
    #[serde(default, skip_serializing_if = "PromptSource::is_generated")]
    pub prompts: PromptSource,
    /// What varies.
    pub axis: Axis,
    /// Ids of the targets that run it; empty = all of the plan's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Whether the targets of a block take turns (see the profile).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns: bool,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// One level of a scenario; with a target it is a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Axis letter and value, e.g. `p50`.
    pub id: String,
    /// Prompt length (tokens); where lengths are mixed, that of the longest.
    pub prompt_tokens: u32,
    /// Mean prompt length (tokens), rounded up, where lengths are mixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_mean: Option<u32>,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Requests in flight; in an open loop those of the capacity stage, and the
    /// largest batch.
    pub concurrency: u32,
    /// Offered load of an open loop, in percent of the measured capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<u32>,
    /// Share of the prompt, from its beginning, that all prompts of the case have in common, in
    /// percent; its engine is asked to keep what it computed of it. Absent: nothing is shared on
    /// purpose, and nothing may be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_percent: Option<u32>,
    /// Least timed requests per invocation.
    pub requests: u32,
    /// Least duration per invocation (s).
    pub duration_s: f64,
    /// The case of another scenario that offers the same load and is measured for both: this
    /// one has no launch of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_by: Option<CaseKey>,
}

impl Plan {
    /// Where the requests of a case are measured: the case itself, or the one that is measured
    /// for it.
    pub fn measured<'a>(
        &'a self,
        scenario: &'a PlannedScenario,
        case: &'a Case,
    ) -> (&'a PlannedScenario, &'a Case) {
        let Some(by) = &case.measured_by else {
            return (scenario, case);
        };
        let source = self.scenarios.iter().find(|s| s.id == by.scenario);
        let found = source.and_then(|s| Some((s, s.cases.iter().find(|c| c.id == by.case)?)));
        found.unwrap_or((scenario, case))
    }

    /// The smallest difference that matters, as a ratio of 1 or more.
    pub fn matters(&self) -> f64 {
        (100.0 + self.matters_percent.max(0.0)) / 100.0
    }

    /// The seed that generated prompts are of.
    pub fn seed_of_prompts(&self) -> u64 {
        self.prompt_seed.unwrap_or(self.seed)
    }

    /// Least timed requests of a case over all invocations.
    pub fn requests(&self, case: &Case) -> u64 {
        u64::from(case.requests) * u64::from(self.invocations)
    }

    /// The user's prompts that a scenario asks; `None` where its prompts are generated.
    pub fn own_prompts(&self, scenario: &PlannedScenario) -> Option<&OwnPrompts> {
        self.prompts
            .as_ref()
            .filter(|_| scenario.prompts == PromptSource::Own)
    }

    /// Which prompts of the user's a scenario asks, how long they are and how often each comes.
    pub fn prompts_words(&self, scenario: &PlannedScenario) -> Option<String> {
        let own = self.own_prompts(scenario)?;
        let case = scenario.cases.first()?;
        let times = own.times(self.requests(case));
        Some(format!("{}, {times} in each case", own.words()))
    }
}

impl PlannedScenario {
    /// What one of its cases is called.
    pub fn case_key(&self, case: &Case) -> CaseKey {
        CaseKey {
            scenario: self.id.clone(),
            case: case.id.clone(),
        }
    }

    /// What a target's cell in one of its cases is called.
    pub fn cell_key(&self, case: &Case, target: &str) -> CellKey {
        self.case_key(case).cell(target)
    }

    /// Whether the plan has it for that target.
    pub fn runs(&self, target: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|id| id == target)
    }

    /// The cases that are measured by launches of this scenario.
    pub fn measured_cases(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.measured_by.is_none())
    }

    /// Whether each case needs a process of its own: a peak of memory belongs to a process.
    pub fn needs_fresh_process(&self) -> bool {
        self.load == LoadShape::Batch
    }

    /// Whether engines are asked to keep what they computed of earlier prompts, which is asked
    /// nowhere else: its processes serve no other scenario.
    pub fn reuses_prompts(&self) -> bool {
        self.axis == Axis::SharedPercent
    }

    /// Whether its launches may go on with the process of another scenario.
    pub fn may_share_process(&self) -> bool {
        !self.needs_fresh_process() && !self.reuses_prompts()
    }

    /// Whether each target is offered a share of its own capacity. Then targets do
    /// different amounts of work, and what they delivered is mostly what they were asked:
    /// no target can be ranked.
    pub fn has_own_loads(&self) -> bool {
        self.axis == Axis::LoadPercent
    }
}

impl Case {
    /// The value on the scenario's axis.
    pub fn axis_value(&self, axis: Axis) -> u32 {
        match axis {
            Axis::PromptTokens => self.prompt_tokens,
            Axis::InFlight | Axis::Users | Axis::Batch => self.concurrency,
            Axis::LoadPercent => self.load_percent.unwrap_or(0),
            Axis::SharedPercent => self.shared_percent.unwrap_or(0),
        }
    }

    /// The prompt length (tokens) that its work is estimated by.
    pub fn prompt_tokens_usual(&self) -> u32 {
        self.prompt_tokens_mean.unwrap_or(self.prompt_tokens)
    }

    /// Whether its prompts may differ in length, so that nothing can be computed from
    /// `prompt_tokens` but a bound.
    pub fn has_mixed_lengths(&self) -> bool {
        self.prompt_tokens_mean.is_some()
    }

    /// How many tokens all of its prompts begin with, as far as that is on purpose.
    pub fn shared_tokens(&self) -> u32 {
        let percent = u64::from(self.shared_percent.unwrap_or(0));
        (u64::from(self.prompt_tokens) * percent / 100) as u32
    }
}

/// One process launch: one target, one scenario, the cases listed, one block.
/// (`memory` gets a launch per case, because a peak is a property of a process.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Block, from 0: the invocation this launch belongs to.
    pub invocation: u32,
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case ids, in order.
    pub cases: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_that_does_not_say_what_matters_keeps_its_bytes() {
        let mut value = json!({
            "profile": "cpu", "publishable": true, "model": "m", "seed": 1, "threads": 1,
            "invocations": 5, "warmup_requests": 1, "request_timeout_s": 1, "load_timeout_s": 1,
            "budget_s": 0.0, "targets": [], "scenarios": [], "launches": [],
        });
        let plan: Plan = serde_json::from_value(value.clone()).expect("a plan");
        assert_eq!(plan.matters(), 1.02);
        assert_eq!(serde_json::to_value(&plan).expect("JSON"), value);
        value["matters_percent"] = json!(5.0);
        let plan: Plan = serde_json::from_value(value.clone()).expect("a plan");
        assert_eq!(plan.matters(), 1.05);
        assert_eq!(serde_json::to_value(&plan).expect("JSON"), value);
    }
}
