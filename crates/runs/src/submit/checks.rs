//! The checks that a run must pass to be published, one function each. They read the record and
//! what is derived from it; none of them runs anything.

use crate::shard::plan_sha256;
use anyhow::Result;
use base::text::{few, line};
use schema::launch_log;
use schema::profile::{INVOCATIONS_MIN, SAMPLES_MIN};
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;
use site::words::plural;
use stats::analysis::Cell;
use stats::micro::SuiteAnalysis;
use std::collections::BTreeSet;

/// Largest size of a packed run (bytes). The five scenarios of `cpu-full`, the largest profile, take
/// 8.5 MB, nearly all of it stamps of tokens; its other scenarios and the micro suites come on top.
pub(super) const BYTES_MAX: u64 = 12_000_000;
/// Maximum number of cells, and of targets, that a finding lists by name.
const NAMES_MAX: usize = 3;
/// Maximum number of characters of a reason that a finding quotes.
const REASON_CHARS_MAX: usize = 120;

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    /// The check's name, one or two words.
    pub(super) name: &'static str,
    /// Whether the run passes it.
    pub(super) passes: bool,
    /// What the check found; where it fails also where, why, and what to do.
    pub(super) finding: String,
}

impl Check {
    fn new(name: &'static str, result: Result<String, String>) -> Self {
        Self {
            name,
            passes: result.is_ok(),
            finding: result.unwrap_or_else(|failure| failure),
        }
    }

    /// Return the result as a word.
    pub(super) fn result(&self) -> &'static str {
        match self.passes {
            true => "ok",
            false => "fails",
        }
    }
}

/// Run all checks. `cells` are those of the run's scenarios, `suites` its micro suites.
pub(super) fn checks(
    run: &Run,
    cells: &[Cell],
    suites: &[SuiteAnalysis],
    packed_bytes: u64,
) -> Vec<Check> {
    vec![
        Check::new("profile", profile(run)),
        Check::new("whole", whole(run, cells, suites)),
        Check::new("checkout", checkout(run)),
        Check::new("gate", gate(run)),
        Check::new("outputs", outputs(run)),
        Check::new("samples", samples(cells)),
        Check::new("canary", canary(cells)),
        Check::new("size", size(packed_bytes)),
    ]
}

fn profile(run: &Run) -> Result<String, String> {
    let plan = &run.header.plan;
    match plan.publishable {
        true => Ok(format!("{} of {} is publishable", plan.profile, plan.model)),
        false => Err(format!(
            "run.json: profile {} shows that the pipeline works, its numbers mean nothing: measure with a publishable one (`cargo xtask list profiles`)",
            plan.profile
        )),
    }
}

/// Check that the run is complete, because a published run never changes.
fn whole(run: &Run, cells: &[Cell], suites: &[SuiteAnalysis]) -> Result<String, String> {
    let header = &run.header;
    if let Some(shard) = header.origin.shard {
        return Err(format!(
            "run.json: this is shard {shard} of a plan: submit what `cargo xtask merge` makes of all shards"
        ));
    }
    if plan_sha256(&header.plan).ok().as_deref() != Some(header.plan_sha256.as_str()) {
        return Err(
            "run.json: the plan is not the one that its hash is of, so it was changed after the run began: take the file as the run wrote it".into(),
        );
    }
    let of_suites = suites.iter().flat_map(|suite| &suite.analysis.cells);
    let all = cells.iter().chain(of_suites);
    match named(all.filter(|cell| cell.status == Status::NotRun)) {
        None => Ok(format!(
            "{}, none left to run",
            plural(cells.len() as u64, "cell", "cells")
        )),
        Some(names) => Err(format!(
            "{names}: planned and not run: finish it with `cargo xtask bench --resume {}`",
            header.id
        )),
    }
}

/// Check that the run is of a clean checkout at a known revision, so that others can repeat it.
fn checkout(run: &Run) -> Result<String, String> {
    let header = &run.header;
    let sources = header.origin.sources.iter();
    let sources = sources.map(|source| (source.id.as_str(), &source.provenance));
    let own = (header.id.as_str(), &header.provenance);
    for (id, provenance) in std::iter::once(own).chain(sources) {
        match (provenance.git_dirty, &provenance.git_revision) {
            (Some(false), Some(_)) => {}
            (Some(true), _) => {
                return Err(format!(
                    "run.json: the checkout of {id} had changes that no revision has, so it can't be measured again: commit them, and measure anew"
                ));
            }
            _ => {
                return Err(format!(
                    "run.json: {id} doesn't name a revision that its checkout was clean at: measure in a git checkout, or from a bundle that was made in one"
                ));
            }
        }
    }
    let revision = header.provenance.git_revision.as_deref();
    let revision = revision.unwrap_or_default();
    let short = revision.get(..12).unwrap_or(revision);
    Ok(format!("clean, at revision {short}"))
}

