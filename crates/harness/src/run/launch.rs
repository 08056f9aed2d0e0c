//! Makes one launch from start to end: load, the cases of the launch, close; and its record file,
//! whose last line says how it ended.

use super::audit::Audit;
use super::case_prompts::case_prompts;
use super::issue::issue;
use super::load::{CaseError, CasePrompts, Window};
use super::open_loop::Offered;
use super::pending::Pending;
use super::watched::Engine;
use super::weights::Weights;
use super::{Ended, Stage, scenario, told};
use crate::engine::life::check_engine;
use crate::engine::load::load_for_cases;
use crate::engine::session::{Session, Timeouts};
use crate::engine::{self, EngineFailure, Program, kv};
use crate::recorder::Recorder;
use crate::telemetry::peak_rss_bytes;
use anyhow::Result;
use base::files::launch_file;
use ceilings::Canary;
use protocol::clock::now_ns;
use protocol::wire::Load;
use schema::capacity::{self, Capacity};
use schema::key::original;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Launch, PlannedScenario};
use schema::record::{CaseEnd, End, LaunchRecord, Readings, RecordEvent, Status};
use schema::registry::Target;
use schema::scenario::LoadShape;
use std::collections::VecDeque;
use tracing::Span;

const READINGS_PER_LINE: usize = 512;

/// The inputs of a launch.
pub struct Context<'a> {
    /// The inputs that all launches share.
    pub stage: &'a Stage<'a>,
    /// The measured capacities, which scale the open loops.
    pub capacities: &'a [Capacity],
    /// Whether the process stays for another launch after this one, and so isn't closed.
    pub stays: bool,
    /// The engine's program.
    pub program: &'a Program,
    /// The target that is launched.
    pub target: &'a Target,
    /// The model's weight files, as they were when the run began.
    pub weights: &'a Weights,
    /// Measures the machine's present speed.
    pub canary: &'a Canary,
    /// The longest context (tokens) that the target is verified for.
    pub positions: u32,
}

/// A launch in progress. Its methods fail only where its record can't be written; `begin` fails also
/// where prompts can't be cut.
pub(super) struct Running<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) launch: &'a Launch,
    scenario: &'a PlannedScenario,
    cases: VecDeque<(&'a Case, CasePrompts)>,
    record: Recorder<LaunchLog>,
    /// The process and its observers; `None` after a failure.
    engine: Option<Engine>,
    failure: Option<EngineFailure>,
    /// The record's last line, once it is written.
    end: Option<End>,
    /// Whether the launch ended because the user skipped it.
    skipped: bool,
    /// The session that goes on to another launch.
    stays: Option<Session>,
    /// The launch's span in the log.
    pub(super) span: Span,
}

