//! The micro suites: operations below the engines, each timed in a process of its own.
//!
//! `plan` decides which launches there are (pure), `programs` builds, `session` speaks the
//! protocol, `output` judges the output of a call, `told` reports progress, `launch` runs one
//! process from start to end. This module makes all launches that aren't on disk yet, block by
//! block. Deliberately not here: statistics (`stats::micro`).

mod launch;
mod output;
mod plan;
mod programs;
mod session;
mod told;

pub use plan::plan;
pub use programs::MicroPrograms;

use crate::engine::Program;
use anyhow::Result;
use base::repo::Repo;
use output::References;
use schema::key::{CellKey, original};
use schema::micro::{MicroLaunch, MicroLog, PlannedSuite, scenario_id};
use schema::plan::Plan;
use schema::record::Status;
use schema::run::RunHeader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use watch::event::{Event, Stage};
use watch::{Control, emit};

/// The values that all launches of a run share.
pub(crate) struct Context<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) run_dir: &'a Path,
    pub(crate) model_dir: &'a Path,
    pub(crate) programs: &'a MicroPrograms,
    /// A temporary directory for outputs; it is deleted at the end of the run.
    pub(crate) scratch: &'a Path,
    pub(crate) control: &'a Control,
}

/// The state of the run's cells so far.
#[derive(Default)]
struct Known {
    /// The cells that failed. They are not tried again in this run, because a cell needs every
    /// launch. A twin's cell counts separately: losing it costs the A/A pair, not the baseline's
    /// cell.
    lost: BTreeSet<CellKey>,
    /// The cells that were measured at least once, so that no first estimate of their time is
    /// needed; a twin's cells count as its original's.
    measured: BTreeSet<CellKey>,
    /// Programs that died of an illegal instruction and are now limited to fewer, by suite and
    /// variant.
    lower: BTreeMap<(String, String), Program>,
}

impl Known {
    /// Note which cells a launch lost and which it measured.
    fn take(&mut self, log: &MicroLog) {
        let failed = log.failed.iter();
        self.lost
            .extend(failed.map(|failed| log.launch.cell_key(&failed.case)));
        let done = log.cases.iter();
        self.measured
            .extend(done.map(|done| of_original(log.launch.cell_key(&done.case))));
    }
}

/// A planned launch, and what is left of it.
struct Planned<'a> {
    suite: &'a PlannedSuite,
    launch: &'a MicroLaunch,
    /// The ids of its cases that are neither on disk nor lost.
    left: Vec<String>,
}

impl<'a> Planned<'a> {
    /// What is left of a launch where `logs` are on disk and the cells in `lost` are lost.
    fn new(
        suite: &'a PlannedSuite,
        launch: &'a MicroLaunch,
        logs: &[MicroLog],
        lost: &BTreeSet<CellKey>,
    ) -> Self {
        let done = |case: &str| {
            let mut of = logs.iter().filter(|log| is_of(log, launch));
            of.any(|log| log.cases.iter().any(|done| done.case == case))
        };
        let is_lost = |case: &str| lost.contains(&launch.cell_key(case));
        let ids = suite.cases.iter().map(|case| case.id.clone());
        Self {
            suite,
            launch,
            left: ids.filter(|case| !done(case) && !is_lost(case)).collect(),
        }
    }
}