/// Return the targets that have a timed request.
fn timed(run: &Run) -> BTreeSet<&str> {
    let logs = run.launches.iter();
    let logs = logs.filter(|log| log.requests.iter().any(|request| !request.warmup));
    logs.map(|log| log.launch.target.as_str()).collect()
}

fn gate(run: &Run) -> Result<String, String> {
    let targets = timed(run);
    let mut failures = Vec::new();
    for target in &targets {
        let judged = run.verify.get(*target);
        match judged.filter(|verify| verify.model == run.header.plan.model) {
            Some(verify) if verify.status == Status::Ok => {}
            Some(verify) => failures.push(format!(
                "{target} was timed and did not pass ({}: {})",
                verify.status.id(),
                line(&verify.reason, REASON_CHARS_MAX)
            )),
            None => failures.push(format!("{target} was timed and never judged")),
        }
    }
    let Some(list) = listed(&failures, "; ") else {
        return match targets.len() as u64 {
            0 => Err("no target has a timed request: measure one".into()),
            n => Ok(format!(
                "{} timed, all verified",
                plural(n, "target", "targets")
            )),
        };
    };
    Err(format!(
        "verify.jsonl: {list}: `cargo xtask verify` shows what differs; measure anew without them, or with the fault mended"
    ))
}

/// Check that the reference has judged every timed output. The verdicts don't matter here: a
/// rejected output already withdraws its cell. Timed requests of a launch that didn't complete
/// their case belong to no cell.
fn outputs(run: &Run) -> Result<String, String> {
    let mut cells = BTreeSet::new();
    for log in &run.launches {
        let ends = log.case_ends.iter();
        cells.extend(ends.map(|end| log.launch.cell_key(&end.case)));
    }
    let mut judged = 0;
    let mut failures = Vec::new();
    for cell in &cells {
        let timed = launch_log::timed(&run.launches, cell).count() as u64;
        let check = run.checks.get(cell);
        if timed == 0 || check.is_some_and(|c| c.unchecked == 0 && c.outputs() == timed) {
            judged += timed;
        } else {
            failures.push(cell.to_string());
        }
    }
    match listed(&failures, ", ") {
        None => Ok(format!(
            "{} judged by the reference",
            plural(judged, "timed output", "timed outputs")
        )),
        Some(list) => Err(format!(
            "check.jsonl: {list}: outputs that the reference has not judged: `cargo xtask bench --resume {}` judges them where the reference can be run",
            run.header.id
        )),
    }
}

fn measured(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    cells.iter().filter(|cell| cell.status == Status::Ok)
}

fn samples(cells: &[Cell]) -> Result<String, String> {
    let least = |of: fn(&Cell) -> u64| measured(cells).map(of).min().unwrap_or(0);
    let requests = least(|cell| cell.requests);
    let launches = least(|cell| u64::from(cell.invocations));
    if measured(cells).next().is_none() {
        return Err("no cell has numbers: see the report's coverage page for the reasons".into());
    }
    let few = measured(cells).filter(|cell| {
        cell.requests < u64::from(SAMPLES_MIN) || cell.invocations < INVOCATIONS_MIN
    });
    match named(few) {
        None => Ok(format!(
            "at least {requests} requests over {launches} launches in each of {}",
            plural(measured(cells).count() as u64, "cell", "cells")
        )),
        Some(names) => Err(format!(
            "{names}: under {SAMPLES_MIN} requests or {INVOCATIONS_MIN} launches (the least: {requests} and {launches}): measure anew with more (`--invocations N`)"
        )),
    }
}

fn canary(cells: &[Cell]) -> Result<String, String> {
    match named(measured(cells).filter(|cell| cell.unseen > 0)) {
        None => Ok("the machine's speed was measured beside every launch".into()),
        Some(names) => Err(format!(
            "{names}: launches beside which the machine's speed was not measured, so a disturbance would not be seen: measure anew with a version that has the canary, and with 20 launches or more in all"
        )),
    }
}

fn size(packed_bytes: u64) -> Result<String, String> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    match packed_bytes <= BYTES_MAX {
        true => Ok(format!("{:.1} MB packed", mb(packed_bytes))),
        false => Err(format!(
            "{:.1} MB packed, and at most {:.0} MB go into the repository: measure fewer targets or scenarios (`--engines`, `--scenarios`)",
            mb(packed_bytes),
            mb(BYTES_MAX)
        )),
    }
}

/// Format cells as `3 cells (t s/p10, …)`; `None` where there are none.
fn named<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<String> {
    let names: Vec<String> = cells.map(|cell| cell.key().to_string()).collect();
    let count = plural(names.len() as u64, "cell", "cells");
    listed(&names, ", ").map(|list| format!("{count} ({list})"))
}

/// List the first few, and say how many more there are; `None` where there are none.
fn listed(all: &[String], between: &str) -> Option<String> {
    (!all.is_empty()).then(|| few(all, NAMES_MAX, between))
}
