//! `cargo xtask bench-all` and `bench`: plan, fetch, build, verify, measure, check, render. Other
//! modules implement the stages; this one runs them in order.

mod asked;
mod building;
mod dry_run;
mod first_look;
mod forecast;
mod judging;
mod limits;
mod opening;
mod preflight;
mod reopening;
mod until;

pub use opening::planned;
pub(crate) use opening::{Decided, Planned, begin, create};
pub(crate) use reopening::{Purpose, reopen};

use anyhow::Result;
use asked::ModelAsked;
use base::repo::Repo;
use base::text::shell_word;
use base::{exclusive, exit_code};
use harness::programs::Programs;
use harness::prompts::Prompts;
use harness::run::{self, capacity, pending, pilot, trace};
use harness::verify::of_run::verify_targets;
use harness::{kept, micro};
use judging::check_outputs;
use proofs::calibrate;
use provision::build;
use runs::results::Results;
use runs::summary::{Places, Summary};
use runs::{page, shard};
use schema::key::original;
use schema::origin::Shard;
use schema::plan::Until;
use schema::registry::Registry;
use schema::run::{Run, RunHeader};
use schema::run_files::MAX_READINGS;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watch::Control;
use watch::event::{Event, Stage};
use watch::log::Beside;

/// Exit status of a run that `--stop-after` ended, and that `--resume` can continue.
pub const TIME_IS_UP: u8 = 4;

/// Options of a run, as the command line gives them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// How much is measured (`cargo xtask list profiles`); by default gpu where a GPU is found,
    /// else cpu.
    #[arg(long, conflicts_with = "resume")]
    pub profile: Option<String>,
    /// Engine or target ids, comma-separated; by default the profile's targets.
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    pub engines: Vec<String>,
    /// Scenario ids, comma-separated; by default all of the profile's, and its micro suites.
    /// `micro/*`: only those suites.
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    pub scenarios: Vec<String>,
    /// Another model than the profile's: an id (`cargo xtask list models`), `hf:org/repo[@revision]`
    /// or a directory with config.json, tokenizer.json and safetensors.
    #[arg(long, conflicts_with = "resume")]
    pub model: Option<String>,
    /// Measure the prompts of this file, a JSON object a line: `{"text": "…"}`, or `{"messages":
    /// [{"role": "user", "content": "…"}]}` for the model's chat template. The run, and so a
    /// published one, holds them. Alone it measures nothing else; `--scenarios` adds others.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub prompts: Option<PathBuf>,
    /// Number of blocks, at least the profile's (the default): every target is launched once in
    /// each, and more blocks find smaller differences.
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub invocations: Option<u32>,
    /// Measure further blocks until every target's ratio to the baseline and to the best is known
    /// to ± this many percent (of a target alone, its own value).
    #[arg(long, value_name = "PERCENT", value_parser = Until::parse_percent, conflicts_with_all = ["resume", "shard"])]
    pub until: Option<f64>,
    /// With --until: stop adding blocks once the run has this many.
    #[arg(long, value_name = "BLOCKS", default_value_t = 40, requires = "until")]
    pub at_most: u32,
    /// Complete an interrupted run: its id, name, path, or `latest`.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Measure the i-th of n parts of the plan (whole blocks), to be merged with the others.
    #[arg(long, value_name = "I/N", conflicts_with = "resume")]
    pub shard: Option<Shard>,
    /// With --shard: the seed of the prompts, the same for all shards. The first shard draws one
    /// where none is given, and prints it; every other one needs it.
    #[arg(long, value_name = "N", requires = "shard", conflicts_with = "resume")]
    pub prompt_seed: Option<u64>,
    /// Measure the cells that this run of the same plan had time for (id, name, path or `latest`);
    /// by default a pilot decides which.
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub budget_from: Option<String>,
    /// Begin no further work after this many minutes; the exit status is then 4, and --resume
    /// continues. By default there is no such limit.
    #[arg(long, value_name = "MINUTES")]
    pub stop_after: Option<u32>,
    /// Record into this directory instead of runs; with --resume, --budget-from and --save, look
    /// there too.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show a dashboard; without a terminal, plain progress all the same.
    #[arg(long)]
    pub tui: bool,
    /// Begin a run of more than an hour. Without this, such a run is refused on a terminal, unless
    /// --engines, --scenarios, --prompts or --shard narrows it.
    #[arg(long, conflicts_with = "resume")]
    pub yes: bool,
    /// Give the finished run a name, for `compare NAME`.
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Say what would be built, fetched and measured, and do nothing.
    #[arg(long, conflicts_with = "tui")]
    pub dry_run: bool,
    /// Render the site at the end.
    #[arg(skip)]
    pub site: bool,
    /// The handle by which the user pauses, skips or stops parts of the run.
    #[arg(skip)]
    pub control: Control,
}

