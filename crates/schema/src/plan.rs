//! The resolved plan of a run: which cells are measured, in which order. It is a pure function of
//! scenarios, profile, registry and seed. It stands in `run.json`, and `--resume` needs nothing
//! else.

mod sizes;

use crate::budget::Round;
use crate::key::{CaseKey, CellKey};
use crate::micro::MicroPlan;
use crate::own_prompts::OwnPrompts;
use crate::profile::{MATTERS_PERCENT, Slo, matters_percent};
use crate::registry::Target;
use crate::scenario::{Axis, LoadShape, PromptSource, Scenario};
use serde::{Deserialize, Serialize};

/// The plan of a run: everything that will be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Profile id.
    pub profile: String,
    /// Whether the run's numbers may be published.
    pub publishable: bool,
    /// Model id.
    pub model: String,
    /// Seed of the order, of arrivals, and of the prompts where `prompt_seed` is absent.
    pub seed: u64,
    /// Seed of the prompts, drawn as the run began, so that no engine can have prepared answers to
    /// them. Absent: `seed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_seed: Option<u64>,
    /// Compute threads per engine process.
    pub threads: u32,
    /// Process launches per target and scenario.
    pub invocations: u32,
    /// Width of intervals at which no more blocks are added; absent: as many blocks as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Untimed requests at the start of each case.
    pub warmup_requests: u32,
    /// Time after which a request without an answer ends its process as `timeout` (s).
    pub request_timeout_s: u32,
    /// Time after which loading ends as `timeout` (s).
    pub load_timeout_s: u32,
    /// Time that measuring may take (s); 0: any.
    #[serde(default)]
    pub budget_s: f64,
    /// Latency limits within which goodput counts requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// Whether two targets run twice in every block, as A/A pairs.
    #[serde(
        default,
        rename = "noise_floor",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub aa_pairs: bool,
    /// Whether a target on the CPU has one process a block for all scenarios that don't need a
    /// fresh one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_process: bool,
    /// Smallest difference that matters (percent). The usual one is left out, so that equal plans
    /// keep their hash.
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
    /// Plan of the micro suites, which measure what lies below the engines.
    #[serde(default, skip_serializing_if = "MicroPlan::is_empty")]
    pub micro: MicroPlan,
}

fn is_usual(percent: &f64) -> bool {
    *percent == MATTERS_PERCENT
}

/// The end of a run that adds blocks until its intervals are narrow enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Half the width of a 95 % interval that is narrow enough, in percent of the value. The
    /// interval is that of a ratio of leading metrics or, for a target that is compared with
    /// nothing, of its own metric.
    pub percent: f64,
    /// Largest number of blocks.
    pub blocks_max: u32,
}

impl Until {
    /// Parse a percentage of the command line, `5` or `5%`; the error says what to write instead.
    pub fn parse_percent(text: &str) -> Result<f64, String> {
        let number: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
        let fits = |percent: &f64| *percent > 0.0 && percent.is_finite();
        number
            .filter(fits)
            .ok_or_else(|| format!("{text:?} is no percentage over 0: say 5%"))
    }
}

/// A scenario with its sizes resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedScenario {
    /// Scenario id.
    pub id: String,
    /// Version of the scenario.
    pub version: u32,
    /// Shape of the load: how requests are issued.
    pub load: LoadShape,
    /// Source of its prompts.
    #[serde(default, skip_serializing_if = "PromptSource::is_generated")]
    pub prompts: PromptSource,
    /// Axis along which its cases vary.
    pub axis: Axis,
    /// Ids of the targets that run it; empty = all of the plan's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Whether the targets of a block take turns (see the profile).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns: bool,
    /// Cases of the scenario.
    pub cases: Vec<Case>,
}

/// One level of a scenario; together with a target it is a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Axis letter and value, e.g. `p50`.
    pub id: String,
    /// Prompt length (tokens); where lengths are mixed, length of the longest prompt.
    pub prompt_tokens: u32,
    /// Mean prompt length (tokens), rounded up, where lengths are mixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_mean: Option<u32>,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Number of requests in flight; in an open loop, that of the capacity stage and the largest
    /// batch.
    pub concurrency: u32,
    /// Offered load of an open loop, in percent of the measured capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<u32>,
    /// Share of the prompt, from its beginning, that all prompts of the case have in common, in
    /// percent; the engine is asked to keep what it computed of it. Absent: nothing is shared on
    /// purpose, and nothing may be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_percent: Option<u32>,
    /// Least number of timed requests per invocation.
    pub requests: u32,
    /// Least duration per invocation (s).
    pub duration_s: f64,
    /// The case of another scenario that offers the same load and is measured for both; this case
    /// then has no launch of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_by: Option<CaseKey>,
}

