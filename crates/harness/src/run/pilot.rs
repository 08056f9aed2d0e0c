//! The pilot: one launch of each verified target, to measure its pace before the run's time is
//! shared out and the targets that run twice are chosen. No time measured here is published.

use super::Stage;
use crate::engine::EngineFailure;
use crate::engine::load::load_for_cases;
use crate::engine::session::{Session, Timeouts};
use crate::own_prompts::in_order;
use crate::prompts::Prompts;
use crate::{budget, twins};
use anyhow::{Context, Result};
use base::files::{Appender, write_json};
use protocol::clock::now_ns;
use schema::budget::{Budget, Pilot, Round};
use schema::plan::Plan;
use schema::record::{Status, VerifyRecord};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A first round of this length (s) or more is enough; a shorter one is warm-up for a second.
const LONG_ROUND_S: f64 = 5.0;

/// Measure the pace of every verified target, and decide which cells there is no time for and which
/// targets run twice; the baseline keeps all its cells. The decision is written once and stands when
/// the run is resumed; so does each target's pilot, where a run is stopped before the decision.
pub fn run(stage: &Stage, baseline: &str) -> Result<Budget> {
    let plan = &answerable(stage.plan, stage.verify);
    let path = stage.run_dir.join("pilot.jsonl");
    let known = known(&path)?;
    let mut file = Appender::open(&path)?;
    let mut pilots = Vec::new();
    watch::stage(watch::event::Stage::Pilot);
    let ids = plan.targets.iter().map(|target| target.id.as_str());
    super::told::group("pilot", ids);
    for target in &plan.targets {
        stage.control.checkpoint()?;
        let record = stage.verify.get(&target.id);
        let verified = record.is_some_and(|record| record.status == Status::Ok);
        let Ok(program) = stage.programs.get(target) else {
            continue;
        };
        if !verified {
            continue;
        }
        if let Some(pilot) = known.iter().find(|pilot| pilot.target == target.id) {
            pilots.push(pilot.clone());
            continue;
        }
        stage.control.next_piece(Duration::ZERO)?;
        watch::begin("pilot", target.id.as_str());
        let mut pilot = Pilot {
            target: target.id.clone(),
            ..Pilot::default()
        };
        // Nothing is timed beyond the positions that the target is verified for.
        let positions = super::positions(stage.verify, &target.id);
        let mut shapes = budget::shapes(plan);
        let cases = plan.scenarios.iter().flat_map(|scenario| &scenario.cases);
        let cases = cases.filter(|case| case.prompt_tokens + case.new_tokens <= positions);
        shapes.retain(|round| cases.clone().any(|case| case.is_timed_by(round)));
        let load = load_for_cases(target, stage.model_dir, plan.threads, cases);
        let timeouts = Timeouts::new(plan, stage.control);
        let result = Session::open(program, &load, &timeouts).and_then(|mut session| {
            pilot.load_s = seconds(session.process.start_ns, session.ready_ns);
            let texts = |shape: &Round| texts(plan, stage.prompts, shape);
            let tried = rounds(&mut session, texts, &shapes, &mut pilot.rounds);
            session.process.abort();
            tried
        });
        match result {
            Err(failure) if failure.status == Status::NotRun => anyhow::bail!("{}", failure.reason),
            Err(failure) => pilot.failure = failure.to_string(),
            Ok(()) => pilot.planned_s = budget::planned_s(plan, &pilot).unwrap_or_default(),
        }
        match pilot.failure.as_str() {
            "" => eprintln!("Pilot: {} {}", target.id, words(&pilot)),
            why => watch::warn(format!("The pilot of {} failed: {why}", target.id)),
        }
        watch::end(&pilot.failure);
        file.append(&pilot)?;
        file.sync()?;
        pilots.push(pilot);
    }
    let budget = decide(plan, pilots, baseline);
    for twin in &budget.twins {
        let (target, cost_s) = (&twin.target, twin.cost_s);
        eprintln!("A/A pairs: {target} runs twice in every block, about {cost_s:.0} s");
    }
    write_json(&stage.run_dir.join("budget.json"), &budget)?;
    Ok(budget)
}

/// The plan without the scenarios that its targets can't run, by the gate's record, and without
/// targets that then run none: these get no share of the time, and none of them runs twice.
fn answerable(plan: &Plan, verify: &BTreeMap<String, VerifyRecord>) -> Plan {
    let mut plan = plan.clone();
    let keeps = |id: &String| verify.get(id).is_some_and(|record| record.prefix_cache);
    for scenario in plan.scenarios.iter_mut().filter(|s| s.reuses_prompts()) {
        let runs = plan.targets.iter().map(|target| target.id.clone());
        let runs: Vec<String> = runs.filter(|id| scenario.runs(id)).collect();
        scenario.targets = runs.into_iter().filter(keeps).collect();
    }
    // An empty list of names would mean all targets.
    plan.scenarios
        .retain(|s| !s.reuses_prompts() || !s.targets.is_empty());
    let scenarios = &plan.scenarios;
    plan.targets
        .retain(|target| scenarios.iter().any(|scenario| scenario.runs(&target.id)));
    plan
}