/// Measure the launches of a run's micro suites that `logs` lack, and return what was recorded. A
/// failure is recorded and the rest goes on; only what makes recording itself impossible is an
/// error.
pub fn of_run(
    repo: &Repo,
    run_dir: &Path,
    header: &RunHeader,
    programs: &MicroPrograms,
    logs: &[MicroLog],
    control: &Control,
) -> Result<Vec<MicroLog>> {
    let plan = &header.plan;
    let scratch = tempfile::tempdir()?;
    let context = Context {
        plan,
        run_dir,
        model_dir: &repo.model_dir(&plan.model),
        programs,
        scratch: scratch.path(),
        control,
    };
    let mut known = Known::default();
    logs.iter().for_each(|log| known.take(log));
    let launches = plan.micro.launches.iter();
    let planned: Vec<Planned> = launches
        .filter(|launch| header.origin.has(launch.invocation))
        .filter_map(|launch| {
            let suite = plan.micro.suite(&launch.suite)?;
            Some(Planned::new(suite, launch, logs, &known.lost))
        })
        .collect();
    let left: Vec<&Planned> = planned.iter().filter(|one| !one.left.is_empty()).collect();
    if left.is_empty() {
        return Ok(Vec::new());
    }
    watch::stage(Stage::Micro);
    eprintln!("Measuring the micro suites: {} launches", left.len());
    for group in told::groups(&planned, logs) {
        emit(Event::Group(group));
    }
    let mut references = References::default();
    let mut made = Vec::new();
    for planned in left {
        made.extend(one(&context, planned, &mut known, &mut references)?);
    }
    Ok(made)
}

/// Time that the micro suites should take (s), without the launches in `logs`.
pub fn expected_s(plan: &Plan, logs: &[MicroLog], is_ours: impl Fn(u32) -> bool) -> f64 {
    // A launch that was interrupted has an end too, but is made again.
    let is_done = |launch: &MicroLaunch| {
        let of = logs.iter().filter(|log| is_of(log, launch));
        let mut ends = of.filter_map(|log| log.end.as_ref());
        ends.any(|end| end.status != Status::NotRun)
    };
    let launches = plan.micro.launches.iter();
    let left = launches.filter(|launch| is_ours(launch.invocation) && !is_done(launch));
    let suites = left.filter_map(|launch| plan.micro.suite(&launch.suite));
    let each = suites.map(|suite| {
        let cases: Vec<String> = suite.cases.iter().map(|case| case.id.clone()).collect();
        told::LAUNCH_S + at_least(suite, &cases).as_secs_f64()
    });
    each.sum()
}

/// Make one planned launch: with as many processes as needed, since one that dies of a case leaves
/// other cases to measure.
fn one(
    context: &Context,
    planned: &Planned,
    known: &mut Known,
    references: &mut References,
) -> Result<Vec<MicroLog>> {
    context.control.checkpoint()?;
    let (suite, launch) = (planned.suite, planned.launch);
    let mut made = Vec::new();
    let mut cases = planned.left.clone();
    cases.retain(|case| !known.lost.contains(&launch.cell_key(case)));
    if cases.is_empty() {
        told::dropped(launch);
        return Ok(made);
    }
    context.control.next_piece(at_least(suite, &cases))?;
    let _inside = told::begin(launch).entered();
    loop {
        base::interrupt::check()?;
        let is_measured =
            |case: &&String| known.measured.contains(&of_original(launch.cell_key(case)));
        let measured: Vec<String> = cases.iter().filter(is_measured).cloned().collect();
        let of = (suite.id.clone(), original(&launch.variant).to_owned());
        let is_of =
            |measured: &CellKey| measured.target == of.1 && measured.scenario == scenario_id(&of.0);
        let variant = suite.variant(&launch.variant);
        let variant = variant.expect("the plan names its variants");
        let lower = known.lower.get(&of);
        let wanted = launch::Wanted {
            suite,
            launch,
            cases: &cases,
            measured: &measured,
            program: lower.map_or_else(|| context.programs.get(variant), Ok),
            may_lower: lower.is_none() && !known.measured.iter().any(is_of),
        };
        let (log, lower) = launch::launch(context, &wanted, references)?;
        let end = log.end.clone().expect("its last line was just recorded");
        if end.status == Status::NotRun {
            anyhow::bail!("{}", end.reason);
        }
        known.take(&log);
        let left = cases.len();
        cases.retain(|case| !knows(&log, case));
        let goes_on = !cases.is_empty() && cases.len() < left;
        made.push(log);
        if let Some(lower) = lower {
            let name = format!("{} of {}", launch.variant, suite.id);
            watch::warn(format!("{name}: {}", end.reason));
            known.lower.insert(of, lower);
        } else if !goes_on {
            told::end(&end);
            return Ok(made);
        }
    }
}

