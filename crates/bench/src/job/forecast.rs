//! The estimate of a run's time, printed before it begins to measure: by the pilot, and for the
//! stages after measuring by the times of published runs.

use super::Options;
use anyhow::{Result, bail};
use harness::micro;
use harness::run::check::stands;
use harness::run::expected;
use harness::run::pending::Pending;
use schema::budget::{Budget, Pilot, about};
use schema::key::CellKey;
use schema::launch_log::{LaunchLog, timed};
use schema::micro::MicroLog;
use schema::plan::{Case, Plan};
use schema::profile::Profile;
use schema::record::CheckRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use watch::emit;
use watch::event::{Event, Stage};

/// A run that measures longer than this (s) needs the user's consent.
const LONG_S: f64 = 3600.0;

/// Refuse to begin a long run without the user's consent. Without a terminal, none is needed.
pub(super) fn consent(profile: &Profile, options: &Options) -> Result<()> {
    let narrows =
        !options.engines.is_empty() || !options.scenarios.is_empty() || options.prompts.is_some();
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let Some(takes_s) = measures_s(profile) else {
        return Ok(());
    };
    eprint!("{}", in_words(profile));
    if takes_s > LONG_S && !(options.yes || narrows || options.shard.is_some()) && can_ask {
        bail!(
            "profile {} measures for more than an hour: add --yes to begin; an interrupted run continues with --resume latest",
            profile.id
        );
    }
    Ok(())
}

/// Return about how long a profile measures, or at most (s); `None` where neither is known.
fn measures_s(profile: &Profile) -> Option<f64> {
    match (profile.measure_min, profile.budget_s) {
        (minutes, _) if minutes > 0.0 => Some(60.0 * minutes),
        (_, budget_s) if budget_s > 0.0 => Some(budget_s),
        _ => None,
    }
}

/// Describe how long a profile with all of its targets measures; empty where that isn't known.
pub(super) fn in_words(profile: &Profile) -> String {
    let Some(takes_s) = measures_s(profile) else {
        return String::new();
    };
    let at_most = match profile.budget_s {
        budget_s if budget_s > takes_s => format!(", at most {}", about(budget_s)),
        _ => String::new(),
    };
    let (id, takes) = (&profile.id, about(takes_s));
    format!("All of profile {id} measures for about {takes}{at_most}, once everything is built\n")
}

/// Print how long all that is left takes, by the pilot's estimate, and emit the progress events for
/// the stages after measuring. `judging` is the judge and the outputs that it will judge; `micro`
/// holds the records of the micro suites so far.
pub(super) fn tell(
    plan: &Plan,
    budget: Option<&Budget>,
    left: &[Pending],
    judging: &Judging,
    micro: &[MicroLog],
    is_ours: impl Fn(u32) -> bool,
) {
    let micro_s = micro::expected_s(plan, micro, is_ours);
    let check_s = budget.map_or(0.0, |budget| check_s(plan, budget, judging));
    let later = [(Stage::Check, check_s), (Stage::Micro, micro_s)];
    let later: Vec<_> = later.into_iter().filter(|(_, s)| *s > 0.0).collect();
    let measure_s = expected::all_s(plan, budget, left).filter(|s| *s > 0.0);
    if measure_s.is_some() || !later.is_empty() {
        eprintln!("{}", words(measure_s.unwrap_or(0.0), &later));
    }
    emit(Event::StageEstimates(later));
}

fn words(measure_s: f64, later: &[(Stage, f64)]) -> String {
    let all_s: f64 = measure_s + later.iter().map(|(_, s)| s).sum::<f64>();
    let mut words = format!("Measuring takes about {}", about(measure_s));
    for (stage, s) in later {
        words.push_str(&format!(", {} {}", stage.name(), about(*s)));
    }
    if !later.is_empty() {
        words.push_str(&format!("; all in about {}", about(all_s)));
    }
    words
}

/// The outputs to be judged after measuring, and their judge.
pub(super) struct Judging<'a> {
    /// The judge's id; empty where there is none.
    pub by: String,
    /// The outputs that have no judgement that stands.
    pub of: BTreeSet<Outputs<'a>>,
}

