//! `cargo xtask reproduce RUN`: repeats a run from its record alone, and compares the two cell by
//! cell.
//!
//! The record's plan is replayed as it stands: the same cells, order, seed and decision on which
//! cells there is time for. Another model, other prompts or a changed plan would answer another
//! question, so they are refused. Another revision or lockfile is refused with advice, unless the
//! user says `--anyway`. Another machine is what reproducing is for, and is only reported.
//!
//! Exit status: 0 where no cell differs, 1 where one does, 2 where the run can't be repeated.

use crate::job;
use anyhow::{Context, Result, bail, ensure};
use base::names::{self, UnknownName};
use base::repo::Repo;
use base::text::shell_word;
use base::{exclusive, exit_code};
use harness::devices::Named;
use harness::environment::{self, Difference, Kind};
use harness::prompts::Prompts;
use harness::{kept, run};
use provision::fetch::{self, brought};
use provision::provenance;
use runs::compare::{Comparison, Format};
use runs::results::Results;
use runs::shard::plan_sha256;
use schema::budget::Budget;
use schema::hash::sha256_hex;
use schema::key::original as original_of;
use schema::micro::scenario_id;
use schema::origin::{Origin, Reproduced};
use schema::plan::Plan;
use schema::provenance::Provenance;
use schema::run::{FORMAT, Run, RunHeader};
use schema::run_files::{HEADER, RunFiles, SUFFIX};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use watch::Control;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The run: its id, directory, run.json, or `latest`.
    pub run: String,
    /// Only these engines or targets of it, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Only these scenarios of it, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub scenarios: Vec<String>,
    /// Go on though this checkout isn't what the run was made from.
    #[arg(long)]
    pub anyway: bool,
    /// Directory of the runs, where it isn't runs and data/results.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Repeat the run and compare.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let results = Results::new(repo, options.out.as_deref());
    let (original, origin) = original(&results, &options.run)?;
    let header = &original.header;
    let plan = narrowed(header.plan.clone(), &options.engines, &options.scenarios)?;
    let budget = original.budget.clone();
    let budget = budget.map(|budget| of_plan(budget, &plan));
    let registry = repo.registry()?;
    let scenarios = repo.scenarios()?;
    run::memory::limit()?; // Refused before anything is built.
    let _only_one = exclusive::lock_machine()?;
    brought::of_record(repo, header)?;
    fetch::ensure_for(repo, &plan.model, &plan.targets)?;
    let now = surroundings(repo, &header.provenance, &header.plan)?;
    let remarks = allow(repo, header, &now, options.anyway)?;
    for remark in &remarks {
        eprintln!("differs: {remark}");
    }
    let around = |d: &Difference| matches!(d.kind, Kind::Libtorch | Kind::Tools);
    if remarks.iter().any(around) {
        let then = &header.provenance;
        let command = then.pins.command(then.git_revision.as_deref());
        eprintln!("to get the record's environment, run `{command}`");
    }
    let decided = job::Decided {
        plan,
        origin,
        budget,
        named: Named::default(),
        control: Control::default(),
    };
    let opened = job::begin(repo, &registry, results.dir(), decided, None)?;
    let run_dir = opened.run_dir.clone();
    let resume = format!("cargo xtask bench --resume {}", shell_word(&run_dir));
    let again = job::measure(repo, &registry, &opened).map_err(|error| {
        let usual = format!(
            "what was measured is kept: `{resume}` measures the rest, then `cargo xtask compare` compares the two"
        );
        kept::with_advice(error, &resume, usual)
    })?;
    let comparison = Comparison::new(original, again, &scenarios, None);
    print!(
        "{}",
        comparison.print(Format::from_flag(options.json), false)?
    );
    let count = comparison.count();
    let differ = count.faster + count.slower + count.broken;
    eprintln!("Records: {}", run_dir.display());
    eprintln!(
        "{}",
        match (differ, count.cells - count.not_comparable) {
            (0, 0) => "Nothing could be judged: no cell has numbers in both runs".into(),
            (0, judged) =>
                format!("Reproduced: none of {judged} cells has a detectable difference"),
            (differ, _) => format!("Not reproduced: {differ} cells differ"),
        }
    );
    Ok(exit_code(differ == 0, 1))
}

