//! What measuring the suites tells whoever looks.

use super::{Cell, cases_left, key};
use crate::watch::event::{Begin, Event, Group, MICRO_METERS, Mark, Sample};
use crate::watch::{self, emit, plan};
use schema::micro::{MicroLaunch, MicroLog, MicroSample, PlannedSuite, scenario_id};
use schema::plan::Launch;
use schema::record::{End, Status};
use std::collections::BTreeSet;

/// What the suites have to do: the launches planned, of which some are left.
pub(super) fn groups(
    planned: &[(&MicroLaunch, &PlannedSuite)],
    logs: &[MicroLog],
    lost: &BTreeSet<Cell>,
) -> Vec<Group> {
    let of = |shown: &Launch| {
        let is_it = |(launch, _): &&(&MicroLaunch, &PlannedSuite)| {
            let name = scenario_id(&launch.suite);
            (&launch.variant, &name, launch.invocation)
                == (&shown.target, &shown.scenario, shown.invocation)
        };
        planned.iter().find(is_it).copied()
    };
    let left = |shown: &Launch| {
        of(shown).is_some_and(|(launch, suite)| !cases_left(suite, launch, logs, lost).is_empty())
    };
    let why_not = |shown: &Launch| {
        let (launch, _) = of(shown)?;
        let failed = logs.iter().find_map(|log| {
            let failed = log.failed.first()?;
            let (suite, variant, _) = key(log, &failed.case);
            let same = suite == launch.suite && variant == launch.variant;
            same.then(|| format!("{}: {}", failed.status.id(), failed.reason))
        });
        failed.map(|reason| (Mark::Failed, reason))
    };
    let shown: Vec<Launch> = planned.iter().map(|(launch, _)| shown(launch)).collect();
    plan::groups(&shown, left, why_not)
}

/// A launch as those of scenarios are shown.
fn shown(launch: &MicroLaunch) -> Launch {
    Launch {
        invocation: launch.invocation,
        target: launch.variant.clone(),
        scenario: scenario_id(&launch.suite),
        cases: Vec::new(),
    }
}

/// A launch begins.
pub(super) fn begin(launch: &MicroLaunch) {
    emit(Event::Begin(Begin {
        group: scenario_id(&launch.suite),
        item: launch.variant.clone(),
        detail: format!("block {}", launch.invocation + 1),
        meters: &MICRO_METERS,
        skippable: false,
    }));
}

/// A case of the launch begins.
pub(super) fn case(suite: &PlannedSuite, case: &str) {
    emit(Event::Part {
        name: case.to_owned(),
        samples: suite.samples,
    });
}

/// It was timed: the program tells of its readings when all are taken.
pub(super) fn timed(sample: &MicroSample) {
    let mut t_ns = sample.start_ns;
    for &ns in &sample.ns {
        t_ns += ns;
        emit(Event::Sample(Sample {
            t_ns,
            timed: true,
            values: [Some(ns as f64 / sample.calls as f64 / 1e6), None, None],
            work: sample.calls as f64,
        }));
    }
    emit(Event::PartEnd);
}

/// A case of a launch has no numbers. That there was no time for it, or that a variant
/// doesn't have it, is no error.
pub(super) fn failed(launch: &MicroLaunch, case: &str, status: Status, reason: &str) {
    if !matches!(
        status,
        Status::OverBudget | Status::Unsupported | Status::Unavailable | Status::NotRun
    ) {
        let scenario = scenario_id(&launch.suite);
        watch::error(format!(
            "{} · {scenario}/{case}: {}: {reason}",
            launch.variant,
            status.id()
        ));
    }
}

/// A launch ended.
pub(super) fn end(end: &End) {
    let (mark, reason) = match end.status {
        Status::Ok => (Mark::Done, String::new()),
        Status::NotRun => (Mark::Skipped, end.reason.clone()),
        status => (Mark::Failed, format!("{}: {}", status.id(), end.reason)),
    };
    emit(Event::End { mark, reason });
}

/// A launch isn't made: all its cases were lost in earlier ones.
pub(super) fn dropped(launch: &MicroLaunch) {
    emit(Event::Drop {
        group: scenario_id(&launch.suite),
        item: launch.variant.clone(),
        mark: Mark::Failed,
    });
}
