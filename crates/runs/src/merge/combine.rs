//! Combines the judgements that each part has of a target, by the gate, the pilot and the
//! reference, into one judgement for the merged run. Pure. One rule applies to all: a cell counts
//! only where it counts in every part.

use anyhow::{Result, bail};
use schema::budget::{Budget, OverBudget};
use schema::capacity::Capacity;
use schema::key::{CellKey, twin_name};
use schema::launch_log::timed;
use schema::record::{CheckRecord, Outliers, Status, VerifyRecord};
use schema::run::Run;

/// Combine the gate's judgements: a target passes where it passed in every part, up to the shortest
/// context verified in any. A target that one part hasn't judged has no judgement.
pub(super) fn verify(runs: &[&Run]) -> Vec<VerifyRecord> {
    let targets = &runs[0].header.plan.targets;
    targets
        .iter()
        .filter_map(|target| {
            let of =
                |run: &&Run| Some((run.header.id.clone(), run.verify.get(&target.id)?.clone()));
            one_verify(runs.iter().map(of).collect::<Option<Vec<_>>>()?)
        })
        .collect()
}

/// Collect the capacities that scaled the open loops of each part, each measured on that part's own
/// machine. Failed ones come first, so that their cells don't count.
pub(super) fn capacities(runs: &[&Run]) -> Vec<Capacity> {
    let mut all: Vec<Capacity> = runs.iter().flat_map(|r| r.capacities.clone()).collect();
    all.sort_by_key(|capacity| capacity.status == Status::Ok);
    all
}

fn one_verify(records: Vec<(String, VerifyRecord)>) -> Option<VerifyRecord> {
    if let Some((id, record)) = records.iter().find(|(_, r)| r.status != Status::Ok) {
        return Some(VerifyRecord {
            reason: format!("in {id}: {}", record.reason),
            ..record.clone()
        });
    }
    let records = records.into_iter().map(|(_, record)| record);
    records.reduce(|a, b| VerifyRecord {
        verified_positions: a.verified_positions.min(b.verified_positions),
        // Where the scopes differ, keep the weaker one: "logits" is the stronger.
        scope: if a.scope == "logits" {
            b.scope
        } else {
            a.scope
        },
        kl_nats: both(a.kl_nats, b.kl_nats, f64::max),
        argmax_agreement: both(a.argmax_agreement, b.argmax_agreement, f64::min),
        batches: a
            .batches
            .into_iter()
            .filter(|n| b.batches.contains(n))
            .collect(),
        reason: either(a.reason, &b.reason),
        prefix_cache: a.prefix_cache && b.prefix_cache,
        prefix_cache_failure: either(a.prefix_cache_failure, &b.prefix_cache_failure),
        repeat_ratio: both(a.repeat_ratio, b.repeat_ratio, f64::min),
        outliers: farther(a.outliers, b.outliers),
        ..b
    })
}

fn both(a: Option<f64>, b: Option<f64>, of: fn(f64, f64) -> f64) -> Option<f64> {
    Some(of(a?, b?))
}

/// Of two parts' answers about the model with outliers, those that are farther from the reference,
/// with the excuse of either; `None` where one part wasn't asked.
fn farther(a: Option<Outliers>, b: Option<Outliers>) -> Option<Outliers> {
    let (a, b) = (a?, b?);
    let excuse = either(a.excuse.clone(), &b.excuse);
    let farther = if b.kl_nats > a.kl_nats { b } else { a };
    Some(Outliers { excuse, ..farther })
}

/// Join two texts; a text that the first one contains is not repeated.
fn either(a: String, b: &str) -> String {
    match (a.as_str(), b) {
        (_, "") => a,
        ("", _) => b.to_owned(),
        (one, other) if one.contains(other) => a,
        _ => format!("{a}; {b}"),
    }
}

/// Combine the parts' budgets: a cell is over budget where any part left it out, even if others
/// measured it. `None` where no part has a budget.
pub(super) fn budget(runs: &[&Run]) -> Option<Budget> {
    let decided: Vec<(&str, &Budget)> = runs
        .iter()
        .filter_map(|run| Some((run.header.id.as_str(), run.budget.as_ref()?)))
        .collect();
    let mut whole = Budget {
        budget_s: decided.first()?.1.budget_s,
        share_s: decided
            .iter()
            .filter_map(|(_, budget)| budget.share_s)
            .reduce(f64::min),
        ..Budget::default()
    };
    for (id, budget) in decided {
        for pilot in &budget.pilots {
            // Parts that share one decision have the same pilots.
            if !whole.pilots.contains(pilot) {
                whole.pilots.push(pilot.clone());
            }
        }
        // A twin that only some parts have is incomplete, and gives no noise floor.
        for twin in &budget.twins {
            if !whole.twins.iter().any(|known| known.target == twin.target) {
                whole.twins.push(twin.clone());
            }
        }
        for cell in &budget.over {
            if whole.refusal(&cell.key()).is_none() {
                whole.over.push(OverBudget {
                    reason: format!("in {id}: {}", cell.reason),
                    ..cell.clone()
                });
            }
        }
    }
    Some(whole)
}

/// Sum the reference's judgements of timed outputs. Outputs that a part measured and didn't have
/// judged count as unchecked.
pub(super) fn checks(runs: &[&Run]) -> Result<Vec<CheckRecord>> {
    let plan = &runs[0].header.plan;
    let mut checks = Vec::new();
    for scenario in &plan.scenarios {
        for case in &scenario.cases {
            for target in &plan.targets {
                for name in [target.id.clone(), twin_name(&target.id)] {
                    checks.extend(one_check(runs, &scenario.cell_key(case, &name))?);
                }
            }
        }
    }
    Ok(checks)
}

fn one_check(runs: &[&Run], cell: &CellKey) -> Result<Option<CheckRecord>> {
    let mut whole: Option<(&str, CheckRecord)> = None;
    for run in runs {
        let (id, Some(check)) = (run.header.id.as_str(), run.checks.get(cell)) else {
            continue;
        };
        whole = Some(match whole {
            None => (id, check.clone()),
            Some((first, sum)) if sum.tie_width_nats != check.tie_width_nats => bail!(
                "{cell}: {first} and {id} judged its outputs by different limits: a tie width of {} and {} nats",
                sum.tie_width_nats,
                check.tie_width_nats
            ),
            Some((first, sum)) => (first, add(sum, check)),
        });
    }
    Ok(whole.map(|(_, mut sum)| {
        let unjudged = runs.iter().filter(|run| !run.checks.contains_key(cell));
        let logs = unjudged.flat_map(|run| run.launches.iter().chain(&run.twins));
        sum.unchecked += timed(logs, cell).count() as u64;
        sum
    }))
}

fn add(a: CheckRecord, b: &CheckRecord) -> CheckRecord {
    CheckRecord {
        equal: a.equal + b.equal,
        rescored: a.rescored + b.rescored,
        wrong: a.wrong + b.wrong,
        unchecked: a.unchecked + b.unchecked,
        gap_nats_max: a.gap_nats_max.max(b.gap_nats_max),
        method: either(a.method, &b.method),
        ..a
    }
}
