//! `data/profiles/*.toml`: the sizes of the scenarios for a kind of machine.

use crate::error::{DataError, fits, is_stem, read_checked};
use crate::limits::{self, OfAllScenarios, PROMPTS_PER_S, within};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Least number of completed requests of a publishable cell.
pub const SAMPLES_MIN: u32 = 100;
/// Least number of invocations of a publishable run.
pub const INVOCATIONS_MIN: u32 = 5;
/// Smallest difference that matters, unless the profile says otherwise (percent). The value is a
/// choice: between two processes of one program, the placement of data in memory alone made a
/// difference of 4 %.
pub const MATTERS_PERCENT: f64 = 2.0;

/// One profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Id of the profile, equal to the file's stem.
    pub id: String,
    /// One sentence for `--help` and the run page.
    pub about: String,
    /// Whether its numbers may be published, which requires at least [`SAMPLES_MIN`] samples.
    pub publishable: bool,
    /// Id of the model that is timed unless `--model` says otherwise.
    pub model: String,
    /// Backends of the targets it runs.
    pub backends: Vec<String>,
    /// Ids of the targets it runs, where these are not all of its backends'.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Number of process launches per target and scenario: the blocks of the experiment.
    pub invocations: u32,
    /// Seed of the prompts and of the order.
    pub seed: u64,
    /// Number of compute threads an engine gets; 0 = all CPUs the process may use.
    pub threads: u32,
    /// Number of untimed requests at the start of every case.
    pub warmup_requests: u32,
    /// Time after which a request without an answer ends its process as `timeout` (s).
    pub request_timeout_s: u32,
    /// Time after which loading ends as `timeout` (s).
    pub load_timeout_s: u32,
    /// Time that measuring may take (s); a pilot decides which cells are left out. 0 = any.
    #[serde(default)]
    pub budget_s: f64,
    /// Approximate time of measuring on two cores (min), where there is no budget; 0 = not known.
    #[serde(default)]
    pub measure_min: f64,
    /// Id of the profile of a first run, which `bench-all` makes with the first programs while it
    /// still compiles the others.
    #[serde(default)]
    pub first_look: Option<String>,
    /// Latency limits within which a user still calls answers responsive; goodput counts requests
    /// within them.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// Whether the fastest target and one of middling pace run twice in every block, which shows
    /// how far a target differs from itself. A pilot decides which targets these are.
    #[serde(default)]
    pub aa_pairs: bool,
    /// Whether a target on the CPU has one process a block for all scenarios that don't need a
    /// fresh one, instead of one for each. It is loaded for the longest context and the most
    /// requests in flight among them.
    #[serde(default)]
    pub one_process: bool,
    /// Smallest difference that matters (percent): a verdict never calls a smaller one a
    /// difference, and calls two targets equal only where they are no further apart.
    #[serde(default = "matters_percent")]
    pub matters_percent: f64,
    /// Scenario id → its sizes. A scenario that isn't named isn't run.
    pub scenarios: BTreeMap<String, Sizes>,
    /// How the micro suites are measured; absent = they aren't.
    #[serde(default)]
    pub micro: Option<MicroSizes>,
}

/// Default of `matters_percent` in a profile or a plan.
pub(crate) fn matters_percent() -> f64 {
    MATTERS_PERCENT
}

/// How the micro suites are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MicroSizes {
    /// Number of samples per launch and case.
    pub samples: u32,
    /// Desired duration of a sample (ms); the warm-up decides how many calls that is.
    pub sample_ms: f64,
    /// Least duration of the untimed calls before the samples (ms).
    pub warmup_ms: f64,
    /// Longest time that the samples of a launch and case may take (s), estimated by a first look.
    /// A variant that would take longer is over budget, except a suite's baseline. 0 = any.
    #[serde(default)]
    pub cell_s: f64,
    /// Backends whose variants run; empty = those of the profile. A suite's baseline runs on
    /// whichever it has, because every ratio needs it.
    #[serde(default)]
    pub backends: Vec<String>,
    /// Suite id → the ids of its cases that run; empty = all of them.
    pub suites: BTreeMap<String, Vec<String>>,
}

/// Check that a publishable profile takes enough samples: `each` of `what` in every invocation.
fn at_least_the_floor(
    publishable: bool,
    each: u32,
    what: &str,
    invocations: u32,
) -> Result<(), String> {
    let samples = u64::from(each) * u64::from(invocations);
    if publishable && samples < u64::from(SAMPLES_MIN) {
        return Err(format!(
            "{each} {what} × {invocations} invocations is under the {SAMPLES_MIN}-sample floor of a publishable profile"
        ));
    }
    Ok(())
}