/// Read the pilots that this run made before it was stopped.
fn known(path: &Path) -> Result<Vec<Pilot>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("{} can't be read", path.display()))?,
    };
    // A last line without its newline was cut short by a kill.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let pilots = whole.lines().map(serde_json::from_str);
    let pilots: Result<Vec<Pilot>, _> = pilots.collect();
    pilots.with_context(|| format!("{} holds what is no pilot", path.display()))
}

/// Choose the targets that run twice, and the cells that there is no time for.
fn decide(plan: &Plan, pilots: Vec<Pilot>, baseline: &str) -> Budget {
    let mut twins = match plan.aa_pairs {
        true => twins::choose(&pilots),
        false => Vec::new(),
    };
    let second = twins::pilots(&pilots, &twins);
    let everyone = [pilots.as_slice(), &second].concat();
    let (share_s, over) = match plan.budget_s > 0.0 {
        true => budget::share_out(plan, &everyone, plan.budget_s, baseline),
        false => (None, Vec::new()),
    };
    for (twin, pilot) in twins.iter_mut().zip(&second) {
        twin.cost_s = budget::kept_s(plan, pilot, &over);
    }
    Budget {
        budget_s: plan.budget_s,
        share_s,
        pilots,
        over,
        twins,
    }
}

/// The prompts of a round: of one length, or the user's own, whose lengths differ.
fn texts(plan: &Plan, prompts: &Prompts, shape: &Round) -> Result<Vec<Vec<u32>>> {
    let count = shape.concurrency as usize;
    match plan.prompts.as_ref().filter(|_| shape.mixed) {
        Some(own) => Ok(in_order(own, plan.seed, "pilot", count)),
        None => prompts.take("pilot/pilot", 0, shape.prompt_tokens as usize, count),
    }
}

fn rounds(
    session: &mut Session,
    texts: impl Fn(&Round) -> Result<Vec<Vec<u32>>>,
    shapes: &[Round],
    done: &mut Vec<Round>,
) -> Result<(), EngineFailure> {
    for shape in shapes {
        let internal = |error: anyhow::Error| EngineFailure::new(Status::NotRun, error.to_string());
        let texts = texts(shape).map_err(internal)?;
        let mut round_s = round(session, &texts, shape.new_tokens)?;
        if round_s < LONG_ROUND_S {
            round_s = round(session, &texts, shape.new_tokens)?;
        }
        done.push(Round { round_s, ..*shape });
    }
    Ok(())
}

fn round(session: &mut Session, texts: &[Vec<u32>], new_tokens: u32) -> Result<f64, EngineFailure> {
    let start_ns = now_ns();
    for text in texts {
        // Each by itself: no batch waits for the others.
        session.send_one_of(1, text.clone(), new_tokens)?;
    }
    for _ in texts {
        session.next_done()?;
    }
    Ok(seconds(start_ns, now_ns()))
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

fn words(pilot: &Pilot) -> String {
    let (load_s, planned_s) = (pilot.load_s, pilot.planned_s);
    format!("loads in {load_s:.1} s, would take {planned_s:.0} s in all")
}

#[cfg(test)]
mod tests {
    use super::super::pending::tests::verified;
    use super::*;
    use fixtures::{plan, target};
    use schema::plan::PlannedScenario;
    use schema::scenario::Axis;

    #[test]
    fn no_time_is_shared_out_to_prompts_that_a_target_keeps_nothing_of() {
        let mut plan = plan();
        let mut keeps = plan.scenarios[0].clone();
        (keeps.id, keeps.axis) = ("prefix".into(), Axis::SharedPercent);
        plan.scenarios.push(keeps);
        plan.targets = ["t", "u"].map(target).into();
        let mut verify = verified(1024);
        let scenarios = |verify: &BTreeMap<String, VerifyRecord>| -> Vec<PlannedScenario> {
            answerable(&plan, verify).scenarios
        };
        let of = scenarios(&verify);
        assert_eq!(of.len(), 1, "nobody keeps anything");
        verify.get_mut("t").unwrap().prefix_cache = true;
        let of = scenarios(&verify);
        assert_eq!(of[0], plan.scenarios[0], "the other is every target's");
        assert_eq!(of[1].targets, ["t"]);
        assert_eq!(answerable(&plan, &verify).targets, plan.targets);
        // Where nothing else is asked, the other has no pilot, and never runs twice.
        plan.scenarios.remove(0);
        let asked = answerable(&plan, &verify).targets;
        assert_eq!(asked, [target("t")]);
    }
}
