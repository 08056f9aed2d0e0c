//! `cargo xtask bench-all` and `bench`: plan, fetch, build, verify, measure,
//! check, render. Each stage is another module's; here stands their order.

use crate::build::{self, Programs};
use crate::engine::session::Patience;
use crate::exclusive::exclusive;
use crate::fetch;
use crate::micro::{self, MicroPrograms};
use crate::plan::{self, Choice};
use crate::prompts::Prompts;
use crate::provenance::{binaries, provenance};
use crate::repo::Repo;
use crate::results;
use crate::run::capacity;
use crate::run::check::{Judge, check};
use crate::run::pending::pending;
use crate::run::pilot;
use crate::run::record::{Appender, write_whole};
use crate::run::trace::Tracing;
use crate::verify::command::{limit, load_golden, threads};
use crate::verify::question::Question;
use crate::verify::target::{not_verified, verify};
use crate::{calibrate, page, run, shard, twins};
use anyhow::{Context, Result, bail};
use schema::budget::Budget;
use schema::origin::{Origin, Shard};
use schema::plan::Plan;
use schema::record::Status;
use schema::registry::{Registry, Target};
use schema::run::{FORMAT, Run, RunHeader, sha256_hex};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the command line says.
#[derive(Debug, Default)]
pub struct Options {
    /// Profile id; `None` = `gpu` where a GPU is found, else `cpu`.
    pub profile: Option<String>,
    /// What it narrows.
    pub choice: Choice,
    /// Directory that runs are recorded in; `None` = `data/results`.
    pub out: Option<PathBuf>,
    /// Run id (or `latest`) to complete.
    pub resume: Option<String>,
    /// Measure this part of the plan only.
    pub shard: Option<Shard>,
    /// Run (id, path or `latest`) whose decision on what there is time for is taken
    /// over; `None` = a pilot decides.
    pub budget_from: Option<String>,
    /// Render the site at the end.
    pub site: bool,
}

