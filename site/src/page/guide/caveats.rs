//! What a reader must know before taking a target: how it was measured, which defects were mended,
//! how far it was verified, and whether its engine is still released.

use super::setup::batching;
use crate::view::Shown;
use crate::view::maturity::of_date;
use schema::registry::Target;
use std::collections::BTreeSet;

/// Say that a target was not measured as it is deployed; empty if its engine is a client, which
/// measures a server.
pub(super) fn as_measured(shown: &Shown, target: &Target) -> String {
    let engine = shown.input.registry.engine(&target.engine);
    if engine.is_some_and(|engine| engine.test_server.is_some()) {
        return String::new();
    }
    let how = "Measured through an adapter of this project’s, not through a server.";
    match batching(shown, target).as_str() {
        "" => how.to_owned(),
        batching => format!("{how} Requests that came together: {batching}."),
    }
}

/// Say that a target's engine had no release in the year before it was read about; `None` where it
/// had one, or nothing was read.
pub(super) fn stale(shown: &Shown, target: &str) -> Option<String> {
    let all = shown.input.maturity?;
    let dossier = all.dossier(&shown.target(target)?.engine)?;
    let newest = of_date(dossier.latest()?);
    let read = all.read_of(dossier);
    let said = || format!("no stable release in the year before {read}: the newest is {newest}");
    (dossier.releases_last_year == 0).then(said)
}

/// Say which defects of a target's engine its adapter mended, as the adapter declares them:
/// `a fix of ours, which <engine> lacks: …`; empty where it declares none.
pub(super) fn mended(shown: &Shown, target: &str) -> String {
    let ready = shown.logs(target).flat_map(|log| log.ready.iter());
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

/// How far a target was verified, if that is less than the run asked for; else empty. The rest of
/// the record's reason names the prompt and the position, which the run's page shows.
pub(super) fn limit<'a>(shown: &Shown<'a>, target: &str) -> &'a str {
    let record = shown.run.verify.get(target);
    let reason = record.and_then(|record| record.reason.split("; ").next());
    reason.unwrap_or_default()
}
