//! Scenarios + profile + registry + seed → the plan. Pure: no clock, no machine,
//! no randomness but the seed's, so that equal inputs give equal plans anywhere.

use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::profile::{Profile, Sizes};
use schema::registry::Target;
use schema::scenario::{Axis, LoadShape, Scenario};

/// What the command line narrows or changes.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Engine or target ids; empty = every target of the profile's backends that
    /// isn't hidden. A hidden target must be named in full.
    pub engines: Vec<String>,
    /// Scenario ids; empty = all of the profile's.
    pub scenarios: Vec<String>,
    /// Another model than the profile's.
    pub model: Option<String>,
}

/// Why no plan can be made: what, and what there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for PlanError {}

/// Resolve a profile into a plan. `threads` stands for the profile's 0.
pub fn plan(
    profile: &Profile,
    scenarios: &[Scenario],
    all_targets: &[Target],
    choice: &Choice,
    threads: u32,
) -> Result<Plan, PlanError> {
    let targets = choose_targets(all_targets, &profile.backends, &choice.engines)?;
    let scenarios = choose_scenarios(profile, scenarios, &choice.scenarios)?;
    let launches = order(&targets, &scenarios, profile.invocations, profile.seed);
    Ok(Plan {
        profile: profile.id.clone(),
        publishable: profile.publishable,
        model: choice
            .model
            .clone()
            .unwrap_or_else(|| profile.model.clone()),
        seed: profile.seed,
        threads: if profile.threads == 0 {
            threads
        } else {
            profile.threads
        },
        invocations: profile.invocations,
        warmup_requests: profile.warmup_requests,
        request_timeout_s: profile.request_timeout_s,
        load_timeout_s: profile.load_timeout_s,
        targets,
        scenarios,
        launches,
    })
}

/// The targets a command line means. `engines` holds engine or target ids.
pub fn choose_targets(
    all: &[Target],
    backends: &[String],
    engines: &[String],
) -> Result<Vec<Target>, PlanError> {
    for wanted in engines {
        if !all
            .iter()
            .any(|target| target.id == *wanted || target.engine == *wanted)
        {
            let mut known: Vec<&str> = all.iter().map(|target| target.engine.as_str()).collect();
            known.dedup();
            return Err(PlanError(format!(
                "no engine or target {wanted:?} in engines/engines.toml: the engines are {}",
                known.join(", ")
            )));
        }
    }
    let chosen: Vec<Target> = all
        .iter()
        .filter(|target| {
            let named = engines.contains(&target.id);
            let usual = !target.hidden && backends.contains(&target.backend);
            named || usual && (engines.is_empty() || engines.contains(&target.engine))
        })
        .cloned()
        .collect();
    if chosen.is_empty() {
        return Err(PlanError(format!(
            "nothing to run: {} has no target on {}; name a target in full to run a hidden one",
            if engines.is_empty() {
                "the registry".into()
            } else {
                engines.join(", ")
            },
            backends.join(" or ")
        )));
    }
    Ok(chosen)
}

fn choose_scenarios(
    profile: &Profile,
    scenarios: &[Scenario],
    wanted: &[String],
) -> Result<Vec<PlannedScenario>, PlanError> {
    for id in wanted.iter().chain(profile.scenarios.keys()) {
        if !scenarios.iter().any(|scenario| scenario.id == *id) {
            let known: Vec<&str> = scenarios.iter().map(|s| s.id.as_str()).collect();
            return Err(PlanError(format!(
                "no scenario {id:?} in data/scenarios: there are {}",
                known.join(", ")
            )));
        }
    }
    for id in wanted {
        if !profile.scenarios.contains_key(id) {
            return Err(PlanError(format!(
                "profile {:?} gives scenario {id:?} no size: add [scenarios.{id}] to data/profiles/{}.toml",
                profile.id, profile.id
            )));
        }
    }
    Ok(scenarios
        .iter()
        .filter(|scenario| wanted.is_empty() || wanted.contains(&scenario.id))
        .filter_map(|scenario| {
            let sizes = profile.scenarios.get(&scenario.id)?;
            Some(PlannedScenario {
                id: scenario.id.clone(),
                version: scenario.version,
                load: scenario.load,
                axis: scenario.axis,
                cases: cases(scenario.axis, sizes),
            })
        })
        .collect())
}

fn cases(axis: Axis, sizes: &Sizes) -> Vec<Case> {
    let mut cases = Vec::new();
    for &prompt_tokens in &sizes.prompt_tokens {
        for &concurrency in &sizes.concurrency {
            let value = if axis == Axis::PromptTokens {
                prompt_tokens
            } else {
                concurrency
            };
            cases.push(Case {
                id: format!("{}{value}", axis.letter()),
                prompt_tokens,
                new_tokens: sizes.new_tokens,
                concurrency,
                requests: sizes.requests,
                duration_s: sizes.duration_s,
            });
        }
    }
    cases
}

/// Blocks of launches. Inside a block, targets run in a random order, and so do
/// the scenarios of each round over the targets: drift of the machine falls on
/// all alike.
///
/// Targets alternate within a scenario (t1 s1, t2 s1, …, t1 s2, …), so that what
/// is compared ran close together in time.
fn order(
    targets: &[Target],
    scenarios: &[PlannedScenario],
    invocations: u32,
    seed: u64,
) -> Vec<Launch> {
    let mut random = SplitMix64(seed);
    let mut launches = Vec::new();
    for invocation in 0..invocations {
        let mut scenario_order: Vec<&PlannedScenario> = scenarios.iter().collect();
        random.shuffle(&mut scenario_order);
        for scenario in scenario_order {
            let mut cases: Vec<String> =
                scenario.cases.iter().map(|case| case.id.clone()).collect();
            random.shuffle(&mut cases);
            // A peak of memory belongs to a process, so there each case gets one.
            let groups: Vec<Vec<String>> = match scenario.load {
                LoadShape::Batch => cases.into_iter().map(|case| vec![case]).collect(),
                LoadShape::Serial | LoadShape::ClosedLoop => vec![cases],
            };
            for cases in groups {
                let mut target_order: Vec<&Target> = targets.iter().collect();
                random.shuffle(&mut target_order);
                launches.extend(target_order.into_iter().map(|target| Launch {
                    invocation,
                    target: target.id.clone(),
                    scenario: scenario.id.clone(),
                    cases: cases.clone(),
                }));
            }
        }
    }
    launches
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
/// Written out because the order of a published run must outlive a crate's version.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which must not be 0). The bias of the remainder is
    /// under 2⁻⁴⁰ for the bounds used here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }

    /// Fisher–Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