impl Plan {
    /// Find a target by its id.
    pub fn target(&self, id: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.id == id)
    }

    /// Find a scenario by its id.
    pub fn scenario(&self, id: &str) -> Option<&PlannedScenario> {
        self.scenarios.iter().find(|scenario| scenario.id == id)
    }

    /// Whether the scenario's launches share a target's process with other launches of the block.
    pub fn shares_process(&self, scenario: &PlannedScenario) -> bool {
        self.one_process && scenario.may_share_process()
    }

    /// The cases that a process of `target` is loaded for, if its first launch is of the cases `own`
    /// of `scenario`. Contexts beyond the `positions` that the target is verified for are left out
    /// of shared processes: they aren't requested, and it may have no room for them.
    pub fn loaded_for<'a>(
        &'a self,
        scenario: &PlannedScenario,
        own: Vec<&'a Case>,
        target: &str,
        positions: u32,
    ) -> Vec<&'a Case> {
        if !self.shares_process(scenario) {
            return own;
        }
        let all = self.scenarios.iter();
        let shared = all.filter(|other| other.runs(target) && self.shares_process(other));
        let cases = shared.flat_map(|other| &other.cases);
        cases
            .filter(|case| case.prompt_tokens + case.new_tokens <= positions)
            .collect()
    }

    /// Find a case and its scenario.
    pub fn case(&self, at: &CaseKey) -> Option<(&PlannedScenario, &Case)> {
        let scenario = self.scenario(&at.scenario)?;
        Some((scenario, scenario.case(&at.case)?))
    }

    /// Find where the requests of a case are measured: the case itself, or the one that is measured
    /// for it.
    pub fn measured<'a>(
        &'a self,
        scenario: &'a PlannedScenario,
        case: &'a Case,
    ) -> (&'a PlannedScenario, &'a Case) {
        let found = case.measured_by.as_ref().and_then(|by| self.case(by));
        found.unwrap_or((scenario, case))
    }

    /// The smallest difference that matters, as a ratio of 1 or more.
    pub fn matters(&self) -> f64 {
        (100.0 + self.matters_percent.max(0.0)) / 100.0
    }

    /// The seed that prompts are generated from.
    pub fn seed_of_prompts(&self) -> u64 {
        self.prompt_seed.unwrap_or(self.seed)
    }

    /// Least number of timed requests of a case over all invocations.
    pub fn requests(&self, case: &Case) -> u64 {
        u64::from(case.requests) * u64::from(self.invocations)
    }

    /// The user's prompts that a scenario asks; `None` where its prompts are generated.
    pub fn own_prompts(&self, scenario: &PlannedScenario) -> Option<&OwnPrompts> {
        self.prompts
            .as_ref()
            .filter(|_| scenario.prompts == PromptSource::Own)
    }

    /// Describe in words which of the user's prompts a scenario asks, how long they are and how
    /// often each is asked; `None` where its prompts are generated.
    pub fn prompts_words(&self, scenario: &PlannedScenario) -> Option<String> {
        let own = self.own_prompts(scenario)?;
        let case = scenario.cases.first()?;
        let times = own.times(self.requests(case));
        Some(format!("{}, {times} in each case", own.words()))
    }
}

impl PlannedScenario {
    /// Find one of its cases by its id.
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// Return the key of one of its cases.
    pub fn case_key(&self, case: &Case) -> CaseKey {
        CaseKey::new(&self.id, &case.id)
    }

    /// Return the key of a target's cell in one of its cases.
    pub fn cell_key(&self, case: &Case, target: &str) -> CellKey {
        self.case_key(case).cell(target)
    }

    /// Find this scenario's text; `None` where it is gone or has another version, because its words
    /// might not be true of what was planned.
    pub fn text<'a>(&self, texts: &'a [Scenario]) -> Option<&'a Scenario> {
        let mut texts = texts.iter();
        texts.find(|text| text.id == self.id && text.version == self.version)
    }

    /// Whether a target runs this scenario.
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

    /// Whether engines are asked to keep what they computed of earlier prompts. Other scenarios
    /// don't ask for that, so the processes of this one serve no other.
    pub fn reuses_prompts(&self) -> bool {
        self.axis == Axis::SharedPercent
    }

    /// Whether its launches may use the process of another scenario.
    pub fn may_share_process(&self) -> bool {
        !self.needs_fresh_process() && !self.reuses_prompts()
    }

    /// Whether each target is offered a share of its own capacity. Then targets do different
    /// amounts of work, and what they deliver is mostly what they were asked: no target can be
    /// ranked.
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

    /// Prompt length by which its work is estimated (tokens).
    pub fn prompt_tokens_usual(&self) -> u32 {
        self.prompt_tokens_mean.unwrap_or(self.prompt_tokens)
    }

    /// Whether its prompts may differ in length, so that `prompt_tokens` is only an upper bound.
    pub fn has_mixed_lengths(&self) -> bool {
        self.prompt_tokens_mean.is_some()
    }

    /// Whether a round that the pilot timed has its shape of requests.
    pub fn is_timed_by(&self, round: &Round) -> bool {
        round.mixed == self.has_mixed_lengths()
            && round.prompt_tokens == self.prompt_tokens_usual()
            && round.new_tokens == self.new_tokens
            && round.concurrency == self.concurrency
    }

    /// Number of tokens that all of its prompts have in common on purpose, from the beginning.
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

impl Launch {
    /// Return the key of its cell in a case.
    pub fn cell_key(&self, case: &str) -> CellKey {
        CellKey::new(&self.target, &self.scenario, case)
    }
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
