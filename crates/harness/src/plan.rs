//! Makes the plan from scenarios, profile, registry and seed. Pure: no clock, no machine, no
//! randomness but the seed's, so that equal inputs give equal plans anywhere.

mod narrow;
mod own;
mod share;

use anyhow::{Result, anyhow, bail};
use base::names::{self, Kind};
use base::random::SplitMix64;
use narrow::narrow_targets;
use schema::micro::{MicroPlan, is_micro};
use schema::own_prompts::OwnPrompts;
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::profile::{Profile, Sizes};
use schema::registry::Target;
use schema::scenario::{Axis, Scenario};

/// The choices of the command line that narrow or change a profile.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Engine or target ids; empty = every target of the profile's backends that
    /// isn't hidden. A hidden target must be named in full.
    pub engines: Vec<String>,
    /// Scenario ids; empty = all of the profile's.
    pub scenarios: Vec<String>,
    /// A model that replaces the profile's.
    pub model: Option<String>,
    /// The user's own prompts, for the scenarios that use them.
    pub prompts: Option<OwnPrompts>,
}

/// Make the plan of a profile, without its micro suites ([`crate::micro::plan`]). `threads` is used
/// where the profile says 0.
pub fn plan(
    profile: &Profile,
    scenarios: &[Scenario],
    all_targets: &[Target],
    choice: &Choice,
    threads: u32,
) -> Result<Plan> {
    let asked = choice.scenarios.iter().filter(|id| !is_micro(id));
    let asked: Vec<String> = asked.cloned().collect();
    // Where only micro suites were asked for, no engine is built or verified.
    let micro_alone = asked.is_empty() && !choice.scenarios.is_empty() && choice.prompts.is_none();
    let (targets, scenarios) = match micro_alone {
        true => (Vec::new(), Vec::new()),
        false => (
            profile_targets(profile, all_targets, &choice.engines)?,
            choose_scenarios(profile, scenarios, &asked, choice)?,
        ),
    };
    let mut scenarios = narrow_targets(profile, scenarios, &targets, all_targets, choice)?;
    share::share(&mut scenarios);
    let launches = order(&targets, &scenarios, profile.invocations, profile.seed);
    let plan = Plan {
        profile: profile.id.clone(),
        publishable: profile.publishable,
        model: choice.model.as_ref().unwrap_or(&profile.model).clone(),
        seed: profile.seed,
        threads: if profile.threads == 0 {
            threads
        } else {
            profile.threads
        },
        invocations: profile.invocations,
        until: None,
        prompt_seed: None,
        warmup_requests: profile.warmup_requests,
        request_timeout_s: profile.request_timeout_s,
        load_timeout_s: profile.load_timeout_s,
        budget_s: profile.budget_s,
        slo: profile.slo,
        aa_pairs: profile.aa_pairs,
        one_process: profile.one_process,
        matters_percent: profile.matters_percent,
        prompts: choice.prompts.clone(),
        targets,
        scenarios,
        launches,
        micro: MicroPlan::default(),
    };
    // A case that is measured for others can be longer than the profile says.
    plan.check_sizes()
        .map_err(|why| anyhow!("data/profiles/{}.toml: {why}", profile.id))?;
    Ok(plan)
}

/// The same plan with one more block: the launches planned before stay as they were, in front.
pub fn with_another_block(plan: &Plan) -> Plan {
    let invocations = plan.invocations + 1;
    Plan {
        invocations,
        launches: order(&plan.targets, &plan.scenarios, invocations, plan.seed),
        ..plan.clone()
    }
}

/// The targets that a profile runs, unless `engines` names others.
pub fn profile_targets(
    profile: &Profile,
    all: &[Target],
    engines: &[String],
) -> Result<Vec<Target>> {
    if !engines.is_empty() {
        return choose_targets(all, &profile.backends, engines);
    }
    // An error in the profile's own list must name its file, not the command line.
    let of_file = |error: anyhow::Error| anyhow!("data/profiles/{}.toml: {error}", profile.id);
    choose_targets(all, &profile.backends, &profile.targets).map_err(of_file)
}

/// The targets that a command line names. `engines` holds engine or target ids.
pub fn choose_targets(
    all: &[Target],
    backends: &[String],
    engines: &[String],
) -> Result<Vec<Target>> {
    names::check_engines(engines, all)?;
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
        bail!(
            "nothing to run: {} has no target on {}: choose another --profile or --engines; `cargo xtask list targets` lists them, and a hidden one is named in full",
            if engines.is_empty() {
                "the registry".into()
            } else {
                engines.join(", ")
            },
            backends.join(" or ")
        );
    }
    Ok(chosen)
}

