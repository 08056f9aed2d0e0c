//! `cargo xtask calibrate`: the harness's own error, against the engine that the registry
//! names as its instrument, whose timing is known and which notes what it really emitted.
//!
//! Everything runs through what measures any engine: session, load generator, runtime.
//! Only the comparison is new. In short form it is part of every run.

mod levels;
mod report;
mod truth;

use anyhow::{Context, Result, bail};
use base::exclusive;
use base::repo::Repo;
use base::whole::write_json;
use harness::engine::Program;
use provision::build;
use schema::calibration::Calibration;
use schema::registry::{self, Registry, Target};
use std::path::Path;
use std::process::ExitCode;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Requests at each level: a 99th percentile needs a thousand.
    requests: u32,
    /// Output length (tokens).
    new_tokens: u32,
    /// Requests of the open loop.
    open_requests: u32,
}

const QUICK: Effort = Effort {
    requests: 1000,
    new_tokens: 4,
    open_requests: 1000,
};

const FULL: Effort = Effort {
    requests: 2000,
    new_tokens: 16,
    open_requests: 10_000,
};

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// As short as on every run.
    #[arg(long)]
    pub quick: bool,
    /// Measure a target that is slower by a known share beside the one it was made from: do
    /// the verdicts find it? Takes a few minutes of a quiet machine.
    #[arg(long, conflicts_with = "quick")]
    pub verdicts: bool,
    /// The profile whose sizes `--verdicts` is tried at.
    #[arg(long, default_value = "cpu", requires = "verdicts")]
    pub profile: String,
    /// Launches of each: how many does it take? 15, or the profile's where these are more (or
    /// its numbers mean nothing).
    #[arg(long, value_name = "N", requires = "verdicts")]
    pub invocations: Option<u32>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Calibrate and print. Exit status 3 where a limit is not kept.
pub fn instrument(repo: &Repo, quick: bool, json: bool) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let Some(known) = &registry.instrument else {
        bail!("engines/engines.toml has no [instrument]: there is nothing to calibrate against");
    };
    let _only_one = exclusive::machine()?;
    let instrument = Instrument::ready(repo, &registry, known)?;
    let calibration = instrument.calibrate(if quick { QUICK } else { FULL })?;
    match json {
        true => println!("{}", serde_json::to_string_pretty(&calibration)?),
        false => print!("{}", report::table(&calibration)),
    }
    Ok(match calibration.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

/// Calibrate in short form, once a run. A limit that isn't kept stops nothing: the error
/// stands beside the results. Without an instrument there is no calibration.
pub fn of_run(repo: &Repo, registry: &Registry, run_dir: &Path) -> Result<()> {
    let path = run_dir.join("calibration.json");
    let Some(known) = registry.instrument.as_ref().filter(|_| !path.exists()) else {
        return Ok(());
    };
    let calibration =
        Instrument::ready(repo, registry, known).and_then(|instrument| instrument.calibrate(QUICK));
    base::interrupt::check()?;
    match calibration {
        Ok(calibration) => {
            eprintln!("{}", report::line(&calibration));
            write_json(&path, &calibration)
        }
        Err(error) => {
            watch::warn(format!(
                "The harness could not be calibrated, and the report says so: {error:#}"
            ));
            Ok(())
        }
    }
}

/// The engine of known timing, built.
struct Instrument<'a> {
    known: &'a registry::Instrument,
    target: Target,
    program: Program,
}

impl<'a> Instrument<'a> {
    fn ready(repo: &Repo, registry: &Registry, known: &'a registry::Instrument) -> Result<Self> {
        let mut targets = registry.targets().into_iter();
        let target = targets
            .find(|target| target.id == known.target)
            .expect("`load` refuses a registry without it");
        let programs = build::build(repo, registry, [&target])?;
        // Calibrating needs no model.
        let target = Target {
            weights: "none".into(),
            ..target
        };
        let program = programs.get(&target).map_err(Clone::clone);
        let program = program.context("the instrument's program")?.clone();
        Ok(Self {
            known,
            target,
            program,
        })
    }

    fn calibrate(&self, effort: Effort) -> Result<Calibration> {
        let levels = [1, 10, 100].map(|concurrency| self.level(concurrency, effort));
        let mut calibration = Calibration {
            instrument: self.target.id.clone(),
            levels: levels.into_iter().collect::<Result<Vec<_>>>()?,
            schedule: self.schedule(effort)?,
            failures: Vec::new(),
        };
        calibration.failures = stats::calibration::failures(&calibration);
        Ok(calibration)
    }
}