impl<'a> Running<'a> {
    /// Begin the record, start the process and load the model; or go on with `resident`, the
    /// session of an earlier launch.
    pub(super) fn begin(
        context: &'a Context,
        pending: &'a Pending,
        resident: Option<Session>,
    ) -> Result<Self> {
        let (stage, launch) = (context.stage, &pending.launch);
        let span = told::begin(launch);
        let inside = span.clone().entered();
        let scenario = scenario(stage.plan, &launch.scenario);
        let per_case = scenario.load == LoadShape::Batch;
        let named = |attempt| launch_file(stage.run_dir, launch, per_case, attempt);
        let (mut record, attempt) = Recorder::create(stage.run_dir, pending.attempt, named)?;
        // Prompts are cut and tokenised before the clock runs.
        let block = launch.invocation;
        let with_prompts = |case: &'a Case| {
            let prompts = case_prompts(stage.plan, stage.prompts, scenario, case, block)?;
            Ok((case, prompts))
        };
        let cases = launch.cases.iter().filter_map(|id| scenario.case(id));
        let cases = cases.map(with_prompts).collect::<Result<VecDeque<_>>>()?;
        let reused = resident.is_some();
        record.event(RecordEvent::Launch(LaunchRecord {
            target: launch.target.clone(),
            scenario: launch.scenario.clone(),
            invocation: launch.invocation,
            attempt,
            cases: launch.cases.clone(),
            argv: context.program.argv_recorded.clone(),
            isa_limit: context.program.isa_limit().cloned(),
            start_ns: resident
                .as_ref()
                .map_or_else(now_ns, |s| s.process.start_ns),
            reused,
        }))?;
        let mut running = Self {
            context,
            launch,
            scenario,
            cases,
            record,
            engine: None,
            failure: None,
            end: None,
            skipped: false,
            stays: None,
            span,
        };
        let opened = match resident {
            Some(session) => Ok(session),
            None => {
                let own = running.cases.iter().map(|(case, _)| *case).collect();
                open(context, scenario, own)
            }
        };
        match opened {
            Err(failure) => running.failure = Some(failure),
            Ok(session) => {
                let (loaded_ms, reused) = (session.loaded.load_ns / 1_000_000, reused);
                tracing::info!(pid = session.process.pid(), loaded_ms, reused, "loaded");
                running.record.event(RecordEvent::Ready(session.ready()))?;
                let shared = stage.plan.shares_process(scenario);
                let (backend, seed) = (&context.target.backend, stage.plan.seed);
                running.engine = Some(Engine::new(session, backend, seed, shared));
            }
        }
        drop(inside);
        Ok(running)
    }

    /// Make all cases, while no other engine is running.
    pub(super) fn alone(&mut self) -> Result<()> {
        let _inside = self.span.clone().entered();
        if let Some(engine) = &self.engine {
            engine.session.process.resume();
        }
        match self.cases() {
            Ok(()) => {}
            Err(CaseError::Engine(failure)) => self.fail(failure),
            Err(CaseError::Record(error)) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn pause(&self) {
        if let Some(engine) = &self.engine {
            engine.session.process.pause();
        }
    }

    pub(super) fn was_skipped(&self) -> bool {
        let failure = self.failure.as_ref();
        self.skipped || failure.is_some_and(EngineFailure::was_skipped)
    }

    /// The peak resident memory of its process (bytes), if that is known.
    pub(super) fn peak_rss_bytes(&self) -> Option<u64> {
        peak_rss_bytes(self.engine.as_ref()?.session.process.pid())
    }

    /// Take the next case, if its id is `id`.
    pub(super) fn take_case(&mut self, id: &str) -> Option<(&'a Case, CasePrompts)> {
        self.cases.pop_front_if(|(case, _)| case.id == id)
    }

    /// The process and the record, unless the launch has failed.
    pub(super) fn at_work(&mut self) -> Option<(&mut Engine, &mut Recorder<LaunchLog>)> {
        Some((self.engine.as_mut()?, &mut self.record))
    }

    fn cases(&mut self) -> Result<(), CaseError> {
        let (context, launch, load) = (self.context, self.launch, self.scenario.load);
        while let Some((case, prompts)) = self.cases.pop_front() {
            let Some((engine, record)) = self.at_work() else {
                return Ok(());
            };
            let _case = told::span(case).entered();
            engine.begin(case, context.canary);
            told::case(case);
            let result = issue(
                &mut engine.session,
                load,
                case,
                context.stage.plan.warmup_requests,
                offered(context, launch, case),
                prompts,
                &mut recording_sink(record, &mut engine.audit),
            );
            if result.is_ok() {
                engine.look(context.canary);
            }
            self.case_over(case, result)?;
        }
        Ok(())
    }

    /// End a case: record its readings and, where it is complete, its end.
    pub(super) fn case_over(
        &mut self,
        case: &Case,
        result: Result<Window, CaseError>,
    ) -> Result<(), CaseError> {
        let Some(engine) = &mut self.engine else {
            return result.map(drop);
        };
        let peak_rss_bytes = engine.peak_rss_bytes();
        let witnessed = engine.audit.end();
        // Readings are kept of a failed case too, because they may show why it failed.
        let readings = schema::telemetry::kept(engine.sampler.take());
        for readings in readings.chunks(READINGS_PER_LINE) {
            self.record
                .event(RecordEvent::Readings(Readings::pack(&case.id, readings)))
                .map_err(CaseError::Record)?;
        }
        let window = result.map_err(|stop| because_of_gpu(stop, engine.sampler.gpu_lost()))?;
        let end = CaseEnd {
            case: case.id.clone(),
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            peak_rss_bytes,
            witnessed,
            canary: std::mem::take(&mut engine.canary),
        };
        told::case_end(&end);
        self.record
            .event(RecordEvent::CaseEnd(end))
            .and_then(|()| self.record.sync())
            .map_err(CaseError::Record)
    }

    /// Note a failure and kill the process at once.
    pub(super) fn fail(&mut self, failure: EngineFailure) {
        if let Some(engine) = self.engine.take() {
            self.failure = Some(failure.with_stderr(engine.session.process.abort()));
        }
    }

    /// Finish the launch; also returns its session, where that serves another launch.
    pub(super) fn end(mut self) -> Result<(Ended, Option<Session>)> {
        let ended = Ended {
            end: self.finish()?,
            skipped: self.was_skipped(),
            log: self.record.into_log()?,
        };
        Ok((ended, self.stays))
    }

    /// End the process, unless it failed, and the record; returns how the launch ended. Later calls
    /// return the same.
    pub(super) fn finish(&mut self) -> Result<End> {
        if let Some(end) = &self.end {
            return Ok(end.clone());
        }
        let _inside = self.span.clone().entered();
        if let Some(Engine {
            session, sampler, ..
        }) = self.engine.take()
        {
            drop(sampler);
            if self.context.stays {
                self.stays = Some(session);
            } else {
                self.failure = session.close().err();
            }
        }
        let mut failure = self.failure.take();
        // If the model's files changed during the launch, a failure isn't the engine's fault.
        if let Some(changed) = self.context.weights.changed(self.context.target) {
            let tail = failure.map(|failure| failure.stderr_tail);
            let changed = EngineFailure::new(Status::NotRun, changed);
            failure = Some(changed.with_stderr(tail.unwrap_or_default()));
        }
        self.skipped = failure.as_ref().is_some_and(EngineFailure::was_skipped);
        let end = engine::end(failure);
        self.record.event(RecordEvent::End(end.clone()))?;
        self.record.sync()?;
        told::turn(self.launch);
        told::end(self.launch, &end);
        self.end = Some(end.clone());
        Ok(end)
    }
}

/// Start a process and load the model for all cases that it will serve.
fn open(
    context: &Context,
    scenario: &PlannedScenario,
    own: Vec<&Case>,
) -> Result<Session, EngineFailure> {
    let (stage, target) = (context.stage, context.target);
    let plan = stage.plan;
    let cases = plan.loaded_for(scenario, own, &target.id, context.positions);
    let load = Load {
        prefix_cache: scenario.reuses_prompts(),
        ..load_for_cases(target, stage.model_dir, plan.threads, cases)
    };
    let timeouts = Timeouts::new(plan, stage.control);
    let session = Session::open_watched(context.program, &load, &timeouts)?;
    let checked = check_engine(&session.hello.engine, &target.engine);
    match checked.and_then(|()| kv::check(target, stage.model_dir, &session.loaded)) {
        Ok(()) => Ok(session),
        Err(failure) => Err(failure.with_stderr(session.process.abort())),
    }
}

/// A sink that records requests, shows them, and passes their stamps to the audit.
pub(super) fn recording_sink(
    record: &mut Recorder<LaunchLog>,
    audit: &mut Audit,
) -> impl FnMut(RecordEvent) -> Result<()> {
    |event| {
        if let RecordEvent::Request(request) = &event {
            told::request(request);
            audit.answered(request);
        }
        record.event(event)
    }
}

/// Add to an engine's failure that its GPU was lost, if so.
fn because_of_gpu(stop: CaseError, lost: Option<String>) -> CaseError {
    match (stop, lost) {
        (CaseError::Engine(failure), Some(lost)) => CaseError::Engine(EngineFailure {
            reason: format!("{} ({lost})", failure.reason),
            ..failure
        }),
        (stop, _) => stop,
    }
}

/// The rate that an open-loop case offers: its share of the capacity that this run measured.
fn offered(context: &Context, launch: &Launch, case: &Case) -> Option<Offered> {
    let percent = case.load_percent?;
    let capacity = capacity::find(context.capacities, original(&launch.target), case)?;
    Some(Offered {
        rate_per_s: capacity.share(percent),
        seed: context.stage.plan.seed,
        name: format!("{}/{}/{}", launch.scenario, case.id, launch.invocation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_after_the_gpu_was_lost_says_so() {
        let crash =
            || CaseError::Engine(EngineFailure::new(Status::Crashed, "exited with status 1"));
        let reason = |stop| match stop {
            CaseError::Engine(failure) => (failure.status, failure.reason),
            CaseError::Record(error) => panic!("{error}"),
        };
        let (status, with) = reason(because_of_gpu(crash(), Some("the GPU was lost: x".into())));
        assert_eq!(status, Status::Crashed);
        assert_eq!(with, "exited with status 1 (the GPU was lost: x)");
        let (_, without) = reason(because_of_gpu(crash(), None));
        assert_eq!(without, "exited with status 1");
    }
}
