//! `cargo xtask calibrate`: measures the harness's own error with the engine that the registry
//! names as the instrument. Its timing is known, and it writes down when it really emitted each
//! token.
//!
//! The requests go through the same session, load generator and runtime as any engine's; only the
//! comparison is new. A short form is part of every run.
//!
//! The result is a table for the terminal, or a line for a run.

mod levels;

use anyhow::{Context, Result, bail};
use base::files::write_json;
use base::repo::Repo;
use base::{exclusive, exit_code};
use harness::devices::Named;
use harness::engine::Program;
use provision::build;
use schema::calibration::{Calibration, LatencyError};
use schema::plan::Until;
use schema::registry;
use schema::registry::{Registry, Target};
use std::path::Path;
use std::process::ExitCode;

/// The number and size of the requests.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Requests at each level; a 99th percentile needs a thousand.
    requests: u32,
    /// Output length (tokens).
    new_tokens: u32,
    /// Number of requests of the open loop.
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
    /// Take the few seconds that the calibration in every run takes. With --watching: a fifth of
    /// the requests.
    #[arg(long)]
    pub quick: bool,
    /// Check the verdicts: measure a target beside a copy of it that is slower by a known share,
    /// and report whether the comparison finds it. Takes a few minutes of a quiet machine.
    #[arg(long, conflicts_with = "quick", group = "measured")]
    pub verdicts: bool,
    /// Check the flags: measure a target while processes come and go that compute beside it, and
    /// report how many of the launches that they touched are flagged, and how many others.
    #[arg(long, conflicts_with = "quick", group = "measured")]
    pub load: bool,
    /// Measure what it costs an engine that its tokens are watched: one process answers the same
    /// requests watched and unwatched, in turns.
    #[arg(long, conflicts_with = "measured")]
    pub watching: bool,
    /// With --watching: number of processes.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "watching",
        value_parser = clap::value_parser!(u32).range(2..))]
    pub processes: u32,
    /// With --verdicts: how many percent slower the copy is: 2, 5 or 10.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "verdicts")]
    pub percent: u32,
    /// The profile whose sizes `--verdicts` and `--load` use.
    #[arg(long, default_value = "cpu", requires = "measured")]
    pub profile: String,
    /// With --verdicts and --load: number of blocks. Default: the profile's, but at least 15 where
    /// the profile is publishable.
    #[arg(long, value_name = "N", requires = "measured")]
    pub invocations: Option<u32>,
    /// Measure further blocks, at most 100, until the ratio is known to ± this many percent. It must
    /// be under `--percent`.
    #[arg(long, value_name = "PERCENT", value_parser = Until::parse_percent, requires = "verdicts")]
    pub until: Option<f64>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Calibrate and print the result. Exit status 3 where a limit is exceeded.
pub fn instrument(repo: &Repo, quick: bool, json: bool) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let Some(known) = &registry.instrument else {
        bail!("engines/engines.toml has no [instrument]: there is nothing to calibrate against");
    };
    let _only_one = exclusive::lock_machine()?;
    let instrument = Instrument::ready(repo, &registry, known)?;
    let calibration = instrument.calibrate(if quick { QUICK } else { FULL })?;
    match json {
        true => println!("{}", serde_json::to_string_pretty(&calibration)?),
        false => print!("{}", table(&calibration)),
    }
    Ok(exit_code(calibration.failures.is_empty(), 3))
}

/// Calibrate in short form, and write the result into the run's directory. A limit that is exceeded
/// doesn't end the run: the error is shown beside the results. `None` where the registry has no
/// instrument, or calibrating failed.
pub fn of_run(repo: &Repo, registry: &Registry, run_dir: &Path) -> Result<Option<Calibration>> {
    let Some(known) = registry.instrument.as_ref() else {
        return Ok(None);
    };
    let calibration =
        Instrument::ready(repo, registry, known).and_then(|instrument| instrument.calibrate(QUICK));
    base::interrupt::check()?;
    match calibration {
        Ok(calibration) => {
            eprintln!("{}", line(&calibration));
            write_json(&run_dir.join("calibration.json"), &calibration)?;
            Ok(Some(calibration))
        }
        Err(error) => {
            watch::warn(format!(
                "The harness could not be calibrated, and the report says so: {error:#}"
            ));
            Ok(None)
        }
    }
}