/// The shortest time that the cases of a launch can take.
fn at_least(suite: &PlannedSuite, cases: &[String]) -> Duration {
    let of_case = suite.warmup_ns + u64::from(suite.samples) * suite.sample_ns;
    Duration::from_nanos(of_case.saturating_mul(cases.len() as u64))
}

/// Whether a launch has samples of a case, or recorded why there are none.
fn knows(log: &MicroLog, case: &str) -> bool {
    log.cases.iter().any(|done| done.case == case)
        || log.failed.iter().any(|failed| failed.case == case)
}

fn is_of(log: &MicroLog, launch: &MicroLaunch) -> bool {
    log.launch.suite == launch.suite
        && log.launch.variant == launch.variant
        && log.launch.invocation == launch.invocation
}

fn of_original(mut cell: CellKey) -> CellKey {
    cell.target = original(&cell.target).to_owned();
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::micro::record::{MicroFailed, MicroStart};
    use schema::record::End;

    const SUITE: &str = r#"
id = "s"
version = 1
work = "flop"
limits = {}
baseline = "base"
reference = { id = "r", about = "", program = "p", run = "r", backend = "cpu", precision = "f32" }
variants = []
cases = [{ id = "x", label = "", params = {} }, { id = "y", label = "", params = {} }]
samples = 1
sample_ns = 1
warmup_ns = 1
"#;

    fn launch(variant: &str) -> MicroLaunch {
        MicroLaunch {
            invocation: 1,
            suite: "s".into(),
            variant: variant.into(),
        }
    }

    /// A launch of an earlier block that failed at the case `x`.
    fn failed_at_x(variant: &str) -> MicroLog {
        MicroLog {
            launch: MicroStart {
                suite: "s".into(),
                variant: variant.into(),
                ..MicroStart::default()
            },
            failed: vec![MicroFailed {
                case: "x".into(),
                status: Status::Crashed,
                reason: "a bad day".into(),
            }],
            ..MicroLog::default()
        }
    }

    #[test]
    fn what_a_twin_loses_is_its_own() {
        let suite: PlannedSuite = toml::from_str(SUITE).unwrap();
        let logs = [failed_at_x("base@twin")];
        let lost = BTreeSet::from([logs[0].launch.cell_key("x")]);
        let left = |variant: &str| Planned::new(&suite, &launch(variant), &logs, &lost).left;
        assert_eq!(left("base@twin"), ["y"]);
        assert_eq!(left("base"), ["x", "y"]);
        assert_eq!(
            of_original(logs[0].launch.cell_key("x")),
            launch("base").cell_key("x")
        );
    }

    #[test]
    fn an_interrupted_launch_is_still_to_be_made() {
        let mut plan = fixtures::plan();
        plan.micro.suites = vec![toml::from_str(SUITE).unwrap()];
        plan.micro.launches = vec![launch("base")];
        let left_s = |status| {
            let mut log = failed_at_x("base");
            log.launch.invocation = 1;
            log.end = Some(End {
                status,
                ..End::default()
            });
            expected_s(&plan, &[log], |_| true)
        };
        assert!(left_s(Status::NotRun) > 0.0);
        assert_eq!(left_s(Status::Crashed), 0.0);
    }

    #[test]
    fn a_launch_that_is_not_made_says_why() {
        let suite = SUITE.replace(", { id = \"y\", label = \"\", params = {} }", "");
        let suite: PlannedSuite = toml::from_str(&suite).unwrap();
        let logs = [failed_at_x("base@twin")];
        let lost = BTreeSet::from([logs[0].launch.cell_key("x")]);
        let (base, twin) = (launch("base"), launch("base@twin"));
        let planned = [&base, &twin].map(|launch| Planned::new(&suite, launch, &logs, &lost));
        let groups = told::groups(&planned, &logs);
        let said = format!("{groups:?}");
        assert_eq!(said.matches("a bad day").count(), 1, "{said}");
    }
}