/// Run it.
pub fn bench(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let results_dir = options.out.clone().unwrap_or_else(|| repo.results_dir());
    let registry = repo.registry()?;
    let _only_one = exclusive(repo)?;
    let opened = match &options.resume {
        Some(run) => reopen(repo, &registry, &results::find(&results_dir, run)?)?,
        None => create(repo, &registry, &results_dir, options)?,
    };
    let (run_dir, shard) = (opened.0.clone(), opened.1.origin.shard);
    let mut run = measure(repo, &registry, &opened)?;
    // One part of a plan traces for all.
    if options.site && shard.is_none_or(|shard| shard.has(0)) {
        // Last, and in launches of its own: tracing slows down what it looks at.
        let (run_dir, header, programs, prompts) = &opened;
        let tracing = Tracing {
            repo,
            plan: &header.plan,
            run_dir,
            programs,
            prompts,
        };
        tracing.of_run(&[], false)?;
        run = Run::load(run_dir)?;
    }
    let failed = results::print_summary(repo, &run.clone().own_part())?;
    println!("Records: {}", run_dir.display());
    if let Some(shard) = shard {
        println!("{}", shard::what_next(shard));
    } else if options.site {
        println!(
            "Report:  {}",
            page::render_with(repo, &results_dir, run)?.display()
        );
    }
    Ok(if failed {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

/// Verify, measure and check what is still to be done of a run, and load it.
/// Only one run may measure on a machine at a time: see [`exclusive`].
pub(crate) fn measure(repo: &Repo, registry: &Registry, opened: &Opened) -> Result<Run> {
    let (run_dir, header, programs, _) = opened;
    let engines = match header.plan.targets.is_empty() {
        true => Ok(()),
        false => measure_engines(repo, registry, opened),
    };
    let micro = engines.and_then(|()| micro::of_run(repo, run_dir, header, &programs.micro));
    micro.with_context(|| {
        let id = &header.id;
        format!("what was measured is kept; go on with `cargo xtask bench-all --resume {id}`")
    })?;
    Ok(Run::load(run_dir)?)
}

fn measure_engines(repo: &Repo, registry: &Registry, opened: &Opened) -> Result<()> {
    let (run_dir, header, programs, prompts) = opened;
    let plan = &header.plan;
    calibrate::of_run(repo, registry, run_dir)?;
    verify_targets(repo, plan, run_dir, programs)?;
    let model_dir = repo.model_dir(&plan.model);
    let loaded = Run::load(run_dir)?;
    let budget = match loaded.budget {
        None if plan.budget_s > 0.0 || plan.noise_floor => Some(pilot::run(
            &pilot::Pilots {
                plan,
                baseline: registry.baseline_of(&plan.targets),
                model_dir: &model_dir,
                programs,
                prompts,
                verify: &loaded.verify,
            },
            run_dir,
        )?),
        known => known,
    };
    let capacities = capacity::run(
        &capacity::Stage {
            plan,
            model_dir: &model_dir,
            programs,
            prompts,
            verify: &loaded.verify,
            budget: budget.as_ref(),
        },
        loaded.capacities,
        run_dir,
    )?;
    let logs = [loaded.launches, loaded.twins].concat();
    let mut left = pending(plan, &logs, &loaded.verify, budget.as_ref(), &capacities);
    let ours = |block| header.origin.shard.is_none_or(|shard| shard.has(block));
    left.retain(|pending| ours(pending.launch.invocation));
    let twins = budget.as_ref().map_or(&[][..], |budget| &budget.twins);
    let all = twins::launches(plan, twins);
    let planned = all.iter().filter(|l| ours(l.invocation));
    eprintln!(
        "Measuring {} of {} launches into {}",
        left.len(),
        planned.count(),
        run_dir.display()
    );
    run::run(
        plan,
        run_dir,
        &model_dir,
        programs,
        prompts,
        &capacities,
        left,
    )?;
    check_outputs(repo, registry, run_dir, programs, prompts)
}

/// A run with its header written, and what it takes to measure it.
pub(crate) type Opened = (PathBuf, RunHeader, Programs, Prompts);

/// A new run: everything decided and written down before anything is measured.
fn create(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    options: &Options,
) -> Result<Opened> {
    let profile = match &options.profile {
        Some(id) => repo.profile(id)?,
        None => repo.profile(&default_profile(repo, registry)?)?,
    };
    let scenarios = repo.scenarios()?;
    let wrong = stats::metrics::validate(&scenarios);
    if !wrong.is_empty() {
        bail!("data/scenarios: {}", wrong.join("; "));
    }
    let mut plan = plan::plan(
        &profile,
        &scenarios,
        &registry.targets(),
        &options.choice,
        threads(),
    )?;
    let suites = repo.suites()?;
    plan.micro = micro::plan(&profile, &suites, &repo.micro_registry()?, &options.choice)?;
    let decided = shard::prepare(&plan, results_dir, options)?;
    let origin = Origin {
        shard: options.shard,
        budget_from: decided.as_ref().map(|(from, _)| from.clone()),
        ..Origin::default()
    };
    begin(
        repo,
        registry,
        results_dir,
        plan,
        origin,
        decided.map(|(_, budget)| budget),
    )
}

/// Write down everything that is decided, before anything is measured. `budget`:
/// what there is time for, where that is decided too.
pub(crate) fn begin(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    plan: Plan,
    origin: Origin,
    budget: Option<Budget>,
) -> Result<Opened> {
    eprintln!(
        "Profile {}: {} targets × {} scenarios and {} micro suites, {} invocations, model {}, {} threads",
        plan.profile,
        plan.targets.len(),
        plan.scenarios.len(),
        plan.micro.suites.len(),
        plan.invocations,
        plan.model,
        plan.threads
    );
    fetch::ensure(repo, std::slice::from_ref(&plan.model))?;
    load_golden(repo, &plan.model)?; // before the long work, not after it
    let programs = build_for(repo, registry, &plan)?;
    let prompts = Prompts::new(&repo.model_dir(&plan.model), plan.seed)?;
    let provenance = provenance(repo, registry, &plan, &programs, &prompts)?;
    let started = jiff::Timestamp::now();
    let host = sha256_hex(
        format!(
            "{:?}{:?}",
            provenance.facts.get("cpu_model"),
            provenance.facts.get("gpu")
        )
        .as_bytes(),
    );
    // Machines of one fleet have equal tags and may begin in the same second.
    let part = origin.shard.map(|s| format!("-s{}of{}", s.index(), s.of()));
    let id = format!(
        "{}-{}-{}{}",
        started.strftime("%Y%m%d-%H%M%S"),
        plan.profile,
        &host[..4],
        part.unwrap_or_default()
    );
    let header = RunHeader {
        format: FORMAT,
        id: id.clone(),
        started: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        argv: std::env::args().skip(1).collect(),
        plan_sha256: shard::plan_sha256(&plan)?,
        plan,
        provenance,
        origin,
    };
    let run_dir = results_dir.join(&id);
    std::fs::create_dir_all(results_dir)
        .with_context(|| format!("{} can't be made", results_dir.display()))?;
    std::fs::create_dir(&run_dir)
        .with_context(|| format!("{} can't be made", run_dir.display()))?;
    if let Some(budget) = &budget {
        write_whole(&run_dir.join("budget.json"), &budget)?;
    }
    let path = run_dir.join("run.json");
    let text = serde_json::to_string_pretty(&header)? + "\n";
    std::fs::File::create_new(&path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .with_context(|| format!("{} can't be written", path.display()))?;
    Ok((run_dir, header, programs, prompts))
}

/// An earlier run, refused where it could not be gone on with honestly.
pub(crate) fn reopen(repo: &Repo, registry: &Registry, run_dir: &Path) -> Result<Opened> {
    let header = Run::load(run_dir)?.header;
    shard::refuse_merged(&header)?;
    fetch::ensure(repo, std::slice::from_ref(&header.plan.model))?;
    let programs = build_for(repo, registry, &header.plan)?;
    for (target, sha256) in binaries(&header.plan, &programs)? {
        if header
            .provenance
            .binaries
            .get(&target)
            .is_some_and(|then| *then != sha256)
        {
            bail!(
                "{target}: its program is not the one that run {} began with; go back to revision {} to resume it, or start a new run",
                header.id,
                header
                    .provenance
                    .git_revision
                    .as_deref()
                    .unwrap_or("(unknown)")
            );
        }
    }
    let prompts = Prompts::new(&repo.model_dir(&header.plan.model), header.plan.seed)?;
    if header
        .provenance
        .facts
        .get("prompts_sha256")
        .is_some_and(|then| *then != prompts.sha256())
    {
        bail!(
            "run {} had other prompts: the tokenizer or the text changed; start a new run",
            header.id
        );
    }
    Ok((run_dir.to_owned(), header, programs, prompts))
}

fn build_for(repo: &Repo, registry: &Registry, plan: &Plan) -> Result<Programs> {
    let micro = MicroPrograms::build(repo, registry, &plan.micro)?;
    if plan.targets.is_empty() {
        return Ok(Programs::default().with_micro(micro));
    }
    let planned = plan.targets.iter().map(|t| registry.program_id(t));
    let planned: BTreeSet<Option<String>> = planned.collect();
    // A judge whose program is built anyway costs nothing; one there should be.
    let (free, others): (Vec<Target>, Vec<Target>) = registry
        .judges()
        .into_iter()
        .partition(|judge| planned.contains(&registry.program_id(judge)));
    let judges = match free.is_empty() {
        true => others.into_iter().skip(1).collect(),
        false => free,
    };
    let programs = build::build(repo, registry, plan.targets.iter().chain(&judges))?;
    Ok(programs.with_micro(micro))
}

/// `gpu` where there is a GPU and a target to run on it, else `cpu`.
fn default_profile(repo: &Repo, registry: &Registry) -> Result<String> {
    if crate::doctor::Gpu::read().devices.is_empty() {
        return Ok("cpu".into());
    }
    let backends = repo.profile("gpu")?.backends;
    if plan::choose_targets(&registry.targets(), &backends, &[]).is_ok() {
        return Ok("gpu".into());
    }
    eprintln!(
        "There is a GPU here, but no target of engines.toml runs on it yet: measuring the CPU"
    );
    Ok("cpu".into())
}

/// Put every target that has no judgement yet through the gate.
fn verify_targets(repo: &Repo, plan: &Plan, run_dir: &Path, programs: &Programs) -> Result<()> {
    let known = Run::load(run_dir)?.verify;
    let golden = load_golden(repo, &plan.model)?;
    let limits = repo.parity_limits()?;
    let mut batches: Vec<u32> = plan
        .scenarios
        .iter()
        .flat_map(|s| &s.cases)
        .map(|case| case.concurrency)
        .collect();
    batches.sort_unstable();
    batches.dedup();
    let model_dir = repo.model_dir(&plan.model);
    let mut file = Appender::open(&run_dir.join("verify.jsonl"))?;
    for target in plan
        .targets
        .iter()
        .filter(|target| !known.contains_key(&target.id))
    {
        crate::interrupt::check()?;
        let record = match programs.get(target) {
            Err(failure) => not_verified(target, &plan.model, failure),
            Ok(program) => {
                let question = Question {
                    golden: &golden,
                    limit: limit(&limits, &target.precision)?,
                    model_dir: &model_dir,
                    threads: plan.threads,
                    batches: &batches,
                    patience: Patience::of(plan),
                };
                verify(target, program, &question).record
            }
        };
        if record.status == Status::NotRun {
            bail!("interrupted");
        }
        let verdict = if record.status == Status::Ok {
            "verified"
        } else {
            record.status.id()
        };
        eprintln!("Parity: {} {verdict} {}", target.id, record.reason);
        file.append(&record)?;
    }
    file.sync()
}

fn check_outputs(
    repo: &Repo,
    registry: &Registry,
    run_dir: &Path,
    programs: &Programs,
    prompts: &Prompts,
) -> Result<()> {
    let run = Run::load(run_dir)?;
    let judges = registry.judges();
    let usable = |target: &&Target| {
        let verified = run
            .verify
            .get(&target.id)
            .is_none_or(|record| record.status == Status::Ok);
        verified && programs.has(target)
    };
    let judge = judges.iter().find(usable);
    let model_dir = repo.model_dir(&run.header.plan.model);
    let judge = judge.and_then(|target| {
        let program = programs.get(target).ok()?;
        Some(Judge {
            target,
            program,
            model_dir: &model_dir,
        })
    });
    if judge.is_none() {
        eprintln!(
            "No reference engine on this machine: the timed outputs stay unchecked, and the report says so"
        );
    }
    check(
        &run,
        run_dir,
        prompts,
        &repo.parity_limits()?,
        judge.as_ref(),
    )
}