/// Load the run to be repeated, with its records where they exist, and make the origin by which the
/// new run refers to it.
fn original(results: &Results, name: &str) -> Result<(Run, Origin)> {
    let path = Path::new(name);
    let is_json = path.is_file() && !name.ends_with(SUFFIX);
    let (run, file, bytes) = if is_json && path.file_name() != Some(HEADER.as_ref()) {
        let bytes = std::fs::read(path);
        let bytes = bytes.with_context(|| format!("{} can't be read", path.display()))?;
        (header_alone(path)?, path.to_owned(), bytes)
    } else {
        let place = match is_json {
            true => path.parent().unwrap_or(path).to_owned(),
            false => results.find(name)?,
        };
        let files = RunFiles::open(&place)?;
        let bytes = files.bytes(HEADER)?.unwrap_or_default().into_owned();
        (Run::read(&files)?, files.path(HEADER), bytes)
    };
    let header = &run.header;
    ensure!(
        plan_sha256(&header.plan)? == header.plan_sha256,
        "{}: the plan in it is not the one its plan_sha256 is of: the file was changed, or is of another version of this program",
        file.display()
    );
    if let Some(shard) = header.origin.shard {
        bail!(
            "{} is shard {shard}, no whole run: merge the shards and reproduce that",
            header.id
        );
    }
    let origin = Origin {
        reproduces: Some(Reproduced {
            id: header.id.clone(),
            plan_sha256: header.plan_sha256.clone(),
            run_json_sha256: sha256_hex(&bytes),
        }),
        budget_from: run.budget.is_some().then(|| header.id.clone()),
        ..Origin::default()
    };
    Ok((run, origin))
}

/// Load a run.json that was copied by itself: enough to replay the plan, but without numbers to
/// compare with.
fn header_alone(path: &Path) -> Result<Run> {
    let header: RunHeader = schema::error::read_json(path)?;
    ensure!(
        header.format == FORMAT,
        "{}: is format {}, this program reads format {FORMAT}",
        path.display(),
        header.format
    );
    Ok(Run {
        header,
        ..Run::default()
    })
}

/// Keep the plan's cells of these engines and scenarios, whole and in the same order, and the
/// scenarios that are measured for these.
fn narrowed(mut plan: Plan, engines: &[String], scenarios: &[String]) -> Result<Plan> {
    let of_run = UnknownName::in_that_run;
    names::check_engines(engines, &plan.targets).map_err(of_run)?;
    let of_engines = plan.scenarios.iter().map(|s| s.id.clone());
    let micro = plan.micro.suites.iter().map(|s| scenario_id(&s.id));
    let known: Vec<String> = of_engines.chain(micro).collect();
    names::check(names::Kind::Scenario, scenarios, &known).map_err(of_run)?;
    let named = |list: &[String], id: &String| list.is_empty() || list.contains(id);
    plan.targets
        .retain(|t| named(engines, &t.id) || named(engines, &t.engine));
    let wanted = plan.scenarios.iter().filter(|s| named(scenarios, &s.id));
    let sources = wanted.flat_map(|s| s.cases.iter().filter_map(|case| case.measured_by.as_ref()));
    let sources: BTreeSet<String> = sources.map(|by| by.scenario.clone()).collect();
    let is_kept = |id: &String| named(scenarios, id) || sources.contains(id);
    plan.scenarios.retain(|s| is_kept(&s.id));
    // No scenario is left that uses the user's prompts.
    if plan.scenarios.iter().all(|s| s.prompts.is_generated()) {
        plan.prompts = None;
    }
    let targets: Vec<String> = plan.targets.iter().map(|t| t.id.clone()).collect();
    plan.launches
        .retain(|l| targets.contains(&l.target) && is_kept(&l.scenario));
    let micro = &mut plan.micro;
    micro
        .suites
        .retain(|suite| engines.is_empty() && named(scenarios, &scenario_id(&suite.id)));
    let suites: Vec<String> = micro.suites.iter().map(|suite| suite.id.clone()).collect();
    micro.launches.retain(|l| suites.contains(&l.suite));
    Ok(plan)
}