/// Outputs of all targets that are judged with the same weights: their prompts are computed once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Outputs<'a> {
    /// The weights that the judge reads; `None`: the model's.
    own_weights: Option<&'a str>,
    scenario: &'a str,
    case: &'a str,
    block: u32,
}

impl<'a> Judging<'a> {
    /// Collect the outputs of what is `left` to measure, and those measured before and not judged.
    /// A cell is judged as a whole, so its earlier outputs are judged again with those to come.
    /// `own_weights`: what the judge reads for the target of a launch, where it isn't the model's
    /// weights.
    pub fn new(
        by: String,
        own_weights: impl Fn(&str) -> Option<&'a str>,
        left: &'a [Pending],
        logs: &'a [LaunchLog],
        checks: &BTreeMap<CellKey, CheckRecord>,
    ) -> Self {
        let has_judge = !by.is_empty();
        let mut is_open: BTreeMap<CellKey, bool> = BTreeMap::new();
        let mut of = BTreeSet::new();
        let mut add = |target: &str, scenario: &'a str, case: &'a str, block| {
            of.insert(Outputs {
                own_weights: own_weights(target),
                scenario,
                case,
                block,
            });
        };
        for Pending { launch, .. } in left {
            let (target, scenario, block) = (&launch.target, &launch.scenario, launch.invocation);
            for case in &launch.cases {
                add(target, scenario, case, block);
                is_open.insert(launch.cell_key(case), true);
            }
        }
        for log in logs {
            let launch = &log.launch;
            let (target, scenario, block) = (&launch.target, &launch.scenario, launch.invocation);
            for end in &log.case_ends {
                let is_open = is_open.entry(launch.cell_key(&end.case));
                let is_open = is_open.or_insert_with_key(|cell| {
                    let count = timed(logs, cell).count();
                    let check = checks.get(cell);
                    check.is_none_or(|check| !stands(check, count, has_judge))
                });
                if *is_open {
                    add(target, scenario, &end.case, block);
                }
            }
        }
        Self { by, of }
    }
}

/// Estimate how long judging takes (s). A prompt with all outputs for it counts as one request that
/// the judge answers alone: the beginning that the outputs share is computed once, and their tokens
/// are scored at once. For a judge that isn't timed, the slowest target's pace is used. 0 without a
/// judge.
fn check_s(plan: &Plan, budget: &Budget, judging: &Judging) -> f64 {
    if judging.by.is_empty() {
        return 0.0;
    }
    let at_pace_s = |pilot: &Pilot| check_at_pace_s(plan, pilot, judging);
    let judge = budget.pilots.iter().find(|p| p.target == judging.by);
    match judge {
        Some(judge) => at_pace_s(judge),
        None => budget.pilots.iter().map(at_pace_s).fold(0.0, f64::max),
    }
}

