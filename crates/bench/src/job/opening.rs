//! Opens a new run: everything is decided and written down before anything is measured.

use super::first_look::FirstLook;
use super::{Opened, Options, asked, building, forecast, limits, preflight};
use anyhow::{Context, Error, Result, bail};
use base::files::write_json;
use base::repo::Repo;
use base::{argv, exclusive, names};
use harness::devices::Named;
use harness::prompts::Prompts;
use harness::verify::goldens;
use harness::verify::setup::threads;
use harness::{micro, plan};
use provision::provenance::provenance;
use runs::results::{Results, check_run_id};
use runs::{merge, shard};
use schema::budget::Budget;
use schema::hash::sha256_hex;
use schema::limits::{INVOCATIONS, within};
use schema::micro::MicroRegistry;
use schema::origin::{Origin, Shard};
use schema::plan::{Plan, Until};
use schema::processor;
use schema::profile::Profile;
use schema::registry::{Registry, Target};
use schema::run::{FORMAT, RunHeader};
use site::words::plural;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use watch::Control;
use watch::event::Event;
use watch::log::Beside;

/// A new run that is decided, while nothing is locked, built or written yet.
pub struct Planned {
    pub(super) profile: Profile,
    pub(super) plan: Plan,
    /// Id and budget of the run whose decision on which cells there is time for is reused.
    decided: Option<(String, Budget)>,
}

impl Planned {
    /// Return the plan alone.
    pub fn into_plan(self) -> Plan {
        self.plan
    }

    /// Limit the difference that matters to at most `percent`.
    pub fn with_matters_at_most(mut self, percent: f64) -> Self {
        let matters = &mut self.plan.matters_percent;
        *matters = matters.min(percent);
        self
    }
}

/// Decide what a new run measures. Names that the user got wrong are refused here.
pub fn planned(
    repo: &Repo,
    registry: &Registry,
    results: &Results,
    options: &Options,
) -> Result<Planned> {
    let profile = match &options.profile {
        Some(id) => repo.profile(id)?,
        None => repo.profile(&default_profile(repo, registry)?)?,
    };
    let profile = match options.invocations {
        Some(wanted) => profile.with_invocations(wanted).map_err(Error::msg)?,
        None => profile,
    };
    check_model(repo, &profile, options.model.as_ref())?;
    let scenarios = repo.scenarios()?;
    let wrong = stats::metrics::validate(&scenarios);
    if !wrong.is_empty() {
        bail!("data/scenarios: {}", wrong.join("; "));
    }
    let targets = registry.targets();
    let choice = &asked::choice(repo, &profile, &scenarios, &targets, options)?;
    let mut plan = plan::plan(&profile, &scenarios, &targets, choice, threads())?;
    let programs = repo.micro_registry()?;
    if plan.targets.is_empty() {
        check_contenders(&choice.engines, &targets, &programs)?;
    }
    plan.until = until(&plan, options)?;
    if plan.until.is_some() {
        let checked = plan.check_sizes().map_err(Error::msg);
        checked.with_context(|| format!("--at-most {}", options.at_most))?;
    }
    plan.micro = micro::plan(&profile, &repo.suites()?, &programs, choice)?;
    plan.prompt_seed = prompt_seed(&plan, options)?;
    // Every stamp, host tag and hash of parts has the same length, so placeholders will do.
    let stamp = "00000000-000000";
    let id = run_id(stamp, &plan.profile, "0000", options.shard);
    check_run_id(&plan.profile, &id)?;
    if options.shard.is_some() {
        let merged = merge::id_of(stamp, &plan.profile, "00000000");
        check_run_id(&plan.profile, &merged)?;
    }
    let decided = shard::prepare(
        &plan,
        results,
        options.shard,
        options.budget_from.as_deref(),
    )?;
    Ok(Planned {
        profile,
        plan,
        decided,
    })
}

/// Return how narrow the intervals must be, where the user asked for that; fail where the plan has
/// more blocks than allowed to begin with.
fn until(plan: &Plan, options: &Options) -> Result<Option<Until>> {
    let Some(percent) = options.until else {
        return Ok(None);
    };
    let blocks_max = options.at_most;
    within("--at-most", blocks_max, INVOCATIONS).map_err(Error::msg)?;
    if blocks_max < plan.invocations {
        bail!(
            "--at-most {blocks_max}: the run begins with {0} blocks already: give {0} or more",
            plan.invocations
        );
    }
    Ok(Some(Until {
        percent,
        blocks_max,
    }))
}

