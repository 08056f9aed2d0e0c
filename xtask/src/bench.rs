//! `cargo xtask bench-all` and `bench`: plan, fetch, build, verify, measure,
//! check, render. Each stage is another module's; here stands their order.

mod judging;

use crate::build::{self, Programs};
use crate::deadline;
use crate::exclusive::exclusive;
use crate::fetch;
use crate::micro::{self, MicroPrograms};
use crate::plan::{self, Choice};
use crate::prompts::Prompts;
use crate::provenance::{binaries, provenance};
use crate::repo::Repo;
use crate::results;
use crate::run::capacity;
use crate::run::pending::pending;
use crate::run::pilot;
use crate::run::record::write_whole;
use crate::run::trace::Tracing;
use crate::verify::command::{load_golden, threads};
use crate::verify::of_run::verify_targets;
use crate::watch::event::{Event, Stage};
use crate::{calibrate, devices, doctor, page, run, shard, twins, watch};
use anyhow::{Context, Error, Result, bail};
use judging::check_outputs;
use schema::budget::Budget;
use schema::origin::{Origin, Shard};
use schema::plan::Plan;
use schema::registry::{Registry, Target};
use schema::run::{FORMAT, Run, RunHeader, sha256_hex};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Exit status of a run that `--stop-after` ended: resume it.
pub const TIME_IS_UP: u8 = 4;

/// What the command line says.
#[derive(Debug, Default)]
pub struct Options {
    /// Profile id; `None` = `gpu` where a GPU is found, else `cpu`.
    pub profile: Option<String>,
    /// What it narrows.
    pub choice: Choice,
    /// More launches of each target than the profile's.
    pub invocations: Option<u32>,
    /// Directory that runs are recorded in; `None` = `data/results`.
    pub out: Option<PathBuf>,
    /// Run id (or `latest`) to complete.
    pub resume: Option<String>,
    /// Measure this part of the plan only.
    pub shard: Option<Shard>,
    /// Run (id, path or `latest`) whose decision on what there is time for is taken
    /// over; `None` = a pilot decides.
    pub budget_from: Option<String>,
    /// Begin nothing new after so long, and say how to go on.
    pub stop_after: Option<Duration>,
    /// Render the site at the end.
    pub site: bool,
}

/// Run it.
pub fn bench(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let began = Instant::now();
    let results_dir = options.out.clone().unwrap_or_else(|| repo.results_dir());
    if let Some(why) = no_gpu_for(repo, options)? {
        println!("{why}");
        return Ok(ExitCode::SUCCESS);
    }
    let registry = repo.registry()?;
    let _only_one = exclusive(repo)?;
    let opened = match &options.resume {
        Some(run) => reopen(repo, &registry, &results::find(&results_dir, run)?)?,
        None => create(repo, &registry, &results_dir, options)?,
    };
    if let Some(after) = options.stop_after {
        // Only now: who is told to go on with a run must find one.
        deadline::set(began + after);
    }
    let done = to_the_end(repo, &registry, &results_dir, options, &opened);
    if done.is_err() && deadline::has_stopped() {
        let verb = if options.site { "bench-all" } else { "bench" };
        println!(
            "Time is up; what was measured is kept. Go on with `cargo xtask {verb} --resume {}`",
            opened.1.id
        );
        return Ok(ExitCode::from(TIME_IS_UP));
    }
    done
}

/// Why there is nothing to do, where the engines of a bundle need a GPU that isn't here
/// and nobody said what to measure instead.
fn no_gpu_for(repo: &Repo, options: &Options) -> Result<Option<String>> {
    let is_ours = options.profile.is_none() && options.resume.is_none();
    let needs_gpu = repo.bundle()?.is_some_and(|bundle| bundle.cuda);
    if !(is_ours && needs_gpu) {
        return Ok(None);
    }
    let gpu = crate::doctor::Gpu::read();
    let absent = gpu.absent.unwrap_or_else(|| "the driver finds none".into());
    Ok(gpu.devices.is_empty().then(|| {
        format!(
            "There is no NVIDIA GPU here ({absent}), and the engines of this bundle need one: nothing was measured. `--profile cpu` measures what runs without."
        )
    }))
}

/// Measure what is left of a run, trace, and show it.
fn to_the_end(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    options: &Options,
    opened: &Opened,
) -> Result<ExitCode> {
    let (run_dir, shard) = (opened.0.clone(), opened.1.origin.shard);
    let mut run = measure(repo, registry, opened)?;
    // One part of a plan traces for all.
    if options.site && shard.is_none_or(|shard| shard.has(0)) {
        // Last, and in launches of its own: tracing slows down what it looks at.
        watch::stage(Stage::Trace);
        let (run_dir, header, programs, prompts) = opened;
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
        watch::stage(Stage::Render);
        println!(
            "Report:  {}",
            page::render_with(repo, results_dir, run)?.display()
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
    watch::stage(Stage::Calibrate);
    calibrate::of_run(repo, registry, run_dir)?;
    let programs = &verify_targets(repo, plan, run_dir, programs)?;
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
    let planned: Vec<_> = all.into_iter().filter(|l| ours(l.invocation)).collect();
    eprintln!(
        "Measuring {} of {} launches into {}",
        left.len(),
        planned.len(),
        run_dir.display()
    );
    watch::stage(Stage::Measure);
    for group in run::told::groups(
        &planned,
        &left,
        &logs,
        plan,
        &loaded.verify,
        budget.as_ref(),
    ) {
        watch::emit(Event::Group(group));
    }
    run::run(
        plan,
        run_dir,
        &model_dir,
        programs,
        prompts,
        &capacities,
        left,
    )?;
    watch::stage(Stage::Check);
    check_outputs(repo, registry, run_dir, programs, prompts)
}

/// A run with its header written, and what it takes to measure it.
pub(crate) type Opened = (PathBuf, RunHeader, Programs, Prompts);

/// A new run: everything decided and written down before anything is measured.
pub(crate) fn create(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    options: &Options,
) -> Result<Opened> {
    let profile = match &options.profile {
        Some(id) => repo.profile(id)?,
        None => repo.profile(&default_profile(repo, registry)?)?,
    };
    let profile = match options.invocations {
        Some(wanted) => profile.with_invocations(wanted).map_err(Error::msg)?,
        None => profile,
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
    watch::emit(Event::Title(title(&plan)));
    watch::stage(Stage::Fetch);
    fetch::ensure(repo, std::slice::from_ref(&plan.model))?;
    load_golden(repo, &plan.model)?; // before the long work, not after it
    let programs = build_for(repo, registry, &plan)?;
    let prompts = Prompts::new(&repo.model_dir(&plan.model), plan.seed)?;
    let mut provenance = provenance(repo, registry, &plan, &programs, &prompts)?;
    if plan.publishable {
        // What MBU and MFU are shares of; a run that shows nothing saves the seconds.
        eprintln!("Measuring what this machine can do at best");
        provenance.facts.extend(doctor::ceilings().facts());
    }
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
    devices::name_in_full(&header.argv);
    watch::emit(Event::Title(title(&header.plan)));
    watch::stage(Stage::Fetch);
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

/// A plan in a few words.
fn title(plan: &Plan) -> String {
    format!("{} · {}", plan.profile, plan.model)
}

fn build_for(repo: &Repo, registry: &Registry, plan: &Plan) -> Result<Programs> {
    watch::stage(Stage::Build);
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
    watch::warn(
        "There is a GPU here, but no target of engines.toml runs on it yet: measuring the CPU",
    );
    Ok("cpu".into())
}