impl MicroSizes {
    fn check(&self, publishable: bool, invocations: u32) -> Result<(), String> {
        let times = [self.sample_ms, self.warmup_ms, self.cell_s];
        if self.samples == 0 || !times.iter().all(|t| t.is_finite() && *t >= 0.0) {
            return Err("samples must be at least 1, and all times 0 or more".into());
        }
        at_least_the_floor(publishable, self.samples, "samples", invocations)
    }

    /// Check that nothing is over its limit and that no case comes twice; the error begins with the
    /// key.
    fn check_limits(&self) -> Result<(), String> {
        within("samples", self.samples, limits::REQUESTS)?;
        within("sample_ms", self.sample_ms, limits::MILLISECONDS)?;
        within("warmup_ms", self.warmup_ms, limits::MILLISECONDS)?;
        limits::duration("cell_s", self.cell_s)?;
        let mut suites = self.suites.iter();
        suites.try_for_each(|(suite, cases)| each_once(&format!("suites.{suite}"), cases))
    }
}

/// Check that no entry of a list comes twice, because each becomes a case of its own.
fn each_once<T: Ord + std::fmt::Debug>(key: &str, entries: &[T]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match entries.iter().find(|entry| !seen.insert(*entry)) {
        Some(twice) => Err(format!("{key}: {twice:?} is listed twice")),
        None => Ok(()),
    }
}

/// Service-level objective: limits on latency at the 90th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Limit of the time to first token (ms).
    pub ttft_p90_ms: f64,
    /// Limit of the inter-token latency (ms).
    pub itl_p90_ms: f64,
}

impl Slo {
    fn is_valid(&self) -> bool {
        let limits = [self.ttft_p90_ms, self.itl_p90_ms];
        limits.iter().all(|ms| ms.is_finite() && *ms > 0.0)
    }
}

/// The sizes of one scenario. At most one of `prompt_tokens`, `concurrency`, `load_percent` and
/// `shared_percent` has more than one entry: the one on the scenario's axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Prompt lengths (tokens); empty where the user's prompts are asked, whose file decides.
    #[serde(default)]
    pub prompt_tokens: Vec<u32>,
    /// Output length in tokens.
    pub new_tokens: u32,
    /// Numbers of requests in flight (for `Serial` loads: `[1]`; for open loops that of the
    /// capacity stage).
    pub concurrency: Vec<u32>,
    /// Offered load of an open loop, in percent of the measured capacity.
    #[serde(default)]
    pub load_percent: Vec<u32>,
    /// Shares of the prompt, from its beginning, that all prompts have in common, in percent. 0 is
    /// among them, because the others are compared with it.
    #[serde(default)]
    pub shared_percent: Vec<u32>,
    /// Ids of the targets that run it, where these are not all of the profile's.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Least number of timed requests per invocation.
    pub requests: u32,
    /// Least duration of a case per invocation, in seconds; the case goes on until this and
    /// `requests` are reached. 0 = `requests` alone decides.
    #[serde(default)]
    pub duration_s: f64,
    /// Whether the targets of a block are in memory together and take turns of a few requests each,
    /// instead of running one after the other, so that changes of the machine meanwhile affect all
    /// alike. For `Serial` and `ClosedLoop` loads on the CPU.
    #[serde(default)]
    pub turns: bool,
}

impl Sizes {
    /// Whether these are the sizes of an open loop, with its rates.
    pub fn has_rates(&self) -> bool {
        !self.load_percent.is_empty()
    }

    fn check(&self, publishable: bool, invocations: u32) -> Result<(), String> {
        // The scenario decides whether there may be no prompt_tokens: see the plan.
        if self.concurrency.is_empty()
            || self.prompt_tokens.contains(&0)
            || self.concurrency.contains(&0)
            || self.load_percent.contains(&0)
            || self.new_tokens == 0
            || self.requests == 0
        {
            return Err("every size must be at least 1".into());
        }
        let percents = &self.shared_percent;
        let is_odd = |percent: &u32| *percent > 99;
        if !percents.is_empty() && !percents.contains(&0) || percents.iter().any(is_odd) {
            return Err("shared_percent goes from 0, which must be among them, to 99".into());
        }
        let lengths = [
            self.prompt_tokens.len(),
            self.concurrency.len(),
            self.load_percent.len(),
            self.shared_percent.len(),
        ];
        if lengths.iter().filter(|&&length| length > 1).count() > 1 {
            let why =
                "only one of prompt_tokens, concurrency, load_percent and shared_percent may vary";
            return Err(why.into());
        }
        at_least_the_floor(publishable, self.requests, "requests", invocations)
    }

