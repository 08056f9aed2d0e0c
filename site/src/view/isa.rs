//! Which libraries were kept from some of the processor's instructions, and why.

use super::Shown;
use schema::record::IsaLimit;
use std::collections::BTreeSet;

/// What a target's launches and its judgement were kept to, each once.
pub fn of_target(shown: &Shown, target: &str) -> Vec<String> {
    let launches = shown.run.launches.iter();
    let of_target = launches.filter(|log| log.launch.target == target);
    let judged = shown.run.verify.get(target);
    let limits = of_target
        .filter_map(|log| log.launch.isa_limit.as_ref())
        .chain(judged.and_then(|record| record.isa_limit.as_ref()));
    let limits: BTreeSet<String> = limits.map(IsaLimit::to_string).collect();
    limits.into_iter().collect()
}

/// The targets that were kept to anything.
pub fn rows(shown: &Shown) -> Vec<(String, String)> {
    let targets = shown.targets().iter();
    let rows = targets.map(|target| (target.id.clone(), of_target(shown, &target.id).join("; ")));
    rows.filter(|(_, limits)| !limits.is_empty()).collect()
}
