//! `cargo xtask merge DIR…`: merges the shards of one plan into one run.
//!
//! `agree` checks that they may be merged, `combine` combines their judgements, `write` writes
//! those and copies the records. The inputs are never written to; their records are copied byte
//! for byte, and whatever else they hold is kept under `sources/<id>/`. Two things are deliberately
//! not supported: pooling different machines into one cell (there is no flag for it), and adding a
//! second run of the same blocks to the first (use `compare` for that).

mod agree;
mod combine;
mod write;

use crate::results::{Results, check_run_id};
use crate::summary::{Places, Summary};
use anyhow::Result;
use base::repo::Repo;
use base::{argv, exit_code};
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

/// The files of judgements, which a part may get after its records are merged.
const JUDGEMENTS: [&str; 4] = [
    "verify.jsonl",
    "check.jsonl",
    "capacity.jsonl",
    "budget.json",
];

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The shards: ids or directories.
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    pub runs: Vec<String>,
    /// Make the run in this directory, and look ids up in it, instead of runs.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// One of the runs to be merged.
struct Part {
    files: RunFiles,
    run: Run,
    /// The blocks of the plan that this part measured.
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

/// Merge the runs and print a summary. Exit status 3 where a cell failed, as after a run.
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
    Ok(exit_code(!summary.has_faults(), 3))
}

/// Merge parts that agree; return the directory of the new run.
fn merge(parts: &[Part], out: &Path) -> Result<PathBuf> {
    let runs: Vec<&Run> = parts.iter().map(|part| &part.run).collect();
    let first = &runs[0].header;
    let begun = runs.iter().map(|run| &run.header.started).min();
    let header = RunHeader {
        format: FORMAT,
        id: id(parts)?,
        started: begun.unwrap_or(&first.started).clone(),
        argv: argv::recorded_with_runs(argv::given()),
        plan_sha256: first.plan_sha256.clone(),
        plan: first.plan.clone(),
        provenance: common(&runs),
        origin: Origin {
            sources: parts.iter().map(Part::source).collect::<Result<_>>()?,
            ..Origin::default()
        },
    };
    write::write(parts, &header, out)
}

/// Make the merged run's id of the newest part's time, so that `latest` finds it, and of a hash of
/// the parts: the same parts give the same id, and so can be merged only once. A part that was
/// verified or judged since gives another id.
fn id(parts: &[Part]) -> Result<String> {
    let runs: Vec<&Run> = parts.iter().map(|part| &part.run).collect();
    let newest = runs.iter().max_by_key(|run| &run.header.started);
    let stamp: Vec<&str> = newest
        .map(|run| run.header.id.splitn(3, '-').take(2).collect())
        .unwrap_or_default();
    let mut names = String::new();
    for Part { files, run, .. } in parts {
        names.push_str(&run.header.id);
        let logs = run.launches.iter().chain(&run.twins);
        logs.for_each(|log| names += &log.sha256);
        run.micro.iter().for_each(|log| names += &log.sha256);
        for name in JUDGEMENTS {
            if let Some(bytes) = files.bytes(name)? {
                names.push_str(name);
                names.push_str(&sha256_hex(&bytes));
            }
        }
    }
    let profile = &runs[0].header.plan.profile;
    let hash = sha256_hex(names.as_bytes());
    let id = id_of(&stamp.join("-"), profile, &hash);
    check_run_id(profile, &id)?;
    Ok(id)
}

/// Make the id of a merged run from a time, the profile and a hash of the parts.
pub fn id_of(stamp: &str, profile: &str, hash: &str) -> String {
    format!("{stamp}-{profile}-merged-{hash:.8}")
}

/// Return the provenance that all parts share. What differs is left out: it stands in `sources`.
fn common(runs: &[&Run]) -> Provenance {
    let all: Vec<&Provenance> = runs.iter().map(|run| &run.header.provenance).collect();
    let shared = |of: fn(&Provenance) -> &BTreeMap<String, String>| {
        let mut shared = of(all[0]).clone();
        shared.retain(|key, value| all.iter().all(|p| of(p).get(key) == Some(value)));
        shared
    };
    let mut facts = shared(|p| &p.facts);
    facts.extend(ceilings(&all));
    // A part records the costs of adopting the engines that it knows of, and it knows more of those
    // that it built. Where several parts state a cost, the last one counts.
    let adoption = all.iter().flat_map(|p| p.adoption.clone()).collect();
    Provenance {
        git_revision: all[0].git_revision.clone(),
        git_dirty: all.iter().map(|p| p.git_dirty).max().flatten(),
        lockfiles: shared(|p| &p.lockfiles),
        model_files: shared(|p| &p.model_files),
        // The plans are equal, so there is only one model.
        model: all[0].model.clone(),
        binaries: shared(|p| &p.binaries),
        adoption,
        facts,
        pins: Pins::shared(&all.iter().map(|p| &p.pins).collect::<Vec<_>>()),
    }
}

/// Return the highest limit of the machine that any part measured: an interruption during a
/// measurement can only lower its result. Empty where the machines are of different kinds.
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
