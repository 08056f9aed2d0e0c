//! Runs one process of a micro suite from start to end: each case is prepared, its output judged,
//! timed, and its output judged again; all of it is written to a record file.

use super::output::{References, judge, load, prepare};
use super::session::Session;
use super::{Context, knows, told};
use crate::engine::session::Timeouts;
use crate::engine::{self, EngineFailure, Program};
use crate::recorder::Recorder;
use crate::telemetry::{peak_rss_bytes, reset_peak_rss};
use anyhow::Result;
use base::files::attempt_suffix;
use protocol::clock::now_ns;
use protocol::micro::wire::Time;
use schema::micro::record::{MicroFailed, MicroReady, MicroStart};
use schema::micro::{
    DIR, MicroEvent, MicroLaunch, MicroLog, MicroSample, PlannedSuite, SuiteCase, Variant,
};
use schema::record::Status;

/// Number of samples for a first estimate of the time that a case takes.
const LOOKS: u32 = 3;

/// The launch to be made.
pub(super) struct Wanted<'a> {
    pub(super) suite: &'a PlannedSuite,
    pub(super) launch: &'a MicroLaunch,
    /// Ids of the cases that are still to be measured.
    pub(super) cases: &'a [String],
    /// Ids of those among `cases` that an earlier launch of the variant has measured.
    pub(super) measured: &'a [String],
    pub(super) program: Result<&'a Program, EngineFailure>,
    /// Whether the program may be started once more, limited to fewer instructions, where it dies
    /// of an illegal one before anything is measured.
    pub(super) may_lower: bool,
}

/// Make the launch and return its whole record. If the program died of an illegal instruction
/// before anything was measured, also return the program to start next, limited to fewer
/// instructions. `Err` only where the record can't be written.
pub(super) fn launch(
    context: &Context,
    wanted: &Wanted,
    references: &mut References,
) -> Result<(MicroLog, Option<Program>)> {
    let (suite, launch) = (wanted.suite, wanted.launch);
    let variant = suite
        .variant(&launch.variant)
        .expect("the plan names its variants");
    let program = wanted.program.as_ref();
    let dir = context.run_dir.join(DIR).join(&launch.suite);
    let named = |attempt: u32| {
        let suffix = attempt_suffix(attempt);
        let (variant, block) = (&launch.variant, launch.invocation);
        dir.join(format!("{variant}.i{block}{suffix}.jsonl"))
    };
    let (mut record, attempt) = Recorder::<MicroLog>::create(context.run_dir, 0, named)?;
    let argv = program.map(|program| program.argv_recorded.clone());
    record.event(MicroEvent::Launch(MicroStart {
        suite: suite.id.clone(),
        variant: launch.variant.clone(),
        invocation: launch.invocation,
        attempt,
        cases: wanted.cases.to_vec(),
        argv: argv.unwrap_or_default(),
        isa_limit: program.ok().and_then(|p| p.isa_limit().cloned()),
        start_ns: program.map_or(0, |_| now_ns()),
    }))?;
    let failure = match program {
        Err(failure) => Some(failure.clone()),
        Ok(program) => run(context, wanted, variant, program, references, &mut record)?,
    };
    let log = record.log();
    let may_lower = wanted.may_lower && log.cases.is_empty() && log.failed.is_empty();
    let lower = match (program, &failure) {
        (Ok(program), Some(failure)) if may_lower => program.after(failure),
        _ => None,
    };
    let is_of_cases =
        |failure: &&EngineFailure| failure.status != Status::NotRun && lower.is_none();
    if let Some(failure) = failure.as_ref().filter(is_of_cases) {
        // The case that the process died of, or all of them where it never reached one.
        let left = wanted.cases.iter().filter(|case| !knows(log, case));
        let blamed: Vec<&String> = match log.ready {
            Some(_) => left.take(1).collect(),
            None => left.collect(),
        };
        for case in blamed {
            failed(&mut record, launch, case, failure)?;
        }
    }
    record.event(MicroEvent::End(engine::end(failure)))?;
    record.sync()?;
    Ok((record.into_log()?, lower))
}

/// Record that a case has no samples, and why.
fn failed(
    record: &mut Recorder<MicroLog>,
    launch: &MicroLaunch,
    case: &str,
    failure: &EngineFailure,
) -> Result<()> {
    told::failed(launch, case, failure.status, &failure.reason);
    record.event(MicroEvent::Failed(MicroFailed {
        case: case.to_owned(),
        status: failure.status,
        reason: failure.reason.clone(),
    }))
}

