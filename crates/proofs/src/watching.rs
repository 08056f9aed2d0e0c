//! `cargo xtask calibrate --watching`: measures what it costs an engine that it commits its tokens
//! to a ring in shared memory and that a thread reads the ring meanwhile.
//!
//! A process that commits its tokens answers the same prompts again and again, and is watched in
//! every other turn. The result is the ratio of neighbouring turns, so that differences between two
//! processes of one program (such as memory layout, which made 4 %) affect both. Each process gives
//! one value, and the interval is over processes. The time of a commit is measured separately, in
//! this process: it is a few stores into memory, too little to be seen in a request. So is the CPU
//! time of the thread that reads, by the kernel's clock of that thread.

use anyhow::{Context, Result, bail};
use base::repo::Repo;
use base::{exclusive, exit_code};
use harness::devices::Named;
use harness::engine::Program;
use harness::engine::load::load_request;
use harness::engine::session::{Session, Timeouts};
use harness::prompts::Prompts;
use harness::run::audit::Audit;
use harness::verify::setup::threads;
use protocol::clock::now_ns;
use protocol::wire::Load;
use protocol::witness::{Ring, Witness};
use provision::{build, fetch};
use schema::registry::Target;
use serde_json::json;
use stats::ci::mean_interval;
use stats::describe::{mean, median};
use std::process::ExitCode;
use std::time::Duration;

/// Largest increase of a request's time by watching that is acceptable (percent).
const PERCENT_MAX: f64 = 0.5;
/// Largest CPU time of the thread that looks that is acceptable (percent of a core).
const CORE_PERCENT_MAX: f64 = 0.2;
/// A model that needs no download, and on which a token takes the least time.
const MODEL: &str = "tiny-llama";
/// Pairs of turns in a process; one turn of each pair is watched.
const TURNS: u64 = 20;
/// Pairs of turns with `--quick`.
const QUICK_TURNS: u64 = 4;
/// Requests in a turn.
const REQUESTS: usize = 20;
/// Number of commits that are timed.
const COMMITS: u32 = 1_000_000;
const PROMPT_TOKENS: usize = 50;
const NEW_TOKENS: u32 = 16;

/// Measure and print the result. Exit status 3 where watching certainly costs more than it may.
pub fn command(repo: &Repo, processes: u32, quick: bool, json: bool) -> Result<ExitCode> {
    let turns = if quick { QUICK_TURNS } else { TURNS };
    let registry = repo.registry()?;
    let Some(handicap) = registry.handicaps.first() else {
        bail!("engines/engines.toml has no [[handicap]], whose `of` is the target that is watched");
    };
    let target = registry.known_target(&handicap.of);
    let _only_one = exclusive::lock_machine()?;
    fetch::ensure_for(repo, MODEL, std::slice::from_ref(&target))?;
    let programs = build::build(repo, &registry, [&target], &Named::default())?;
    let program = programs.get(&target).map_err(Clone::clone)?;
    let asked = Asked::new(repo, &target, program)?;
    let commit_ns = commit_ns()?;
    let mut measured = Vec::new();
    for n in 0..processes {
        base::interrupt::check()?;
        measured.push(asked.measure(u64::from(n), turns)?);
    }
    let all = |of: fn(&Measured) -> f64| -> Vec<f64> { measured.iter().map(of).collect() };
    let interval = mean_interval(&all(|m| m.log_ratio)).context("the ratios are no numbers")?;
    let core = mean_interval(&all(|m| m.core_percent));
    let core = core.context("the thread's CPU times are no numbers")?;
    let request_ns = median(&all(|m| m.request_ns)).context("the requests took no time")?;
    let commits = 100.0 * f64::from(NEW_TOKENS) * commit_ns / request_ns;
    let percent = |log: f64| 100.0 * log.exp_m1() + commits;
    let (value, low, high) = (
        percent(interval.mean),
        percent(interval.low),
        percent(interval.high),
    );
    match json {
        true => println!(
            "{}",
            json!({
                "target": target.id, "processes": processes, "percent": value, "ci95": [low, high],
                "percent_max": PERCENT_MAX, "commit_ns": commit_ns, "request_ns": request_ns,
                "core_percent": core.mean, "core_ci95": [core.low, core.high],
                "core_percent_max": CORE_PERCENT_MAX
            })
        ),
        false => println!(
            "Being watched costs a request of {} {value:+.2} % [{low:+.2}, {high:+.2}] of its time \
             (mean of {processes} processes, {} requests each; {commits:.4} % of it are commits, \
             {commit_ns:.0} ns a token; it may take {PERCENT_MAX} %)\n\
             The thread that looks takes {:.3} % [{:.3}, {:.3}] of a core while it watches (it may \
             take {CORE_PERCENT_MAX} %)",
            target.id,
            2 * turns * REQUESTS as u64,
            core.mean,
            core.low,
            core.high
        ),
    }
    let costs_too_much = low > PERCENT_MAX || core.low > CORE_PERCENT_MAX;
    Ok(exit_code(!costs_too_much, 3))
}

