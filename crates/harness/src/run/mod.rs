//! Measures a run: makes the plan's launches, one after the other or in turns, each into its own
//! append-only file.
//!
//! `pilot` measures each target's pace, `capacity` its throughput when kept busy; `issue` offers a
//! load (`load`, `serial`, `closed_loop`, `windows`, `open_loop`), `case_prompts` cuts its prompts;
//! `launch` runs one process from start to end, `watched` observes it meanwhile, `residents` keeps
//! processes for the next launch, `turns` alternates between several, as many as `memory` has room
//! for; `pending` says what has become of each planned launch, `expected` how long those that are
//! left take; `weights` checks that the model's files stay the same, `told` reports progress,
//! `check` judges the timed outputs afterwards, and `trace` records the kernels of CUDA targets in
//! launches that aren't timed.

pub mod audit;
pub mod capacity;
mod case_prompts;
pub mod check;
pub mod closed_loop;
pub mod expected;
pub mod issue;
pub mod launch;
pub mod load;
pub mod memory;
pub mod open_loop;
pub mod pending;
pub mod pilot;
mod residents;
mod serial;
pub mod told;
pub mod trace;
pub mod turns;
mod watched;
pub mod weights;
mod windows;

use crate::programs::Programs;
use crate::prompts::Prompts;
use crate::{gpu, kept, machine};
use anyhow::Result;
use launch::{Context, Running};
use pending::Pending;
use residents::Residents;
use schema::capacity::Capacity;
use schema::key::original;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::record::{End, Status, VerifyRecord};
use schema::registry::Target;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use watch::Control;
use weights::Weights;

/// The inputs of measuring, which pilots, capacities, launches and traces share.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// The run's plan.
    pub plan: &'a Plan,
    /// The run's directory.
    pub run_dir: &'a Path,
    /// The model's directory.
    pub model_dir: &'a Path,
    /// The engines' programs.
    pub programs: &'a Programs,
    /// The text that prompts are cut from.
    pub prompts: &'a Prompts,
    /// The gate's judgement of each target, and up to which position.
    pub verify: &'a BTreeMap<String, VerifyRecord>,
    /// The handle through which the user can pause, skip or stop.
    pub control: &'a Control,
}

/// Make all launches in `pending`, and return their records. The capacities scale the open loops. A
/// target's failure is recorded and the rest goes on; only what makes recording itself impossible is
/// an error, and a record that is found missing at the end of a block.
pub fn run(
    stage: &Stage,
    capacities: &[Capacity],
    pending: Vec<Pending>,
) -> Result<Vec<LaunchLog>> {
    let Stage { plan, control, .. } = *stage;
    let mut logs = Vec::new();
    let weights = Weights::new(plan, stage.model_dir);
    let canary = machine::canary(plan.threads);
    let mut residents = Residents::default();
    let pending = residents::in_order(plan, pending);
    let rounds = rounds(plan, &pending);
    // Targets and scenarios of which no more launches are made. A cell needs every invocation, so
    // after one failure the others would be measured in vain; launches that the user skips are left
    // to a resumed run.
    let mut lost: BTreeMap<(&str, &str), Status> = BTreeMap::new();
    for (at, round) in rounds.iter().enumerate() {
        let mut contexts = Vec::new();
        for &item in round {
            if let Some(status) = lost.get(&of_launch(&item.launch)) {
                told::dropped(&item.launch, *status);
                continue;
            }
            let target = target_of(plan, &item.launch);
            let Ok(program) = stage.programs.get(target) else {
                continue;
            };
            let later = rounds[at + 1..].iter().flatten().copied();
            let context = Context {
                stage,
                capacities,
                stays: residents::is_needed_again(plan, item, later),
                program,
                target,
                weights: &weights,
                canary: &canary,
                positions: positions(stage.verify, &target.id),
            };
            contexts.push((context, item));
        }
        if let Some((_, first)) = contexts.first() {
            residents.enter(first.launch.invocation);
        }
        let mut left = contexts.as_slice();
        while !left.is_empty() {
            control.checkpoint()?;
            control.next_piece(left.iter().map(|(_, item)| at_least(plan, item)).sum())?;
            control.skippable();
            let ends = together(left, &mut residents)?;
            control.skipped(); // no launch runs that could be skipped
            let (done, rest) = left.split_at(ends.len());
            for ((_, item), ended) in done.iter().zip(&ends) {
                if ended.end.status != Status::Ok {
                    lost.insert(of_launch(&item.launch), ended.end.status);
                }
            }
            let stopped = |ended: &&Ended| ended.end.status == Status::NotRun && !ended.skipped;
            if let Some(ended) = ends.iter().find(stopped) {
                anyhow::bail!("{}", ended.end.reason);
            }
            logs.extend(ends.into_iter().map(|ended| ended.log));
            left = rest;
        }
        let block = |round: &Vec<&Pending>| round[0].launch.invocation;
        if rounds.get(at + 1).map(block) != Some(block(round)) {
            kept::check(stage.run_dir, logs.iter().map(|log| &log.file))?;
        }
    }
    Ok(logs)
}

/// How a launch ended.
struct Ended {
    /// The last line of its record.
    end: End,
    /// Whether the user skipped it; the run then goes on.
    skipped: bool,
    log: LaunchLog,
}