    /// Check that nothing is over its limit, the prompts of all invocations included, and that no
    /// entry comes twice; the error begins with the key. `length` is that of the longest prompt
    /// (tokens), or 0 where the user's file has the prompts, which has limits of its own.
    pub(crate) fn check_limits(&self, length: u32, invocations: u32) -> Result<(), String> {
        let all: [(&str, &[u32], u32); 6] = [
            ("prompt_tokens", &self.prompt_tokens, limits::TOKENS),
            ("new_tokens", &[self.new_tokens], limits::TOKENS),
            ("concurrency", &self.concurrency, limits::CONCURRENCY),
            ("load_percent", &self.load_percent, limits::LOAD_PERCENT),
            ("shared_percent", &self.shared_percent, 99),
            ("requests", &[self.requests], limits::REQUESTS),
        ];
        for (key, entries, max) in all {
            entries.iter().try_for_each(|&e| within(key, e, max))?;
            each_once(key, entries)?;
        }
        limits::duration("duration_s", self.duration_s)?;
        // A launch rounds the number up to a multiple of the requests in flight.
        let more =
            (self.duration_s * PROMPTS_PER_S).ceil() as u64 + u64::from(most(&self.concurrency));
        let prompts = u64::from(self.requests) + more;
        let key = format!("requests + {PROMPTS_PER_S} × duration_s + concurrency");
        within(&key, prompts, u64::from(limits::REQUESTS))?;
        let key = format!("tokens of all prompts in {invocations} invocations");
        let tokens = prompts * u64::from(length) * u64::from(invocations);
        within(&key, tokens, limits::PROMPT_TOKENS)
    }
}

/// Return the largest of some sizes; 0 where there are none.
fn most(sizes: &[u32]) -> u32 {
    sizes.iter().copied().max().unwrap_or(0)
}

impl Profile {
    /// Return the profile with more invocations of everything. Fewer are an error, because the
    /// sample sizes were checked with the number that is written down.
    pub fn with_invocations(self, invocations: u32) -> Result<Self, String> {
        if invocations < self.invocations {
            return Err(format!(
                "--invocations {invocations}: profile {} has {1} blocks, and a run can't have fewer: give {1} or more",
                self.id, self.invocations
            ));
        }
        within("--invocations", invocations, limits::INVOCATIONS)?;
        let more = Self {
            invocations,
            ..self
        };
        let checked = more.check();
        checked
            .map_err(|why| format!("--invocations {invocations}: profile {}: {why}", more.id))?;
        Ok(more)
    }

    /// Load and validate one file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_checked(path, |profile: &Self| {
            fits("profile", &profile.id)?;
            is_stem(path, &profile.id)?;
            profile.check()
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.invocations == 0 || self.request_timeout_s == 0 || self.load_timeout_s == 0 {
            return Err(
                "invocations, request_timeout_s and load_timeout_s must be at least 1".into(),
            );
        }
        self.check_limits()?;
        if !self.measure_min.is_finite() || self.measure_min < 0.0 {
            return Err("measure_min must be a number of minutes, 0 (not known) or more".into());
        }
        if !(0.0..100.0).contains(&self.matters_percent) {
            return Err("matters_percent must be 0 or more, and under 100".into());
        }
        if self.slo.is_some_and(|slo| !slo.is_valid()) {
            return Err("[slo]: both limits must be more than 0 ms".into());
        }
        if self.aa_pairs && self.invocations < 2 {
            return Err("aa_pairs needs at least 2 invocations: one has no interval".into());
        }
        for (id, sizes) in &self.scenarios {
            let checked = sizes.check_limits(most(&sizes.prompt_tokens), self.invocations);
            checked.map_err(|why| format!("[scenarios.{id}] {why}"))?;
            let checked = sizes.check(self.publishable, self.invocations);
            checked.map_err(|why| format!("[scenarios.{id}]: {why}"))?;
        }
        if let Some(micro) = &self.micro {
            let checked = micro.check_limits();
            checked.map_err(|why| format!("[micro] {why}"))?;
            let checked = micro.check(self.publishable, self.invocations);
            checked.map_err(|why| format!("[micro]: {why}"))?;
        }
        if self.publishable && self.invocations < INVOCATIONS_MIN {
            let least = INVOCATIONS_MIN;
            return Err(format!(
                "a publishable profile has at least {least} invocations"
            ));
        }
        Ok(())
    }

    /// Check that nothing that holds for all scenarios is over its limit; the error begins with the
    /// key.
    fn check_limits(&self) -> Result<(), String> {
        OfAllScenarios {
            invocations: self.invocations,
            threads: self.threads,
            warmup_requests: self.warmup_requests,
            request_timeout_s: self.request_timeout_s,
            load_timeout_s: self.load_timeout_s,
            budget_s: self.budget_s,
        }
        .check()?;
        let week_min = f64::from(limits::SECONDS / 60);
        within("measure_min", self.measure_min, week_min)
    }
}

#[cfg(test)]
mod tests;