/// The run to measure: looked up or decided, but not yet begun.
enum Asked {
    New(Box<Planned>),
    /// An earlier run, in this directory, to be completed.
    Earlier(PathBuf),
}

/// Run the job, or with `dry_run` describe it.
pub fn bench(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let began = Instant::now();
    let asked = ModelAsked::new(repo, options)?;
    let (repo, options) = (&asked.repo, &asked.options);
    let results = Results::new(repo, options.out.as_deref());
    if let Some(why) = no_gpu_for(repo, options)? {
        println!("{why}");
        return Ok(ExitCode::SUCCESS);
    }
    let registry = repo.registry()?;
    if let Some(name) = &options.save {
        results.check_name(name)?;
    }
    let asked = match &options.resume {
        Some(run) => Asked::Earlier(results.find(run)?),
        None => Asked::New(Box::new(planned(repo, &registry, &results, options)?)),
    };
    if options.dry_run {
        print!(
            "{}",
            dry_run::text(repo, &registry, results.dir(), options, &asked)?
        );
        if let Asked::New(planned) = &asked {
            // The dry run describes everything first, and then refuses what a run would refuse.
            preflight::check(repo, &registry, &planned.plan)?.refuse()?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    run::memory::limit()?; // Refused before anything is built.
    let _only_one = exclusive::lock_machine()?;
    let mut opened = match asked {
        Asked::Earlier(run_dir) => reopen(
            repo,
            &registry,
            &run_dir,
            Purpose::Finish,
            options.control.clone(),
        )?,
        Asked::New(planned) => create(repo, &registry, results.dir(), options, *planned)?,
    };
    if let Some(minutes) = options.stop_after {
        let after = Duration::from_secs(60 * u64::from(minutes));
        // Set the deadline only now: its message says to resume the run, so the run must exist.
        opened.control.stop_at(began + after);
    }
    let done = to_the_end(repo, &registry, &results, options, &mut opened);
    let go_on = go_on(options, &opened.header.id);
    let is_early = done.as_ref().is_err_and(|error| !kept::is_loss(error));
    if is_early && opened.control.has_stopped() {
        println!("Time is up; what was measured is kept. Continue with `{go_on}`");
        return Ok(ExitCode::from(TIME_IS_UP));
    }
    let code = done.map_err(|error| {
        let usual = format!("the run stopped (what was measured is kept; `{go_on}` continues it)");
        kept::with_advice(error, &go_on, usual)
    })?;
    if let Some(name) = &options.save {
        println!("{}", results.save_name(name, &opened.header.id)?);
    }
    Ok(code)
}

/// Return the command that continues a run as the user began it.
fn go_on(options: &Options, id: &str) -> String {
    let verb = if options.site { "bench-all" } else { "bench" };
    let out = options
        .out
        .iter()
        .map(|dir| format!(" --out {}", shell_word(dir)));
    let save = options.save.iter().map(|name| format!(" --save {name}"));
    let more: String = out.chain(save).collect();
    format!("cargo xtask {verb} --resume {id}{more}")
}

/// Return why there is nothing to do, where a bundle's engines need a GPU, this machine has none,
/// and the user didn't say what to measure instead; `None` where the run can begin.
fn no_gpu_for(repo: &Repo, options: &Options) -> Result<Option<String>> {
    let is_ours = options.profile.is_none() && options.resume.is_none();
    let needs_gpu = repo.bundle()?.is_some_and(|bundle| bundle.cuda);
    if !(is_ours && needs_gpu) {
        return Ok(None);
    }
    let gpu = harness::machine::Gpu::read();
    let absent = gpu.absent.unwrap_or_else(|| "the driver finds none".into());
    Ok(gpu.devices.is_empty().then(|| {
        format!(
            "There is no NVIDIA GPU here ({absent}), and the engines of this bundle need one: nothing was measured. `--profile cpu` measures what runs without."
        )
    }))
}

/// Measure what is left of a run, trace its kernels, and show the results.
fn to_the_end(
    repo: &Repo,
    registry: &Registry,
    results: &Results,
    options: &Options,
    opened: &mut Opened,
) -> Result<ExitCode> {
    let (run_dir, shard) = (opened.run_dir.clone(), opened.header.origin.shard);
    let mut run = measure_until(repo, registry, opened)?;
    // The shard that has block 0 traces for all shards.
    if options.site && opened.header.origin.has(0) {
        // After everything is timed, and in launches of their own, because tracing slows down an
        // engine.
        watch::stage(Stage::Trace);
        opened.trace(repo, &run, &[], false)?;
        run.reload_kernels(&run_dir)?;
    }
    let summary = Summary::new(repo, &run.clone().own_part())?;
    let report = match options.site && shard.is_none() {
        true => {
            watch::stage(Stage::Render);
            Some(page::render_with(repo, results, run)?)
        }
        false => None,
    };
    let places = Places {
        records: &run_dir,
        report: report.as_deref(),
    };
    print!("{}", summary.screen(&places));
    if let Some(shard) = shard {
        println!("{}", shard::what_next(shard));
    }
    if summary.has_faults() {
        eprintln!("The exit status is 3: cells failed; see \"Without numbers\", faults first");
    }
    Ok(exit_code(!summary.has_faults(), 3))
}

/// [`measure`] a run, then add and measure blocks as long as its `--until` requires. A cell is
/// judged as a whole, so the outputs of added blocks are judged once, after the last.
pub(crate) fn measure_until(repo: &Repo, registry: &Registry, opened: &mut Opened) -> Result<Run> {
    let mut run = measure(repo, registry, opened)?;
    let before = run.header.plan.invocations;
    while until::go_on(repo, registry, opened, &mut run)? {
        measure_engines(repo, registry, opened, &mut run)?;
        measure_micro(repo, opened, &mut run)?;
    }
    if run.header.plan.invocations > before {
        check_outputs(repo, registry, opened, &mut run)?;
    }
    Ok(run)
}

/// Verify, measure and check what is still to be done of a run; return the whole run. What is
/// recorded is added to it without reading it from disk. Only one run may measure on a machine at a
/// time: see [`exclusive::lock_machine`].
pub(crate) fn measure(repo: &Repo, registry: &Registry, opened: &Opened) -> Result<Run> {
    let mut run = Run::load(&opened.run_dir)?;
    measure_engines(repo, registry, opened, &mut run)?;
    check_outputs(repo, registry, opened, &mut run)?;
    measure_micro(repo, opened, &mut run)?;
    Ok(run)
}

/// Measure what is still to be done of a run's micro suites. An error where a record of the run is
/// missing then.
fn measure_micro(repo: &Repo, opened: &Opened, run: &mut Run) -> Result<()> {
    let logs = micro::of_run(
        repo,
        &opened.run_dir,
        &opened.header,
        &opened.programs.micro,
        &run.micro,
        &opened.control,
    )?;
    run.add_micro(logs);
    let engines = run.launches.iter().chain(&run.twins).map(|log| &log.file);
    let records = engines.chain(run.micro.iter().map(|log| &log.file));
    Ok(kept::check(&opened.run_dir, records)?)
}

/// Verify and measure the engines of a run: all that [`measure`] does before outputs are judged.
fn measure_engines(repo: &Repo, registry: &Registry, opened: &Opened, run: &mut Run) -> Result<()> {
    let (run_dir, header, prompts) = (&opened.run_dir, &opened.header, &opened.prompts);
    let (plan, control) = (&header.plan, &opened.control);
    if plan.targets.is_empty() {
        return Ok(());
    }
    watch::stage(Stage::Calibrate);
    if run.calibration.is_none() {
        run.calibration = calibrate::of_run(repo, registry, run_dir)?;
    }
    let programs = &verify_targets(
        repo,
        plan,
        run_dir,
        &opened.programs,
        &mut run.verify,
        control,
    )?;
    let stage = run::Stage {
        plan,
        run_dir,
        model_dir: &repo.model_dir(&plan.model),
        programs,
        prompts,
        verify: &run.verify,
        control,
    };
    if run.budget.is_none() && (plan.budget_s > 0.0 || plan.aa_pairs) {
        let baseline = registry.baseline_of(&plan.targets);
        run.budget = Some(pilot::run(&stage, baseline)?);
    }
    let budget = run.budget.as_ref();
    run.capacities = capacity::run(&stage, budget, std::mem::take(&mut run.capacities))?;
    let logs = [&run.launches[..], &run.twins[..]].concat();
    let planned = pending::planned(run, &logs);
    let left = pending::left(&planned);
    let ours = |block| header.origin.has(block);
    let (some, all, dir) = (left.len(), planned.len(), run_dir.display());
    eprintln!("Measuring {some} of {all} launches into {dir}");
    let judge = judging::judge(registry, &run.verify, programs);
    let judge = judge.map(|target| target.id).unwrap_or_default();
    let limits = repo.parity_limits()?;
    let own_weights = |name: &str| {
        let mut targets = plan.targets.iter();
        limits.own_weights(targets.find(|target| target.id == original(name))?)
    };
    let judging = forecast::Judging::new(judge, own_weights, &left, &logs, &run.checks);
    forecast::tell(plan, budget, &left, &judging, &run.micro, ours);
    watch::stage(Stage::Measure);
    for group in run::told::groups(plan, budget, &planned, &left) {
        watch::emit(Event::Group(group));
    }
    drop(logs); // Nothing but engines should need memory now.
    let made = run::run(&stage, &run.capacities, left)?;
    run.add(made);
    if run.readings() > MAX_READINGS {
        watch::warn(format!(
            "{} holds over {MAX_READINGS} readings of counters, more than any command loads: measure fewer scenarios at a time, or in shards",
            run_dir.display()
        ));
    }
    Ok(())
}

/// A run whose header is written, and everything that is needed to measure it.
pub(crate) struct Opened {
    pub(crate) run_dir: PathBuf,
    pub(crate) header: RunHeader,
    pub(crate) programs: Programs,
    pub(crate) prompts: Prompts,
    /// The handle by which the user pauses, skips or stops parts of the run.
    pub(crate) control: Control,
    /// The lock of the run's directory: while it is held, no other process writes there.
    _held: File,
    /// While this exists, the log goes into the run's directory too.
    _log: Beside,
}

impl Opened {
    /// Trace the kernels of the run's targets, as [`trace::of_run`] does; return whether all could
    /// be traced.
    pub(crate) fn trace(
        &self,
        repo: &Repo,
        run: &Run,
        engines: &[String],
        again: bool,
    ) -> Result<bool> {
        let plan = &self.header.plan;
        let stage = run::Stage {
            plan,
            run_dir: &self.run_dir,
            model_dir: &repo.model_dir(&plan.model),
            programs: &self.programs,
            prompts: &self.prompts,
            verify: &run.verify,
            control: &self.control,
        };
        trace::of_run(&stage, run, engines, again, || build::tracer(repo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_goes_on_can_be_copied_into_a_shell() {
        let options = Options {
            out: Some("/tmp/sp ace/$x".into()),
            ..Options::default()
        };
        assert_eq!(
            go_on(&options, "1-a"),
            "cargo xtask bench --resume 1-a --out '/tmp/sp ace/$x'"
        );
    }
}