/// Estimate the same from the pace of one pilot.
fn check_at_pace_s(plan: &Plan, pilot: &Pilot, judging: &Judging) -> f64 {
    let mut all_s = 0.0;
    for scenario in &plan.scenarios {
        for case in &scenario.cases {
            let alone = Case {
                concurrency: 1,
                ..case.clone()
            };
            let find = |case: &Case| pilot.rounds.iter().find(|r| case.is_timed_by(r));
            // Without a round of one request, take each request's share of a concurrent round.
            let Some(request_s) = find(&alone)
                .map(|round| round.round_s)
                .or_else(|| Some(find(case)?.round_s / f64::from(case.concurrency)))
            else {
                continue;
            };
            // Prompts are the same for all targets that are judged with the same weights.
            let mut blocks: BTreeMap<Option<&str>, u32> = BTreeMap::new();
            for of in &judging.of {
                if (of.scenario, of.case) == (&scenario.id, &case.id) {
                    *blocks.entry(of.own_weights).or_default() += 1;
                }
            }
            let own = plan.own_prompts(scenario);
            let distinct = blocks.into_values().map(|blocks| {
                let prompts = f64::from(case.requests) * f64::from(blocks);
                // An output for a repeated prompt has been judged already.
                own.map_or(prompts, |own| prompts.min(own.tokens.len() as f64))
            });
            let distinct: f64 = distinct.sum();
            all_s += distinct * request_s;
        }
    }
    all_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::Engine;
    use schema::plan::Launch;

    #[test]
    fn what_comes_is_said_stage_by_stage_and_in_all() {
        assert_eq!(words(95.0, &[]), "Measuring takes about 2 min");
        let later = [(Stage::Check, 300.0), (Stage::Micro, 40.0)];
        assert_eq!(
            words(1380.0, &later),
            "Measuring takes about 23 min, checking outputs 5 min, micro suites 40 s; all in about 29 min"
        );
    }

    #[test]
    fn a_profile_says_how_long_it_measures() {
        let repo = base::repo::Repo::find().unwrap();
        let mut profile = repo.profile("smoke").unwrap();
        assert_eq!(measures_s(&profile), None);
        profile.budget_s = 600.0;
        assert_eq!(measures_s(&profile), Some(600.0));
        profile.measure_min = 5.0;
        assert_eq!(measures_s(&profile), Some(300.0), "less than it may");
        assert_eq!(
            in_words(&profile),
            "All of profile smoke measures for about 5 min, at most 10 min, once everything is built\n"
        );
        // A test has no terminal for the question, so the run may begin.
        assert!(consent(&profile, &Options::default()).is_ok());
    }

    #[test]
    fn judging_takes_each_prompt_once_whatever_the_targets() {
        let mut run = fixtures::run(&["a", "b"].map(Engine::plain), 2, 20, 0);
        // Neither a warm-up nor the loading of the judge counts.
        run.header.plan.warmup_requests = 1;
        let plan = &run.header.plan;
        let mut rounds = harness::budget::shapes(plan);
        rounds[0].round_s = 0.5;
        let pilot = Pilot {
            target: "judge".into(),
            load_s: 1.0,
            rounds,
            ..Pilot::default()
        };
        let budget = Budget {
            pilots: vec![pilot],
            ..Budget::default()
        };
        let pending = |launch: &Launch| Pending {
            launch: launch.clone(),
            attempt: 0,
        };
        let mut left: Vec<Pending> = plan.launches.iter().map(pending).collect();
        let takes_s = |by: &str, left: &[Pending], logs: &[LaunchLog], checks| {
            let judging = Judging::new(by.into(), |_| None, left, logs, checks);
            check_s(plan, &budget, &judging)
        };
        // 20 requests in each of two blocks.
        let none = BTreeMap::new();
        let all_s = takes_s("judge", &left, &[], &none);
        assert!((all_s - 40.0 * 0.5).abs() < 1e-9, "{all_s}");
        let own = |target: &str| (target == "b").then_some("w");
        let in_two = Judging::new("judge".into(), own, &left, &[], &none);
        let in_two_s = check_s(plan, &budget, &in_two);
        assert_eq!(in_two_s, 2.0 * all_s, "once with each weights");
        let of_another_s = takes_s("other", &left, &[], &none);
        assert_eq!(of_another_s, all_s, "at the pace of who is timed");
        assert_eq!(takes_s("", &left, &[], &none), 0.0, "without a judge");
        assert_eq!(takes_s("judge", &[], &[], &none), 0.0);
        // One block is measured; its outputs need a judgement until they have one.
        left.retain(|p| p.launch.invocation == 1);
        let mut of_a = run.launches.clone();
        of_a.retain(|log| log.launch.target == "a");
        let measured = &of_a[..1];
        assert_eq!(takes_s("judge", &left, measured, &none), all_s);
        let check = CheckRecord {
            equal: 20,
            rescored: 0,
            ..fixtures::check("a", 0)
        };
        let judged = BTreeMap::from([(check.key(), check)]);
        assert_eq!(takes_s("judge", &[], measured, &judged), 0.0);
        assert_eq!(takes_s("judge", &left, measured, &judged), all_s, "anew");
        // A block that was measured after the judgement needs another one.
        assert_eq!(takes_s("judge", &[], &of_a, &judged), all_s);
    }
}
