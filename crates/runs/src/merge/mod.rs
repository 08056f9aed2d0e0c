//! `cargo xtask merge DIR…`: the shards of one plan put together into one run.
//!
//! `agree` says whether they may be, `combine` makes one judgement of several,
//! `write` copies. The inputs are read and never written; their records go over byte
//! for byte, and whatever else they hold is kept under `sources/<id>/`. Deliberately
//! not here: pooling different machines into one cell (there is no flag for it), and
//! adding a second run of the same blocks to the first (that is what `compare` is
//! for).

mod agree;
mod combine;
mod write;

use crate::results::Results;
use crate::summary::{Places, Summary};
use anyhow::Result;
use base::repo::Repo;
use ceilings::Ceilings;
use schema::hash::sha256_hex;
use schema::origin::{Origin, Source};
use schema::pins::Pins;
use schema::processor;
use schema::provenance::Provenance;
use schema::run::{FORMAT, Run, RunHeader};
use schema::run_files::{HEADER, RunFiles};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The shards: ids or directories.
    #[arg(required = true, num_args = 1.., value_name = "DIR")]
    pub runs: Vec<String>,
    /// Make the run in this directory, and look ids up in it, instead of runs.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// One run to be merged.
struct Part {
    files: RunFiles,
    run: Run,
    /// Its blocks of the plan.
    blocks: Vec<u32>,
}

impl Part {
    fn load(place: &Path) -> Result<Self> {
        let files = RunFiles::open(place)?;
        let run = Run::read(&files)?;
        let plan = &run.header.plan;
        let blocks = match run.header.origin.shard {
            Some(shard) => shard.blocks(plan),
            None => (0..plan.invocations).collect(),
        };
        Ok(Self { files, run, blocks })
    }

    fn id(&self) -> &str {
        &self.run.header.id
    }

    fn source(&self) -> Result<Source> {
        let header = &self.run.header;
        Ok(Source {
            id: header.id.clone(),
            started: header.started.clone(),
            argv: header.argv.clone(),
            blocks: self.blocks.clone(),
            run_json_sha256: sha256_hex(&self.files.bytes(HEADER)?.unwrap_or_default()),
            provenance: header.provenance.clone(),
        })
    }
}

