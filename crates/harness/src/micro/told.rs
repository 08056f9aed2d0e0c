//! Emits the progress events of measuring the micro suites.

use super::{Planned, at_least};
use schema::micro::{MicroLaunch, MicroLog, MicroSample, PlannedSuite, scenario_id};
use schema::record::{End, Status};
use tracing::{Span, info_span};
use watch::emit;
use watch::event::{Begin, Event, Expected, Group, MICRO_METERS, Mark, Sample};
use watch::plan::{self, Fate};

/// Time that a launch takes in addition to its samples and their warm-up (s): for starting, and for
/// verifying before and after. Measured in published runs on two cores.
pub(super) const LAUNCH_S: f64 = 1.9;

/// The groups of planned launches for the display, each item with its state and expected time.
pub(super) fn groups(planned: &[Planned], logs: &[MicroLog]) -> Vec<Group> {
    let failed_of = |launch: &MicroLaunch| {
        let of = logs.iter().filter(|log| {
            (&log.launch.suite, &log.launch.variant) == (&launch.suite, &launch.variant)
        });
        of.flat_map(|log| &log.failed).next()
    };
    let fate = |planned: &Planned| match failed_of(planned.launch) {
        _ if !planned.left.is_empty() => Fate::Left,
        Some(failed) => {
            let reason = format!("{}: {}", failed.status.id(), failed.reason);
            Fate::Dropped(Mark::Failed, reason)
        }
        None => Fate::Done,
    };
    let mut groups = plan::groups(planned.iter().map(|planned| plan::Planned {
        group: scenario_id(&planned.launch.suite),
        item: planned.launch.variant.clone(),
        fate: fate(planned),
    }));
    for planned in planned.iter().filter(|planned| !planned.left.is_empty()) {
        let group = scenario_id(&planned.launch.suite);
        let groups = groups.iter_mut().filter(|known| known.name == group);
        let mut items = groups.flat_map(|known| &mut known.items);
        if let Some(item) = items.find(|item| item.name == planned.launch.variant) {
            item.expected = Some(Expected {
                launch_s: LAUNCH_S + at_least(planned.suite, &planned.left).as_secs_f64(),
                ..Expected::default()
            });
        }
    }
    groups
}

/// Report that a launch begins; returns the log's span for it.
pub(super) fn begin(launch: &MicroLaunch) -> Span {
    let (group, block) = (scenario_id(&launch.suite), launch.invocation + 1);
    let span = info_span!("launch", target = %launch.variant, scenario = %group, block);
    emit(Event::Begin(Begin {
        group,
        item: launch.variant.clone(),
        detail: format!("block {block}"),
        meters: &MICRO_METERS,
        skippable: false,
    }));
    span
}

/// Report that a case of the launch begins; returns the log's span for it.
pub(super) fn case(suite: &PlannedSuite, case: &str) -> Span {
    emit(Event::Part {
        name: case.to_owned(),
        samples: suite.samples,
    });
    info_span!("case", id = case)
}

/// Report the samples of a case, all at once: a program sends them when all are taken.
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
    let took_ms = sample.end_ns.saturating_sub(sample.start_ns) / 1_000_000;
    tracing::debug!(took_ms, start_ns = sample.start_ns, "over");
    emit(Event::PartEnd);
}

/// Report that a case has no samples. It is not an error that there was no time for it, or that a
/// variant doesn't have it.
pub(super) fn failed(launch: &MicroLaunch, case: &str, status: Status, reason: &str) {
    if !matches!(
        status,
        Status::OverBudget | Status::Unsupported | Status::Unavailable | Status::NotRun
    ) {
        let (variant, scenario) = (&launch.variant, scenario_id(&launch.suite));
        let status = status.id();
        watch::error(format!("{variant} · {scenario}/{case}: {status}: {reason}"));
    }
}

pub(super) fn end(end: &End) {
    tracing::info!(status = end.status.id(), reason = end.reason, "over");
    emit(Event::ended(end.status, &end.reason));
}

/// Report that a launch isn't made, because all its cases were lost in earlier ones.
pub(super) fn dropped(launch: &MicroLaunch) {
    emit(Event::Drop {
        group: scenario_id(&launch.suite),
        item: launch.variant.clone(),
        mark: Mark::Failed,
    });
}