/// Start the program and go through its cases; returns how it failed as a whole, if it did.
fn run(
    context: &Context,
    wanted: &Wanted,
    variant: &Variant,
    program: &Program,
    references: &mut References,
    record: &mut Recorder<MicroLog>,
) -> Result<Option<EngineFailure>> {
    let load = load(context.plan, context.model_dir, wanted.suite, variant);
    let timeouts = Timeouts::new(context.plan, context.control);
    let mut session = match Session::open(program, &load, &timeouts) {
        Err(failure) => return Ok(Some(failure)),
        Ok(session) => session,
    };
    tracing::info!(pid = session.process.pid(), "loaded");
    record.event(MicroEvent::Ready(MicroReady {
        version: session.hello.version.clone(),
        build: session.hello.build.clone(),
        notes: session.hello.notes.clone(),
        ready_ns: session.ready_ns,
    }))?;
    for id in wanted.cases {
        let Some(case) = wanted.suite.cases.iter().find(|case| case.id == *id) else {
            continue;
        };
        // The baseline keeps all its cases, because every ratio needs it; and a case that was
        // measured before is within the budget.
        let look = variant.id != wanted.suite.baseline && !wanted.measured.contains(id);
        let cell = (variant, case, look);
        let _case = told::case(wanted.suite, id).entered();
        match measure(context, wanted.suite, cell, &mut session, references) {
            Ok(sample) => {
                told::timed(&sample);
                record.event(MicroEvent::Case(sample))?;
            }
            // The program itself reported the failure and is alive, so the other cases can go on.
            Err(failure) if is_of_case(&failure) && !session.has_ended() => {
                failed(record, wanted.launch, id, &failure)?;
            }
            Err(failure) => return Ok(Some(failure.with_stderr(session.process.abort()))),
        }
    }
    Ok(session.close().err())
}

/// Whether the failure concerns one case only, so that the process may go on.
fn is_of_case(failure: &EngineFailure) -> bool {
    !matches!(failure.status, Status::NotRun | Status::Timeout)
}

fn measure(
    context: &Context,
    suite: &PlannedSuite,
    (variant, case, look): (&Variant, &SuiteCase, bool),
    session: &mut Session,
    references: &mut References,
) -> Result<MicroSample, EngineFailure> {
    let reference = references.get(context, suite, case)?;
    let limit = suite.limits.get(&variant.precision).copied();
    let limit = limit.unwrap_or_default(); // the plan has one for every precision
    let prepared = session.prepare(prepare(case))?;
    let file = context.scratch.join("output.f64");
    let check = |session: &mut Session| {
        let values = session.output(&file)?;
        judge(reference, prepared.work, &values, limit)
            .map(|error| (error, values.len() as u64))
            .map_err(|why| EngineFailure::new(Status::WrongOutput, why))
    };
    let (error_before, values) = check(session)?;
    if look {
        within_budget(suite, session)?;
    }
    // Reset only now, so that neither earlier cases nor the outputs that were copied for the
    // harness count for the peak.
    let is_reset = reset_peak_rss(session.process.pid());
    let timed = session.time(Time {
        samples: suite.samples,
        sample_ns: suite.sample_ns,
        warmup_ns: suite.warmup_ns,
    })?;
    let peak = is_reset.then(|| peak_rss_bytes(session.process.pid()));
    let (error_after, _) = check(session)?;
    Ok(MicroSample {
        case: case.id.clone(),
        work: prepared.work,
        first_call_ns: prepared.first_call_ns,
        calls: timed.calls,
        ns: timed.ns,
        start_ns: timed.start_ns,
        end_ns: timed.end_ns,
        values,
        error_max: error_before.max(error_after),
        peak_rss_bytes_timed: peak.flatten(),
    })
}

/// Check that the samples of a case will fit into the budget, by the fastest of a few that aren't
/// kept: whatever else is running makes a call longer, never shorter.
fn within_budget(suite: &PlannedSuite, session: &mut Session) -> Result<(), EngineFailure> {
    if suite.cell_ns == 0 {
        return Ok(());
    }
    let look = session.time(Time {
        samples: LOOKS,
        sample_ns: 0,
        warmup_ns: 0,
    })?;
    let best = look.ns.iter().min().copied().unwrap_or_default();
    let of_sample = (best / look.calls).max(suite.sample_ns);
    let all_ns = of_sample.saturating_mul(u64::from(suite.samples));
    if all_ns <= suite.cell_ns {
        return Ok(());
    }
    let (samples, all_s, cell_s) = (
        suite.samples,
        all_ns as f64 / 1e9,
        suite.cell_ns as f64 / 1e9,
    );
    let reason = format!(
        "{samples} readings of it would take {all_s:.1} s, and a launch has {cell_s:.1} s for a case"
    );
    Err(EngineFailure::new(Status::OverBudget, reason))
}