/// Check that the model is in data/models.toml. An unknown one in a profile is not reported as a
/// mistake of the command line.
fn check_model(repo: &Repo, profile: &Profile, named: Option<&String>) -> Result<()> {
    let models = repo.models()?;
    if let Some(named) = named {
        names::check_models(std::slice::from_ref(named), &models)?;
    } else if models.get(&profile.model).is_none() {
        bail!(
            "data/profiles/{}.toml: no model {:?} in data/models.toml: `cargo xtask list models` lists what there is",
            profile.id,
            profile.model
        );
    }
    Ok(())
}

/// Check the names of engines where only micro suites were asked for, whose variants count too.
fn check_contenders(
    engines: &[String],
    targets: &[Target],
    programs: &MicroRegistry,
) -> Result<()> {
    let variants = || programs.suites.iter().flat_map(|suite| &suite.variants);
    let is_variant =
        |name: &String| variants().any(|variant| variant.engine == *name || variant.id == *name);
    let others = engines.iter().filter(|name| !is_variant(name));
    let others: Vec<String> = others.cloned().collect();
    Ok(names::check_engines(&others, targets)?)
}

pub(crate) fn create(
    repo: &Repo,
    registry: &Registry,
    runs_dir: &Path,
    options: &Options,
    planned: Planned,
) -> Result<Opened> {
    let (profile, plan, decided) = (planned.profile, planned.plan, planned.decided);
    forecast::consent(&profile, options)?;
    let look = FirstLook::new(repo, registry, runs_dir, &profile, options)?;
    let origin = Origin {
        shard: options.shard,
        budget_from: decided.as_ref().map(|(from, _)| from.clone()),
        ..Origin::default()
    };
    let decided = Decided {
        plan,
        origin,
        budget: decided.map(|(_, budget)| budget),
        named: Named::new(&options.engines),
        control: options.control.clone(),
    };
    begin(repo, registry, runs_dir, decided, look.as_ref())
}

/// Return the seed for the prompts that are generated: the one that was given or a drawn one, so
/// that no engine can have prepared for them. Machines that measure shards must use the same
/// prompts but can't agree on a seed, so a shard after the first is refused without one.
fn prompt_seed(plan: &Plan, options: &Options) -> Result<Option<u64>> {
    if !plan.scenarios.iter().any(|s| s.prompts.is_generated()) {
        return Ok(None);
    }
    match (options.prompt_seed, options.shard) {
        (Some(given), _) => Ok(Some(given)),
        (None, Some(shard)) if shard.index() > 1 => bail!(
            "--shard {shard}: all shards must ask the same prompts: give it the --prompt-seed that shard 1/{} prints as it begins, or give all of them one that you drew",
            shard.count()
        ),
        // The system's randomness, which seeds the hash maps of the standard library.
        (None, _) => Ok(Some(RandomState::new().hash_one(std::process::id()) >> 32)),
    }
}

/// What a run will measure, before anything is built or measured.
pub(crate) struct Decided {
    pub plan: Plan,
    pub origin: Origin,
    /// The cells that there is time for, where that is decided already.
    pub budget: Option<Budget>,
    /// Engines and targets that are built even where their device is missing.
    pub named: Named,
    /// The handle through which the user can pause, skip or stop the run.
    pub control: Control,
}

/// Prepare the run and write down everything that is decided, before anything is measured. `look`
/// is measured and shown while the other programs are compiled.
pub(crate) fn begin(
    repo: &Repo,
    registry: &Registry,
    runs_dir: &Path,
    decided: Decided,
    look: Option<&FirstLook>,
) -> Result<Opened> {
    let (plan, origin) = (decided.plan, decided.origin);
    preflight::check(repo, registry, &plan)?.refuse()?;
    eprintln!("{}", headline(&plan));
    tell_prompts(&plan);
    if let (Some(shard), Some(seed)) = (origin.shard, plan.prompt_seed) {
        eprintln!(
            "The prompts of shard {shard} are of seed {seed}: all other shards need --prompt-seed {seed}"
        );
    }
    watch::emit(Event::Title(title(&plan)));
    let programs = building::programs(repo, registry, &plan, look, &decided.named)?;
    goldens::ensure_for(repo, registry, &programs, &plan)?;
    watch::emit(Event::Title(title(&plan))); // the first look has set its own title
    let prompts = Prompts::new(&repo.model_dir(&plan.model), plan.seed_of_prompts())?;
    let mut provenance = provenance(repo, registry, &plan, &programs, &prompts)?;
    provenance.facts.extend(goldens::facts(repo, &plan)?);
    let limits = limits::measured(repo, registry, &plan);
    provenance.facts.extend(limits);
    let started = jiff::Timestamp::now();
    let facts = &provenance.facts;
    let (processor, gpu) = (processor::in_words(facts), facts.get("gpu"));
    let host = sha256_hex(format!("{processor:?}{gpu:?}").as_bytes());
    let stamp = started.strftime("%Y%m%d-%H%M%S").to_string();
    let id = run_id(&stamp, &plan.profile, &host[..4], origin.shard);
    let header = RunHeader {
        format: FORMAT,
        id: id.clone(),
        started: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        argv: argv::recorded(argv::given()),
        plan_sha256: shard::plan_sha256(&plan)?,
        plan,
        provenance,
        origin,
    };
    let run_dir = runs_dir.join(&id);
    std::fs::create_dir_all(runs_dir)
        .with_context(|| format!("{} can't be made", runs_dir.display()))?;
    std::fs::create_dir(&run_dir)
        .with_context(|| format!("{} can't be made", run_dir.display()))?;
    let held = exclusive::lock_run(&run_dir)?;
    let log = Beside::new(&run_dir);
    if let Some(budget) = &decided.budget {
        write_json(&run_dir.join("budget.json"), &budget)?;
    }
    write_json(&run_dir.join("run.json"), &header)?;
    Ok(Opened {
        run_dir,
        header,
        programs,
        prompts,
        control: decided.control,
        _held: held,
        _log: log,
    })
}