fn choose_scenarios(
    profile: &Profile,
    scenarios: &[Scenario],
    wanted: &[String],
    choice: &Choice,
) -> Result<Vec<PlannedScenario>> {
    let known: Vec<String> = scenarios.iter().map(|s| s.id.clone()).collect();
    names::check(Kind::Scenario, wanted, &known)?;
    own::check(profile, scenarios, wanted, choice)?;
    if let Some(id) = profile.scenarios.keys().find(|id| !known.contains(id)) {
        bail!(
            "data/profiles/{}.toml: no scenario {id:?} in data/scenarios: there are {}",
            profile.id,
            known.join(", ")
        );
    }
    for id in wanted {
        if !profile.scenarios.contains_key(id) {
            bail!(
                "profile {:?} doesn't measure scenario {id:?}: choose one that does (`cargo xtask list profiles`), or add its sizes as [scenarios.{id}] to data/profiles/{0}.toml",
                profile.id
            );
        }
    }
    Ok(scenarios
        .iter()
        .filter(|scenario| own::is_in(scenario, wanted, choice))
        .filter_map(|scenario| {
            let sizes = profile.scenarios.get(&scenario.id)?;
            let own = choice.prompts.as_ref();
            let own = own.filter(|_| !scenario.prompts.is_generated());
            Some(PlannedScenario {
                id: scenario.id.clone(),
                version: scenario.version,
                load: scenario.load,
                prompts: scenario.prompts,
                axis: scenario.axis,
                targets: sizes.targets.clone(),
                turns: sizes.turns,
                cases: match own {
                    None => cases(scenario.axis, sizes),
                    Some(own) => own::cases(cases(scenario.axis, &own::sizes(sizes, own)), own),
                },
            })
        })
        .collect())
}

fn cases(axis: Axis, sizes: &Sizes) -> Vec<Case> {
    let mut cases = Vec::new();
    for &prompt_tokens in &sizes.prompt_tokens {
        for &concurrency in &sizes.concurrency {
            for load_percent in percents(&sizes.load_percent) {
                for shared_percent in percents(&sizes.shared_percent) {
                    let mut case = Case {
                        prompt_tokens,
                        new_tokens: sizes.new_tokens,
                        concurrency,
                        load_percent,
                        shared_percent,
                        requests: sizes.requests,
                        duration_s: sizes.duration_s,
                        ..Case::default()
                    };
                    case.id = format!("{}{}", axis.letter(), case.axis_value(axis));
                    cases.push(case);
                }
            }
        }
    }
    cases
}

/// Each of the percentages, or a single `None` where there are none.
fn percents(sizes: &[u32]) -> Vec<Option<u32>> {
    match sizes {
        [] => vec![None],
        percents => percents.iter().copied().map(Some).collect(),
    }
}