/// The instrument with its program built.
struct Instrument<'a> {
    known: &'a registry::Instrument,
    target: Target,
    program: Program,
}

impl<'a> Instrument<'a> {
    fn ready(repo: &Repo, registry: &Registry, known: &'a registry::Instrument) -> Result<Self> {
        let target = registry.known_target(&known.target);
        let programs = build::build(repo, registry, [&target], &Named::default())?;
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

/// Format the table that `calibrate` prints.
pub fn table(calibration: &Calibration) -> String {
    let mut text = format!(
        "Instrument error against {}\n\n{:>9} {:>8}  {:4} {:>12} {:>10} {:>12} {:>10} {:>12} {:>20}\n",
        calibration.instrument,
        "in flight",
        "requests",
        "",
        "emitted p50",
        "error",
        "emitted p99",
        "error",
        "samples p99",
        "delivery p50, p99"
    );
    for level in &calibration.levels {
        let (p50, p99) = (us(level.delivery_ns_p50), us(level.delivery_ns_p99));
        let delivery = format!("{p50}, {p99}");
        for (what, error, delivery) in [
            ("TTFT", &level.ttft, delivery.as_str()),
            ("ITL", &level.itl, ""),
        ] {
            text.push_str(&format!(
                "{:>9} {:>8}  {what:4} {} {delivery:>20}\n",
                level.concurrency,
                level.requests,
                errors(error)
            ));
        }
    }
    let lag = &calibration.schedule;
    text.push_str(&format!(
        "\nSchedule lag at {:.0} requests/s, {} requests: p50 {}, p99 {}, max {}\n",
        lag.rate_per_s,
        lag.requests,
        us(lag.lag_ns_p50),
        us(lag.lag_ns_p99),
        us(lag.lag_ns_max)
    ));
    match calibration.failures.as_slice() {
        [] => text.push_str("All limits are kept.\n"),
        failures => {
            for failure in failures {
                text.push_str(&format!("FAILED: {failure}\n"));
            }
        }
    }
    text
}

/// Format the line that a run prints.
pub fn line(calibration: &Calibration) -> String {
    let lag = us(calibration.schedule.lag_ns_p99);
    match calibration.failures.as_slice() {
        [] => format!("Calibrated: the harness keeps its limits; schedule lag p99 {lag}"),
        failures => format!(
            "Calibrated: the harness does NOT keep its limits: {}",
            failures.join("; ")
        ),
    }
}

fn errors(error: &LatencyError) -> String {
    format!(
        "{:>12} {:>10} {:>12} {:>10} {:>12}",
        us(error.emitted_ns_p50),
        format!("{:.3} %", 100.0 * error.p50_error),
        us(error.emitted_ns_p99),
        us(error.p99_error_ns),
        us(error.sample_error_ns_p99)
    )
}

fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::calibration::{Level, ScheduleLag};

    #[test]
    fn a_broken_limit_is_in_the_table_and_in_the_line() {
        let ttft = LatencyError {
            p50_error: 0.0012,
            ..LatencyError::default()
        };
        let mut calibration = Calibration {
            instrument: "known.cpu.f32".into(),
            levels: vec![Level {
                ttft,
                ..Level::default()
            }],
            schedule: ScheduleLag::default(),
            failures: vec![],
        };
        assert!(table(&calibration).contains("All limits are kept"));
        assert!(table(&calibration).contains("0.120 %"));
        calibration.failures = vec!["the schedule lag".into()];
        assert!(table(&calibration).contains("FAILED: the schedule lag"));
        assert!(line(&calibration).contains("NOT keep its limits: the schedule lag"));
    }
}
