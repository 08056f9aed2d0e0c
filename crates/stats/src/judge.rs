//! Whether a cell's numbers count, and if not, why: every rule that turns a cell from `ok` into
//! another status, in the order in which they are applied.
//!
//! Outputs are checked before times: a target that does other work has no speed.

use crate::evidence::Evidence;
use crate::{timing, witness};
use schema::key::original;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use schema::run::Run;

/// The status and the reason of a cell without numbers.
pub(crate) type Refusal = (Status, String);

/// Judge a cell; `Ok` where its numbers count. A twin shares the gate's judgement of its original,
/// and is judged by its own records in all else.
pub(crate) fn judge(
    run: &Run,
    target: &str,
    scenario: &PlannedScenario,
    case: &Case,
    evidence: &Evidence,
) -> Result<(), Refusal> {
    verified(run, target, case, evidence)?;
    let (scenario, case) = run.header.plan.measured(scenario, case);
    accepted(run, target, scenario, case)?;
    complete(evidence)?;
    for attempt in &evidence.complete {
        for request in &attempt.timed {
            let (tokens, ids) = (request.token_ns.len(), request.output_ids.len());
            let asked = case.new_tokens as usize;
            let text_alone = ids == 0 && request.output_text.is_some();
            if tokens != asked || ids != asked && !text_alone {
                return Err((
                    Status::ProtocolError,
                    format!(
                        "request {} of invocation {} has {tokens} stamps and {ids} ids for {asked} tokens",
                        request.id, attempt.invocation
                    ),
                ));
            }
        }
    }
    let stamps = timing::check(&evidence.complete);
    let stamps = stamps.and_then(|()| witness::check(&evidence.complete));
    stamps.map_err(|reason| (Status::BadTiming, reason))
}

/// Check that the parity gate passed, for this model and for contexts this long.
fn verified(run: &Run, target: &str, case: &Case, evidence: &Evidence) -> Result<(), Refusal> {
    let model = &run.header.plan.model;
    let Some(verify) = run
        .verify
        .get(original(target))
        .filter(|v| v.model == *model)
    else {
        // Where the launches themselves failed, their failure is the better reason.
        return Err(evidence.failure.clone().unwrap_or_else(|| {
            let reason = format!(
                "the parity gate has not judged this target on {model}, so nothing it did counts"
            );
            (Status::NotRun, reason)
        }));
    };
    if verify.status != Status::Ok {
        return Err((verify.status, verify.reason.clone()));
    }
    if case.shared_percent.is_some()
        && let Some((status, why)) = verify.prefix_cache_refusal()
    {
        return Err((status, why.into()));
    }
    let needed = case.prompt_tokens.saturating_add(case.new_tokens);
    match verify.verified_positions {
        Some(positions) if positions >= needed => Ok(()),
        positions => Err((
            Status::Unverified,
            format!(
                "verified ({}) for contexts up to {} tokens, this case needs {needed}",
                verify.scope,
                positions.unwrap_or(0)
            ),
        )),
    }
}

/// Check that the run's budget had time for the cell, that the capacity stage, which sets the rate of
/// an open loop, succeeded, and that the reference rejected no timed output.
fn accepted(
    run: &Run,
    target: &str,
    scenario: &PlannedScenario,
    case: &Case,
) -> Result<(), Refusal> {
    let key = scenario.cell_key(case, target);
    let budget = run.budget.as_ref();
    if let Some(reason) = budget.and_then(|budget| budget.refusal(&key)) {
        return Err((Status::OverBudget, reason.to_owned()));
    }
    let capacity = schema::capacity::find(&run.capacities, target, case);
    if let Some(failed) = capacity.filter(|c| scenario.load.is_open() && c.status != Status::Ok) {
        return Err((failed.status, failed.reason.clone()));
    }
    match run.checks.get(&key) {
        Some(check) if check.wrong > 0 => Err((
            Status::WrongOutput,
            format!(
                "the reference rejects {} of {} timed outputs (largest gap {:.3} nats; {})",
                check.wrong,
                check.outputs(),
                check.gap_nats_max,
                check.method
            ),
        )),
        _ => Ok(()),
    }
}

/// Check that every planned invocation is complete. A cell that is complete in some only is not
/// shown with fewer: those that failed are not missing at random.
fn complete(evidence: &Evidence) -> Result<(), Refusal> {
    let planned = evidence.planned.len();
    let complete = evidence.complete.len();
    if planned == 0 {
        return Err((Status::NotRun, "the plan has no launch for it".into()));
    }
    if complete < planned {
        return Err(evidence.failure.clone().unwrap_or_else(|| {
            let reason = format!("complete in {complete} of {planned} invocations");
            (Status::NotRun, reason)
        }));
    }
    match evidence.complete.iter().find(|a| a.timed.is_empty()) {
        Some(attempt) => Err((
            Status::NotRun,
            format!(
                "invocation {} has no timed request of this case",
                attempt.invocation
            ),
        )),
        None => Ok(()),
    }
}