/// The order of all launches, in blocks. Inside a block, targets run in a random order, and so do
/// the scenarios of each round over the targets, so that drift of the machine affects all alike.
///
/// Targets alternate within a scenario (t1 s1, t2 s1, …, t1 s2, …), so that launches that are
/// compared ran close together in time.
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
            let mut cases: Vec<String> = scenario.measured_cases().map(|c| c.id.clone()).collect();
            random.shuffle(&mut cases);
            // A process has one peak of memory, so such a scenario has a launch for each case.
            let groups: Vec<Vec<String>> = match scenario.needs_fresh_process() {
                true => cases.into_iter().map(|case| vec![case]).collect(),
                false if cases.is_empty() => Vec::new(),
                false => vec![cases],
            };
            for cases in groups {
                let runs = |target: &&Target| scenario.runs(&target.id);
                let mut target_order: Vec<&Target> = targets.iter().filter(runs).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use schema::scenario::LoadShape;

    fn targets() -> Vec<Target> {
        let ids = ["a.cpu.f32", "a+mutant.cpu.f32", "b.cpu.f32", "b.cuda.f32"];
        let mut targets = ids.map(fixtures::target);
        targets[1].hidden = true;
        targets.into()
    }

    fn ids(engines: &[&str]) -> Result<Vec<String>> {
        let engines: Vec<String> = engines.iter().map(|e| (*e).to_owned()).collect();
        let chosen = choose_targets(&targets(), &["cpu".to_owned()], &engines)?;
        Ok(chosen.into_iter().map(|target| target.id).collect())
    }

    #[test]
    fn a_hidden_target_must_be_named_in_full() {
        assert_eq!(ids(&[]).unwrap(), ["a.cpu.f32", "b.cpu.f32"]);
        assert_eq!(ids(&["a"]).unwrap(), ["a.cpu.f32"]);
        assert_eq!(ids(&["a+mutant.cpu.f32"]).unwrap(), ["a+mutant.cpu.f32"]);
        assert_eq!(ids(&["b.cuda.f32"]).unwrap(), ["b.cuda.f32"]);
        let unknown = ids(&["c"]).unwrap_err();
        assert!(unknown.is::<names::UnknownName>(), "{unknown}");
        assert!(unknown.to_string().contains("there are a, b"), "{unknown}");
    }

    fn sizes(prompt_tokens: &[u32], concurrency: &[u32]) -> Sizes {
        Sizes {
            prompt_tokens: prompt_tokens.to_vec(),
            new_tokens: 16,
            concurrency: concurrency.to_vec(),
            requests: 20,
            ..Sizes::default()
        }
    }

    fn scenario(id: &str, load: LoadShape, axis: Axis, sizes: &Sizes) -> PlannedScenario {
        let cases = cases(axis, sizes);
        PlannedScenario {
            id: id.into(),
            load,
            axis,
            cases,
            ..PlannedScenario::default()
        }
    }

    #[test]
    fn cases_vary_along_the_axis() {
        for (axis, sizes, names) in [
            (Axis::PromptTokens, sizes(&[10, 50], &[1]), ["p10", "p50"]),
            (Axis::Users, sizes(&[50], &[1, 8]), ["u1", "u8"]),
        ] {
            let cases = cases(axis, &sizes);
            let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
            assert_eq!(ids, names);
        }
    }

    #[test]
    fn an_open_loop_has_a_case_per_rate_and_only_its_targets_run_it() {
        let sizes = Sizes {
            load_percent: vec![50, 90],
            ..sizes(&[50], &[8])
        };
        let open = PlannedScenario {
            targets: vec!["b.cpu.f32".into()],
            ..scenario("open", LoadShape::Poisson, Axis::LoadPercent, &sizes)
        };
        let cases: Vec<_> = open.cases.iter().map(|c| (&*c.id, c.concurrency)).collect();
        assert_eq!(cases, [("r50", 8), ("r90", 8)]);
        let launches = order(&targets(), &[open], 2, 1);
        let who: Vec<&str> = launches.iter().map(|l| &*l.target).collect();
        assert_eq!(who, ["b.cpu.f32", "b.cpu.f32"]);
    }

    #[test]
    fn a_case_per_shared_percentage_and_prompts_of_one_length() {
        let sizes = Sizes {
            shared_percent: vec![0, 50, 90],
            ..sizes(&[41], &[1])
        };
        let cases = cases(Axis::SharedPercent, &sizes);
        let found: Vec<_> = cases
            .iter()
            .map(|c| (&*c.id, c.prompt_tokens, c.shared_tokens()))
            .collect();
        assert_eq!(found, [("s0", 41, 0), ("s50", 41, 20), ("s90", 41, 36)]);
        assert!(cases.iter().all(|c| c.shared_percent.is_some()));
    }

    fn launches(seed: u64) -> Vec<Launch> {
        let scenarios = [
            scenario(
                "single",
                LoadShape::Serial,
                Axis::PromptTokens,
                &sizes(&[10, 50], &[1]),
            ),
            scenario(
                "memory",
                LoadShape::Batch,
                Axis::Batch,
                &sizes(&[50], &[1, 2]),
            ),
        ];
        order(&targets(), &scenarios, 3, seed)
    }

    #[test]
    fn every_block_has_every_target_and_case_once_and_blocks_do_not_mix() {
        let launches = launches(1);
        // One launch for all cases of the serial scenario, one per case for the batch.
        assert_eq!(launches.len(), 3 * 4 * (1 + 2));
        assert!(launches.is_sorted_by_key(|launch| launch.invocation));
        let mut cells = Vec::new();
        for l in &launches {
            let cases = l.cases.iter();
            cells.extend(cases.map(|case| (l.invocation, &l.target, &l.scenario, case)));
        }
        let all = cells.len();
        cells.sort();
        cells.dedup();
        assert_eq!((all, cells.len()), (3 * 4 * 4, 3 * 4 * 4));
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        assert_eq!(launches(1), launches(1));
        assert_ne!(launches(1), launches(2));
    }
}