/// Make a run's id. Machines of one fleet have equal tags and may begin in the same second, so the
/// shard is added.
fn run_id(stamp: &str, profile: &str, host: &str, shard: Option<Shard>) -> String {
    let part = shard.map(|s| format!("-s{}of{}", s.index(), s.count()));
    format!("{stamp}-{profile}-{host}{}", part.unwrap_or_default())
}

/// Describe the size of a plan in one line.
pub(super) fn headline(plan: &Plan) -> String {
    let count = |n: usize, one, many| plural(n as u64, one, many);
    format!(
        "Profile {}: {} × {} and {}, {}, model {}, {}",
        plan.profile,
        count(plan.targets.len(), "target", "targets"),
        count(plan.scenarios.len(), "scenario", "scenarios"),
        count(plan.micro.suites.len(), "micro suite", "micro suites"),
        count(plan.invocations as usize, "block", "blocks"),
        plan.model,
        count(plan.threads as usize, "thread", "threads")
    )
}

/// Print which of the user's prompts are used, and warn where they repeat.
fn tell_prompts(plan: &Plan) {
    for scenario in &plan.scenarios {
        let Some(words) = plan.prompts_words(scenario) else {
            continue;
        };
        eprintln!("Prompts of {}: {words}", scenario.id);
        let asked = scenario.cases.iter().map(|case| plan.requests(case)).max();
        let own = plan.own_prompts(scenario);
        if own.is_some_and(|own| asked > Some(own.tokens.len() as u64)) {
            watch::warn(format!(
                "{}: a case makes more requests than the file has prompts, so prompts come again. Engines run here keep nothing between requests, but the server behind an endpoint may have cached them",
                scenario.id
            ));
        }
    }
}

pub(super) fn title(plan: &Plan) -> String {
    format!("{} · {}", plan.profile, plan.model)
}

/// Return `gpu` where there is a GPU and a target to run on it, else `cpu`.
fn default_profile(repo: &Repo, registry: &Registry) -> Result<String> {
    if harness::machine::Gpu::read().devices.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::{Options, prompt_seed};
    use fixtures::plan;

    #[test]
    fn a_run_draws_its_prompts_and_later_shards_need_those_of_the_first() {
        let (one, whole) = (plan(), Options::default());
        let shard = |which: &str, prompt_seed| Options {
            shard: Some(which.parse().unwrap()),
            prompt_seed,
            ..Options::default()
        };
        for options in [&whole, &shard("1/2", None)] {
            let seeds = [(); 2].map(|()| prompt_seed(&one, options).unwrap());
            assert!(seeds[0].is_some() && seeds[0] != seeds[1], "{seeds:?}");
        }
        let error = prompt_seed(&one, &shard("2/2", None)).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("--prompt-seed that shard 1/2 prints"),
            "{said}"
        );
        for which in ["1/2", "2/2"] {
            assert_eq!(prompt_seed(&one, &shard(which, Some(7))).unwrap(), Some(7));
        }
        let mut nothing = plan();
        nothing.scenarios.clear();
        for options in [&whole, &shard("2/2", None), &shard("2/2", Some(7))] {
            assert_eq!(prompt_seed(&nothing, options).unwrap(), None);
        }
    }
}