/// Merge, and say what came of it. Exit status 3 where a cell failed, as after a run.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let results = Results::new(repo, options.out.as_deref());
    let mut parts = options
        .runs
        .iter()
        .map(|run| Part::load(&results.find(run)?))
        .collect::<Result<Vec<_>>>()?;
    parts.sort_by(|a, b| a.blocks.cmp(&b.blocks));
    for remark in agree::check(&parts)? {
        eprintln!("note: {remark}");
    }
    let dir = merge(&parts, results.dir())?;
    let summary = Summary::new(repo, &Run::load(&dir)?)?;
    let places = Places {
        records: &dir,
        report: None,
    };
    print!("{}", summary.screen(&places));
    Ok(if summary.has_faults() {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

/// One run of parts that agree; its directory.
fn merge(parts: &[Part], out: &Path) -> Result<PathBuf> {
    let runs: Vec<&Run> = parts.iter().map(|part| &part.run).collect();
    let first = &runs[0].header;
    let begun = runs.iter().map(|run| &run.header.started).min();
    let header = RunHeader {
        format: FORMAT,
        id: id(&runs),
        started: begun.unwrap_or(&first.started).clone(),
        argv: std::env::args().skip(1).collect(),
        plan_sha256: first.plan_sha256.clone(),
        plan: first.plan.clone(),
        provenance: common(&runs),
        origin: Origin {
            sources: parts.iter().map(Part::source).collect::<Result<_>>()?,
            ..Origin::default()
        },
    };
    let judgements = write::Judgements {
        verify: combine::verify(&runs),
        budget: combine::budget(&runs),
        checks: combine::checks(&runs)?,
        capacities: combine::capacities(&runs),
    };
    write::write(parts, &header, &judgements, out)
}

/// The newest part's time, so that `latest` finds the whole, and a hash of what went
/// in: the same parts give the same id, and so are merged once.
fn id(runs: &[&Run]) -> String {
    let newest = runs.iter().max_by_key(|run| &run.header.started);
    let stamp: Vec<&str> = newest
        .map(|run| run.header.id.splitn(3, '-').take(2).collect())
        .unwrap_or_default();
    let mut names = String::new();
    for run in runs {
        names.push_str(&run.header.id);
        let logs = run.launches.iter().chain(&run.twins);
        logs.for_each(|log| names += &log.sha256);
        run.micro.iter().for_each(|log| names += &log.sha256);
    }
    format!(
        "{}-{}-merged-{:.8}",
        stamp.join("-"),
        runs[0].header.plan.profile,
        sha256_hex(names.as_bytes())
    )
}

/// What holds of every part. What doesn't is absent: it stands in `sources`.
fn common(runs: &[&Run]) -> Provenance {
    let all: Vec<&Provenance> = runs.iter().map(|run| &run.header.provenance).collect();
    let shared = |of: fn(&Provenance) -> &BTreeMap<String, String>| {
        let mut shared = of(all[0]).clone();
        shared.retain(|key, value| all.iter().all(|p| of(p).get(key) == Some(value)));
        shared
    };
    let mut facts = shared(|p| &p.facts);
    facts.extend(ceilings(&all));
    // What adopting an engine costs is found out anew by every part, and a part that
    // built something knows more: the last one that says anything stands.
    let adoption = all.iter().flat_map(|p| p.adoption.clone()).collect();
    Provenance {
        git_revision: all[0].git_revision.clone(),
        git_dirty: all.iter().map(|p| p.git_dirty).max().flatten(),
        lockfiles: shared(|p| &p.lockfiles),
        model_files: shared(|p| &p.model_files),
        // Plans are equal, so it is one model.
        model: all[0].model.clone(),
        binaries: shared(|p| &p.binaries),
        adoption,
        facts,
        pins: Pins::shared(&all.iter().map(|p| &p.pins).collect::<Vec<_>>()),
    }
}

/// What the machine could do at best in any part: each measured it anew, and whatever
/// interrupted one part took from its figure. Only of machines of one kind.
fn ceilings(parts: &[&Provenance]) -> BTreeMap<String, String> {
    let largest = |name: &str| -> Option<String> {
        let measured = parts
            .iter()
            .map(|part| part.facts.get(name)?.parse().ok())
            .collect::<Option<Vec<f64>>>()?;
        let largest = measured.into_iter().reduce(f64::max)?;
        Some(format!("{largest:.0}"))
    };
    let kind = |part: &Provenance| {
        let gpu = part.facts.get("gpu").cloned();
        (processor::in_words(&part.facts), gpu)
    };
    if parts.iter().any(|part| kind(part) != kind(parts[0])) {
        return BTreeMap::new();
    }
    let names = parts[0].facts.keys().filter(|name| Ceilings::is_rate(name));
    names
        .filter_map(|name| Some((name.clone(), largest(name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(facts: &[(&str, &str)]) -> Provenance {
        let facts = facts.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        Provenance {
            facts: facts.collect(),
            ..Provenance::default()
        }
    }

    #[test]
    fn the_highest_ceiling_of_machines_of_one_kind_stands() {
        let one = part(&[("cpu_model", "x"), ("flops_f32_per_s", "520000000000")]);
        let other = part(&[
            ("cpu_model", "x"),
            ("flops_f32_per_s", "530000000000"),
            ("memory_read_bytes_per_s", "33000000000"),
            ("cpus", "2"),
        ]);
        let highest = ("flops_f32_per_s".to_owned(), "530000000000".to_owned());
        assert_eq!(ceilings(&[&one, &other]), BTreeMap::from([highest]));
        let elsewhere = part(&[("cpu_model", "y"), ("flops_f32_per_s", "1")]);
        assert_eq!(ceilings(&[&one, &elsewhere]), BTreeMap::new());
        let gpus = ["g", "h"].map(|gpu| part(&[("gpu", gpu), ("cuda_flops_f16_per_s", "5")]));
        let highest = ("cuda_flops_f16_per_s".to_owned(), "5".to_owned());
        assert_eq!(ceilings(&[&gpus[0], &gpus[0]]), BTreeMap::from([highest]));
        assert_eq!(ceilings(&[&gpus[0], &gpus[1]]), BTreeMap::new());
    }
}
