//! What an engine's program reports of itself, in words: its build, how it batches and how it keeps
//! keys and values, and in which run; up to where its outputs were verified; and which instructions
//! of the processor its library was kept from.

use crate::view::Shown;
use crate::view::cells::status_words;
use schema::launch_log::LaunchLog;
use schema::record::{IsaLimit, Status, VerifyRecord};
use schema::registry::{KvFormat, Target, kv_bits};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The launches of an engine's targets.
pub fn logs_of<'a>(
    shown: &Shown<'a>,
    engine: &str,
) -> impl Iterator<Item = &'a LaunchLog> + use<'a> {
    let planned = shown.targets_of(engine);
    let ids: BTreeSet<&str> = planned.map(|target| target.id.as_str()).collect();
    let launches = shown.run.launches.iter();
    launches.filter(move |log| ids.contains(log.launch.target.as_str()))
}

/// The run by which an engine is described: the one shown or, where that did not start the engine,
/// the newest of `all` that did; `None` where none did.
pub fn reporting_run<'s, 'a>(
    shown: &'s Shown<'a>,
    all: &'s [Shown<'a>],
    engine: &str,
) -> Option<&'s Shown<'a>> {
    let mut others: Vec<&Shown> = all.iter().collect();
    others.sort_by_key(|run| Reverse(&run.run.header.started));
    let started = |run: &&Shown| logs_of(run, engine).any(|log| log.ready.is_some());
    std::iter::once(shown).chain(others).find(started)
}

/// Words to put behind a value that name the run it comes from; empty for the run shown.
pub fn in_run(shown: &Shown, run: &Shown) -> String {
    let id = &run.run.header.id;
    match *id == shown.run.header.id {
        true => String::new(),
        false => format!(" (in run {id})"),
    }
}

/// The build facts that launches report; where they differ, every value.
pub fn build_facts<'a>(logs: impl Iterator<Item = &'a LaunchLog>) -> Vec<(String, String)> {
    let mut facts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in logs.flat_map(|log| log.ready.iter()).flat_map(|r| &r.build) {
        facts.entry(key).or_default().insert(value);
    }
    facts
        .into_iter()
        .map(|(key, values)| {
            let values: Vec<&str> = values.into_iter().collect();
            (key.to_owned(), values.join(" | "))
        })
        .collect()
}

/// Explain how an engine batches.
pub fn batching_words(batching: &str) -> &str {
    match batching {
        "none" => "one request at a time; others wait",
        "static_equal_length" => "static batches of queued requests of equal length",
        "continuous" => "continuous batching",
        other => other,
    }
}

/// Say up to where a target's output was verified to be the reference's.
pub fn verified_scope(record: &VerifyRecord) -> String {
    if record.status != Status::Ok {
        return format!("not verified: {}", status_words(record.status));
    }
    match record.verified_positions {
        Some(positions) => format!("{}, up to {positions} positions", record.scope),
        None => format!("{}, no position", record.scope),
    }
}

/// Bits per key or value in the target's cache, scales included, as the target reports it; `None`
/// where it reports nothing or the model isn't known.
fn reported_kv(shown: &Shown, target: &str) -> Option<f64> {
    let facts = &shown.run.header.provenance.facts;
    let ready = shown.logs(target).find_map(|log| log.ready.as_ref())?;
    kv_bits(facts, ready.kv_bytes_per_token).filter(|bits| *bits > 0.0)
}

/// The bits per key or value that a target reports, as text; `None` where it reports nothing or the
/// model isn't known.
pub fn reported_kv_bits(shown: &Shown, target: &str) -> Option<String> {
    reported_kv(shown, target).map(rounded)
}

fn rounded(bits: f64) -> String {
    match bits.fract() < 0.05 {
        true => format!("{bits:.0}"),
        false => format!("{bits:.1}"),
    }
}

/// Say that the bits of a key or value include scales, if no number format has so many bits.
fn scales(bits: f64) -> &'static str {
    match [4.0, 8.0, 16.0, 32.0].contains(&bits) {
        true => "",
        false => " with scales",
    }
}

/// The number format of a target's keys and values, where it isn't that of its weights: the one
/// that the target declares or, where it declares none, the bits that its engine reports.
pub fn other_kv(shown: &Shown, target: &Target) -> Option<String> {
    if let Some(declared) = target.kv {
        let id = declared.id();
        return (id != target.precision).then(|| id.to_owned());
    }
    let bits = reported_kv(shown, &target.id)?;
    let of_weights = KvFormat::named(&target.precision);
    let is_other = of_weights.is_none_or(|format| !format.has_bits(bits));
    is_other.then(|| {
        format!(
            "{} bits{}, as the engine reports",
            rounded(bits),
            scales(bits)
        )
    })
}

/// The instruction limits of a target's launches and verification, each once.
pub fn instruction_limits_of(shown: &Shown, target: &str) -> Vec<String> {
    let judged = shown.run.verify.get(target);
    let limits = shown
        .logs(target)
        .filter_map(|log| log.launch.isa_limit.as_ref())
        .chain(judged.and_then(|record| record.isa_limit.as_ref()));
    let limits: BTreeSet<String> = limits.map(IsaLimit::to_string).collect();
    limits.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::scales;

    #[test]
    fn bits_that_no_number_has_are_said_to_have_scales_among_them() {
        let said = [4.0, 8.0, 8.5, 9.0, 16.0].map(|bits| !scales(bits).is_empty());
        assert_eq!(said, [false, false, true, true, false]);
    }
}
