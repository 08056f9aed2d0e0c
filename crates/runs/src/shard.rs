//! One shard of a run: checks what `--shard` and `--budget-from` ask for before the long work
//! begins, and says what to do with the shard afterwards. `schema::origin` defines which blocks
//! belong to which shard; `merge` joins the shards.
//!
//! Every shard verifies its own targets and has its outputs judged, since each may run on a machine
//! of its own. It also decides by itself which cells there is time for: the pilot shares out the
//! whole plan's time, not the shard's, so equal machines decide alike, and `merge` counts only the
//! cells that all shards kept. With `--budget-from` all shards use one decision, and no cell is
//! measured in vain.

use crate::results::Results;
use anyhow::{Context, Result, bail};
use schema::budget::Budget;
use schema::hash::sha256_hex;
use schema::origin::Shard;
use schema::plan::Plan;
use schema::run::{Run, RunHeader};
use std::path::Path;

/// Refuse a shard that has no block. With `budget_from`, return the budget to take over and the id
/// of the run that it comes from.
pub fn prepare(
    plan: &Plan,
    results: &Results,
    shard: Option<Shard>,
    budget_from: Option<&str>,
) -> Result<Option<(String, Budget)>> {
    if let Some(shard) = shard.filter(|shard| shard.count() > plan.invocations) {
        bail!(
            "--shard {shard}: profile {:?} has {} blocks, so at most as many shards",
            plan.profile,
            plan.invocations
        );
    }
    budget_from
        .map(|run| decision(plan, &results.find(run)?))
        .transpose()
}

/// Return a run's id and its budget; fail where it has another plan or no budget.
fn decision(plan: &Plan, run_dir: &Path) -> Result<(String, Budget)> {
    let run = Run::load(run_dir)?;
    // The seed of the prompts has no influence on the decision.
    let decides = |plan: &Plan| {
        plan_sha256(&Plan {
            prompt_seed: None,
            ..plan.clone()
        })
    };
    let (theirs, ours) = (decides(&run.header.plan)?, decides(plan)?);
    let id = run.header.id;
    if theirs != ours {
        bail!(
            "--budget-from {id}: it has another plan ({theirs:.12}, this one is {ours:.12}): give the options of that run, or leave out --budget-from to make a pilot"
        );
    }
    let budget = run.budget.with_context(|| {
        format!("--budget-from {id}: it has no budget.json, because its pilot isn't over or its profile needs none: name another run, or leave out --budget-from")
    })?;
    Ok((id, budget))
}

/// Return the hash of a plan, as it stands in `run.json`.
pub fn plan_sha256(plan: &Plan) -> Result<String> {
    Ok(sha256_hex(&serde_json::to_vec(plan)?))
}

/// Return the text with which a shard's run ends, in place of a report.
pub fn what_next(shard: Shard) -> String {
    format!(
        "This is shard {shard}: when all {} are measured, `cargo xtask merge RUN…` (their ids or directories) makes one run of them",
        shard.count()
    )
}

/// Refuse to continue a merged run: only its parts can be continued.
pub fn refuse_merged(header: &RunHeader) -> Result<()> {
    let sources = header.origin.sources.iter();
    let sources: Vec<&str> = sources.map(|source| source.id.as_str()).collect();
    if !sources.is_empty() {
        bail!(
            "run {} is merged from {}: go on with the one that isn't complete, on its own machine, and merge again",
            header.id,
            sources.join(", ")
        );
    }
    Ok(())
}