/// Make the first of these launches, and as many of the others beside it as memory has room for:
/// all of them may take turns. Returns how each ended.
fn together(left: &[(Context, &Pending)], residents: &mut Residents) -> Result<Vec<Ended>> {
    let mut all: Vec<Running> = Vec::new();
    for (context, item) in left {
        if !all.is_empty() && base::interrupt::requested() {
            break;
        }
        let plan = context.stage.plan;
        let resident = match plan.shares_process(scenario(plan, &item.launch.scenario)) {
            true => residents.take(&item.launch.target),
            false => None,
        };
        if gpu::is_used_by(&context.target.backend) {
            residents.leave();
        }
        let mut fits = resident.is_some() || memory::has_room(context, &all, residents)?;
        while !fits && residents.make_room() {
            fits = memory::has_room(context, &all, residents)?;
        }
        if !fits && !all.is_empty() {
            break;
        }
        let running = Running::begin(context, item, resident)?;
        if running.was_skipped() {
            context.stage.control.skippable(); // for the other launches
        }
        if left.len() > 1 {
            running.pause();
        }
        all.push(running);
    }
    match all.as_mut_slice() {
        [one] => one.alone()?,
        several => turns::run(several)?,
    }
    all.into_iter()
        .map(|running| {
            let launch = running.launch;
            let (ended, session) = running.end()?;
            if let Some(session) = session {
                residents.keep(&launch.target, session);
            }
            Ok(ended)
        })
        .collect()
}

/// The launches in the order in which they are made, grouped into rounds. A round is either all
/// launches of a block and scenario that take turns, or one launch alone. Launches that use a GPU
/// never take turns: the processes would have to share its memory, and its counters don't
/// distinguish processes.
fn rounds<'a>(plan: &Plan, pending: &'a [Pending]) -> Vec<Vec<&'a Pending>> {
    let uses_gpu = |item: &&Pending| gpu::is_used_by(&target_of(plan, &item.launch).backend);
    let same = |a: &Pending, b: &Pending| {
        (a.launch.invocation, &a.launch.scenario) == (b.launch.invocation, &b.launch.scenario)
    };
    let mut rounds = Vec::new();
    for round in pending.chunk_by(same) {
        let in_turns = scenario(plan, &round[0].launch.scenario).turns;
        let (alone, together): (Vec<_>, Vec<_>) =
            round.iter().partition(|item| !in_turns || uses_gpu(item));
        rounds.extend(alone.into_iter().map(|item| vec![item]));
        if !together.is_empty() {
            rounds.push(together);
        }
    }
    rounds
}

fn of_launch(launch: &Launch) -> (&str, &str) {
    (&launch.target, &launch.scenario)
}

/// The shortest time that the cases of a launch can take, by their own durations.
fn at_least(plan: &Plan, item: &Pending) -> Duration {
    let cases = scenario(plan, &item.launch.scenario).cases.iter();
    let planned = cases.filter(|case| item.launch.cases.contains(&case.id));
    Duration::from_secs_f64(planned.map(|case| case.duration_s).sum())
}

/// Why a case of a target may not be timed; `None` where it may. A case is refused where the target
/// is not verified, or not up to the case's context.
pub fn refusal(
    verify: &BTreeMap<String, VerifyRecord>,
    target: &str,
    case: &Case,
) -> Option<String> {
    let Some(record) = verify.get(target) else {
        return Some("it was not verified".into());
    };
    if record.status != Status::Ok {
        return Some(record.reason.clone());
    }
    if case.shared_percent.is_some()
        && let Some((_, why)) = record.prefix_cache_refusal()
    {
        return Some(why.into());
    }
    let context = case.prompt_tokens + case.new_tokens;
    match record.verified_positions {
        Some(positions) if context <= positions => None,
        positions => Some(format!(
            "it needs {context} positions, {} are verified",
            positions.unwrap_or(0)
        )),
    }
}

/// The longest context (tokens) that a target is verified for; 0 = it is not verified.
pub fn positions(verify: &BTreeMap<String, VerifyRecord>, target: &str) -> u32 {
    let record = verify.get(target).filter(|r| r.status == Status::Ok);
    record.and_then(|r| r.verified_positions).unwrap_or(0)
}

/// The target of a launch, which a twin has in common with its original.
fn target_of<'a>(plan: &'a Plan, launch: &Launch) -> &'a Target {
    let target = plan.target(original(&launch.target));
    target.expect("the plan names its targets")
}

/// The scenario of the plan with this id.
pub fn scenario<'a>(plan: &'a Plan, id: &str) -> &'a PlannedScenario {
    plan.scenario(id).expect("the plan names its scenarios")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::plan;

    #[test]
    fn who_takes_turns_is_measured_together_and_who_uses_a_gpu_alone() {
        let mut plan = plan();
        let target = |(id, backend): (&str, &str)| Target {
            backend: backend.into(),
            ..fixtures::target(id)
        };
        plan.targets = [("a", "cpu"), ("gpu", "vulkan"), ("b", "cpu")]
            .map(target)
            .into();
        let item = |(invocation, target): (u32, &str)| Pending {
            launch: Launch {
                invocation,
                target: target.into(),
                ..plan.launches[0].clone()
            },
            attempt: 0,
        };
        let pending = [(0, "a"), (0, "gpu"), (0, "b"), (1, "b"), (1, "a@twin")].map(item);
        let names = |plan: &Plan| -> Vec<String> {
            let name = |item: &&Pending| item.launch.target.clone();
            let rounds = rounds(plan, &pending).into_iter();
            rounds
                .map(|round| round.iter().map(name).collect::<Vec<_>>().join(" "))
                .collect()
        };
        assert_eq!(names(&plan), ["a", "gpu", "b", "b", "a@twin"]);
        plan.scenarios[0].turns = true;
        assert_eq!(names(&plan), ["gpu", "a b", "b a@twin"]);
    }
}
