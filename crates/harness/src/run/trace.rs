//! Records kernel traces: each verified CUDA target of a run is launched once more with the tracer
//! inside (`crates/tracer`), for a few requests of one case. Nothing here is timed: the requests
//! are recorded so that `stats` can tell which kernels made which token. The traces are in the
//! run's directory, apart from its samples.

mod choice;

use super::Stage;
use super::issue::issue;
use super::load::{CaseError, CasePrompts, PromptQueue};
use crate::engine::load::load_for_cases;
use crate::engine::session::{Session, Timeouts};
use crate::engine::{EngineFailure, Program, end};
use crate::machine::Gpu;
use anyhow::{Context, Result, bail};
use base::files::{Appender, attempt_suffix};
use choice::case;
pub use choice::targets;
use protocol::clock::now_ns;
use schema::kernels::{REQUESTS_SUFFIX, TRACE_VARIABLE, TRACES_DIR, TracedLaunch, trace_path};
use schema::plan::Case;
use schema::record::{LaunchRecord, RecordEvent, Status};
use schema::registry::Target;
use schema::run::Run;
use schema::run_files::RunFiles;
use schema::scenario::LoadShape;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable by which the CUDA driver loads a library into a process.
const INJECTION_VARIABLE: &str = "CUDA_INJECTION64_PATH";
/// Requests before the analysed ones: graphs are captured and kernels tuned in them.
const WARMUP_REQUESTS: u32 = 2;

/// Whether this machine has an NVIDIA device; `Err` says why not.
pub fn here() -> Result<(), String> {
    let gpu = Gpu::read();
    match gpu.devices.is_empty() {
        true => Err(gpu
            .absent
            .unwrap_or_else(|| "there is no NVIDIA device".into())),
        false => Ok(()),
    }
}

/// Trace the targets of `run` of the engines named (or all) and print what was seen; targets with a
/// usable trace are traced only if `again`. `tracer` provides the tracer's library, once there is
/// something to trace. Returns whether all could be traced. `Err` only where the run's directory
/// can't be written, or on an interrupt.
pub fn of_run(
    stage: &Stage,
    run: &Run,
    engines: &[String],
    again: bool,
    tracer: impl FnOnce() -> Result<PathBuf, EngineFailure>,
) -> Result<bool> {
    let chosen = here().and_then(|()| targets(stage.plan, stage.verify, engines));
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(why) => {
            println!("No kernels traced: {why}");
            return Ok(true);
        }
    };
    let tracer = match tracer() {
        Ok(tracer) => tracer,
        Err(failure) => {
            watch::warn(format!("No kernels traced: {failure}"));
            return Ok(false);
        }
    };
    let programs = stage.programs.clone().as_judged(stage.verify);
    let mut all = true;
    for target in chosen {
        stage.control.checkpoint()?;
        let is_its = |launch: &&TracedLaunch| launch.log.launch.target == target.id;
        let earlier = run.kernels.iter().find(is_its);
        if !again && earlier.is_some_and(|l| stats::kernels::analyse(l).is_ok()) {
            continue;
        }
        let Ok(program) = programs.get(target) else {
            continue; // a failed build was reported before
        };
        stage.control.next_piece(Duration::ZERO)?;
        match of_target(stage, target, program, &tracer)? {
            Ok(analysis) => eprintln!("Kernels: {} {}", target.id, words(&analysis)),
            Err(why) => {
                all = false;
                watch::warn(format!("No kernels of {}: {why}", target.id));
            }
        }
    }
    Ok(all)
}

/// Launch a target with the tracer inside; returns the trace's analysis, or why there is none.
pub fn of_target(
    stage: &Stage,
    target: &Target,
    program: &Program,
    tracer: &Path,
) -> Result<Result<stats::kernels::KernelAnalysis, String>> {
    let (scenario, case) = match case(stage.plan, stage.verify, &target.id) {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let prompts = prompts(stage, &case)?;
    let dir = stage.run_dir.join(TRACES_DIR).join(&target.id);
    let dir = std::path::absolute(&dir)
        .with_context(|| format!("{} has no absolute path", dir.display()))?;
    let named = |attempt: u32| {
        let (scenario, case, suffix) = (&scenario.id, &case.id, attempt_suffix(attempt));
        dir.join(format!("{scenario}.{case}{suffix}{REQUESTS_SUFFIX}"))
    };
    let (mut record, attempt) = Appender::create_next(0, named)?;
    let mut traced = program.clone();
    let mut set = |name: &str, value: &Path| {
        traced.env.push((name.into(), value.display().to_string()));
    };
    set(INJECTION_VARIABLE, tracer);
    set(TRACE_VARIABLE, &trace_path(&named(attempt)));
    record.event(RecordEvent::Launch(LaunchRecord {
        target: target.id.clone(),
        scenario: scenario.id.clone(),
        attempt,
        cases: vec![case.id.clone()],
        argv: program.argv_recorded.clone(),
        isa_limit: program.isa_limit().cloned(),
        start_ns: now_ns(),
        ..LaunchRecord::default()
    }))?;
    launch(stage, target, &traced, &case, prompts, &mut record)?;
    let all = TracedLaunch::load_all(&RunFiles::open(stage.run_dir)?)?;
    let newest = all.iter().find(|l| l.log.launch.target == target.id);
    let newest = newest.context("the launch that was just recorded is gone")?;
    Ok(stats::kernels::analyse(newest))
}

fn prompts(stage: &Stage, case: &Case) -> Result<CasePrompts> {
    let count = (WARMUP_REQUESTS + case.requests) as usize;
    let (purpose, length) = (format!("trace/{}", case.id), case.prompt_tokens as usize);
    let mut prompts = stage.prompts.take(&purpose, 0, length, count)?;
    let timed = prompts.split_off(WARMUP_REQUESTS as usize);
    Ok(CasePrompts {
        untimed: PromptQueue::new(0, prompts),
        timed: PromptQueue::new(u64::from(WARMUP_REQUESTS), timed),
    })
}

/// Make the launch; `record` already has its first line.
fn launch(
    stage: &Stage,
    target: &Target,
    program: &Program,
    case: &Case,
    prompts: CasePrompts,
    record: &mut Appender,
) -> Result<()> {
    let load = load_for_cases(target, stage.model_dir, stage.plan.threads, [case]);
    let timeouts = Timeouts::new(stage.plan, stage.control);
    let ended = match Session::open(program, &load, &timeouts) {
        Err(failure) => Err(failure),
        Ok(mut session) => {
            record.event(RecordEvent::Ready(session.ready()))?;
            let (shape, warmup) = (LoadShape::Serial, WARMUP_REQUESTS);
            let mut sink = |event| record.event(event);
            match issue(&mut session, shape, case, warmup, None, prompts, &mut sink) {
                // The tracer writes its last data when the process exits.
                Ok(_) => session.close(),
                Err(CaseError::Engine(failure)) => {
                    Err(failure.with_stderr(session.process.abort()))
                }
                Err(CaseError::Record(error)) => return Err(error),
            }
        }
    };
    let end = end(ended.err());
    record.event(RecordEvent::End(end.clone()))?;
    record.sync()?;
    if end.status == Status::NotRun {
        bail!("interrupted");
    }
    Ok(())
}

fn words(analysis: &stats::kernels::KernelAnalysis) -> String {
    let decode = &analysis.decode;
    let kernels = decode.kernels_per_token().unwrap_or_default();
    let percent = 100.0 * decode.busy_fraction().unwrap_or_default();
    format!("{kernels:.1} a token, the GPU busy for {percent:.0} % of decoding")
}
