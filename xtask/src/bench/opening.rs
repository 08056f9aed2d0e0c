//! A run opened: a new one with everything decided and written down before anything is
//! measured, or an earlier one to go on with.

use super::building::Building;
use super::first_look::FirstLook;
use super::{Opened, Options, forecast};
use crate::devices;
use crate::exclusive;
use crate::micro;
use crate::plan;
use crate::prompts::Prompts;
use crate::provenance::{binaries, provenance};
use crate::repo::Repo;
use crate::results::Results;
use crate::verify::command::{load_golden, threads};
use crate::watch::event::{Event, Stage};
use crate::whole::write_json;
use crate::{doctor, fetch, shard, watch};
use anyhow::{Context, Error, Result, bail};
use schema::budget::Budget;
use schema::origin::Origin;
use schema::plan::Plan;
use schema::registry::Registry;
use schema::run::{FORMAT, Run, RunHeader, sha256_hex};
use schema::run_files::RunFiles;
use std::path::Path;

/// A new run: everything decided and written down before anything is measured.
pub(crate) fn create(
    repo: &Repo,
    registry: &Registry,
    results: &Results,
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
    let decided = shard::prepare(&plan, results, options)?;
    forecast::consent(&profile, options)?;
    let look = FirstLook::of(repo, registry, results.dir(), &profile, options)?;
    let origin = Origin {
        shard: options.shard,
        budget_from: decided.as_ref().map(|(from, _)| from.clone()),
        ..Origin::default()
    };
    begin(
        repo,
        registry,
        results.dir(),
        plan,
        origin,
        decided.map(|(_, budget)| budget),
        look.as_ref(),
    )
}

/// Write down everything that is decided, before anything is measured. `budget`:
/// what there is time for, where that is decided too. `look`: what is measured and shown
/// while the rest compiles.
pub(crate) fn begin(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    plan: Plan,
    origin: Origin,
    budget: Option<Budget>,
    look: Option<&FirstLook>,
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
    let building = Building::of(repo, registry, &plan, look)?;
    watch::stage(Stage::Fetch);
    fetch::ensure(repo, std::slice::from_ref(&plan.model))?;
    load_golden(repo, &plan.model)?; // before the long work, not after it
    let programs = building.programs()?;
    watch::emit(Event::Title(title(&plan))); // a first look has one of its own
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
    let held = exclusive::run(&run_dir)?;
    if let Some(budget) = &budget {
        write_json(&run_dir.join("budget.json"), &budget)?;
    }
    write_json(&run_dir.join("run.json"), &header)?;
    Ok(Opened {
        run_dir,
        header,
        programs,
        prompts,
        _held: held,
    })
}

/// An earlier run, refused where it could not be gone on with honestly.
pub(crate) fn reopen(repo: &Repo, registry: &Registry, run_dir: &Path) -> Result<Opened> {
    let files = RunFiles::open(run_dir)?;
    if files.is_packed() {
        bail!(
            "{} is published, and a published run never changes: start a new one",
            run_dir.display()
        );
    }
    let held = exclusive::run(run_dir)?;
    let header = Run::read(&files)?.header;
    shard::refuse_merged(&header)?;
    devices::name_in_full(&header.argv);
    watch::emit(Event::Title(title(&header.plan)));
    let building = Building::of(repo, registry, &header.plan, None)?;
    watch::stage(Stage::Fetch);
    fetch::ensure(repo, std::slice::from_ref(&header.plan.model))?;
    let programs = building.programs()?;
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
    Ok(Opened {
        run_dir: run_dir.to_owned(),
        header,
        programs,
        prompts,
        _held: held,
    })
}

/// A plan in a few words.
fn title(plan: &Plan) -> String {
    format!("{} · {}", plan.profile, plan.model)
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
