//! What limits a target's numbers, as its record says.

use crate::view::Shown;
use std::collections::BTreeSet;

/// Say which defects of a target's engine its adapter mended, as the adapter declares them:
/// `a fix of ours, which <engine> lacks: …`; empty where it declares none.
pub(super) fn mended(shown: &Shown, target: &str) -> String {
    let launches = shown.run.launches.iter();
    let launches = launches.filter(|log| log.launch.target == target);
    let ready = launches.flat_map(|log| log.ready.iter());
    let declared: BTreeSet<&str> = ready.flat_map(|ready| ready.mended()).collect();
    if declared.is_empty() {
        return String::new();
    }
    let id = shown.target(target).map(|target| target.engine.as_str());
    let engine = id.and_then(|id| shown.input.registry.engine(id));
    let name = engine.map_or("the engine", |engine| engine.name.as_str());
    let declared: Vec<&str> = declared.into_iter().collect();
    format!("a fix of ours, which {name} lacks: {}", declared.join("; "))
}

/// How far a target was verified, where that is less than the run asked for; else empty. What
/// follows in the record names the prompt and the position; the run's page has it.
pub(super) fn limit<'a>(shown: &Shown<'a>, target: &str) -> &'a str {
    let record = shown.run.verify.get(target);
    let reason = record.and_then(|record| record.reason.split("; ").next());
    reason.unwrap_or_default()
}
