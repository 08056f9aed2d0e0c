//! `cargo xtask calibrate --watching`: what it costs an engine that its tokens are committed to a
//! ring and that somebody looks at the ring meanwhile.
//!
//! Two processes of one target, one of them watched, answer the same prompts in turns; the one
//! whose turn it isn't is stopped. What counts is the ratio within a turn. Two processes of one
//! program differ by what lies where in memory, so a pair of processes gives one value, and the
//! interval is over pairs.

use anyhow::{Context, Result, bail};
use base::exclusive;
use base::repo::Repo;
use harness::devices::Named;
use harness::engine::Program;
use harness::engine::session::{Patience, Session};
use harness::prompts::Prompts;
use harness::run::audit::Audit;
use harness::verify::question::{load_request, threads};
use protocol::wire::Load;
use provision::{build, fetch};
use schema::registry::Target;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Watching may take this much longer, in percent of a request.
const PERCENT_MAX: f64 = 0.5;
/// A model that costs nothing to get, and on which a token takes least.
const MODEL: &str = "tiny-llama";
/// Turns of a pair.
const TURNS: u64 = 20;
/// Requests in a turn of each process.
const REQUESTS: usize = 20;
const PROMPT_TOKENS: usize = 50;
const NEW_TOKENS: u32 = 16;

/// Measure and print. Exit status 3 where watching surely costs more than it may.
pub fn command(repo: &Repo, pairs: u32, json: bool) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let Some(handicap) = registry.handicaps.first() else {
        bail!("engines/engines.toml has no [[handicap]], whose `of` is the target that is watched");
    };
    let target = registry.targets().into_iter().find(|t| t.id == handicap.of);
    let target = target.with_context(|| format!("no target is called {}", handicap.of))?;
    let _only_one = exclusive::machine()?;
    fetch::ensure_for(repo, MODEL, std::slice::from_ref(&target))?;
    let programs = build::build(repo, &registry, [&target], &Named::default())?;
    let program = programs.get(&target).map_err(Clone::clone)?;
    let pair = Pair::of(repo, &target, program)?;
    let mut logs = Vec::new();
    for n in 0..pairs {
        base::interrupt::check()?;
        logs.push(pair.log_ratio(u64::from(n))?);
    }
    let interval = stats::ci::mean_interval(&logs).context("the ratios are no numbers")?;
    let percent = |log: f64| 100.0 * log.exp_m1();
    let (value, low, high) = (
        percent(interval.mean),
        percent(interval.low),
        percent(interval.high),
    );
    match json {
        true => println!(
            "{}",
            json!({ "target": target.id, "pairs": pairs, "percent": value, "ci95": [low, high] })
        ),
        false => println!(
            "Being watched costs a request of {} {value:+.2} % [{low:+.2}, {high:+.2}] of its time \
             (mean of {pairs} pairs of processes, {} requests each; it may take {PERCENT_MAX} %)",
            target.id,
            TURNS * REQUESTS as u64
        ),
    }
    Ok(match low > PERCENT_MAX {
        true => ExitCode::from(3),
        false => ExitCode::SUCCESS,
    })
}

/// What both processes of a pair are asked.
struct Pair<'a> {
    program: &'a Program,
    load: Load,
    prompts: Vec<Vec<u32>>,
}

impl<'a> Pair<'a> {
    fn of(repo: &Repo, target: &Target, program: &'a Program) -> Result<Self> {
        let model_dir = repo.model_dir(MODEL);
        let positions = PROMPT_TOKENS as u32 + NEW_TOKENS;
        let prompts = Prompts::new(&model_dir, 1)?;
        Ok(Self {
            program,
            load: load_request(target, &model_dir, threads(), positions, 1),
            prompts: prompts.take("watching/p50", 0, PROMPT_TOKENS, REQUESTS)?,
        })
    }

    /// The logarithm of watched ÷ unwatched: the median over the turns of two fresh processes.
    fn log_ratio(&self, seed: u64) -> Result<f64> {
        let patience = Patience {
            load: Duration::from_secs(60),
            request: Duration::from_secs(60),
        };
        let (program, load) = (self.program, &self.load);
        let plain = Session::open(program, load, patience);
        let mut plain = plain.map_err(|(failure, _)| failure)?;
        plain.pause();
        let watched = Session::open_watched(program, load, patience);
        let mut watched = watched.map_err(|(failure, _)| failure)?;
        watched.pause();
        if watched.ring().is_none() {
            bail!("there is no room in memory for the ring that tokens are committed to");
        }
        let mut audit = Audit::of(&watched, seed);
        let mut logs = Vec::new();
        // The first turn warms both up.
        for turn in 0..=TURNS {
            let mut ask_watched = || -> Result<f64> {
                audit.begin();
                audit.watch();
                let mean = self.turn(&mut watched);
                audit.end();
                mean
            };
            // Who goes first alternates, so that drift falls on both alike.
            let (with, without) = match turn % 2 == 0 {
                true => (ask_watched()?, self.turn(&mut plain)?),
                false => {
                    let without = self.turn(&mut plain)?;
                    (ask_watched()?, without)
                }
            };
            if turn > 0 {
                logs.push((with / without).ln());
            }
        }
        for session in [plain, watched] {
            session.resume();
            session.close().0?;
        }
        stats::describe::median(&logs).context("the requests took no time")
    }

    /// Ask a stopped process all prompts, one after the other; the mean time to an answer (ns).
    fn turn(&self, session: &mut Session) -> Result<f64> {
        session.resume();
        let mut total_ns = 0.0;
        // One that isn't timed: the process has just been woken.
        let first = self.prompts.first().map(|prompt| (prompt, false));
        let timed = self.prompts.iter().map(|prompt| (prompt, true));
        for (prompt, is_timed) in first.into_iter().chain(timed) {
            let (_, sent_ns) = session.send_generate(prompt.clone(), NEW_TOKENS)?;
            let (_, answered_ns) = session.next_done()?;
            if is_timed {
                total_ns += answered_ns.saturating_sub(sent_ns) as f64;
            }
        }
        session.pause();
        Ok(total_ns / REQUESTS as f64)
    }
}