/// Keep what a budget decided of a plan's targets and scenarios.
fn of_plan(mut budget: Budget, plan: &Plan) -> Budget {
    let has = |name: &str| plan.targets.iter().any(|t| t.id == original_of(name));
    let has_scenario = |id: &str| plan.scenarios.iter().any(|s| s.id == id);
    budget.pilots.retain(|pilot| has(&pilot.target));
    budget
        .over
        .retain(|over| has(&over.target) && has_scenario(&over.scenario));
    budget.twins.retain(|twin| has(&twin.target));
    budget
}

/// Return what can be known of the new run before anything is built. Programs, and what is made for
/// them, may not be there yet: until both runs can be compared, they count as equal to the old
/// ones.
fn surroundings(repo: &Repo, then: &Provenance, plan: &Plan) -> Result<Provenance> {
    let prompts = Prompts::new(&repo.model_dir(&plan.model), plan.seed_of_prompts())?;
    let mut known = provenance::before_building(repo, &repo.registry()?, plan, &prompts)?;
    let (pins, were) = (&mut known.pins, &then.pins);
    for (pin, was) in [
        (&mut pins.python, &were.python),
        (&mut pins.libtorch, &were.libtorch),
        (&mut pins.cuda_toolkit, &were.cuda_toolkit),
    ] {
        if pin.is_none() {
            pin.clone_from(was);
        }
    }
    known.binaries = then.binaries.clone();
    Ok(known)
}

/// Return the differences that are allowed, or an error that says what to do.
fn allow(
    repo: &Repo,
    header: &RunHeader,
    now: &Provenance,
    anyway: bool,
) -> Result<Vec<Difference>> {
    let then = &header.provenance;
    let differences = environment::provenances(then, now);
    let id = &header.id;
    let words = |kinds: &[Kind]| {
        let of_kind = differences.iter().filter(|d| kinds.contains(&d.kind));
        let lines: Vec<String> = of_kind.map(|d| format!("  {d}")).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    if let Some(lines) = words(&[Kind::Model, Kind::Prompts]) {
        bail!(
            "run {id} can't be done again with another model or other prompts (then → now):\n{lines}\n{}",
            advice(then)
        );
    }
    let revisions = (then.git_revision.as_deref(), now.git_revision.as_deref());
    let same_code = match revisions {
        (Some(a), Some(b)) if a != b => provenance::same_sources(&repo.root, a, b),
        (a, b) => Some(a == b),
    };
    // A checkout with uncommitted changes doesn't have the code of its revision.
    let changed_since = now.git_dirty == Some(true) && then.git_dirty != Some(true);
    let refused = match (same_code, changed_since) {
        (Some(true), false) => words(&[Kind::Lockfile]),
        _ => words(&[Kind::Revision, Kind::Dirty, Kind::Lockfile]),
    };
    if let Some(lines) = refused.filter(|_| !anyway) {
        bail!(
            "this checkout is not what run {id} was made from (then → now):\n{lines}\n{}\n\
             Or measure this checkout's code under the same plan with --anyway",
            advice(then)
        );
    }
    if then.git_dirty == Some(true) {
        eprintln!(
            "note: run {id} was made from a checkout with changes that no revision has: its exact code can't be checked out"
        );
    }
    Ok(differences)
}

fn advice(then: &Provenance) -> String {
    match &then.git_revision {
        Some(revision) => format!(
            "Check out its revision: copy the record out of this checkout, `git fetch`, `{}`, and reproduce the copy by its path",
            then.pins.command(Some(revision))
        ),
        None => "The record doesn't say which revision it was made at".into(),
    }
}

#[cfg(test)]
mod tests;