/// Return the mean time of a commit (ns).
fn commit_ns() -> Result<f64> {
    let file = tempfile::NamedTempFile::new().context("no temporary file can be made")?;
    let path = file.path().display();
    let what = || format!("{path} can't be the ring that tokens are committed to");
    let ring = Ring::create(file.as_file()).with_context(what)?;
    let witness = Witness::open(file.path()).with_context(what)?;
    let begin_ns = now_ns();
    for n in 0..COMMITS {
        witness.commit(1, n as usize, n);
    }
    let took_ns = now_ns() - begin_ns;
    // If commits were lost, nothing was timed.
    anyhow::ensure!(
        ring.committed() == u64::from(COMMITS),
        "commits to {path} are lost"
    );
    Ok(took_ns as f64 / f64::from(COMMITS))
}

/// What one process showed.
struct Measured {
    /// Median over its pairs of turns of ln(watched ÷ not watched).
    log_ratio: f64,
    /// A request's mean time where nothing watches (ns).
    request_ns: f64,
    /// Mean over its watched turns of the CPU time of the thread that looks (percent of a core).
    core_percent: f64,
}

/// A program with the requests that its processes answer.
struct Asked<'a> {
    program: &'a Program,
    load: Load,
    prompts: Vec<Vec<u32>>,
}

impl<'a> Asked<'a> {
    fn new(repo: &Repo, target: &Target, program: &'a Program) -> Result<Self> {
        let model_dir = repo.model_dir(MODEL);
        let positions = PROMPT_TOKENS as u32 + NEW_TOKENS;
        let prompts = Prompts::new(&model_dir, 1)?;
        Ok(Self {
            program,
            load: load_request(target, &model_dir, threads(), positions, 1),
            prompts: prompts.take("watching/p50", 0, PROMPT_TOKENS, REQUESTS)?,
        })
    }

    /// Start a process, and watch one turn of each of `turns` pairs.
    fn measure(&self, seed: u64, turns: u64) -> Result<Measured> {
        let timeouts = Timeouts::outside_a_run(Duration::from_secs(60), Duration::from_secs(60));
        let mut session = Session::open_watched(self.program, &self.load, &timeouts)?;
        if session.ring().is_none() {
            bail!("there is no room in memory for the ring that tokens are committed to");
        }
        let mut audit = Audit::new(&session, seed);
        let (mut logs, mut total_ns, mut core_percents) = (Vec::new(), 0.0, Vec::new());
        // The first pair is not counted, because it warms up the process.
        for turn in 0..=turns {
            let mut audited_turn = |session: &mut Session| -> Result<f64> {
                audit.begin();
                audit.watch();
                let mean = self.turn(session);
                audit.pause();
                core_percents.extend(audit.core_share().map(|share| 100.0 * share));
                audit.end();
                mean
            };
            // The order alternates, so that drift affects both alike.
            let (with, without) = match turn % 2 == 0 {
                true => (audited_turn(&mut session)?, self.turn(&mut session)?),
                false => {
                    let without = self.turn(&mut session)?;
                    (audited_turn(&mut session)?, without)
                }
            };
            if turn > 0 {
                logs.push((with / without).ln());
                total_ns += without;
            }
        }
        session.close()?;
        Ok(Measured {
            log_ratio: median(&logs).context("the requests took no time")?,
            request_ns: total_ns / turns as f64,
            core_percent: mean(&core_percents).context("nothing was watched")?,
        })
    }

    /// Send all prompts, one after the other; return the mean time to an answer (ns).
    fn turn(&self, session: &mut Session) -> Result<f64> {
        let mut total_ns = 0.0;
        // The first request isn't timed, because the thread that watches has just started or ended.
        let first = self.prompts.first().map(|prompt| (prompt, false));
        let timed = self.prompts.iter().map(|prompt| (prompt, true));
        for (prompt, is_timed) in first.into_iter().chain(timed) {
            let (_, sent_ns, answered_ns) = session.generate(prompt.clone(), NEW_TOKENS)?;
            if is_timed {
                total_ns += answered_ns.saturating_sub(sent_ns) as f64;
            }
        }
        Ok(total_ns / REQUESTS as f64)
    }
}
