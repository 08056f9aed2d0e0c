//! Checks that runs may be merged: they have the same plan, each block is in one part, and
//! everything that affects a number is equal. Pure.
//!
//! These must be equal: the plan, the model's files, the prompts, the revision, the lockfiles, what
//! the engines report about themselves, libtorch, and the machine (its processor, GPU, limits and
//! governor). These may differ and are only reported: kernel, compilers, memory and the other
//! facts, and the bytes of programs that come from clean checkouts of one revision, because builds
//! are not identical to the byte on every host of a fleet.

use super::Part;
use crate::shard::plan_sha256;
use anyhow::{Result, bail, ensure};
use harness::environment::{self, Difference, Kind};
use harness::run::pending;
use schema::run::RunHeader;
use schema::run_files::HEADER;

/// Check all parts. Return remarks for the reader; fail with an error that names both sides and
/// what differs.
pub(super) fn check(parts: &[Part]) -> Result<Vec<String>> {
    ensure!(
        !parts.is_empty(),
        "there is nothing to merge: name the runs"
    );
    for part in parts {
        let header = &part.run.header;
        ensure!(
            plan_sha256(&header.plan)? == header.plan_sha256,
            "{}: the plan in it is not the one its plan_sha256 is of: the file was changed",
            part.files.path(HEADER).display()
        );
    }
    let mut remarks = Vec::new();
    for (index, part) in parts.iter().enumerate().skip(1) {
        let twice = parts[..index].iter().any(|p| p.id() == part.id());
        ensure!(!twice, "{} is named twice: a run is merged once", part.id());
        remarks.extend(pair(&parts[0], part)?);
    }
    blocks(parts)?;
    remarks.extend(parts.iter().filter_map(unfinished));
    Ok(remarks)
}

/// Check two parts against each other, as [`check`] does.
fn pair(a: &Part, b: &Part) -> Result<Vec<String>> {
    let (one, other) = (a.id(), b.id());
    let differences = environment::runs(&a.run, &b.run);
    let headers = (&a.run.header, &b.run.header);
    if headers.0.plan_sha256 != headers.1.plan_sha256 {
        let said = differences.iter().filter(|d| d.kind == Kind::Plan);
        let mut said: Vec<String> = said.map(|d| format!("  {d}")).collect();
        if said.is_empty() {
            let (its, others) = (&headers.0.plan_sha256, &headers.1.plan_sha256);
            said.push(format!("  plan: {its:.12} → {others:.12}"));
        }
        bail!(
            "{one} and {other} have different plans, so they are no parts of one run:\n{}",
            said.join("\n")
        );
    }
    let same_source = same_source(headers.0, headers.1);
    let (fatal, said): (Vec<_>, Vec<_>) = differences.into_iter().partition(|d| match d.kind {
        Kind::Plan
        | Kind::Model
        | Kind::Prompts
        | Kind::Revision
        | Kind::Lockfile
        | Kind::Engine
        | Kind::Libtorch
        | Kind::Machine => true,
        Kind::Program => !same_source,
        Kind::Dirty | Kind::Tools | Kind::Other => false,
    });
    if !fatal.is_empty() {
        let fatal: Vec<String> = fatal.iter().map(|d| format!("  {d}")).collect();
        bail!(
            "{one} and {other} can't be merged: one cell would hold numbers of two things. They differ in\n{}\n\
             Measure all shards at one revision on equal machines; to hold these two against each other, use `cargo xtask compare {one} {other}`",
            fatal.join("\n")
        );
    }
    let remark = |d: &Difference| format!("{one} and {other} differ in {d}");
    Ok(said.iter().map(remark).collect())
}

/// Tell whether programs with different bytes were still built from the same source.
fn same_source(a: &RunHeader, b: &RunHeader) -> bool {
    let clean = |h: &RunHeader| h.provenance.git_dirty == Some(false);
    let rustc = |h: &'_ RunHeader| h.provenance.facts.get("rustc").cloned();
    let revision = &a.provenance.git_revision;
    revision.is_some()
        && *revision == b.provenance.git_revision
        && rustc(a) == rustc(b)
        && clean(a)
        && clean(b)
}

/// Check that each block of the plan is in exactly one part, and that each part has records of its
/// own blocks only.
fn blocks(parts: &[Part]) -> Result<()> {
    for (index, part) in parts.iter().enumerate() {
        for earlier in &parts[..index] {
            let mut both = part.blocks.iter().filter(|b| earlier.blocks.contains(b));
            if let Some(block) = both.next() {
                bail!(
                    "both {} and {} hold block {}, which would be counted twice: merge takes shards (`--shard i/n`) of one plan; to compare two runs, use `cargo xtask compare`",
                    earlier.id(),
                    part.id(),
                    block + 1
                );
            }
        }
        let foreign =
            |log: &&schema::launch_log::LaunchLog| !part.blocks.contains(&log.launch.invocation);
        let mut logs = part.run.launches.iter().chain(&part.run.twins);
        if let Some(log) = logs.find(foreign) {
            bail!(
                "{}: is of block {}, which is not in {}",
                part.files.path(&log.file.to_string_lossy()).display(),
                log.launch.invocation + 1,
                part.id()
            );
        }
    }
    let plan = &parts[0].run.header.plan;
    let held = |block: &u32| parts.iter().any(|part| part.blocks.contains(block));
    let missing: Vec<String> = (0..plan.invocations)
        .filter(|block| !held(block))
        .map(|block| (block + 1).to_string())
        .collect();
    if !missing.is_empty() {
        let ids: Vec<&str> = parts.iter().map(Part::id).collect();
        bail!(
            "{} don't make the whole plan: block {} of {} is missing; name the other shards too",
            ids.join(" and "),
            missing.join(", "),
            plan.invocations
        );
    }
    Ok(())
}

/// Return a remark where a part still has launches to make.
fn unfinished(part: &Part) -> Option<String> {
    let run = &part.run;
    let logs = [run.launches.as_slice(), &run.twins].concat();
    let left = pending::of_run(run, &logs).len();
    (left > 0).then(|| {
        format!(
            "{0} is not complete: {left} launches are left, and their cells have no numbers; `cargo xtask bench --resume {0}` there, then merge again",
            part.id()
        )
    })
}
