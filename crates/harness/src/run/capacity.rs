//! The capacity stage: before any open loop, it launches each of the loop's targets once under a
//! closed loop at the case's concurrency. The requests per second in the steady window scale the
//! plan's unit-rate arrivals. They are measured once and written down, so that a resumed run offers
//! the same load; no time measured here is published.

use super::load::{CaseError, CasePrompts, PromptQueue};
use super::{Stage, issue, refusal};
use crate::engine::load::load_for_cases;
use crate::engine::session::{Session, Timeouts};
use crate::engine::{EngineFailure, Program};
use anyhow::Result;
use base::files::Appender;
use base::pace::{CAPACITY_ROUNDS, CAPACITY_S};
use schema::budget::Budget;
use schema::capacity::{Capacity, find};
use schema::limits::PROMPTS_PER_S;
use schema::plan::Case;
use schema::record::{RequestRecord, Status};
use schema::registry::Target;
use schema::scenario::LoadShape;
use stats::window::steady;
use std::time::Duration;

/// Measure every capacity that the plan's open loops need and `known` lacks, except for cells that
/// the budget leaves out; returns all of them.
pub fn run(stage: &Stage, budget: Option<&Budget>, known: Vec<Capacity>) -> Result<Vec<Capacity>> {
    let mut all = known;
    let mut file = None;
    watch::stage(watch::event::Stage::Capacity);
    for target in &stage.plan.targets {
        for case in wanted(stage, budget, target) {
            stage.control.checkpoint()?;
            let Ok(program) = stage.programs.get(target) else {
                continue;
            };
            if find(&all, &target.id, &case).is_some() {
                continue;
            }
            stage.control.next_piece(Duration::ZERO)?;
            watch::begin("capacity", target.id.as_str());
            let capacity = measure(stage, target, program, &case)?;
            match capacity.status {
                Status::Ok => eprintln!("Capacity: {} {}", target.id, words(&capacity)),
                _ => watch::warn(format!("{}: {}", target.id, capacity.reason)),
            }
            watch::end(&capacity.reason);
            if file.is_none() {
                file = Some(Appender::open(&stage.run_dir.join("capacity.jsonl"))?);
            }
            let file = file.as_mut().expect("just opened");
            file.append(&capacity)?;
            file.sync()?;
            all.push(capacity);
        }
    }
    Ok(all)
}

/// The open-loop cases of a target that will be timed, one for each kind of work.
fn wanted(stage: &Stage, budget: Option<&Budget>, target: &Target) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let scenarios = stage.plan.scenarios.iter();
    for scenario in scenarios.filter(|s| s.load.is_open() && s.runs(&target.id)) {
        for case in &scenario.cases {
            let over =
                budget.and_then(|budget| budget.refusal(&scenario.cell_key(case, &target.id)));
            let timed = over.is_none() && refusal(stage.verify, &target.id, case).is_none();
            let work = |c: &Case| (c.prompt_tokens, c.new_tokens, c.concurrency);
            if timed && !cases.iter().any(|other| work(other) == work(case)) {
                cases.push(case.clone());
            }
        }
    }
    cases
}

/// Measure one capacity. `Err` where nothing can be recorded, or the user asked to stop.
fn measure(stage: &Stage, target: &Target, program: &Program, case: &Case) -> Result<Capacity> {
    let mut capacity = Capacity {
        target: target.id.clone(),
        prompt_tokens: case.prompt_tokens,
        new_tokens: case.new_tokens,
        concurrency: case.concurrency,
        status: Status::Ok,
        ..Capacity::default()
    };
    let closed = Case {
        id: "capacity".into(),
        load_percent: None,
        shared_percent: None,
        requests: case.concurrency * CAPACITY_ROUNDS,
        duration_s: CAPACITY_S,
        ..case.clone()
    };
    let prompts = prompts(stage, &closed)?;
    let load = load_for_cases(target, stage.model_dir, stage.plan.threads, [&closed]);
    let timeouts = Timeouts::new(stage.plan, stage.control);
    let timed = Session::open(program, &load, &timeouts)
        .map_err(CaseError::Engine)
        .and_then(|mut session| {
            let warmup = stage.plan.warmup_requests;
            let shape = LoadShape::ClosedLoop;
            let timed = issue::timed(&mut session, shape, &closed, warmup, None, prompts);
            session.process.abort();
            timed
        });
    let outcome = match timed {
        Err(CaseError::Record(error)) => return Err(error),
        Err(CaseError::Engine(failure)) => Err(failure),
        Ok(requests) => rate(&closed, &requests).ok_or_else(|| {
            EngineFailure::protocol("its stamps leave no steady window to take a rate from")
        }),
    };
    match outcome {
        Err(failure) if failure.status == Status::NotRun => anyhow::bail!("{}", failure.reason),
        Err(EngineFailure { status, reason, .. }) => {
            capacity.status = status;
            capacity.reason = format!("the capacity stage failed: {reason}");
        }
        Ok((requests, window_s, requests_per_s)) => {
            capacity.requests = requests;
            capacity.window_s = window_s;
            capacity.requests_per_s = requests_per_s;
        }
    }
    Ok(capacity)
}

/// The number of requests, the window (s) and requests per second; `None` without a steady window.
fn rate(case: &Case, timed: &[RequestRecord]) -> Option<(u64, f64, f64)> {
    let timed: Vec<&RequestRecord> = timed.iter().collect();
    let window = steady(LoadShape::ClosedLoop, case.concurrency, &timed)?;
    let requests_per_s = window.tokens_per_s()? / f64::from(case.new_tokens);
    (requests_per_s > 0.0).then_some((timed.len() as u64, window.busy_ns() / 1e9, requests_per_s))
}

fn prompts(stage: &Stage, case: &Case) -> Result<CasePrompts> {
    let length = case.prompt_tokens as usize;
    let count = case.requests as usize + (CAPACITY_S * PROMPTS_PER_S) as usize;
    let take = |stream, count| stage.prompts.take("capacity/", stream, length, count);
    Ok(CasePrompts {
        untimed: PromptQueue::new(0, take(1, case.concurrency as usize)?),
        timed: PromptQueue::new(0, take(0, count)?),
    })
}

fn words(capacity: &Capacity) -> String {
    format!(
        "serves {:.2} requests/s ({} → {} tokens, {} in flight)",
        capacity.requests_per_s, capacity.prompt_tokens, capacity.new_tokens, capacity.concurrency
    )
}
