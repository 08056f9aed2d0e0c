//! A section of the run page on parity: what the gate found of each target, and how its timed
//! outputs were checked.

use super::LISTED_MAX;
use crate::fmt::{self, nats};
use crate::view::Shown;
use crate::view::cells::swatch;
use crate::view::reported::{other_kv, verified_scope};
use crate::words::plural;
use schema::golden::Limit;
use schema::record::{CheckRecord, Outliers, Status};
use schema::registry::Target;
use serde::Serialize;
use std::cmp::Reverse;

/// A row with what the parity gate found of a target.
#[derive(Serialize)]
pub struct ParityRow {
    swatch: String,
    target: String,
    /// The number format of keys and values, where it isn't that of the weights.
    other_kv: Option<String>,
    ok: bool,
    scope: String,
    kl: String,
    /// What it has on the model with outliers, where it was asked.
    outliers: Option<String>,
    limit: String,
    argmax: String,
    batches: Vec<u32>,
    checked: String,
    wrong: bool,
    gap: String,
    reason: String,
}

/// Make a row for every target.
pub fn rows(shown: &Shown) -> Vec<ParityRow> {
    let targets = shown.targets().iter();
    targets.map(|target| row(shown, target)).collect()
}

fn row(shown: &Shown, target: &Target) -> ParityRow {
    let record = shown.run.verify.get(&target.id);
    let passed = record.filter(|record| record.status == Status::Ok);
    let limits = shown.input.parity.map(|limits| &limits.precision);
    let limit = limits.and_then(|of| of.get(&target.precision));
    let checks = shown.run.checks.values();
    let checks: Vec<&CheckRecord> = checks.filter(|check| check.target == target.id).collect();
    let sum = |of: fn(&CheckRecord) -> u64| checks.iter().map(|check| of(check)).sum::<u64>();
    let count = |of: fn(&CheckRecord) -> u64| fmt::count(sum(of));
    let gap = checks.iter().map(|check| check.gap_nats_max);
    let gap = gap.fold(0.0, f64::max);
    ParityRow {
        swatch: swatch(shown, &target.id),
        target: target.id.clone(),
        other_kv: other_kv(shown, target),
        ok: passed.is_some(),
        scope: record.map_or("not verified".into(), verified_scope),
        kl: record
            .and_then(|record| record.kl_nats)
            .map_or(fmt::NONE.into(), nats),
        outliers: record
            .and_then(|record| record.outliers.as_ref())
            .map(on_outliers),
        limit: limit_in_words(limit, passed.and_then(|record| record.kl_nats)),
        argmax: record
            .and_then(|record| record.argmax_agreement)
            .map_or(fmt::NONE.into(), fmt::percent),
        batches: record.map_or_else(Vec::new, |record| record.batches.clone()),
        checked: match checks.is_empty() {
            true => "none checked".into(),
            false => format!(
                "{} equal, {} within the tie width, {} wrong, {} unchecked",
                count(|check| check.equal),
                count(|check| check.rescored),
                count(|check| check.wrong),
                count(|check| check.unchecked)
            ),
        },
        wrong: sum(|check| check.wrong) > 0,
        gap: match checks.is_empty() {
            true => fmt::NONE.into(),
            false => nats(gap),
        },
        reason: record.map_or(String::new(), |record| record.reason.clone()),
    }
}

/// The divergence on the model with outliers, with the reason if it isn't held against the target.
fn on_outliers(found: &Outliers) -> String {
    let kl = found.kl_nats.map_or("passed".into(), nats);
    match found.excuse.as_str() {
        "" => format!("with outliers {kl}"),
        excuse => format!("with outliers {kl}: {excuse}"),
    }
}

/// Today's limit of a precision (nats), or words if a target passed with more: limits change, and a
/// record is judged by the limits of its day.
fn limit_in_words(limit: Option<&Limit>, passed_with: Option<f64>) -> String {
    match limit {
        Some(limit) if passed_with.is_some_and(|kl| kl > limit.kl_nats_max) => {
            "wider when this run was judged".into()
        }
        Some(limit) => nats(limit.kl_nats_max),
        None => fmt::NONE.into(),
    }
}

/// What the reference says of every cell whose outputs were checked; of many the ones with the most
/// outputs that are wrong, unchecked or not equal. Also return how many are left out, in words.
pub fn checks<'a>(shown: &Shown<'a>) -> (Vec<&'a CheckRecord>, String) {
    let mut all: Vec<&CheckRecord> = shown.run.checks.values().collect();
    let left_out = all.len().saturating_sub(LISTED_MAX) as u64;
    if left_out > 0 {
        all.sort_by_key(|check| Reverse((check.wrong, check.unchecked, check.rescored)));
        all.truncate(LISTED_MAX);
    }
    let more = match left_out {
        0 => String::new(),
        n => plural(n, "more cell", "more cells"),
    };
    (all, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_today_is_not_said_of_what_passed_beyond_it() {
        let limit = Limit {
            kl_nats_max: 4e-3,
            tie_width_nats: 0.7,
            batch_tie_nats: 0.25,
            own_weights: true,
            reason: String::new(),
        };
        let words = |passed_with| limit_in_words(Some(&limit), passed_with);
        assert_eq!(words(Some(1.4e-3)), "4.0e−3");
        assert_eq!(words(None), "4.0e−3");
        assert!(words(Some(8.4e-2)).starts_with("wider"));
        assert_eq!(limit_in_words(None, None), fmt::NONE);
    }

    #[test]
    fn a_failure_with_outliers_stands_with_its_excuse() {
        let found = |kl_nats, excuse: &str| {
            on_outliers(&Outliers {
                model: "m".into(),
                kl_nats,
                excuse: excuse.into(),
            })
        };
        assert_eq!(found(Some(3.1e-4), ""), "with outliers 3.1e−4");
        assert_eq!(found(None, ""), "with outliers passed");
        assert_eq!(found(Some(0.4), "8 bits"), "with outliers 4.0e−1: 8 bits");
    }
}
